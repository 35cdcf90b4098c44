"""Sign-in of operators with an OpenID Connect provider: the way there and the way back.

Another site begins the way back, so the browser sends no strict cookie: only a lax one, which nothing but this sign-in
reads. The page that is shown then has a button, whose form comes from this site and uses a one-time link.
"""

from typing import Final
from urllib.parse import parse_qsl

import msgspec

from mercato.console.cookies import SIGN_ON, Cookies
from mercato.console.rendering import render, render_refusal
from mercato.console.sign_in import ask_for_link, work_context
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import LinkRefused, person_of
from mercato.features.sign_in.sign_on import AGAIN, ATTEMPT_LIFE, Callback, InvalidIdToken, ProviderFailed
from mercato.http.operations import Answer, Call, ReadBody, problem_headers
from mercato.platform import errors
from mercato.platform.errors import Problem
from mercato.platform.telemetry.context import set_context

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
        raise errors.InvalidRequest("The provider's answer has too many parameters.") from None
    return msgspec.convert(fields, Callback)
