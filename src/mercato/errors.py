"""Every refusal the service can make: one class per code, with its status and category written out.

The wire form (RFC 9457) is made in `mercato.web.problems` alone; nothing here knows HTTP beyond the number.
Categories and codes are the contract of the reference page `docs/reference/errors.md`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

import msgspec

OTHER: Final = "OTHER"
"""What a client takes an unknown order error code for, and what an unreadable refusal of a store becomes."""


class OrderError(msgspec.Struct, frozen=True, kw_only=True):
    """One reason of a refusal: a code, a sentence, and where it was found (RFC 6901), if in the body."""

    code: str
    message: str
    pointer: str | None = None


class Problem(Exception):  # noqa: N818  # RFC 9457's own word
    """A refusal made for the client: `detail` says what happened here and what to do next."""

    status: ClassVar[int]
    code: ClassVar[str]
    category: ClassVar[str]
    title: ClassVar[str]
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        detail: str,
        *,
        errors: Iterable[OrderError] = (),
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

    @property
    def error_code(self) -> str:
        """The code on the wire; `code` alone is what the page of the refusal goes by."""
        return self.code


# --- requests that cannot be read -----------------------------------------------------------------


class InvalidRequest(Problem):
    status, code, category = 400, "INVALID_REQUEST", "validation"
    title = "The request is not JSON, or a member is missing or of the wrong JSON type"


class ValidationFailed(Problem):
    status, code, category = 422, "VALIDATION_FAILED", "validation"
    title = "A value has the right type but is not allowed"

    @classmethod
    def at(cls, pointer: str | None, message: str) -> "ValidationFailed":
        """Return the refusal of a single value, found at `pointer` of the request body."""
        return cls(message, errors=[OrderError(code=cls.code, message=message, pointer=pointer)])


class MethodNotAllowed(Problem):
    status, code, category = 405, "METHOD_NOT_ALLOWED", "validation"
    title = "This path does not know the method"

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(allowed))
        super().__init__(f"{method} is not known here. Use one of: {self.allow}.")


class PayloadTooLarge(Problem):
    status, code, category = 413, "PAYLOAD_TOO_LARGE", "validation"
    title = "The body is larger than this operation reads"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body may have at most {limit} bytes. Send a smaller one.")


class UnsupportedMediaType(Problem):
    status, code, category = 415, "UNSUPPORTED_MEDIA_TYPE", "validation"
    title = "The body's media type or coding is not read here"


class MissingIdempotencyKey(Problem):
    status, code, category = 400, "MISSING_IDEMPOTENCY_KEY", "validation"
    title = "The Idempotency-Key header is missing"


class MissingStoreId(Problem):
    status, code, category = 400, "MISSING_STORE_ID", "validation"
    title = "A storeId is needed"


class CatalogSetRequired(Problem):
    status, code, category = 400, "CATALOGSET_REQUIRED", "validation"
    title = "A catalogSetId is needed"


class CartEmpty(Problem):
    status, code, category = 400, "CART_EMPTY", "validation"
    title = "The cart has no line items"


class ModifierRequired(Problem):
    status, code, category = 400, "MODIFIER_REQUIRED", "validation"
    title = "A required modifier is not chosen"


class ModifierLimitExceeded(Problem):
    status, code, category = 400, "MODIFIER_LIMIT_EXCEEDED", "validation"
    title = "More modifiers are chosen than the group allows"


class OrderBelowMinimum(Problem):
    status, code, category = 400, "ORDER_BELOW_MINIMUM", "validation"
    title = "The order is below the store's minimum"


class OrderTotalDifferent(Problem):
    status, code, category = 400, "ORDER_TOTAL_DIFFERENT", "validation"
    title = "The total is not the one the order has now"


class AddressInvalid(Problem):
    status, code, category = 400, "ADDRESS_INVALID", "validation"
    title = "The delivery address is not complete"


class AddressOutOfRange(Problem):
    status, code, category = 400, "ADDRESS_OUT_OF_RANGE", "validation"
    title = "The store does not deliver there"


class OrderTokenInvalid(Problem):
    status, code, category = 400, "ORDER_TOKEN_INVALID", "validation"
    title = "The validatedOrderToken is not good for this order"


class IdempotencyKeyReused(Problem):
    status, code, category = 422, "IDEMPOTENCY_KEY_REUSED", "validation"
    title = "The Idempotency-Key was used with another request"


# --- availability and payment ---------------------------------------------------------------------


class StoreClosed(Problem):
    status, code, category = 400, "STORE_CLOSED", "availability"
    title = "The store is not open"


class ItemUnavailable(Problem):
    status, code, category = 400, "ITEM_UNAVAILABLE", "availability"
    title = "An item cannot be had now"


class ItemPriceChanged(Problem):
    status, code, category = 400, "ITEM_PRICE_CHANGED", "availability"
    title = "A price has changed"


class PaymentDeclined(Problem):
    status, code, category = 400, "PAYMENT_DECLINED", "payment"
    title = "The payment was declined"


class PaymentMethodInvalid(Problem):
    status, code, category = 400, "PAYMENT_METHOD_INVALID", "payment"
    title = "The payment method cannot be used"


class PaymentFailed(Problem):
    status, code, category = 400, "PAYMENT_FAILED", "payment"
    title = "The payment failed"
    retryable = True


class Other(Problem):
    """A store's refusal with a code that is not ours: it is told as it came, its page is that of OTHER."""

    status, code, category = 400, OTHER, "validation"
    title = "The store refused the order for a reason of its own"

    def __init__(self, detail: str, *, said: str = OTHER, errors: Iterable[OrderError] = ()) -> None:
        super().__init__(detail, errors=errors)
        self._said = said

    @property
    def error_code(self) -> str:
        return self._said


