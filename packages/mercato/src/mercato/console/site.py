"""From a request below `/console` to an answer: the session, the screen, and what every answer has in common."""

from collections.abc import Mapping
from typing import Any, Final

from mercato.console import sign_in
from mercato.console.assets import serve_asset
from mercato.console.cookies import (
    MAX_AGE,
    MAX_MESSAGE,
    MESSAGE,
    MESSAGE_SECONDS,
    SESSION,
    Cookies,
    check_form,
    check_same_origin,
)
from mercato.console.guides import Guide, references
from mercato.console.limits import count_page, count_visitor
from mercato.console.oidc import sign_in_with_provider
from mercato.console.passkeys import sign_in_with_passkey
from mercato.console.rendering import load, render, render_refusal
from mercato.console.routes import find_screen, navigation_of
from mercato.console.screen import Done, Page, Question, Screen, Visit
from mercato.features.partners.model import AccountError, UnknownAccountError
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Session
from mercato.features.sign_in.people import is_signed_on
from mercato.http.browsers import prefix_links
from mercato.http.codings import GZIP, best_coding, gzipped
from mercato.http.operations import Answer, Call, ReadBody
from mercato.platform import errors
from mercato.platform.errors import Problem
from mercato.platform.telemetry.context import set_context
from mercato_contract.problems import PROBLEMS

WAYS_IN: Final = frozenset({"passkey", "oidc", "oidc/callback"})

load()


def landing_page(call: Call[Any, None]) -> Answer[str]:
    """Return the page at `/`."""
    return _packed(call, render("landing.html", title="Mercato", console=None))


def documentation_page(call: Call[Any, None], guides: Guide) -> Answer[str]:
    """Return the page that leads to every part of the documentation."""
    codes = [(kind.code, kind.title) for kind in PROBLEMS.values()]
    page = render(
        "documentation.html",
        title="Documentation",
        console=None,
        codes=codes,
        guides=guides,
        references=references(),
    )
    return _packed(call, page)


def guide_page(call: Call[Any, None], guide: Guide) -> Answer[str]:
    """Return the page of a guide."""
    return _packed(call, render("guide.html", title=guide.title, console=None, guide=guide))


async def serve(call: Call[ReadBody, None]) -> Answer[str]:
    """Answer a request below `/console`. Raises the database's errors, and bugs."""
    path = call.texts["path"]
    if path.startswith("static/"):
        return serve_asset(path[len("static/") :], zipped=_accepts_gzip(call))
    return _packed(call, await _answer(call, path))


def _accepts_gzip(call: Call[Any, None]) -> bool:
    return best_coding(call.headers.get(b"accept-encoding", b""), (GZIP,)) == GZIP


def _packed(call: Call[Any, None], answer: Answer[str]) -> Answer[str]:
    """Return a page as this client gets it: links below the public URL, compressed if the client accepts it."""
    if answer.raw is None:
        return answer
    page, headers = prefix_links(answer.raw, call.head.path_prefix), answer.headers
    if _accepts_gzip(call):
        page = gzipped(page)
        headers = (*headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return Answer(raw=page, status=answer.status, media_type=answer.media_type, headers=headers)


async def _answer(call: Call[ReadBody, None], path: str) -> Answer[str]:
    method = call.texts["method"]
    if method == "POST":
        check_same_origin(call.head)
        check_form(call.head)
    elif method not in {"GET", "HEAD"}:
        raise errors.MethodNotAllowed(method, ["GET", "POST"])
    cookies = Cookies(call.head, call.app.settings)
    if path.startswith("links/") or path in WAYS_IN:
        return await _sign_in(call, cookies, path)
    session, renewed = await _session(call, cookies)
    if session is None:
        return await _sign_in(call, cookies, path)
    if path in {"", "sign-out"}:
        return await _home(call, cookies, session, path)
    await count_page(call.app, session, method)
    # A page that refreshes a part of itself shows no message: that is for the page that somebody opened.
    message = None if b"hx-request" in call.headers else cookies.read(MESSAGE)
    headers = renewed if message is None else (*renewed, cookies.write(MESSAGE, "", seconds=0))
    view = _view(session, path, message)
    try:
        screen, ids = find_screen(session, method, path)
        form = await call.body(screen.max_form) if method == "POST" else b""
        visit = Visit(call.app, call.head, session, screen.action, path, ids, form)
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
        message = result.message.encode("utf-8", "replace")[:MAX_MESSAGE].decode(errors="ignore")
        said = cookies.write(MESSAGE, message, seconds=MESSAGE_SECONDS)
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


async def _sign_in(call: Call[ReadBody, None], cookies: Cookies, path: str) -> Answer[str]:
    """Answer a request without a session: a way to sign in, or the page that leads to one. Raises RateLimited."""
    count_visitor(call.app, call.head)
    if path.startswith("links/"):
        return await sign_in.open_link(call, cookies, path[len("links/") :])
    if path == "passkey":
        return await sign_in_with_passkey(call, cookies)
    if path in WAYS_IN and call.app.sign_on is not None:
        return await sign_in_with_provider(call, cookies, call.app.sign_on)
    return sign_in.ask_for_link(call, path, had_session=cookies.read(SESSION) is not None)


def _with_headers(answer: Answer[str], headers: tuple[tuple[bytes, bytes], ...]) -> Answer[str]:
    return Answer(
        raw=answer.raw,
        status=answer.status,
        media_type=answer.media_type,
        headers=(*answer.headers, *headers),
    )


async def _session(
    call: Call[ReadBody, None], cookies: Cookies
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


def _is_allowed(call: Call[ReadBody, None], session: Session) -> bool:
    """Return whether the settings still let in the person whom a provider has named, if one has."""
    sign_on = call.app.sign_on
    return not is_signed_on(session.grant) or (sign_on is not None and sign_on.people.allow(session.grant))


async def _home(call: Call[ReadBody, None], cookies: Cookies, session: Session, path: str) -> Answer[str]:
    """Redirect to the account's first screen, or sign out."""
    if path == "sign-out" and call.texts["method"] == "POST":
        set_context(sign_in.work_context(call, "console.signOut", session.grant))
        async with call.app.db.write() as tx:
            await sessions.end_session(tx, session, session.id)
        said = cookies.write(MESSAGE, "", seconds=0)
        gone = cookies.write(SESSION, "", seconds=0)
        return Answer(status=303, headers=((b"location", b"/console"), gone, said))
    first = next(name for name, _ in navigation_of(session)).lower()
    return Answer(status=303, headers=((b"location", f"/console/{first}".encode()),))


# --- screens ------------------------------------------------------------------------------------------


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


def _view(session: Session, path: str, message: str | None) -> Mapping[str, Any]:
    """Return what the frame of every page shows."""
    console = {
        "navigation": navigation_of(session),
        "section": "/console/" + path.partition("/")[0],
        "message": message,
        "account": "Operator" if session.partner is None else session.partner.name,
        "is_operator": session.partner is None,
        "read_only": session.grant.read_only,
        "store_id": session.grant.store_id,
    }
    return {"console": console}
