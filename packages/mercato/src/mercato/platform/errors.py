"""Refusals: the base class of all, and those of a request itself. Each class has its code, status and category.

The refusals of a feature are in its `errors.py`. `wire.problem` renders them (RFC 9457); nothing here knows HTTP beyond
the status. Codes and categories are a contract: see `docs/reference/errors.md`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from mercato.platform.texts import shown
from mercato_contract import problems
from mercato_contract.problems import ProblemKind, Reason


class Problem(Exception):  # noqa: N818  # RFC 9457's own word
    """A refusal for the client: `detail` says what happened and what to do next."""

    kind: ClassVar[ProblemKind]
    status: ClassVar[int]
    code: ClassVar[str]
    category: ClassVar[str]
    title: ClassVar[str]
    retryable: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = cls.kind
        cls.code, cls.status, cls.category = kind.code, kind.status, kind.category
        cls.title, cls.retryable = kind.title, kind.retryable

    def __init__(
        self,
        detail: str,
        *,
        errors: Iterable[Reason] = (),
        retry_after: int | None = None,
        location: str | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after
        self.location = location
        self.extensions = dict(extensions or {})

    @classmethod
    def at(cls, pointer: str | None, message: str) -> Self:
        """Return the refusal of a single value, at `pointer` in the request body."""
        return cls(message, errors=[Reason(code=cls.code, message=message, pointer=pointer)])

    @property
    def error_code(self) -> str:
        """The code on the wire; `code` is that of the refusal's documentation page."""
        return self.code


class InvalidRequest(Problem):
    kind = problems.INVALID_REQUEST


class InvalidCursor(Problem):
    kind = problems.INVALID_CURSOR

    def __init__(self) -> None:
        super().__init__("cursor is not a nextCursor that this list gave to this account. Start without one.")


class ValidationFailed(Problem):
    kind = problems.VALIDATION_FAILED


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
