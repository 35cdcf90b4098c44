"""Problems (RFC 9457), and the faults that they list."""

from collections.abc import Mapping
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mercato_contract.wire import Instant, Wire

OTHER: Final = "OTHER"
"""Clients treat an unknown order error code as this one; an unreadable refusal of a store gets it."""


_Int32 = Annotated[int, Meta(extra_json_schema={"format": "int32"})]


class OrderError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One reason of a refusal: a code, a message, and its location in the body, if it has one (RFC 6901).

    Two reasons of a refusal never differ in their message alone.
    """

    code: str
    message: str
    pointer: str | None = None
    item_id: (
        Annotated[UUID, Meta(description="The item that is unavailable, or whose rule is broken.")]
        | UnsetType
    ) = UNSET
    modifier_group_id: (
        Annotated[UUID, Meta(description="The modifier group that is unavailable, or whose rule is broken.")]
        | UnsetType
    ) = UNSET
    minimum: Annotated[_Int32, Meta(description="The least units that the rule requires.")] | UnsetType = (
        UNSET
    )
    maximum: Annotated[_Int32, Meta(description="The most units that the rule allows.")] | UnsetType = UNSET
    opens_at: (
        Annotated[Instant | None, Meta(description="With STORE_CLOSED: when the store takes orders next.")]
        | UnsetType
    ) = UNSET
    closes_at: Annotated[None, Meta(description="With STORE_CLOSED: always null.")] | UnsetType = UNSET


Reason = OrderError
"""The same where no order is concerned: the API has one name for the reasons of all refusals."""


class ProblemDetail(Wire):
    """RFC 9457 Problem Details, with members that tell a program what to do next."""

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
        Annotated[UUID, Meta(description="With STORE_ALREADY_REGISTERED: the existing onboarding.")]
        | UnsetType
    ) = UNSET
    store_id: (
        Annotated[
            UUID,
            Meta(description="With ONBOARDING_NOT_READY: the store, if the onboarding is active already."),
        ]
        | UnsetType
    ) = UNSET
    order_id: (
        Annotated[
            UUID,
            Meta(
                description="With IDEMPOTENCY_KEY_REUSED: the order that the key belongs to, if there is one. Read it "
                "before you place anything again. With any other refusal: the order that is refused, unanswered, or "
                "placed already."
            ),
        ]
        | UnsetType
    ) = UNSET
    opens_at: (
        Annotated[Instant | None, Meta(description="With STORE_CLOSED: when the store takes orders next.")]
        | UnsetType
    ) = UNSET
    closes_at: Annotated[None, Meta(description="With STORE_CLOSED: always null.")] | UnsetType = UNSET
    limit: (
        Annotated[
            str | None,
            Meta(
                description="With SPEND_LIMIT_EXCEEDED: the agent's limit; null if it has none and orders in another "
                "currency."
            ),
        ]
        | UnsetType
    ) = UNSET
    interval: (
        Annotated[
            str,
            Meta(
                description="With SPEND_LIMIT_EXCEEDED: what the limit is of, `order` or `day`; without it, the order "
                "is in another currency."
            ),
        ]
        | UnsetType
    ) = UNSET
    spent: (
        Annotated[
            str, Meta(description="With SPEND_LIMIT_EXCEEDED: what the agent's orders of the day cost.")
        ]
        | UnsetType
    ) = UNSET
    currency: (
        Annotated[str, Meta(description="With SPEND_LIMIT_EXCEEDED: that of the limit.")] | UnsetType
    ) = UNSET


class ProblemKind(msgspec.Struct, frozen=True):
    """A refusal: its code on the wire, HTTP status, category and fixed title, and whether a retry may succeed."""

    code: str
    status: int
    category: str
    title: str
    retryable: bool = False


# --- the request itself
INVALID_REQUEST: Final = ProblemKind(
    "INVALID_REQUEST",
    400,
    "validation",
    "The request is not JSON, or a member is missing or has the wrong JSON type",
)
INVALID_CURSOR: Final = ProblemKind(
    "INVALID_CURSOR", 400, "validation", "The cursor is not one that this list gave to this account"
)
CURSOR_EXPIRED: Final = ProblemKind(
    "CURSOR_EXPIRED", 410, "not_found", "What comes after the cursor is no longer kept"
)
VALIDATION_FAILED: Final = ProblemKind(
    "VALIDATION_FAILED", 422, "validation", "A value has the right type but is not allowed"
)
METHOD_NOT_ALLOWED: Final = ProblemKind(
    "METHOD_NOT_ALLOWED", 405, "validation", "The path does not support this method"
)
METHOD_NOT_IMPLEMENTED: Final = ProblemKind(
    "METHOD_NOT_IMPLEMENTED", 501, "validation", "The service does not know this method"
)
PRECONDITION_FAILED: Final = ProblemKind(
    "PRECONDITION_FAILED", 412, "conflict", "A precondition of the request does not hold"
)
PAYLOAD_TOO_LARGE: Final = ProblemKind(
    "PAYLOAD_TOO_LARGE", 413, "validation", "The body is larger than this operation accepts"
)
UNSUPPORTED_MEDIA_TYPE: Final = ProblemKind(
    "UNSUPPORTED_MEDIA_TYPE", 415, "validation", "The body's media type or coding is not supported"
)
MISSING_IDEMPOTENCY_KEY: Final = ProblemKind(
    "MISSING_IDEMPOTENCY_KEY", 400, "validation", "The Idempotency-Key header is missing"
)
IDEMPOTENCY_KEY_REUSED: Final = ProblemKind(
    "IDEMPOTENCY_KEY_REUSED", 422, "validation", "The Idempotency-Key was used with another request"
)
REQUEST_IN_PROGRESS: Final = ProblemKind(
    "REQUEST_IN_PROGRESS",
    409,
    "conflict",
    "A request with this Idempotency-Key is still running",
    retryable=True,
)
UNAUTHENTICATED: Final = ProblemKind(
    "UNAUTHENTICATED", 401, "authentication", "No valid credentials were sent"
)
FORBIDDEN: Final = ProblemKind(
    "FORBIDDEN", 403, "authorization", "These credentials are not for this operation"
)
NOT_FOUND: Final = ProblemKind("NOT_FOUND", 404, "not_found", "There is nothing at this path")
RATE_LIMITED: Final = ProblemKind("RATE_LIMITED", 429, "rate_limit", "Too many requests", retryable=True)
INTERNAL_ERROR: Final = ProblemKind(
    "INTERNAL_ERROR", 500, "server_error", "Something went wrong on our side", retryable=True
)
SERVICE_UNAVAILABLE: Final = ProblemKind(
    "SERVICE_UNAVAILABLE", 503, "availability", "The service is temporarily unavailable", retryable=True
)


# --- resources
STORE_NOT_FOUND: Final = ProblemKind("STORE_NOT_FOUND", 404, "not_found", "No such store in this account")
CATALOGSET_NOT_FOUND: Final = ProblemKind("CATALOGSET_NOT_FOUND", 404, "not_found", "No such CatalogSet")
CATALOGSET_EXPIRED: Final = ProblemKind(
    "CATALOGSET_EXPIRED", 409, "conflict", "The CatalogSet is no longer kept"
)
ONBOARDING_NOT_FOUND: Final = ProblemKind(
    "ONBOARDING_NOT_FOUND", 404, "not_found", "No such onboarding in this account"
)
CATALOG_INGEST_NOT_FOUND: Final = ProblemKind(
    "CATALOG_INGEST_NOT_FOUND", 404, "not_found", "No such catalog ingest run of this store"
)
DELIVERY_NOT_FOUND: Final = ProblemKind(
    "DELIVERY_NOT_FOUND", 404, "not_found", "No such webhook delivery in this account"
)
CONFLICT: Final = ProblemKind("CONFLICT", 409, "conflict", "The request conflicts with the resource's state")
ONBOARDING_NOT_READY: Final = ProblemKind(
    "ONBOARDING_NOT_READY", 409, "conflict", "Only an onboarding that is ready_to_activate can be activated"
)
ONBOARDING_ACTIVE: Final = ProblemKind(
    "ONBOARDING_ACTIVE", 409, "conflict", "An active onboarding cannot be cancelled"
)
ONBOARDING_NOT_FAILED: Final = ProblemKind(
    "ONBOARDING_NOT_FAILED", 409, "conflict", "Only a failed onboarding can be retried"
)
STORE_ALREADY_REGISTERED: Final = ProblemKind(
    "STORE_ALREADY_REGISTERED", 409, "conflict", "This partnerStoreId is registered already"
)


# --- carts and orders
MISSING_STORE_ID: Final = ProblemKind("MISSING_STORE_ID", 400, "validation", "A storeId is needed")
CATALOGSET_REQUIRED: Final = ProblemKind("CATALOGSET_REQUIRED", 400, "validation", "A catalogSetId is needed")
CART_EMPTY: Final = ProblemKind("CART_EMPTY", 400, "validation", "The cart has no line items")
MODIFIER_REQUIRED: Final = ProblemKind(
    "MODIFIER_REQUIRED", 400, "validation", "A required modifier is missing"
)
MODIFIER_LIMIT_EXCEEDED: Final = ProblemKind(
    "MODIFIER_LIMIT_EXCEEDED", 400, "validation", "More modifiers are chosen than the group allows"
)
ORDER_BELOW_MINIMUM: Final = ProblemKind(
    "ORDER_BELOW_MINIMUM", 400, "validation", "The order is below the store's minimum"
)
ORDER_TOTAL_DIFFERENT: Final = ProblemKind(
    "ORDER_TOTAL_DIFFERENT", 400, "validation", "The total differs from the order's current total"
)
ADDRESS_INVALID: Final = ProblemKind(
    "ADDRESS_INVALID", 400, "validation", "The delivery address is not complete"
)
ADDRESS_OUT_OF_RANGE: Final = ProblemKind(
    "ADDRESS_OUT_OF_RANGE", 400, "validation", "The store does not deliver there"
)
ORDER_TOKEN_INVALID: Final = ProblemKind(
    "ORDER_TOKEN_INVALID", 400, "validation", "The validatedOrderToken is not valid for this order"
)
STORE_CLOSED: Final = ProblemKind("STORE_CLOSED", 400, "availability", "The store is not open")
ITEM_UNAVAILABLE: Final = ProblemKind("ITEM_UNAVAILABLE", 400, "availability", "An item is not available now")
ITEM_PRICE_CHANGED: Final = ProblemKind("ITEM_PRICE_CHANGED", 400, "availability", "A price has changed")
PAYMENT_DECLINED: Final = ProblemKind("PAYMENT_DECLINED", 400, "payment", "The payment was declined")
PAYMENT_METHOD_INVALID: Final = ProblemKind(
    "PAYMENT_METHOD_INVALID", 400, "payment", "The payment method cannot be used"
)
PAYMENT_FAILED: Final = ProblemKind("PAYMENT_FAILED", 400, "payment", "The payment failed", retryable=True)
OTHER_REFUSAL: Final = ProblemKind(
    OTHER, 400, "validation", "The store refused the order for a reason of its own"
)
LINE_ITEM_NOT_FOUND: Final = ProblemKind(
    "LINE_ITEM_NOT_FOUND", 404, "not_found", "No such line item in the cart"
)
ORDER_NOT_FOUND: Final = ProblemKind("ORDER_NOT_FOUND", 404, "not_found", "No such order in this account")
ORDER_ALREADY_PLACED: Final = ProblemKind(
    "ORDER_ALREADY_PLACED", 409, "conflict", "This validated order was placed already"
)
QUOTE_NOT_FOUND: Final = ProblemKind("QUOTE_NOT_FOUND", 404, "not_found", "No such quote of this key")
QUOTE_EXPIRED: Final = ProblemKind("QUOTE_EXPIRED", 409, "conflict", "The quote is no longer valid")
QUOTE_DECLINED: Final = ProblemKind("QUOTE_DECLINED", 409, "conflict", "A person declined the order")
ORDER_CLOSED: Final = ProblemKind("ORDER_CLOSED", 409, "conflict", "The order is closed")
SPEND_LIMIT_EXCEEDED: Final = ProblemKind(
    "SPEND_LIMIT_EXCEEDED", 403, "authorization", "The order costs more than the agent may spend"
)
APPROVAL_REQUIRED: Final = ProblemKind(
    "APPROVAL_REQUIRED", 403, "authorization", "A person must approve the order first"
)
INVALID_STATUS_TRANSITION: Final = ProblemKind(
    "INVALID_STATUS_TRANSITION", 409, "conflict", "An order's status cannot go backward"
)
CANCELLATION_REFUSED: Final = ProblemKind(
    "CANCELLATION_REFUSED", 409, "conflict", "The store does not cancel the order"
)
STORE_UNREACHABLE: Final = ProblemKind(
    "STORE_UNREACHABLE", 503, "availability", "The store's system did not answer", retryable=True
)

PROBLEMS: Final[Mapping[str, ProblemKind]] = {
    kind.code: kind
    for kind in sorted(
        (value for value in tuple(globals().values()) if isinstance(value, ProblemKind)),
        key=lambda kind: (kind.status, kind.code),
    )
}
"""Every refusal by its code, in the order of status and code."""

ORDER_ERROR_CODES: Final = frozenset(
    kind.code
    for kind in (
        CART_EMPTY,
        MODIFIER_REQUIRED,
        MODIFIER_LIMIT_EXCEEDED,
        ITEM_UNAVAILABLE,
        ITEM_PRICE_CHANGED,
        STORE_CLOSED,
        ORDER_BELOW_MINIMUM,
        ORDER_TOTAL_DIFFERENT,
        ADDRESS_INVALID,
        ADDRESS_OUT_OF_RANGE,
        PAYMENT_DECLINED,
        PAYMENT_METHOD_INVALID,
        PAYMENT_FAILED,
        VALIDATION_FAILED,
        OTHER_REFUSAL,
    )
)
"""The codes of the service that can apply to an order."""


def default_message(code: str) -> str:
    """Return the message of an order's error that came without one; a code of the store's own has OTHER's."""
    kind = PROBLEMS[code] if code in ORDER_ERROR_CODES else OTHER_REFUSAL
    return f"{kind.title}."


def order_error_code(code: str) -> str:
    """Return a store's code: OTHER in place of one of this service's that can't apply to an order."""
    return OTHER if code in PROBLEMS and code not in ORDER_ERROR_CODES else code
