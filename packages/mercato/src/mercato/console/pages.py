"""What people open in a browser: the landing page, the documentation, and the console with everything below its path.

Their templates and screens are imported when somebody opens one, in a thread: a service that only answers API clients
starts without them.
"""

import asyncio
from importlib import import_module
from typing import Final

from mercato.http.browsers import check_form, prefix_links
from mercato.http.head import path_prefix
from mercato.http.operations import (
    PROBLEM_DETAILS,
    Access,
    Answer,
    Call,
    Operations,
    ReadBody,
    Refusals,
    problem_headers,
)
from mercato.platform import errors
from mercato.platform.problem_details import Context
from mercato_contract.problems import ProblemDetail
from mercato_contract.refusals import Problem

_SITE: Final = "mercato.console.site"


async def _load() -> None:
    """Import the console in a thread, which takes longer than a request may."""
    await asyncio.to_thread(import_module, _SITE)


def _render(problem: Problem, context: Context) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Render a refusal that is found before there is a session, or without one: the database may be away."""
    from mercato.console.rendering import render_refusal

    answer = render_refusal(problem, context.request_id)
    assert answer.raw is not None
    headers = [*answer.headers, *problem_headers(problem), (b"content-type", answer.media_type)]
    return problem.status, headers, prefix_links(answer.raw, path_prefix(context.base_url))


pages = Operations(access=Access.PUBLIC, tag="Pages", refusals=Refusals(ProblemDetail, "text/html", _render))


@pages.get("/", summary="Landing page", refusals=PROBLEM_DETAILS)
@pages.post("/", summary="Nothing", refusals=PROBLEM_DETAILS)
async def landing(call: Call[None, None]) -> Answer[str]:
    """Show browsers a page about this service. Other clients get 404."""
    if call.head.method == "POST" or b"text/html" not in call.headers.get(b"accept", b"").lower():
        raise errors.NotFound("There is nothing at this path. See /docs for the operations.")
    await _load()
    from mercato.console.site import landing_page

    return landing_page(call)


@pages.get("/documentation", summary="Documentation")
@pages.get("/documentation/{path:path}", summary="Guide")
async def documentation(call: Call[None, None]) -> Answer[str]:
    """Link to the documentation that this service hosts, and show its guides, each under its name below this path."""
    await _load()
    from mercato.console import guides, site

    name = call.texts.get("path", "")
    # In a thread: a first rendering takes longer than a request may, and a picture is read from the disk.
    if not name:
        return await asyncio.to_thread(site.documentation_page, call, await site.find_reader(call))
    if name.startswith("pictures/"):
        return await asyncio.to_thread(site.serve_picture, name.removeprefix("pictures/"))
    if name not in guides.names():
        raise errors.NotFound("There is no guide of this name. /documentation lists them all.")
    return await asyncio.to_thread(site.guide_page, call, name, await site.find_reader(call))


@pages.get("/console/static/{path:path}", summary="Static file")
async def static_file(call: Call[None, None]) -> Answer[str]:
    await _load()
    from mercato.console.site import serve_file

    return serve_file(call)


@pages.get("/console/links/{path:path}", summary="One-time link")
@pages.post("/console/links/{path:path}", summary="Sign in with a one-time link", checks_head=check_form)
async def open_link(call: Call[ReadBody, None]) -> Answer[str]:
    await _load()
    from mercato.console import sign_in, site

    return await site.enter(call, sign_in.open_link)


@pages.get("/approve/{path:path}", summary="Approval page")
@pages.post("/approve/{path:path}", summary="Approve or decline", checks_head=check_form)
async def approve(call: Call[ReadBody, None]) -> Answer[str]:
    """Show an order that an agent wants to place to the person who has the address, and place or decline it."""
    await _load()
    from mercato.console import approval, site

    return await site.enter(call, approval.answer)


@pages.get("/console/passkey", summary="Challenge for a passkey")
@pages.post("/console/passkey", summary="Sign in with a passkey", checks_head=check_form)
async def passkey(call: Call[ReadBody, None]) -> Answer[str]:
    await _load()
    from mercato.console import sign_in, site

    return await site.enter(call, sign_in.sign_in_with_passkey)


@pages.get("/console/oidc", summary="Way to the OpenID Connect provider")
async def sign_on(call: Call[ReadBody, None]) -> Answer[str]:
    await _load()
    from mercato.console import sign_in, site

    return await site.enter(call, sign_in.go_to_provider)


@pages.get("/console/oidc/callback", summary="Way back from the OpenID Connect provider")
async def sign_on_callback(call: Call[ReadBody, None]) -> Answer[str]:
    await _load()
    from mercato.console import sign_in, site

    return await site.enter(call, sign_in.come_from_provider)


@pages.get("/console", summary="Console")
@pages.get("/console/", summary="Console")
@pages.get("/console/sign-out", summary="Console")
async def home(call: Call[ReadBody, None]) -> Answer[str]:
    """Redirect to the account's first screen."""
    await _load()
    from mercato.console import site

    return await site.go_home(call)


@pages.post("/console/sign-out", summary="Sign out", checks_head=check_form)
async def sign_out(call: Call[ReadBody, None]) -> Answer[str]:
    await _load()
    from mercato.console import site

    return await site.sign_out(call)


@pages.get("/console/manifest.webmanifest", summary="Manifest of the board as an installed app")
async def manifest(call: Call[None, None]) -> Answer[str]:
    await _load()
    from mercato.console import site

    return site.serve_manifest(call)


@pages.get("/console/board/changes", summary="Wait for a change of the board", waits=True)
async def board_changes(call: Call[ReadBody, None]) -> Answer[str]:
    """Say whether the orders on the board have changed, as soon as they have or 25 seconds are over."""
    await _load()
    from mercato.console import site

    return await site.serve_screen(call, "board/changes")


@pages.get("/console/{path:path}", summary="Screen", id="console")
@pages.post("/console/{path:path}", summary="Action", id="console", checks_head=check_form)
async def screen(call: Call[ReadBody, None]) -> Answer[str]:
    """Show a screen, or act on the form that it sends: `mercato.console.site` has the screens' own routes."""
    await _load()
    from mercato.console import site

    return await site.serve_screen(call, call.texts["path"])
