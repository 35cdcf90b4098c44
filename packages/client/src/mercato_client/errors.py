"""The client's exceptions: refusals by category, and failures before there is an answer."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from mercato_contract.problems import OrderError

S = TypeVar("S")

_SHOWN: Final = 5
"""The number of faults that an exception's text lists; `errors` has all."""

_EXCERPT: Final = 200
"""Characters shown of a body that isn't a problem document."""


class MercatoError(Exception):
    """The base of all exceptions. `idempotency_key` is that of the failed request, if any."""

    idempotency_key: str | None = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return what `copy` and `pickle` need: a job queue and a pool of processes hand exceptions on."""
        return restored, (type(self), self.args, vars(self))


def restored(kind: type[MercatoError], args: tuple[Any, ...], members: Mapping[str, Any]) -> MercatoError:
    """Return the exception that has these members; its own `__init__` may need other arguments."""
    error = kind.__new__(kind, *args)
    vars(error).update(members)
    return error


class ConfigurationError(MercatoError, ValueError):
    """The URL, the key or another argument is missing or unusable."""


class NoAnswerError(MercatoError):
    """The service could not be reached, or did not answer in time.

    `sent` says whether the request may have arrived and been performed.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class UnreadableError(MercatoError):
    """The answer isn't from a Mercato service. Check the URL."""


class DeadlineError(MercatoError, Generic[S]):
    """The wait has timed out; `last` is the last state that the service reported."""

    def __init__(self, message: str, *, last: S) -> None:
        super().__init__(message)
        self.last = last


class CatalogFailedError(MercatoError, Generic[S]):
    """The catalog was refused; `status` is the onboarding or run, with every error by its pointer."""

    def __init__(self, message: str, *, status: S) -> None:
        super().__init__(message)
        self.status = status


class _Problem(Struct, frozen=True, rename="camel"):
    """A ProblemDetail (RFC 9457) as received; every member may be missing."""

    title: str | None = None
    detail: str | None = None
    error_code: str | None = None
    error_category: str | None = None
    errors: tuple[OrderError, ...] | None = None
    request_id: str | None = None
    retry_after: float | None = None
    retryable: bool | None = None
    trace_id: str | None = None
    type: str | None = None


class ProblemError(MercatoError):
    """The service refused. `code` is a ProblemDetail's `errorCode`, `errors` say where and why.

    `type` is the address of a page with advice. `members` has every member of the answer, also extensions such as
    `orderId`.
    """

    def __init__(
        self, *, status: int, problem: _Problem, members: Mapping[str, Any], retry_after: float | None
    ) -> None:
        self.status = status
        self.code = problem.error_code or f"HTTP_{status}"
        self.category = problem.error_category
        self.title = problem.title or ""
        self.detail = problem.detail or ""
        self.errors = problem.errors or ()
        self.request_id = problem.request_id
        self.retry_after = retry_after
        self.retryable = problem.retryable
        self.trace_id = problem.trace_id
        self.type = problem.type
        self.members = members
        super().__init__(self._text())

    def _text(self) -> str:
        request = f" (request {self.request_id})" if self.request_id else ""
        lines = [f"{self.status} {self.code}: {self.detail or self.title}{request}"]
        if len(self.errors) > 1 or any(error.pointer for error in self.errors):
            lines += [
                f"  {error.pointer or '-'}: {error.message} [{error.code}]" for error in self.errors[:_SHOWN]
            ]
            more = len(self.errors) - _SHOWN
            lines += [f"  and {more} more"] if more > 0 else []
        return "\n".join(lines)


class ValidationError(ProblemError):
    """The request is invalid: `errors` has each fault with a pointer into the body."""


class AvailabilityError(ProblemError):
    """Not available now: the store is closed, an item is sold out or its price changed."""


class PaymentError(ProblemError):
    """The store refused the payment."""


class AuthenticationError(ProblemError):
    """No key, or one that is wrong, expired or revoked."""


class AuthorizationError(ProblemError):
    """The key is for the other surface."""


class NotFoundError(ProblemError):
    """It doesn't exist, or isn't yours."""


class ConflictError(ProblemError):
    """The request conflicts with the present state."""


class RateLimitError(ProblemError):
    """Too many requests; `retry_after` has the seconds to wait."""


class ServerError(ProblemError):
    """The service, or a store behind it, can't answer now."""


_CATEGORIES: Final[Mapping[str, type[ProblemError]]] = {
    "validation": ValidationError,
    "availability": AvailabilityError,
    "payment": PaymentError,
    "authentication": AuthenticationError,
    "authorization": AuthorizationError,
    "not_found": NotFoundError,
    "conflict": ConflictError,
    "rate_limit": RateLimitError,
    "server_error": ServerError,
}
_STATUSES: Final[Mapping[int, type[ProblemError]]] = {
    400: ValidationError,
    401: AuthenticationError,
    403: AuthorizationError,
    404: NotFoundError,
    409: ConflictError,
    422: ValidationError,
    429: RateLimitError,
}
_SERVER: Final = 500


def problem_of(
    status: int, body: bytes, *, retry_after: float | None, request_id: str | None
) -> ProblemError:
    """Return the exception for an answer that isn't a success, whatever its body."""
    try:
        problem = msgspec.json.decode(body, type=_Problem)
        members = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = " ".join(body[: 4 * _EXCERPT].decode("utf-8", "replace").split())[:_EXCERPT]
        problem, members = _Problem(title="Not a problem that this service describes", detail=text), {}
    if problem.request_id is None:
        problem = msgspec.structs.replace(problem, request_id=request_id)
    if problem.retry_after is not None:
        # An answer may be from anybody: a number below zero isn't a wait.
        retry_after = max(problem.retry_after, 0.0)
    return _kind(status, problem)(
        status=status,
        problem=problem,
        members=members,
        retry_after=retry_after,
    )


def _kind(status: int, problem: _Problem) -> type[ProblemError]:
    if status >= _SERVER:
        return ServerError
    return _CATEGORIES.get(problem.error_category or "") or _STATUSES.get(status, ProblemError)
