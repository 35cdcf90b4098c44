"""Answers a request below `/console`: finds its session and its screen, and adds what every answer has in common.

`pages` declares the paths that need no session. The screens have separate routes, and a session sees only some of them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from functools import cache, partial
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.console import guides, sign_in
from mercato.console.forms import read_query
from mercato.console.rendering import asset_url, load, render, render_refusal, serve_asset
from mercato.console.screen import (
    MERCHANTS,
    NAVIGATION,
    OPERATORS,
    STOREFRONTS,
    Audience,
    Done,
    Download,
    Group,
    Page,
    Question,
    Screen,
    Visit,
    audiences_of,
    path_of,
)
from mercato.console.screens import (
    account,
    adjustments,
    agents,
    board,
    catalogs,
    certification,
    keys,
    menu_uploads,
    orders,
    overview,
    playground,
    registration,
    reports,
    requests,
    search,
    store_settings,
    stores,
    webhooks,
)
from mercato.console.screens.operators import administration, health, partners
from mercato.console.session import (
    MAX_AGE,
    MAX_MESSAGE,
    MESSAGE,
    MESSAGE_SECONDS,
    SESSION,
    SIGNED_IN,
    TIMEZONE,
    TIMEZONE_SECONDS,
    Cookies,
    count_page,
    count_visitor,
    with_role,
)
from mercato.console.times import UTC, timezones
from mercato.features.partners.model import (
    AccountError,
    InactiveKeyError,
    NoStoresError,
    OpenOrdersError,
    SeveralOriginsError,
    Surface,
    TakenNameError,
    UnknownAccountError,
    UnknownKeyError,
    UnknownPartnerError,
)
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Session, is_signed_on
from mercato.features.sign_in.roles import ALLOWED, Permission, Role
from mercato.features.stores.operators import StoreFilter, list_stores
from mercato.features.stores.queries import find_common_timezone
from mercato.http.body import GZIP, best_coding, gzipped
from mercato.http.browsers import NOSNIFF, prefix_links
from mercato.http.operations import Answer, Call, ReadBody, begun
from mercato.http.routing import Routes
from mercato.platform import errors
from mercato.platform.db.errors import is_unavailable
from mercato.platform.telemetry.context import set_context
from mercato.services import Services
from mercato_contract.problems import PROBLEMS
from mercato_contract.refusals import Problem
from mercato_contract.wire import as_json

SCREENS: Final[tuple[Screen, ...]] = (
    *overview.screens,
    *health.screens,
    *board.screens,
    *orders.screens,
    *adjustments.screens,
    *stores.screens,
    *store_settings.screens,
    *registration.screens,
    *partners.screens,
    *catalogs.screens,
    *menu_uploads.screens,
    *playground.screens,
    *playground.discovery_screens,
    *webhooks.endpoint_screens,
    *webhooks.screens,
    *requests.screens,
    *reports.screens,
    *search.screens,
    *keys.screens,
    *agents.screens,
    *administration.screens,
    *certification.screens,
    *account.screens,
    *account.people_screens,
)

_MISSING: Final = "This page does not exist. Use the navigation to find others."


def _endpoints() -> Iterator[tuple[str, str, Screen]]:
    for screen in SCREENS:
        if screen.act is not None:
            yield "POST", f"/{screen.path}", screen
        if screen.show is not None or screen.ask is not None:
            yield "GET", f"/{screen.path}", screen


_ROUTES: Final = Routes(_endpoints(), missing=_MISSING)

Headers = tuple[tuple[bytes, bytes], ...]

_READERS: Final = {MERCHANTS: "merchant", STOREFRONTS: "storefront", OPERATORS: "operator"}
"""Whose guides a session is led to; one that shows both sides sees all."""

_PICTURE_KEPT: Final = ((b"cache-control", b"public, max-age=3600"),)

load()


def landing_page(call: Call[Any, None]) -> Answer[str]:
    """Return the page at `/`."""
    return _packed(call, render("landing.html", title="Mercato", console=None))


class Reader(Struct, frozen=True):
    """Whose guides are shown, None for all, and the store that their examples name, if a session knows one."""

    kind: str | None = None
    store_id: UUID | None = None


async def find_reader(call: Call[Any, None]) -> Reader:
    """Return whose guides are shown: those that `for` in the query names, or else those for the signed-in person."""
    chosen = read_query(call.head.query).get("for")
    try:
        session, _ = await _session(call, Cookies(call.head, call.app.settings))
        store_id = None if session is None else await _own_store(call.app, session)
    except Exception as error:
        if not is_unavailable(error):
            raise
        session, store_id = None, None  # the guides are for outages, too
    if chosen is not None:
        return Reader(chosen if chosen in guides.READERS else None, store_id)
    return Reader(None if session is None else _READERS.get(audiences_of(session)), store_id)


async def _own_store(app: Services, session: Session) -> UUID | None:
    """Return the store of the session, or the merchant's newest one."""
    if session.partner is None or Surface.COMMERCE not in session.surfaces:
        return None
    if session.grant.store_id is not None:
        return session.grant.store_id
    wanted = StoreFilter(partner_id=session.partner.id)
    async with app.db.read() as tx:
        found = await list_stores(tx, wanted, limit=1, now=app.clock())
    return found[0].id if found else None


