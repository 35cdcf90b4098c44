"""Placed orders: their representations, states and transitions, and the requests that change them."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato_contract.carts import MAX_LINES, Amount
from mercato_contract.pages import MAX_UPDATES, PAGE, Cursor, PageLimit
from mercato_contract.placements import (
    NO_CONTEXT,
    Amounts,
    CommerceCart,
    Customer,
    DateTime,
    Decimal,
    ErasableContext,
    Fulfillment,
    Name,
    OrderCart,
    Text255,
)
from mercato_contract.problems import OrderError, ProblemDetail
from mercato_contract.stores import Uri
from mercato_contract.texts import is_blank
from mercato_contract.wire import Instant, Wire, instant_fault, parse_instant, validator

E = TypeVar("E", bound=StrEnum)


class OrderState(StrEnum):
    """Whether an order is still being fulfilled."""

    OPEN = "open"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class OrderStatus(StrEnum):
    """The progress of an order."""

    PENDING = "pending"
    CONFIRMED = "confirmed"
    PREPARING = "preparing"
    READY = "ready"
    IN_TRANSIT = "inTransit"


_SETTABLE: Final = tuple(status for status in OrderStatus if status is not OrderStatus.PENDING)


def find_member(kind: type[E], text: str | None) -> E | None:
    """Return the member with this value, in any letter case."""
    wanted = None if text is None else text.lower()
    return next((member for member in kind if member.value.lower() == wanted), None)


def status_fault(text: str) -> str | None:
    """Return why an update can't set this status, or None."""
    status = find_member(OrderStatus, text)
    if status in _SETTABLE:
        return None
    known = ", ".join(one.value for one in _SETTABLE)
    if status is OrderStatus.PENDING:
        return f"An order is pending only until its first update. status must be one of {known}."
    return f"status must be one of {known}."


def state_fault(text: str) -> str | None:
    """Return why the text isn't a state, or None."""
    known = ", ".join(state.value for state in OrderState)
    return None if find_member(OrderState, text) is not None else f"state must be one of {known}."


class CancellationStatus(StrEnum):
    """The status of a storefront's cancellation. `unanswered`: the store never replied, and the order goes on."""

    REQUESTED = "requested"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNANSWERED = "unanswered"


class Cancellation(Wire):
    """The newest cancellation by the storefront: its own reason and message, and when the status last changed."""

    status: CancellationStatus
    reason: str
    message: str | None
    at: Instant


_CODE: Final = r"^(?=.*\S)[^\x00-\x1f\x7f-\x9f]*$(?!\n)"
"""Without the end, Python's `$` would let a last line feed pass."""


def reason_fault(text: str) -> str | None:
    """Return what is wrong with a reason, or None. Its pattern doesn't know every character that nobody sees."""
    if re.search(_CODE, text) and not is_blank(text):
        return None
    return "reason must not be blank or contain control characters."


class CancelOrderRequest(Wire):
    """Why the storefront cancels: a code of its own, and words for the store."""

    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=64,
            description="A code of your own, not blank and without control characters.",
            pattern=_CODE,
            extra=validator(reason_fault),
        ),
    ]
    message: Annotated[str, Meta(max_length=500)] | None = None


class Courier(Wire):
    """Who brings the order, as the merchant says: at least one of the members."""

    name: Name | None = None
    phone: Text255 | None = None
    tracking_url: Uri | None = None


class AdjustmentType(StrEnum):
    """What a merchant changed of what an order costs, after it was placed.

    A `refund` takes its amount off, a `fee` adds it; both are positive. The amount of a `substitution` is the
    difference: negative if the replacement is cheaper, `0` if it costs the same.
    """

    REFUND = "refund"
    SUBSTITUTION = "substitution"
    FEE = "fee"


MAX_ADJUSTMENTS: Final = 50
"""Adjustments of one order."""


