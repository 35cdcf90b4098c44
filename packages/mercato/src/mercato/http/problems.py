"""Render refusals as `application/problem+json`, or as Markdown for clients that prefer it."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from mercato.platform.errors import MethodNotAllowed, Problem, Unauthenticated, UnsupportedMediaType
from mercato.platform.wire.problem import Context, represent
from mercato_contract.problems import ProblemDetail
from mercato_contract.wire import Wire

VARY: Final = (b"vary", b"Accept")


def render(problem: Problem, context: Context) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of a refusal."""
    media_type, body = represent(problem, context)
    return problem.status, [(b"content-type", media_type.encode()), VARY, *problem_headers(problem)], body


class Refusals(Struct, frozen=True):
    """How an operation renders its refusals: their type on the wire, their media type, and the function."""

    shape: type[Wire]
    media_type: str
    render: Callable[[Problem, Context], tuple[int, list[tuple[bytes, bytes]], bytes]]


PROBLEM_DETAILS: Final = Refusals(ProblemDetail, "application/problem+json", render)


def problem_headers(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return the headers of a refusal, whatever its media type."""
    headers: list[tuple[bytes, bytes]] = []
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    if problem.location is not None:
        headers.append((b"location", problem.location.encode()))
    if isinstance(problem, MethodNotAllowed):
        headers.append((b"allow", problem.allow.encode()))
    if isinstance(problem, Unauthenticated):
        headers.append((b"www-authenticate", problem.challenge.encode()))
    if isinstance(problem, UnsupportedMediaType) and problem.accept_encoding is not None:
        headers.append((b"accept-encoding", problem.accept_encoding.encode()))
    return headers