def documentation_page(call: Call[Any, None], reader: Reader) -> Answer[str]:
    """Return the page that leads to every part of the documentation: `text` searches."""
    fields = read_query(call.head.query)
    text = fields.get("text", "")[: guides.MAX_SEARCH]
    page = render(
        "documentation.html",
        title="Documentation",
        console=None,
        codes=[(kind.code, kind.title) for kind in PROBLEMS.values()],
        guides=guides.overview(reader.kind).body_at(call.head.base_url),
        found=guides.search(text) if text else (),
        base_url=call.head.base_url,
        reader=reader.kind,
        readers=guides.READERS,
        references=guides.references(),
        text=text,
    )
    return _packed(call, page)


def guide_page(call: Call[Any, None], name: str, reader: Reader) -> Answer[str]:
    """Return the page of a guide."""
    guide = guides.get_guide(name)
    body = guide.body_at(call.head.base_url, reader.store_id)
    shown = [one for one in guide.variables if one != "$STORE" or reader.store_id is None]
    names = [(one, guides.KEYS[one][1]) for one in shown]
    return _packed(call, render("guide.html", title=guide.title, console=None, guide=body, names=names))


def serve_picture(name: str) -> Answer[str]:
    """Return a picture of the documents. Raises NotFound."""
    picture = guides.get_picture(name)
    if picture is None:
        raise errors.NotFound("There is no picture of this name. /documentation lists the guides.")
    content, media_type = picture
    return Answer(raw=content, media_type=media_type, headers=(*_PICTURE_KEPT, *NOSNIFF))


def serve_file(call: Call[None, None]) -> Answer[str]:
    """Return a static file. Raises NotFound."""
    return serve_asset(call.texts["path"], zipped=_accepts_gzip(call))


def serve_manifest(call: Call[None, None]) -> Answer[str]:
    """Return what a browser needs to install the board as an app: paths below the service's own."""
    prefix = call.head.path_prefix
    manifest = {
        "name": "Mercato board",
        "short_name": "Board",
        "start_url": f"{prefix}/console/board",
        "scope": f"{prefix}/console/",
        "display": "standalone",
        "icons": [{"src": prefix + asset_url("icon.svg"), "sizes": "any", "type": "image/svg+xml"}],
    }
    media_type = b"application/manifest+json"
    return Answer(raw=as_json(manifest), media_type=media_type, headers=(*_PICTURE_KEPT, *NOSNIFF))


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
    return replace(answer, raw=page, headers=headers)


async def enter(
    call: Call[ReadBody, None], way: Callable[[Call[ReadBody, None], Cookies], Awaitable[Answer[str]]]
) -> Answer[str]:
    """Answer a request that needs no session. Raises RateLimited, the database's errors, and bugs."""
    count_visitor(call.app, call.head)
    return _packed(call, await way(call, Cookies(call.head, call.app.settings)))


