"""Sign-in of operators with an OpenID Connect provider: the way there and the way back.

Another site begins the way back, so the browser sends no strict cookie: only a lax one, which nothing but this sign-in
reads. The page that is shown then has a button, whose form comes from this site and uses a one-time link.
"""

from typing import Final
from urllib.parse import parse_qsl

import msgspec

from mercato.console.cookies import SIGN_ON, Cookies
from mercato.console.rendering import render, render_refusal
from mercato.console.sign_in import work_context
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import LinkRefused
from mercato.features.sign_in.people import person_of
from mercato.features.sign_in.sign_on import ATTEMPT_LIFE, Callback, SignOn
from mercato.http.operations import Answer, Call, ReadBody
from mercato.http.problems import problem_headers
from mercato.platform import errors
from mercato.platform.errors import Problem
from mercato.platform.telemetry.context import set_context

CALLBACK: Final = "/console/oidc/callback"


async def sign_in_with_provider(call: Call[ReadBody, None], cookies: Cookies, sign_on: SignOn) -> Answer[str]:
    """Redirect to the provider, or return the page for a browser that comes back from there."""
    if call.texts["method"] != "GET":
        raise errors.MethodNotAllowed(call.texts["method"], ["GET"])
    used = cookies.write(SIGN_ON, "", seconds=0, same_site="Lax")
    try:
        if call.head.path == CALLBACK:
            return await _continue(call, cookies, sign_on, used)
        url, kept = await sign_on.begin(call.head.base_url + CALLBACK)
    except Problem as problem:
        return render_refusal(problem, call.head.request_id, headers=(used, *problem_headers(problem)))
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


async def _continue(
    call: Call[ReadBody, None], cookies: Cookies, sign_on: SignOn, used: tuple[bytes, bytes]
) -> Answer[str]:
    """Make the one link of this sign-in, and return the page that uses it."""
    callback_url = call.head.base_url + CALLBACK
    answer, kept = _answer(call.head.query), cookies.read(SIGN_ON)
    grant, token = await sign_on.finish(answer, kept, callback_url, address=call.head.address)
    set_context(work_context(call, "console.signOn", grant))
    try:
        async with call.app.db.write() as tx:
            await sessions.create_link(tx, grant, now=call.app.clock(), token=token)
    except LinkRefused:
        raise errors.Forbidden("This sign-in has been used. Begin again.") from None
    return render(
        "oidc_continue.html",
        headers=(used,),
        title="Continue to the console",
        console=None,
        grant=grant,
        person=person_of(grant),
        action=f"/console/links/{token}",
    )


def _answer(query: bytes) -> Callback:
    """Return what the provider says. Raises InvalidRequest."""
    try:
        fields = dict(parse_qsl(query.decode("ascii", "replace"), max_num_fields=20))
    except ValueError:
        raise errors.InvalidRequest("The provider's answer has too many parameters.") from None
    return msgspec.convert(fields, Callback)
