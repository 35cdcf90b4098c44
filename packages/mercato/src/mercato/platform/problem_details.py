"""Refusals as they are sent and stored: Problem Details (RFC 9457), or Markdown if the client prefers it."""

import re
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mercato_contract import clock
from mercato_contract.problems import ProblemDetail, Reason
from mercato_contract.refusals import Problem
from mercato_contract.wire import as_json, rfc3339

FIRST_SERVER_ERROR: Final = 500


class ProblemFormat(StrEnum):
    """The media types of refusals."""

    JSON = "application/problem+json"
    MARKDOWN = "text/markdown; charset=utf-8"


class Origin(Struct, frozen=True):
    """What a refusal repeats of its request, and in which format. A refusal is stored with its origin."""

    base_url: str
    request_id: str
    trace_id: str
    format: ProblemFormat


MakeOrigin = Callable[[], Origin]
"""Return the origin of a request, which only a refusal needs."""


class Context(Struct, frozen=True):
    """The service's URL, the ids of the request, and its `Accept` header."""

    base_url: str
    request_id: str
    trace_id: str
    accept: bytes

    @property
    def origin(self) -> Origin:
        chosen = ProblemFormat.MARKDOWN if prefers_markdown(self.accept) else ProblemFormat.JSON
        return Origin(self.base_url, self.request_id, self.trace_id, chosen)


def represent(problem: Problem, context: Context) -> tuple[str, bytes]:
    """Return the media type and the body of a refusal."""
    origin = context.origin
    members = _members(detail_of(problem, origin, at=clock.now())) | problem.extensions
    return origin.format.value, _encode(members, origin.format)


def represent_detail(detail: ProblemDetail, chosen: ProblemFormat) -> bytes:
    """Return the body of a refusal that was described earlier."""
    return _encode(_members(detail), chosen)


def members_of(problem: Problem, context: Context) -> dict[str, Any]:
    """Return the members of a refusal, including its extensions."""
    return _members(detail_of(problem, context.origin, at=clock.now())) | problem.extensions


def _members(detail: ProblemDetail) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(detail)
    return members


def _encode(members: dict[str, Any], chosen: ProblemFormat) -> bytes:
    return _markdown(members) if chosen is ProblemFormat.MARKDOWN else as_json(members)


def detail_of(problem: Problem, origin: Origin, *, at: datetime) -> ProblemDetail:
    """Return the refusal without its extensions, as of the instant `at`."""
    return ProblemDetail(
        type=f"{origin.base_url}/errors/{problem.code}",
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        error_category=problem.category,
        error_code=problem.error_code,
        errors=_errors(problem),
        instance=f"urn:mercato:request:{origin.request_id}",
        request_id=origin.request_id,
        retry_after=problem.retry_after,
        retryable=problem.retryable,
        timestamp=rfc3339(at),
        trace_id=origin.trace_id,
    )


def detail_within(problem: Problem, origin: Origin, pointer: str, *, at: datetime) -> ProblemDetail:
    """Return the refusal of one entry of a request, whose pointers lead into the entry at `pointer`."""
    detail = detail_of(problem, origin, at=at)
    if detail.errors is None:
        return detail
    found = [
        error if error.pointer is None else replace(error, pointer=pointer + error.pointer)
        for error in detail.errors
    ]
    return replace(detail, errors=found)


def _errors(problem: Problem) -> list[Reason] | None:
    if problem.errors:
        return list(problem.errors)
    if problem.category in {"validation", "availability", "payment"} and problem.status < FIRST_SERVER_ERROR:
        return [Reason(code=problem.error_code, message=problem.detail)]
    return None


def prefers_markdown(accept: bytes) -> bool:
    """Return whether `Accept` names `text/markdown` with more weight than any JSON type, and than any range."""
    return prefers(accept, "text/markdown")


def prefers(accept: bytes, media_type: str) -> bool:
    """Return whether `Accept` names the type with more weight than any JSON type, and than any range."""
    if media_type.encode() not in accept.lower():
        return False
    weights: dict[str, float] = {}
    for part in accept.decode("latin-1").lower().split(","):
        name, _, parameters = part.strip().partition(";")
        weight = re.search(r"(?:^|;)\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*(?:;|$)", parameters)
        weights[name.strip()] = float(weight[1]) if weight else 1.0
    wanted = weights.get(media_type, 0.0)
    named = [weights[name] for name in ("application/problem+json", "application/json") if name in weights]
    # A range applies to JSON only if JSON has no separate weight (RFC 9110, 12.5.1).
    ranges = [] if named else [weights.get(name, 0.0) for name in ("application/*", "*/*")]
    return wanted > max(named, default=0.0) and wanted >= max(ranges, default=0.0)


def _markdown(members: dict[str, Any]) -> bytes:
    """Return YAML front matter (JSON scalars are YAML) with every member, then the same as text."""
    front = "\n".join(f"{name}: {as_json(value).decode()}" for name, value in members.items())
    lines = [f"# {members['title']}", "", str(members["detail"])]
    if members["errors"]:
        lines += ["", "## Errors", ""]
        for fault in members["errors"]:
            where = f" at `{fault['pointer']}`" if fault["pointer"] is not None else ""
            lines.append(f"- **{fault['code']}**{where}: {fault['message']}")
    lines += ["", f"More: <{members['type']}>", ""]
    return ("---\n" + front + "\n---\n\n" + "\n".join(lines)).encode()
