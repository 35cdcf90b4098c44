"""From a request below `/console` to an answer: the session, the screen, and what every answer has in common."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from mercato.domain.console import sessions
from mercato.domain.console.model import Session
from mercato.domain.console.people import is_signed_on
from mercato.domain.partners.model import AccountError, UnknownAccountError
from mercato.http.codings import GZIP, best_coding, gzipped
from mercato.http.console import sign_in
from mercato.http.console.assets import serve_asset
from mercato.http.console.cookies import (
    MAX_AGE,
    MAX_MESSAGE,
    MESSAGE,
    MESSAGE_SECONDS,
    SESSION,
    Cookies,
    check_same_origin,
)
from mercato.http.console.oidc import sign_in_with_provider
from mercato.http.console.passkeys import sign_in_with_passkey
from mercato.http.console.rendering import load, render, render_refusal
from mercato.http.console.screen import NAVIGATION, Done, Page, Question, Screen, Visit, audiences_of
from mercato.http.console.screens import (
    account,
    catalogs,
    certification,
    deliveries,
    discovery,
    keys,
    menus,
    orders,
    overview,
    playground,
    requests,
    stores,
)
from mercato.http.console.screens.operators import audit, erasure, health, jobs, partners, search
from mercato.http.operations import Answer, Call
from mercato.kernel import errors
from mercato.kernel.errors import Problem
from mercato.kernel.telemetry.context import set_context
from mercato.kernel.wire import parse_uuid

SCREENS: Final[tuple[Screen, ...]] = (
    *overview.screens,
    *health.screens,
    *orders.screens,
    *stores.screens,
    *menus.screens,
    *partners.screens,
    *catalogs.screens,
    *playground.screens,
    *discovery.screens,
    *deliveries.screens,
    *jobs.screens,
    *requests.screens,
    *search.screens,
    *keys.screens,
    *audit.screens,
    *erasure.screens,
    *certification.screens,
    *account.screens,
)

_MISSING: Final = "This page does not exist. Use the navigation to find others."


class _Node:
    __slots__ = ("children", "parameter", "screens")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.parameter: tuple[str, _Node] | None = None
        self.screens: list[Screen] = []


def _tree() -> _Node:
    root = _Node()
    for screen in SCREENS:
        node = root
        for segment in screen.path.split("/"):
            if segment.startswith("{"):
                node.parameter = node.parameter or (segment[1:-1], _Node())
                assert node.parameter[0] == segment[1:-1], "one name for an id at one place"
                node = node.parameter[1]
            else:
                node = node.children.setdefault(segment, _Node())
        node.screens.append(screen)
    return root


_ROOT: Final = _tree()
load()


def landing_page(call: Call[bytes, None]) -> Answer:
    """Return the page at `/`."""
    return _packed(call, render("landing.html", title="Mercato", console=None))


def documentation_page(call: Call[bytes, None]) -> Answer:
    """Return the page that leads to every part of the documentation."""
    codes = [(kind.code, kind.title) for kind in errors.all_problems()]
    return _packed(call, render("documentation.html", title="Documentation", console=None, codes=codes))


async def serve(call: Call[bytes, None]) -> Answer:
    """Answer a request below `/console`. Raises the database's errors, and bugs."""
    path = call.texts["path"]
    if path.startswith("static/"):
        return serve_asset(path[len("static/") :], zipped=_accepts_gzip(call))
    return _packed(call, await _answer(call, path))


def _accepts_gzip(call: Call[bytes, None]) -> bool:
    return best_coding(call.headers.get(b"accept-encoding", b""), (GZIP,)) == GZIP