async def go_home(call: Call[ReadBody, None]) -> Answer[str]:
    """Redirect to the account's first screen, or return the page that leads to a session."""
    session, _ = await _session(call, Cookies(call.head, call.app.settings))
    if session is None:
        return await enter(call, sign_in.welcome)
    first = path_of(_navigation(session)[0].entries[0].name)
    return Answer(status=303, headers=((b"location", f"/console/{first}".encode()),))


async def sign_out(call: Call[ReadBody, None]) -> Answer[str]:
    """End the session."""
    cookies = Cookies(call.head, call.app.settings)
    session, _ = await _session(call, cookies)
    if session is None:
        return await enter(call, sign_in.ask_for_link)
    set_context(sign_in.work_context(call, "console.signOut", session.grant))
    async with call.app.db.write() as tx:
        await sessions.end_session(tx, session, session.id)
    no_message = cookies.write(MESSAGE, "", seconds=0)
    gone = cookies.write(SESSION, "", seconds=0)
    return Answer(status=303, headers=((b"location", b"/console"), gone, no_message))


async def serve_screen(call: Call[ReadBody, None], path: str) -> Answer[str]:
    """Show a screen, or act on its form. Raises RateLimited, the database's errors, and bugs."""
    moved = _moved(call, path)
    if moved is not None:
        return moved
    cookies = Cookies(call.head, call.app.settings)
    session, renewed = await _session(call, cookies)
    if session is None:
        return await enter(call, sign_in.ask_for_link)
    await count_page(call.app, session, call.head.method)
    # A page that refreshes a part of itself shows no message: that is for the page that somebody opened.
    message = None if b"hx-request" in call.headers else cookies.read(MESSAGE)
    headers = renewed if message is None else (*renewed, cookies.write(MESSAGE, "", seconds=0))
    timezone = await _timezone(call.app, session, cookies.read(TIMEZONE))
    view = _view(session, path, message, now=call.app.clock(), timezone=timezone)
    try:
        screen, ids = _find_screen(session, call.head.method, path)
        _check_role(session, screen, call.head.method)
        form, receive = b"", None
        if screen.max_upload is not None:
            receive = partial(_receive, call, cookies, screen, session)
        elif call.head.method == "POST":
            form = await call.body(screen.max_form)
            session = await _session_now(call, cookies, screen, session)
        visit = Visit(call.app, call.head, session, screen.action, path, ids, form, timezone, receive)
        set_context(visit)
        result = await _result(screen, visit)
        if isinstance(result, Download):
            return await _download(result, headers)
    except Problem as problem:
        refused = render_refusal(problem, call.head.request_id, view=view, headers=headers)
        return _packed(call, refused)
    except AccountError as refusal:
        kind = errors.NotFound if isinstance(refusal, UnknownAccountError) else errors.Conflict
        refused = render_refusal(kind(_advised(refusal)), call.head.request_id, view=view, headers=headers)
        return _packed(call, refused)
    if isinstance(result, Done):
        return _redirect(cookies, result, renewed)
    return _packed(call, _page(result, visit, view, headers))


async def _receive(
    call: Call[ReadBody, None],
    cookies: Cookies,
    screen: Screen,
    session: Session,
    write: Callable[[bytes], Awaitable[None]],
) -> None:
    """Pass the parts of an upload to `write`. Raises what `ReadBody` and `_session_now` raise."""
    assert screen.max_upload is not None
    await call.body.into(write, screen.max_upload)
    await _session_now(call, cookies, screen, session)


async def _session_now(
    call: Call[ReadBody, None], cookies: Cookies, screen: Screen, session: Session
) -> Session:
    """Return the session after the body has arrived: of a slow one, as it is by now. Raises Forbidden."""
    if not call.body.was_slow:
        return session
    now, _ = await _session(call, cookies)
    if now is None:
        raise errors.Forbidden("The session ended while this was sent, so nothing was done. Sign in again.")
    _check_role(now, screen, call.head.method)
    return now


