"""Refusals of a request itself: its form, its caller, its rate."""

from collections.abc import Iterable

from mercato.kernel.errors.problem import Problem, shown


class InvalidRequest(Problem):
    status, code, category = 400, "INVALID_REQUEST", "validation"
    title = "The request is not JSON, or a member is missing or has the wrong JSON type"


class ValidationFailed(Problem):
    status, code, category = 422, "VALIDATION_FAILED", "validation"
    title = "A value has the right type but is not allowed"


class MethodNotAllowed(Problem):
    status, code, category = 405, "METHOD_NOT_ALLOWED", "validation"
    title = "The path does not support this method"

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(allowed))
        super().__init__(f"{method} is not supported here. Use one of: {self.allow}.")


class MethodNotImplemented(Problem):
    status, code, category = 501, "METHOD_NOT_IMPLEMENTED", "validation"
    title = "The service does not know this method"

    def __init__(self, method: str) -> None:
        super().__init__(f"{shown(method)} is not a method of HTTP. Use one that the path's operations have.")


class PreconditionFailed(Problem):
    status, code, category = 412, "PRECONDITION_FAILED", "conflict"
    title = "A precondition of the request does not hold"


class PayloadTooLarge(Problem):
    status, code, category = 413, "PAYLOAD_TOO_LARGE", "validation"
    title = "The body is larger than this operation accepts"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body may have at most {limit} bytes. Send a smaller one.")


class UnsupportedMediaType(Problem):
    status, code, category = 415, "UNSUPPORTED_MEDIA_TYPE", "validation"
    title = "The body's media type or coding is not supported"

    def __init__(self, detail: str, *, accept_encoding: str | None = None) -> None:
        """`accept_encoding`: the supported codings, if the body's coding is what is refused."""
        super().__init__(detail)
        self.accept_encoding = accept_encoding


class MissingIdempotencyKey(Problem):
    status, code, category = 400, "MISSING_IDEMPOTENCY_KEY", "validation"
    title = "The Idempotency-Key header is missing"


class IdempotencyKeyReused(Problem):
    status, code, category = 422, "IDEMPOTENCY_KEY_REUSED", "validation"
    title = "The Idempotency-Key was used with another request"


class RequestInProgress(Problem):
    status, code, category = 409, "REQUEST_IN_PROGRESS", "conflict"
    title = "A request with this Idempotency-Key is still running"
    retryable = True


class Unauthenticated(Problem):
    status, code, category = 401, "UNAUTHENTICATED", "authentication"
    title = "No valid credentials were sent"

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.challenge = 'Bearer error="invalid_token"' if sent else "Bearer"


class Forbidden(Problem):
    status, code, category = 403, "FORBIDDEN", "authorization"
    title = "These credentials are not for this operation"


class NotFound(Problem):
    status, code, category = 404, "NOT_FOUND", "not_found"
    title = "There is nothing at this path"


class RateLimited(Problem):
    status, code, category = 429, "RATE_LIMITED", "rate_limit"
    title = "Too many requests"
    retryable = True


class InternalError(Problem):
    status, code, category = 500, "INTERNAL_ERROR", "server_error"
    title = "Something went wrong on our side"
    retryable = True


class ServiceUnavailable(Problem):
    status, code, category = 503, "SERVICE_UNAVAILABLE", "availability"
    title = "The service is temporarily unavailable"
    retryable = True
