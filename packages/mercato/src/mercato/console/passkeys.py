"""Sign-in with passkeys, and the site that these are for."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

from mercato.console.cookies import Cookies, is_loopback
from mercato.console.forms import MAX_FORM, decode_form
from mercato.console.rendering import render, render_refusal
from mercato.console.sign_in import end_previous, signed_in, work_context
from mercato.features.sign_in import passkeys
from mercato.features.sign_in.passkeys import Challenges, Site
from mercato.http.head import Head
from mercato.http.operations import Answer, Call, ReadBody
from mercato.platform.errors import Forbidden, Problem
from mercato.platform.outbound.guard import origin_of
from mercato.platform.telemetry.context import set_context
from mercato.services import Services
from mercato_contract.wire import Wire

SIGN_IN: Final = "sign in"
"""What a challenge for signing in is bound to."""


class Assertion(Wire):
    """The form of a sign-in; `credential` is what the browser answers, as JSON."""

    credential: Annotated[str, Meta(max_length=16_384)]


def site_of(app: Services, head: Head) -> Site:
    """Return the site of MERCATO_PUBLIC_URL; without it this machine, as the browser on it says. Raises Forbidden.

    A request can name any host: only a loopback name, which leads nowhere else, is taken from it.
    """
    url = urlsplit(head.base_url)
    host, is_configured = url.hostname or "", bool(app.settings.public_url)
    if not is_configured and not is_loopback(host):
        raise Forbidden(
            "Passkeys belong to the service's host name, which isn't set: the operator sets it with "
            "MERCATO_PUBLIC_URL. On the service's own machine they also work at http://localhost."
        )
    return Site(host, origin_of(head.base_url) or f"{url.scheme}://{url.netloc}", is_configured)


def challenges_of(app: Services) -> Challenges:
    """Return what makes the service's challenges and reads them."""
    return Challenges(app.vault.derive(passkeys.PURPOSE))


async def sign_in_with_passkey(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Return the page that asks for a passkey; sign in on the form that it sends."""
    await passkeys.load()
    app, now, site = call.app, call.app.clock(), site_of(call.app, call.head)
    challenges = challenges_of(app)
    if call.head.method != "POST":
        options = passkeys.request_options(site, challenges.new(SIGN_IN, site, now=now))
        return render("passkey_sign_in.html", title="Sign in with a passkey", console=None, options=options)
    try:
        credential = decode_form(Assertion, await call.body(MAX_FORM)).credential
        async with app.db.read() as tx:
            use = await passkeys.verify(tx, challenges, site, credential, purpose=SIGN_IN, now=now)
        set_context(work_context(call, "console.signIn", use.grant))
        async with app.db.write() as writing:
            await end_previous(cookies, writing, now=now)
            token = await passkeys.sign_in(writing, use, now=now)
    except Problem as problem:
        return render_refusal(problem, call.head.request_id)
    return signed_in(cookies, token)
