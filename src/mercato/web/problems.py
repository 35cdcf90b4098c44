"""The one translation of refusals to `application/problem+json`, or to Markdown for those who ask for it."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mercato import clock
from mercato.errors import MethodNotAllowed, OrderError, Problem, Unauthenticated
from mercato.web.head import Head
from mercato.wire import Instant, Wire, as_json

FIRST_SERVER_ERROR: Final = 500


class ProblemDetail(Wire):
    """RFC 9457 Problem Details, with the members that tell a program what to do next."""

    type: str
    title: str
    status: Annotated[int, Meta(extra_json_schema={"format": "int32"})]
    detail: str | None
    error_category: str | None
    error_code: str | None
    errors: list[OrderError] | None
    instance: str | None
    request_id: str | None
    retry_after: Annotated[int, Meta(extra_json_schema={"format": "int32"})] | None
    retryable: bool | None
    timestamp: Instant | None
    trace_id: str | None
    onboarding_id: (
        Annotated[UUID, Meta(description="With STORE_ALREADY_REGISTERED: the onboarding that is there.")]
        | UnsetType
    ) = UNSET
    order_id: (
        Annotated[
            UUID, Meta(description="The order that a refusal of Place order is about, where there is one.")
        ]
        | UnsetType
    ) = UNSET


class Context(Struct, frozen=True):
    """What a refusal is told with: where the service is, which request this was, and what is read."""

    base_url: str
    request_id: str
    trace_id: str
    accept: bytes


def context_of(head: Head) -> Context:
    """Return what a request's refusals are told with."""
    return Context(
        base_url=head.base_url, request_id=head.request_id, trace_id=head.trace_id, accept=head.accept
    )


def render(problem: Problem, context: Context) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of a refusal."""
    members = members_of(problem, context)
    headers = [(b"vary", b"Accept"), *headers_of(problem)]
    if prefers_markdown(context.accept):
        return (
            problem.status,
            [(b"content-type", b"text/markdown; charset=utf-8"), *headers],
            _markdown(members),
        )
    return problem.status, [(b"content-type", b"application/problem+json"), *headers], as_json(members)


class Refusals(Struct, frozen=True):
    """How an operation tells its refusals: the type on the wire, its media type, and what makes one."""

    shape: type[Wire]
    media_type: str
    render: Callable[[Problem, Context], tuple[int, list[tuple[bytes, bytes]], bytes]]


PROBLEM_DETAILS: Final = Refusals(ProblemDetail, "application/problem+json", render)


def members_of(problem: Problem, context: Context) -> dict[str, Any]:
    """Return the members of a refusal, those that its code adds included."""
    members: dict[str, Any] = msgspec.to_builtins(_detail(problem, context))
    return members | problem.extensions


def _detail(problem: Problem, context: Context) -> ProblemDetail:
    return ProblemDetail(
        type=f"{context.base_url}/errors/{problem.code}",
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        error_category=problem.category,
        error_code=problem.error_code,
        errors=_errors(problem),
        instance=f"urn:mercato:request:{context.request_id}",
        request_id=context.request_id,
        retry_after=problem.retry_after,
        retryable=problem.retryable,
        timestamp=clock.rfc3339(clock.now()),
        trace_id=context.trace_id,
    )


def _errors(problem: Problem) -> list[OrderError] | None:
    if problem.errors:
        return list(problem.errors)
    if problem.category in {"validation", "availability", "payment"} and problem.status < FIRST_SERVER_ERROR:
        return [OrderError(code=problem.error_code, message=problem.detail)]
    return None


def headers_of(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return the headers that go with a refusal in any form."""
    headers: list[tuple[bytes, bytes]] = []
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    if problem.location is not None:
        headers.append((b"location", problem.location.encode()))
    if isinstance(problem, MethodNotAllowed):
        headers.append((b"allow", problem.allow.encode()))
    if isinstance(problem, Unauthenticated):
        headers.append((b"www-authenticate", problem.challenge.encode()))
    return headers


def prefers_markdown(accept: bytes) -> bool:
    """Tell whether `text/markdown` is asked for by name, no JSON type by name as much, and no range more."""
    if b"text/markdown" not in accept.lower():
        return False
    weights: dict[str, float] = {}
    for part in accept.decode("latin-1").lower().split(","):
        name, _, parameters = part.strip().partition(";")
        weight = re.search(r"(?:^|;)\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*(?:;|$)", parameters)
        weights[name.strip()] = float(weight[1]) if weight else 1.0
    markdown = weights.get("text/markdown", 0.0)
    named = [weights[name] for name in ("application/problem+json", "application/json") if name in weights]
    # A range stands for JSON only where JSON has no weight of its own (RFC 9110, 12.5.1).
    ranges = [] if named else [weights.get(name, 0.0) for name in ("application/*", "*/*")]
    return markdown > max(named, default=0.0) and markdown >= max(ranges, default=0.0)


def _markdown(members: dict[str, Any]) -> bytes:
    """Return YAML front matter (JSON scalars are YAML) with every member, then the same for a reader."""
    front = "\n".join(f"{name}: {as_json(value).decode()}" for name, value in members.items())
    lines = [f"# {members['title']}", "", str(members["detail"])]
    if members["errors"]:
        lines += ["", "## Errors", ""]
        for fault in members["errors"]:
            where = f" at `{fault['pointer']}`" if fault["pointer"] is not None else ""
            lines.append(f"- **{fault['code']}**{where}: {fault['message']}")
    lines += ["", f"More: <{members['type']}>", ""]
    return ("---\n" + front + "\n---\n\n" + "\n".join(lines)).encode()
