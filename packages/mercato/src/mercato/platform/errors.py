"""Refusals of a request itself. Each class has its code, status and category.

The refusals of a feature are in its `errors.py`. `problem_details` renders them (RFC 9457); nothing here knows HTTP
beyond the status. Codes and categories are a contract: see `docs/reference/errors.md`.
"""

from collections.abc import Iterable

from mercato_contract import problems
from mercato_contract.refusals import Problem
from mercato_contract.texts import shown


class InvalidCursor(Problem):
    kind = problems.INVALID_CURSOR

    def __init__(self) -> None:
        super().__init__(
            "The cursor is not a nextCursor that this list gave to this account. Start without one."
        )


class MethodNotAllowed(Problem):
    kind = problems.METHOD_NOT_ALLOWED

    def __init__(self, method: str, allowed: Iterable[str], *, reason: str = "") -> None:
        self.allow = ", ".join(sorted(allowed))
        super().__init__(
            f"{method} is not supported here. Use one of: {self.allow}.{reason and f' {reason}'}"
        )


class MethodNotImplemented(Problem):
    kind = problems.METHOD_NOT_IMPLEMENTED

    def __init__(self, method: str) -> None:
        super().__init__(f"{shown(method)} is not a method of HTTP. Use one that the path's operations have.")


class PreconditionFailed(Problem):
    kind = problems.PRECONDITION_FAILED


class PayloadTooLarge(Problem):
    kind = problems.PAYLOAD_TOO_LARGE

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body may have at most {limit} bytes. Send a smaller one.")


class UnsupportedMediaType(Problem):
    kind = problems.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, detail: str, *, accept_encoding: str | None = None) -> None:
        """`accept_encoding`: the supported codings, if the body's coding is what is refused."""
        super().__init__(detail)
        self.accept_encoding = accept_encoding


class MissingIdempotencyKey(Problem):
    kind = problems.MISSING_IDEMPOTENCY_KEY


class IdempotencyKeyReused(Problem):
    kind = problems.IDEMPOTENCY_KEY_REUSED


class RequestInProgress(Problem):
    kind = problems.REQUEST_IN_PROGRESS


class Unauthenticated(Problem):
    kind = problems.UNAUTHENTICATED

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.challenge = 'Bearer error="invalid_token"' if sent else "Bearer"


class Forbidden(Problem):
    kind = problems.FORBIDDEN


class NotFound(Problem):
    kind = problems.NOT_FOUND


class RateLimited(Problem):
    kind = problems.RATE_LIMITED


class InternalError(Problem):
    kind = problems.INTERNAL_ERROR


class ServiceUnavailable(Problem):
    kind = problems.SERVICE_UNAVAILABLE


class Conflict(Problem):
    kind = problems.CONFLICT