# --- who may --------------------------------------------------------------------------------------


class Unauthenticated(Problem):
    status, code, category = 401, "UNAUTHENTICATED", "authentication"
    title = "No valid credentials were sent"

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.challenge = 'Bearer error="invalid_token"' if sent else "Bearer"


class Forbidden(Problem):
    status, code, category = 403, "FORBIDDEN", "authorization"
    title = "These credentials are not for this operation"


# --- what is not there ----------------------------------------------------------------------------


class NotFound(Problem):
    status, code, category = 404, "NOT_FOUND", "not_found"
    title = "There is nothing at this path"


class StoreNotFound(Problem):
    status, code, category = 404, "STORE_NOT_FOUND", "not_found"
    title = "No such store in this account"

    def __init__(self, store_id: object) -> None:
        super().__init__(f"No store {_shown(store_id)} is known to this account. Check the storeId.")


class CatalogSetNotFound(Problem):
    status, code, category = 404, "CATALOGSET_NOT_FOUND", "not_found"
    title = "No such CatalogSet"

    def __init__(self, catalog_set_id: object) -> None:
        super().__init__(
            f"No CatalogSet {_shown(catalog_set_id)} is kept. Read the store again for its current one."
        )


class LineItemNotFound(Problem):
    status, code, category = 404, "LINE_ITEM_NOT_FOUND", "not_found"
    title = "No such line item in the cart"


class OrderNotFound(Problem):
    status, code, category = 404, "ORDER_NOT_FOUND", "not_found"
    title = "No such order in this account"

    def __init__(self, order_id: object) -> None:
        super().__init__(f"No order {_shown(order_id)} is known to this account.")


class OnboardingNotFound(Problem):
    status, code, category = 404, "ONBOARDING_NOT_FOUND", "not_found"
    title = "No such onboarding in this account"

    def __init__(self, onboarding_id: object) -> None:
        super().__init__(
            f"No onboarding {_shown(onboarding_id)} is known to this account, or it was cancelled."
        )


class CatalogIngestNotFound(Problem):
    status, code, category = 404, "CATALOG_INGEST_NOT_FOUND", "not_found"
    title = "No such catalog ingest run of this store"

    def __init__(self, run_id: object) -> None:
        super().__init__(f"No catalog ingest run {_shown(run_id)} is kept for this store.")


class DeliveryNotFound(Problem):
    status, code, category = 404, "DELIVERY_NOT_FOUND", "not_found"
    title = "No such webhook delivery in this account"

    def __init__(self, delivery_id: object) -> None:
        super().__init__(f"No webhook delivery {_shown(delivery_id)} is kept for this account.")


# --- conflicts ------------------------------------------------------------------------------------


class Conflict(Problem):
    status, code, category = 409, "CONFLICT", "conflict"
    title = "The request conflicts with the resource's state"


class OrderAlreadyPlaced(Problem):
    status, code, category = 409, "ORDER_ALREADY_PLACED", "conflict"
    title = "This validated order was placed before"


class OrderClosed(Problem):
    status, code, category = 409, "ORDER_CLOSED", "conflict"
    title = "The order is closed"


class InvalidStatusTransition(Problem):
    status, code, category = 409, "INVALID_STATUS_TRANSITION", "conflict"
    title = "An order's status does not go backward"


class OnboardingNotReady(Problem):
    status, code, category = 409, "ONBOARDING_NOT_READY", "conflict"
    title = "Only an onboarding that is ready_to_activate can be activated"

    def __init__(self, state: str) -> None:
        super().__init__(
            f"The onboarding is {state}. It can be activated once its status is ready_to_activate."
        )


class OnboardingActive(Problem):
    status, code, category = 409, "ONBOARDING_ACTIVE", "conflict"
    title = "An active onboarding cannot be cancelled"

    def __init__(self) -> None:
        super().__init__("The store is live. Pause it with Set Store Status instead.")


class OnboardingNotFailed(Problem):
    status, code, category = 409, "ONBOARDING_NOT_FAILED", "conflict"
    title = "Only a failed onboarding can be retried"

    def __init__(self, state: str) -> None:
        super().__init__(f"The onboarding is {state}. Only one that is catalog_failed can be retried.")


class StoreAlreadyRegistered(Problem):
    status, code, category = 409, "STORE_ALREADY_REGISTERED", "conflict"
    title = "This partnerStoreId is registered already"

    def __init__(self, onboarding_id: UUID, partner_store_id: str, *, location: str) -> None:
        super().__init__(
            f"partnerStoreId {partner_store_id!r} has an onboarding that is in progress or active. "
            "Read it at Location, or cancel it first.",
            location=location,
            extensions={"onboardingId": str(onboarding_id)},
        )


class RequestInProgress(Problem):
    status, code, category = 409, "REQUEST_IN_PROGRESS", "conflict"
    title = "A request with this Idempotency-Key is still running"
    retryable = True


# --- not now --------------------------------------------------------------------------------------


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
    title = "The service cannot answer just now"
    retryable = True


class StoreUnreachable(Problem):
    status, code, category = 503, "STORE_UNREACHABLE", "availability"
    title = "The store's system did not answer"
    retryable = True


def every() -> Iterable[type[Problem]]:
    """Return every refusal there is, in the order of their status and code."""
    return sorted(Problem.__subclasses__(), key=lambda kind: (kind.status, kind.code))


def _shown(value: object) -> str:
    """Return an id from a path as it may stand in a sentence: short, and without control characters."""
    text = str(value)
    return repr(text if len(text) <= 64 else text[:61] + "...")  # noqa: PLR2004
