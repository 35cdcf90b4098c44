"""Error codes, explained to agents of both surfaces as their pages explain them."""

from typing import Annotated, Final

from msgspec import Meta

from mercato.agents.tools import READS, ToolCall, Tools
from mercato.api.system import system
from mercato.features.partners.model import Surface
from mercato.http.calls import operation_of
from mercato.http.error_pages import error_page
from mercato.platform import errors
from mercato_contract.problems import PROBLEMS
from mercato_contract.wire import Wire

tools: Final = Tools(Surface.MARKETFRONT)

_PAGE: Final = operation_of(system, "errorPage")


class ExplainError(Wire, forbid_unknown_fields=True):
    """The arguments of explain_error."""

    error_code: Annotated[str, Meta(max_length=64, description="As a problem or a fault has it")]


class Explanation(Wire):
    """The result of explain_error."""

    error_code: str
    status: int
    title: str
    retryable: bool
    cause: str
    what_to_do: str


def render_explanation(found: Explanation) -> str:
    """Return an explanation as text."""
    again = "The same request may succeed later." if found.retryable else "The same request fails again."
    return f"{found.error_code}: {found.title}. {again}\n\n{found.cause}\n\nWhat to do: {found.what_to_do}"


@tools.declare(title="Explain an error", calls=[_PAGE], hints=READS, render=render_explanation)
async def explain_error(call: ToolCall[ExplainError]) -> Explanation:
    """Explain the errorCode of a problem: its cause, and what to do."""
    kind = PROBLEMS.get(call.body.error_code.strip().upper())
    if kind is None:
        raise errors.NotFound(
            "No error has this code. Send the errorCode of a problem, or the code of one of its errors."
        )
    page = error_page(kind.code)
    return Explanation(
        error_code=kind.code,
        status=kind.status,
        title=kind.title,
        retryable=kind.retryable,
        cause=page.cause if page.places is None else f"{page.cause}\n\n{page.places}",
        what_to_do=page.remedy,
    )
