"""What people open in a browser: the landing page, and the console with everything below its path.

Their templates and screens are imported when somebody opens one, in a thread: a service that only answers API clients
starts without them.
"""

import asyncio
from importlib import import_module
from typing import Final

from mercato.http.browsers import prefix_links
from mercato.http.head import path_prefix
from mercato.http.operations import Access, Answer, Call, Operations, ReadBody
from mercato.http.problems import Refusals, problem_headers
from mercato.platform import errors
from mercato.platform.errors import Problem
from mercato.platform.wire.problem import Context
from mercato_contract.problems import ProblemDetail

pages = Operations(access=Access.PUBLIC, tag="Pages")

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


_PAGES: Final = Refusals(ProblemDetail, "text/html", _render)


@pages.get("/", summary="Landing page", media_type="text/html")
async def landing(call: Call[None, None]) -> Answer[str]:
    """Show browsers a page about this service. Other clients get 404."""
    asked = (call.texts["method"], call.texts["path"])
    if (
        asked not in {("GET", ""), ("HEAD", "")}
        or b"text/html" not in call.headers.get(b"accept", b"").lower()
    ):
        raise errors.NotFound("There is nothing at this path. See /docs for the operations.")
    await _load()
    from mercato.console.site import landing_page

    return landing_page(call)


@pages.get("/documentation", summary="Documentation", media_type="text/html", refusals=_PAGES)
async def documentation(call: Call[None, None]) -> Answer[str]:
    """Link to the documentation that this service hosts, and show its guides, each under its name below this path."""
    if call.texts["method"] not in {"GET", "HEAD"}:
        raise errors.MethodNotAllowed(call.texts["method"], ["GET", "HEAD"])
    await _load()
    from mercato.console import guides
    from mercato.console.site import documentation_page, guide_page

    name = call.texts["path"]
    if not name:
        # In a thread: its first rendering takes longer than a request may.
        return documentation_page(call, await asyncio.to_thread(guides.overview))
    if name not in guides.names():
        raise errors.NotFound("There is no guide of this name. /documentation lists them all.")
    return guide_page(call, await asyncio.to_thread(guides.get_guide, name))


@pages.post(
    "/console", summary="Console", media_type="text/html",
    body_type="application/x-www-form-urlencoded", refusals=_PAGES,
)  # fmt: skip
async def console(call: Call[ReadBody, None]) -> Answer[str]:
    """Serve the console: its screens, their actions, sign-in and static files."""
    await _load()
    from mercato.console.site import serve

    return await serve(call)