class AdjustOrderRequest(Wire, kw_only=True):
    """What the merchant changes of what an order costs, and why."""

    type: AdjustmentType
    amount: Annotated[
        Decimal,
        Meta(
            description="In the order's currency. Above zero, except for a substitution: then it is the difference, "
            "negative if the replacement is cheaper.",
            examples=["4.50"],
        ),
    ]
    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=255,
            description="Why, as the storefront reads it: not blank and without control characters. It is erased with "
            "the customer.",
            pattern=_CODE,
            extra=validator(reason_fault),
        ),
    ]
    currency: Annotated[str, Meta(description="ISO 4217. If given, it must be the order's.")] | None = None
    line_item_ids: (
        Annotated[
            list[UUID],
            Meta(max_length=MAX_LINES, description="The lines of the order that it concerns, modifiers too."),
        ]
        | None
    ) = None


class OrderAdjustment(Wire, kw_only=True):
    """A change of what an order costs, after it was placed. The reason is null once the customer is erased."""

    adjustment_id: UUID
    type: AdjustmentType
    amount: Amount
    reason: str | None
    line_item_ids: tuple[UUID, ...]
    created_at: Instant


class OrderAmounts(Amounts, kw_only=True):
    """The amounts of a placed order. `total` is what it was placed for, and never changes.

    `totalAfterAdjustments` = total - refunds + fees + substitutions of the order's `adjustments`. It is absent while
    there are none, so that an order has the amounts that Validate answered and the store was sent.
    """

    total_after_adjustments: (
        Annotated[Amount, Meta(description="Absent while the order has no adjustments.")] | UnsetType
    ) = UNSET


class _PlacedOrder(Wire, kw_only=True):
    order_id: UUID
    store_id: UUID
    partner_store_id: str
    state: OrderState
    status: OrderStatus
    partner_order_id: str | None
    estimated_ready_at: Instant | None
    cancel_reason: str | None
    cancellation: Cancellation | None = None
    courier: Courier | None = None
    estimated_delivery_at: Instant | None = None
    client_context: ErasableContext = NO_CONTEXT
    fulfillment: Fulfillment
    note: str | None = None
    amounts: OrderAmounts
    adjustments: tuple[OrderAdjustment, ...] = ()
    customer: Customer | UnsetType = UNSET
    errors: tuple[OrderError, ...] = ()
    created_at: Instant
    updated_at: Instant


class Order(_PlacedOrder, kw_only=True):
    """A placed order, without its payment."""

    cart: OrderCart


class CommerceOrder(_PlacedOrder, kw_only=True):
    """A placed order for its merchant, without its payment."""

    cart: CommerceCart


class OrderPage(Wire):
    """A page of orders, newest first."""

    orders: list[CommerceOrder]
    next_cursor: str | None


class MarketfrontOrderPage(Wire):
    """A page of the orders that a storefront placed, newest first."""

    orders: list[Order]
    next_cursor: str | None


def _since_fault(text: str) -> str | None:
    return instant_fault("since", text) if parse_instant(text) is None else None


class OrdersFilter(Wire):
    """Filters of a list of orders."""

    store_id: Annotated[UUID, Meta(description="Only orders of this store.")] | None = None
    state: (
        Annotated[
            str,
            Meta(
                description="`open`, `completed` or `cancelled`, in any case.", extra=validator(state_fault)
            ),
        ]
        | None
    ) = None
    since: (
        Annotated[
            str,
            Meta(
                description="Only orders placed since this instant.",
                extra_json_schema={"format": "date-time"},
                extra=validator(_since_fault),
            ),
        ]
        | None
    ) = None
    limit: PageLimit = PAGE


class OrdersQuery(OrdersFilter):
    """Filters of a merchant's list of orders."""

    cursor: Cursor | None = None


class MarketfrontOrdersQuery(OrdersFilter):
    """Filters of a storefront's list of orders."""

    cursor: (
        Annotated[str, Meta(description="The `nextCursor` of the page before; without it, the first page.")]
        | None
    ) = None


class CancellationDecision(Wire):
    """The merchant's decision about a cancellation that its storefront asks for, as its answer to `order.cancel`."""

    accepted: Annotated[
        bool,
        Meta(
            description="`true` cancels the order for the storefront; with `false` it goes on. 409 `CONFLICT` with "
            "`false` while the store is called with `order.cancel`: its answer decides."
        ),
    ]
    reason: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=255,
                description="Why the order goes on, for the storefront: not blank, without control characters.",
                pattern=_CODE,
                extra=validator(reason_fault),
            ),
        ]
        | None
    ) = None