def _packed(call: Call[bytes, None], answer: Answer) -> Answer:
    if answer.raw is None or not _accepts_gzip(call):
        return answer
    headers = (*answer.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return Answer(
        raw=gzipped(answer.raw), status=answer.status, media_type=answer.media_type, headers=headers
    )


async def _answer(call: Call[bytes, None], path: str) -> Answer:
    method = call.texts["method"]
    if method == "POST":
        check_same_origin(call.head)
    elif method not in {"GET", "HEAD"}:
        raise errors.MethodNotAllowed(method, ["GET", "POST"])
    cookies = Cookies(call.head, call.app.settings)
    if path.startswith("links/"):
        return await sign_in.open_link(call, cookies, path[len("links/") :])
    if path == "passkey":
        return await sign_in_with_passkey(call, cookies)
    if path in {"oidc", "oidc/callback"} and call.app.sign_on is not None:
        return await sign_in_with_provider(call, cookies, call.app.sign_on)
    session, renewed = await _session(call, cookies)
    if session is None:
        return sign_in.ask_for_link(call, path, had_session=cookies.read(SESSION) is not None)
    if path in {"", "sign-out"}:
        return await _home(call, cookies, session, path)
    # A page that refreshes a part of itself shows no message: that is for the page that somebody opened.
    message = None if b"hx-request" in call.headers else cookies.read(MESSAGE)
    headers = renewed if message is None else (*renewed, cookies.write(MESSAGE, "", seconds=0))
    view = _view(session, path, message)
    try:
        screen, ids = _find(session, method, path)
        visit = Visit(call.app, call.head, session, screen.action, path, ids, call.body)
        set_context(visit.context)
        result = await _result(screen, visit, method)
    except Problem as problem:
        return _with_headers(render_refusal(problem, call.head.request_id, view=view), headers)
    except AccountError as refusal:
        kind = errors.NotFound if isinstance(refusal, UnknownAccountError) else errors.Conflict
        return _with_headers(
            render_refusal(kind(refusal.in_console), call.head.request_id, view=view), headers
        )
    if isinstance(result, Done):
        said = cookies.write(MESSAGE, result.message[:MAX_MESSAGE], seconds=MESSAGE_SECONDS)
        return Answer(status=303, headers=((b"location", result.to.encode()), *renewed, said))
    if isinstance(result, Question):
        values: dict[str, Any] = {"question": result, "path": f"/console/{path}"}
        return render("confirm.html", headers=headers, title=result.title, **values, **view)
    return render(
        result.template,
        status=result.status,
        headers=headers,
        title=result.title,
        visit=visit,
        **result.values,
        **view,
    )


def _with_headers(answer: Answer, headers: tuple[tuple[bytes, bytes], ...]) -> Answer:
    return Answer(
        raw=answer.raw,
        status=answer.status,
        media_type=answer.media_type,
        headers=(*answer.headers, *headers),
    )


async def _session(
    call: Call[bytes, None], cookies: Cookies
) -> tuple[Session | None, tuple[tuple[bytes, bytes], ...]]:
    """Return the session of the request's cookie, and the header that makes the cookie last as long as it."""
    token = cookies.read(SESSION)
    if token is None:
        return None, ()
    now = call.app.clock()
    async with call.app.db.read() as tx:
        session = await sessions.find_session(tx, token, now=now)
    if session is None or not _is_allowed(call, session):
        return None, ()
    if not sessions.needs_extension(session, now):
        return session, ()
    async with call.app.db.write() as tx:
        await sessions.extend_session(tx, session, now=now)
    return session, (cookies.write(SESSION, token, seconds=MAX_AGE),)


def _is_allowed(call: Call[bytes, None], session: Session) -> bool:
    """Return whether the settings still let in the person whom a provider has named, if one has."""
    sign_on = call.app.sign_on
    return not is_signed_on(session.grant) or (sign_on is not None and sign_on.people.allow(session.grant))


async def _home(call: Call[bytes, None], cookies: Cookies, session: Session, path: str) -> Answer:
    """Redirect to the account's first screen, or sign out."""
    if path == "sign-out" and call.texts["method"] == "POST":
        set_context(sign_in.work_context(call, "console.signOut", session.grant))
        async with call.app.db.write() as tx:
            await sessions.end_session(tx, session, session.id)
        said = cookies.write(MESSAGE, "", seconds=0)
        gone = cookies.write(SESSION, "", seconds=0)
        return Answer(status=303, headers=((b"location", b"/console"), gone, said))
    first = next(name for name, _ in _navigation(session)).lower()
    return Answer(status=303, headers=((b"location", f"/console/{first}".encode()),))


# --- screens ------------------------------------------------------------------------------------------


def _find(session: Session, method: str, path: str) -> tuple[Screen, Mapping[str, UUID]]:
    """Return the screen of a path that the session may see, and the ids in it. Raises NotFound, MethodNotAllowed."""
    node, ids = _ROOT, {}
    for segment in path.split("/"):
        child = node.children.get(segment)
        if child is None:
            read = parse_uuid(segment)
            if node.parameter is None or read is None:
                raise errors.NotFound(_MISSING)
            name, child = node.parameter
            ids[name] = read
        node = child
    seen = [screen for screen in node.screens if _may_see(session, screen)]
    if not seen:
        raise errors.NotFound(_MISSING)
    wanted = [one for one in seen if (one.act if method == "POST" else one.show or one.ask) is not None]
    if not wanted:
        raise errors.MethodNotAllowed(method, ["GET" if method == "POST" else "POST"])
    return wanted[0], ids


def _may_see(session: Session, screen: Screen) -> bool:
    if screen.whole_account and session.grant.store_id is not None:
        return False
    return bool(screen.audiences & audiences_of(session))


async def _result(screen: Screen, visit: Visit, method: str) -> Page | Done | Question:
    if method == "POST":
        assert screen.act is not None
        if screen.changes and visit.session.grant.read_only:
            raise errors.Forbidden(
                "This session is read-only, so nothing was done. Sign in with a link that isn't read-only."
            )
        return await screen.act(visit)
    if screen.show is not None:
        return await screen.show(visit)
    assert screen.ask is not None
    return await screen.ask(visit)


def _navigation(session: Session) -> list[tuple[str, str]]:
    """Return the names and paths of what the session can open."""
    there = {screen.path for screen in SCREENS if screen.show is not None and _may_see(session, screen)}
    mine = audiences_of(session)
    return [
        (name, f"/console/{name.lower()}")
        for name, audiences in NAVIGATION
        if audiences & mine and name.lower() in there
    ]


def _view(session: Session, path: str, message: str | None) -> Mapping[str, Any]:
    """Return what the frame of every page shows."""
    console = {
        "navigation": _navigation(session),
        "section": "/console/" + path.partition("/")[0],
        "message": message,
        "account": "Operator" if session.partner is None else session.partner.name,
        "is_operator": session.partner is None,
        "read_only": session.grant.read_only,
        "store_id": session.grant.store_id,
    }
    return {"console": console}