async def _timezone(app: Services, session: Session, chosen: str | None) -> str:
    """Return the time zone to show times in: the one that this browser has chosen, or else that of the stores.

    The stores are a merchant's own, or else the network's. Stores in several zones have none in common: UTC.
    """
    if chosen in timezones():
        return chosen
    is_merchant = Surface.COMMERCE in session.surfaces and session.partner is not None
    async with app.db.read() as tx:
        common = await find_common_timezone(
            tx,
            partner_id=session.partner.id if is_merchant and session.partner is not None else None,
            store_id=session.grant.store_id,
        )
    return common if common in timezones() else UTC


_MOVED: Final = {"deliveries": "webhooks", "requests": "refused-requests"}
"""Earlier names of entries of the navigation, which bookmarks may have."""


def _moved(call: Call[ReadBody, None], path: str) -> Answer[str] | None:
    """Return the way to the present path of an earlier one."""
    section, slash, rest = path.partition("/")
    if section not in _MOVED or call.head.method == "POST":
        return None
    query = b"?" + call.head.query if call.head.query else b""
    to = f"/console/{_MOVED[section]}{slash}{quote(rest)}".encode() + query
    return Answer(status=301, headers=((b"location", to), (b"cache-control", b"no-store")))


def _find_screen(session: Session, method: str, path: str) -> tuple[Screen, Mapping[str, UUID]]:
    """Return the screen of a path that the session may see, and the ids in it. Raises NotFound, MethodNotAllowed."""
    match = _ROUTES.find_among(method, f"/{path}", lambda screen: _has(session, screen))
    if match.invalid_id is not None:
        raise errors.NotFound(_MISSING)
    return match.endpoint, match.ids


def _check_role(session: Session, screen: Screen, method: str) -> None:
    """Raise Forbidden unless the session's role includes what the screen needs."""
    if session.may(screen.needs):
        return
    nothing = ", so nothing was done" if method == "POST" else ""
    if session.person is None and session.role is Role.READ_ONLY:
        raise errors.Forbidden(
            f"This session is read-only{nothing}. Sign in with a link that isn't read-only."
        )
    contact = "an admin of this service" if session.partner is None else "a manager of the account"
    if Role.MANAGER is session.role:
        contact = "whoever has the account's API key: its link"
    raise errors.Forbidden(f"The role {session.role.words} doesn't include this{nothing}. Ask {contact}.")


async def _download(file: Download, headers: Headers) -> Answer[str]:
    own = (
        (b"content-disposition", f'attachment; filename="{file.name}"'.encode()),
        (b"cache-control", b"no-store"),
        *NOSNIFF,
    )
    return Answer(parts=await begun(file.parts), media_type=file.media_type, headers=(*own, *headers))


async def _result(screen: Screen, visit: Visit) -> Page | Download | Done | Question:
    if visit.head.method == "POST":
        assert screen.act is not None
        return await screen.act(visit)
    if screen.show is not None:
        return await screen.show(visit)
    assert screen.ask is not None
    return await screen.ask(visit)


def _redirect(cookies: Cookies, done: Done, headers: Headers) -> Answer[str]:
    message = done.message.encode("utf-8", "replace")[:MAX_MESSAGE].decode(errors="ignore")
    headers = (*headers, cookies.write(MESSAGE, message, seconds=MESSAGE_SECONDS))
    if done.timezone is not None:
        headers = (*headers, cookies.write(TIMEZONE, done.timezone, seconds=TIMEZONE_SECONDS))
    return Answer(status=303, headers=((b"location", done.to.encode()), *headers))


def _page(result: Page | Question, visit: Visit, view: Mapping[str, Any], headers: Headers) -> Answer[str]:
    if isinstance(result, Question):
        values: dict[str, Any] = {"question": result, "path": f"/console/{visit.path}"}
        status = 422 if result.is_refused else 200
        return render("confirm.html", status=status, headers=headers, title=result.title, **values, **view)
    if result.timezone is not None:
        view = {"console": {**view["console"], "timezone": result.timezone, "has_own_zone": True}}
    return render(
        result.template,
        status=result.status,
        headers=headers,
        has_pictures=result.has_pictures,
        title=result.title,
        visit=visit,
        **result.values,
        **view,
    )


