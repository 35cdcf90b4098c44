"""Sign-in: the page that says how; one-time links, invitations, passkeys, and operators' single sign-on.

A provider of single sign-on is another site that begins the way back, so the browser sends no strict cookie: only a lax
one, which nothing but this sign-in reads. The page that is shown then has a button, whose form comes from this site and
uses a one-time link.
"""

from datetime import datetime
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta

from mercato.console.forms import MAX_FORM, decode_form
from mercato.console.rendering import render, render_refusal
from mercato.console.session import (
    MAX_AGE,
    MESSAGE,
    MESSAGE_SECONDS,
    SESSION,
    SIGN_ON,
    SIGNED_IN,
    Cookies,
)
from mercato.features.sign_in import passkeys, people, sessions
from mercato.features.sign_in.model import Grant, LinkRefused, person_of
from mercato.features.sign_in.passkeys import Challenges, Site
from mercato.features.sign_in.people import Invitation
from mercato.features.sign_in.sign_on import AGAIN, ATTEMPT_LIFE, Callback, InvalidIdToken, ProviderFailed
from mercato.http.head import Head
from mercato.http.operations import Answer, Call, ReadBody, problem_headers
from mercato.platform import errors
from mercato.platform.db.engine import Write
from mercato.platform.errors import Forbidden
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato.services import Services
from mercato_contract.refusals import InvalidRequest, Problem
from mercato_contract.texts import name_fault
from mercato_contract.wire import Wire, validator
from mercato_outbound.guard import is_loopback, origin_of


async def ask_for_link(call: Call[ReadBody, None], cookies: Cookies, *, status: int = 401) -> Answer[str]:
    """Return the page that says how to get a link, in place of what needs a session."""
    return render(
        "sign_in.html",
        status=status,
        title="Sign in",
        console=None,
        had_session=cookies.read(SESSION) is not None,
        base_url=call.head.base_url,
        has_sign_on=call.app.sign_on is not None,
    )


