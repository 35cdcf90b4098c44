"""`/agents.md`: one page for agents to read before they call, with this installation's address."""

from functools import cache
from importlib import resources
from typing import Final

from mercato.http.browsers import own_address_headers
from mercato.http.operations import Access, Answer, Call, Operations

guide: Final = Operations(access=Access.PUBLIC, tag="MCP")

MAX_BYTES: Final = 6_000
"""Bytes of the page."""


@cache
def _page() -> str:
    return resources.files("mercato.agents").joinpath("guide.md").read_text("utf-8")


@guide.get(
    "/agents.md",
    summary="For AI agents",
    media_type="text/markdown",
    answer_headers=("Cache-Control", "X-Content-Type-Options"),
)
async def get_agents_page(call: Call[None, None]) -> Answer[str]:
    """Tell AI agents how to order here: the address, the tools in their order, and the commonest refusals."""
    return Answer(
        raw=_page().replace("$URL", call.head.base_url).encode(),
        media_type=b"text/markdown; charset=utf-8",
        headers=own_address_headers(call.app.settings),
    )