NEXT_STEPS: Final[dict[type[AccountError], str]] = {
    UnknownPartnerError: "See them on the page Partners.",
    UnknownKeyError: "See them on the page Keys.",
    TakenNameError: "Choose another name, or search for that partner in the field at the top.",
    InactiveKeyError: "Create a new one.",
    NoStoresError: "Leave it out: the partner verifies events by its signing secret.",
    SeveralOriginsError: "Name the one that gets the token in the field beside it.",
    OpenOrdersError: "See them on the page Orders, and let them be completed or cancelled first.",
}
"""What to do about a refusal, in the console."""


def _advised(refusal: AccountError) -> str:
    return f"{refusal} {NEXT_STEPS.get(type(refusal), '')}".rstrip()


async def _session(call: Call[ReadBody, None], cookies: Cookies) -> tuple[Session | None, Headers]:
    """Return the session of the request's cookie, and the header that makes the cookie last as long as it."""
    token = cookies.read(SESSION)
    if token is None:
        return None, ()
    now = call.app.clock()
    async with call.app.db.read() as tx:
        session = await sessions.find_session(tx, token, now=now)
    if session is not None and is_signed_on(session.grant):
        session = with_role(call.app, session)
        if session.signed_on_as is None:
            return None, ()
    if session is None:
        return None, ()
    if not sessions.needs_extension(session, now):
        return session, ()
    async with call.app.db.write() as tx:
        await sessions.extend_session(tx, session, now=now)
    return session, (cookies.write(SESSION, token, seconds=MAX_AGE),)


def _view(
    session: Session, path: str, message: str | None, *, now: datetime, timezone: str
) -> Mapping[str, Any]:
    """Return what the frame of every page shows."""
    console = {
        "navigation": _navigation(session),
        "path_of": path_of,
        "section": "/console/" + path.partition("/")[0],
        "message": message,
        "signed_in": SIGNED_IN,
        "account": "Operator" if session.partner is None else session.partner.name,
        "is_operator": session.partner is None,
        "reader": _READERS.get(audiences_of(session), ""),
        "person": None if session.person is None else session.person.name,
        "role": _tag(session),
        "may": partial(_may_press, session),
        "finds_customers": session.may(Permission.FIND_CUSTOMERS),
        "finds_names": session.may(Permission.SEE_CUSTOMERS),
        "store_id": session.grant.store_id,
        "now": now,
        "timezone": timezone,
        "has_own_zone": False,
    }
    return {"console": console}


def _tag(session: Session) -> str | None:
    """Return what the frame says of the role: nothing of a link that may do all."""
    if session.person is not None or session.role is Role.SUPPORT:
        return session.role.words
    return "Read-only" if session.role is Role.READ_ONLY else None


def _has(session: Session, screen: Screen) -> bool:
    """Return whether the session's account has the screen, with any role."""
    return _is_of(screen, audiences_of(session), is_whole_account=session.grant.store_id is None)


def _is_of(screen: Screen, audiences: frozenset[Audience], *, is_whole_account: bool) -> bool:
    return bool(screen.audiences & audiences) and (is_whole_account or not screen.whole_account)


def _may_press(session: Session, path: str) -> bool:
    """Return whether the session can send a form to the path: buttons are shown to those for whom they work."""
    try:
        screen, _ = _find_screen(session, "POST", path.removeprefix("/console/"))
    except Problem:
        return False
    return session.may(screen.needs)


def _navigation(session: Session) -> tuple[Group, ...]:
    """Return what the session can open, in its groups."""
    return _groups(audiences_of(session), session.role, is_whole_account=session.grant.store_id is None)


@cache
def _groups(audiences: frozenset[Audience], role: Role, *, is_whole_account: bool) -> tuple[Group, ...]:
    # Every page shows one of a few dozen.
    there = {
        screen.path
        for screen in SCREENS
        if screen.show is not None
        and screen.needs in ALLOWED[role]
        and _is_of(screen, audiences, is_whole_account=is_whole_account)
    }
    groups = (
        replace(
            group,
            entries=tuple(
                one for one in group.entries if one.audiences & audiences and path_of(one.name) in there
            ),
        )
        for group in NAVIGATION
    )
    return tuple(group for group in groups if group.entries)