async def welcome(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Return the same page where nothing was asked for that needs a session."""
    return await ask_for_link(call, cookies, status=200)


def signed_in(cookies: Cookies, token: str) -> Answer[str]:
    """Return the redirect to the console that keeps a new session's token in the browser."""
    return Answer(
        status=303,
        headers=(
            (b"location", b"/console"),
            cookies.write(SESSION, token, seconds=MAX_AGE),
            cookies.write(MESSAGE, SIGNED_IN, seconds=MESSAGE_SECONDS),
        ),
    )


async def end_previous(cookies: Cookies, tx: Write, *, now: datetime) -> None:
    """End the session that the browser has, which the new one replaces."""
    token = cookies.read(SESSION)
    previous = None if token is None else await sessions.find_session(tx, token, now=now)
    if previous is not None:
        await sessions.end_session(tx, previous, previous.id)


def work_context(call: Call[ReadBody, None], action: str, grant: Grant) -> WorkContext:
    """Return the actor, for the log and the audit trail."""
    head = call.head
    return WorkContext(
        action=action,
        console=grant.created_by,
        partner_id=grant.partner_id,
        request_id=head.request_id,
        trace_id=head.trace_id,
    )


# --- passkeys -------------------------------------------------------------------------------------

SIGN_IN: Final = "sign in"
"""What a challenge for signing in is bound to."""


class Assertion(Wire):
    """The form of a sign-in; `credential` is what the browser answers, as JSON."""

    credential: Annotated[str, Meta(max_length=16_384)]


class NewPasskey(Wire):
    """The form of a new passkey; `credential` is what the browser made, as JSON."""

    name: Annotated[str, Meta(min_length=1, max_length=100, extra=validator(name_fault))]
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


# --- one-time links and invitations ---------------------------------------------------------------


async def open_link(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Open a link or an invitation: only the random part of the address tells which of them it is."""
    try:
        # Read first: made-up links must neither wait for the database's write lock nor hold it.
        async with call.app.db.read() as tx:
            invitation = await people.find_invitation(tx, call.texts["path"], now=call.app.clock())
        if invitation is None:
            return await _use_link(call, cookies)
        if call.head.method != "POST":
            return await _ask(call, invitation)
        return await _join(call, cookies, invitation)
    except LinkRefused as refused:
        return render("link_refused.html", status=410, title=refused.title, console=None, refused=refused)
    except Problem as problem:
        return render_refusal(problem, call.head.request_id)


async def _use_link(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Ask before a link is used, so that what only looks at it uses nothing up; sign in on the form that is sent."""
    app, now, token = call.app, call.app.clock(), call.texts["path"]
    async with app.db.read() as tx:
        grant = await sessions.get_link(tx, token, now=now)
    if call.head.method != "POST":
        return render("continue.html", title="Continue to the console", console=None, grant=grant)
    set_context(work_context(call, "console.signIn", grant))
    async with app.db.write() as writing:
        await end_previous(cookies, writing, now=now)
        made = await sessions.sign_in(writing, token, now=now)
    return signed_in(cookies, made)


async def _ask(call: Call[ReadBody, None], invitation: Invitation) -> Answer[str]:
    """Return the page that asks for a passkey. To look at it uses nothing up."""
    await passkeys.load()
    site, person = site_of(call.app, call.head), invitation.person
    challenge = challenges_of(call.app).new(_purpose(invitation), site, now=call.app.clock())
    return render(
        "invitation.html",
        title="Accept the invitation",
        console=None,
        person=person,
        account=invitation.account,
        options=passkeys.creation_options(site, challenge, (), person.name),
    )


async def _join(call: Call[ReadBody, None], cookies: Cookies, invitation: Invitation) -> Answer[str]:
    """Keep the passkey, and sign its person in."""
    app, now, person = call.app, call.app.clock(), invitation.person
    form = decode_form(NewPasskey, await call.body(MAX_FORM))
    await passkeys.load()
    set_context(work_context(call, "console.acceptInvitation", person.grant))
    challenges, site, purpose = challenges_of(app), site_of(app, call.head), _purpose(invitation)
    made = passkeys.verify_new(challenges, site, form.credential, purpose=purpose, now=now)
    async with app.db.write() as tx:
        await people.accept(tx, call.texts["path"], now=now)
        await passkeys.add(tx, made, name=form.name.strip(), created_by=person.actor, person=person, now=now)
        await end_previous(cookies, tx, now=now)
        token = await sessions.begin(tx, person.grant, now=now)
    return signed_in(cookies, token)


def _purpose(invitation: Invitation) -> str:
    """Return what a challenge of the invitation is bound to."""
    return f"join {invitation.person.id}"


# --- single sign-on -------------------------------------------------------------------------------

CALLBACK: Final = "/console/oidc/callback"

_INSTEAD: Final = (
    "Until it works, sign in with a passkey or with a link of mercato console link --operator. "
    "The service's log has the cause."
)


async def go_to_provider(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Redirect to the provider."""
    sign_on = call.app.sign_on
    if sign_on is None:
        return await ask_for_link(call, cookies)
    _check_method(call)
    try:
        url, kept = await sign_on.begin(call.head.base_url + CALLBACK)
    except (Problem, ProviderFailed, InvalidIdToken) as error:
        return _refuse(call, cookies, _problem_of(error))
    life = int(ATTEMPT_LIFE.total_seconds())
    return Answer(
        status=303,
        headers=(
            (b"location", url.encode()),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"no-referrer"),
            cookies.write(SIGN_ON, kept, seconds=life, same_site="Lax"),
        ),
    )


async def come_from_provider(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Make the one link of this sign-in, and return the page that uses it."""
    sign_on = call.app.sign_on
    if sign_on is None:
        return await ask_for_link(call, cookies)
    _check_method(call)
    callback, kept, address = call.head.base_url + CALLBACK, cookies.read(SIGN_ON), call.head.address
    try:
        grant, token = await sign_on.finish(_callback(call.head.query), kept, callback, address=address)
        set_context(work_context(call, "console.signOn", grant))
        async with call.app.db.write() as tx:
            await sessions.create_link(tx, grant, now=call.app.clock(), token=token)
    except LinkRefused:
        return _refuse(call, cookies, errors.Forbidden("This sign-in has been used. Begin again."))
    except (Problem, ProviderFailed, InvalidIdToken) as error:
        return _refuse(call, cookies, _problem_of(error))
    return render(
        "oidc_continue.html",
        headers=(_used(cookies),),
        title="Continue to the console",
        console=None,
        grant=grant,
        person=person_of(grant),
        action=f"/console/links/{token}",
    )


def _check_method(call: Call[ReadBody, None]) -> None:
    """Raise MethodNotAllowed for HEAD, by which a sign-in can't go on."""
    if call.head.method != "GET":
        raise errors.MethodNotAllowed(call.head.method, ["GET"])


def _problem_of(error: Problem | ProviderFailed | InvalidIdToken) -> Problem:
    match error:
        case ProviderFailed():
            return errors.ServiceUnavailable(
                f"The sign-in provider is unavailable. Try again in a minute. {_INSTEAD}"
            )
        case InvalidIdToken():
            return errors.Forbidden(
                f"The provider's ID token isn't valid for this service. {AGAIN} {_INSTEAD}"
            )
    return error


def _refuse(call: Call[ReadBody, None], cookies: Cookies, problem: Problem) -> Answer[str]:
    headers = (_used(cookies), *problem_headers(problem))
    return render_refusal(problem, call.head.request_id, headers=headers)


def _used(cookies: Cookies) -> tuple[bytes, bytes]:
    """Return the header that removes the cookie: it is for one attempt."""
    return cookies.write(SIGN_ON, "", seconds=0, same_site="Lax")


def _callback(query: bytes) -> Callback:
    """Return what the provider says. Raises InvalidRequest."""
    try:
        fields = dict(parse_qsl(query.decode("ascii", "replace"), max_num_fields=20))
    except ValueError:
        raise InvalidRequest("The provider's answer has too many parameters.") from None
    return msgspec.convert(fields, Callback)
