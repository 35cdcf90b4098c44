"""Refusals as they are sent and stored: Problem Details (RFC 9457), or Markdown if the client prefers it."""

import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from mercato.platform import clock
from mercato.platform.errors import Problem
from mercato_contract.problems import OrderError, ProblemDetail
from mercato_contract.wire import as_json, rfc3339

FIRST_SERVER_ERROR: Final = 500


class Context(Struct, frozen=True):
    """The service's URL, the ids of the request, and its `Accept` header."""

    base_url: str
    request_id: str
    trace_id: str
    accept: bytes


_FRONT: Final = b"---\n"


def represent(problem: Problem, context: Context) -> tuple[str, bytes]:
    """Return the media type and the body of a refusal."""
    members = members_of(problem, context)
    if prefers_markdown(context.accept):
        return "text/markdown; charset=utf-8", _markdown(members)
    return "application/problem+json", as_json(members)


class ProblemSummary(Struct, frozen=True, rename="camel"):
    """A refusal without the messages of its errors, which may be a store's."""

    error_code: str
    title: str
    errors: list[OrderError] | None = None

    def described(self) -> tuple[OrderError, ...]:
        """Return the errors with our own words."""
        return tuple(
            OrderError(code=error.code, message=self.title, pointer=error.pointer)
            for error in self.errors or ()
        )


def summarize(body: bytes) -> ProblemSummary | None:
    """Return what a refusal is about that `represent` rendered, as JSON or Markdown; None for any other body."""
    if body.startswith(_FRONT):
        front = body[len(_FRONT) :].partition(b"\n---\n")[0]
        members = (line.partition(b": ") for line in front.split(b"\n"))
        body = b"{%s}" % b",".join(b'"%s":%s' % (name, value) for name, _, value in members)
    try:
        return msgspec.json.decode(body, type=ProblemSummary)
    except msgspec.DecodeError:
        return None


def members_of(problem: Problem, context: Context) -> dict[str, Any]:
    """Return the members of a refusal, including its extensions."""
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
        timestamp=rfc3339(clock.now()),
        trace_id=context.trace_id,
    )


def _errors(problem: Problem) -> list[OrderError] | None:
    if problem.errors:
        return list(problem.errors)
    if problem.category in {"validation", "availability", "payment"} and problem.status < FIRST_SERVER_ERROR:
        return [OrderError(code=problem.error_code, message=problem.detail)]
    return None


def prefers_markdown(accept: bytes) -> bool:
    """Return whether `Accept` names `text/markdown` with more weight than any JSON type, and than any range."""
    if b"text/markdown" not in accept.lower():
        return False
    weights: dict[str, float] = {}
    for part in accept.decode("latin-1").lower().split(","):
        name, _, parameters = part.strip().partition(";")
        weight = re.search(r"(?:^|;)\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*(?:;|$)", parameters)
        weights[name.strip()] = float(weight[1]) if weight else 1.0
    markdown = weights.get("text/markdown", 0.0)
    named = [weights[name] for name in ("application/problem+json", "application/json") if name in weights]
    # A range means JSON only if JSON has no weight of its own (RFC 9110, 12.5.1).
    ranges = [] if named else [weights.get(name, 0.0) for name in ("application/*", "*/*")]
    return markdown > max(named, default=0.0) and markdown >= max(ranges, default=0.0)


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