class OrderStatusUpdate(Wire):
    """A new status, state, estimatedReadyAt, estimatedDeliveryAt, courier or partnerOrderId; at least one of them.

    Or, alone, the decision about a cancellation that the storefront asks for.
    """

    status: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=64,
                description="`confirmed`, `preparing`, `ready` or `inTransit`, in any letter case; never backward.",
                extra=validator(status_fault),
            ),
        ]
        | None
    ) = None
    state: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=64,
                description="`completed` or `cancelled`, in any letter case; `cancelled` needs a `cancelReason`.",
                extra=validator(state_fault),
            ),
        ]
        | None
    ) = None
    estimated_ready_at: DateTime | None = None
    estimated_delivery_at: DateTime | None = None
    courier: (
        Annotated[Courier, Meta(description="Who brings the order. It replaces the courier before.")] | None
    ) = None
    cancel_reason: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    partner_order_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=255,
                description="The order's number in your system, as your answer to `order.place` has it.",
            ),
        ]
        | None
    ) = None
    cancellation: (
        Annotated[
            CancellationDecision,
            Meta(
                description="Decides the cancellation that the storefront asks for. No other member with it."
            ),
        ]
        | None
    ) = None


class OrderStatusResponse(Wire):
    """The order's state and status after an update."""

    order_id: UUID
    state: OrderState
    status: OrderStatus
    updated_at: Instant


class OrderStatusEntry(OrderStatusUpdate, kw_only=True):
    """The update of one order among many."""

    order_id: UUID


class OrderStatusBatch(Wire):
    """Updates of many orders, applied in their order. An order may occur more than once."""

    updates: Annotated[list[OrderStatusEntry], Meta(max_length=MAX_UPDATES)]


class OrderStatusResult(Wire, kw_only=True):
    """What became of one update: `order` is what Update Order Status answers, `problem` why nothing changed."""

    order_id: UUID
    order: OrderStatusResponse | UnsetType = UNSET
    problem: ProblemDetail | UnsetType = UNSET


class OrderStatusResults(Wire):
    """A result for each update, in their order."""

    results: list[OrderStatusResult]


class TimelineEntry(Wire, kw_only=True):
    """One event of an order: when, which, by whom, and its details."""

    at: Instant
    type: str
    actor: str
    detail: dict[str, Any]


class OrderTimeline(Wire):
    """All events of an order, oldest first."""

    order_id: UUID
    entries: list[TimelineEntry]


class Actor(StrEnum):
    """Who changed an order."""

    STOREFRONT = "storefront"
    STORE = "store"
    MERCHANT = "merchant"
    SERVICE = "service"


STATUS_TRANSITIONS: Final[Mapping[OrderStatus, tuple[OrderStatus, ...]]] = {
    status: tuple(OrderStatus)[place + 1 :] for place, status in enumerate(OrderStatus)
}
"""The merchant moves an open order's status forward in the order of the enum, and may skip some."""


STATE_TRANSITIONS: Final[Mapping[OrderState, Mapping[OrderState, frozenset[Actor]]]] = {
    OrderState.OPEN: {
        OrderState.COMPLETED: frozenset({Actor.MERCHANT}),
        # A store refuses the placement; the service gives up on a store that never answers; a storefront cancels with
        # the store's consent, or before the store has the order.
        OrderState.CANCELLED: frozenset({Actor.MERCHANT, Actor.STORE, Actor.SERVICE, Actor.STOREFRONT}),
    },
    OrderState.COMPLETED: {},
    OrderState.CANCELLED: {},
}
"""A state closes once: from state, to state, and who may do it."""


PICKUP_PATH: Final = (OrderStatus.CONFIRMED, OrderStatus.PREPARING, OrderStatus.READY)
"""The statuses of an order that its customer fetches, one after the other, until it is completed."""
