"""Orders: validated, placed and read by storefronts; read and updated by merchants."""

import re
from typing import Final

from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.orders.errors import (
    AddressInvalid,
    AddressOutOfRange,
    ApprovalRequired,
    CancellationRefused,
    CartEmpty,
    InvalidStatusTransition,
    ItemPriceChanged,
    OrderAlreadyPlaced,
    OrderBelowMinimum,
    OrderClosed,
    OrderNotFound,
    OrderTokenInvalid,
    OrderTotalDifferent,
    Other,
    PaymentDeclined,
    PaymentFailed,
    PaymentMethodInvalid,
    SpendLimitExceeded,
    StoreClosed,
    StoreUnreachable,
)
from mercato.features.orders.idempotency import (
    CancelledOrder,
    OrderOutcome,
    PlacedOrder,
    RefusedOrder,
    UnansweredOrder,
)
from mercato.features.orders.record import commerce_order_of
from mercato.features.orders.service import list_commerce_orders, list_marketfront_orders
from mercato.features.stores.model import StoreNotFound
from mercato.http import operations
from mercato.http.head import Head
from mercato.http.operations import Access, Answer, Call, Operations, Rate
from mercato.platform import errors
from mercato.platform.problem_details import detail_within, represent_detail
from mercato_catalog.carts.errors import ItemUnavailable, ModifierLimitExceeded, ModifierRequired
from mercato_contract.orders import (
    AdjustOrderRequest,
    CancelOrderRequest,
    CommerceOrder,
    MarketfrontOrderPage,
    MarketfrontOrdersQuery,
    Order,
    OrderPage,
    OrdersQuery,
    OrderStatusBatch,
    OrderStatusResponse,
    OrderStatusResult,
    OrderStatusResults,
    OrderStatusUpdate,
    OrderTimeline,
)
from mercato_contract.placements import MAX_BYTES, OrderCore, PlaceOrderRequest, ValidateOrderResponse
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.wire import uuid_text

commerce_orders = Operations(access=Access.COMMERCE, tag="Orders")
marketfront_orders = Operations(access=Access.MARKETFRONT, tag="Orders")

COMMERCE: Final = "/v1/commerce/orders"
MARKETFRONT: Final = "/v1/marketfront/orders"

_REPLAYED: Final = ((b"idempotent-replayed", b"true"),)

_KEY: Final = re.compile(rb"[\x20-\x7e]{1,255}")
_KEY_PROBLEMS: Final = (errors.MissingIdempotencyKey, errors.IdempotencyKeyReused, errors.RequestInProgress)

REFUSAL_REASONS: Final = (
    CartEmpty,
    ModifierRequired,
    ModifierLimitExceeded,
    ItemUnavailable,
    ItemPriceChanged,
    StoreClosed,
    AddressInvalid,
    AddressOutOfRange,
    OrderBelowMinimum,
    PaymentDeclined,
    PaymentMethodInvalid,
    PaymentFailed,
    Other,
)
"""The reasons for which a store or this service refuses an order."""


# --- storefronts ----------------------------------------------------------------------------------


def _key(head: Head) -> str:
    """Return the Idempotency-Key. Raises MissingIdempotencyKey, ValidationFailed."""
    key = head.headers.get(b"idempotency-key", b"").strip()
    if not key:
        raise errors.MissingIdempotencyKey(
            "Send the header Idempotency-Key: a new UUID for each order, the same one when you repeat a request."
        )
    if not _KEY.fullmatch(key):
        raise ValidationFailed.at(None, "Idempotency-Key may have 1 to 255 printable ASCII characters.")
    return key.decode()


@marketfront_orders.post(
    MARKETFRONT + "/validate",
    summary="Validate order",
    body_limit=MAX_BYTES,
    rate=Rate.READ,
    problems=(StoreNotFound, CatalogSetNotFound, StoreUnreachable),
)
async def validate_order(call: Call[OrderCore, None]) -> ValidateOrderResponse:
    """Return whether the order can be placed, what it costs, and the token that places it within 15 minutes.

    An order may have 64 KiB as it is sent, and 200 lines, modifiers included.

    Errors of the order are returned with 200, `isValid` false and `order.errors`. The store's system is called and may
    add fees, taxes, promotions and adjustments.
    """
    return await call.app.validations.validate(call.caller, call.body, trace=call.trace)


@marketfront_orders.post(
    MARKETFRONT + "/place",
    summary="Place order",
    body_limit=MAX_BYTES,
    status=201,
    answer_headers=("Location", "Idempotent-Replayed"),
    request_headers=("Idempotency-Key",),
    checks_head=_key,
    problems=(
        *_KEY_PROBLEMS,
        StoreNotFound,
        CatalogSetNotFound,
        OrderTokenInvalid,
        OrderTotalDifferent,
        OrderAlreadyPlaced,
        OrderClosed,
        SpendLimitExceeded,
        ApprovalRequired,
        StoreUnreachable,
        *REFUSAL_REASONS,
    ),
)
async def place_order(call: Call[PlaceOrderRequest, None]) -> Answer[Order]:
    """Place an order, once for each Idempotency-Key.

    A repeat within 24 hours gets the first answer again, byte for byte, with `Idempotent-Replayed: true`. While the
    store hasn't answered, the answer is 503 with `orderId`: the order is kept, and a repeat with the same key resumes
    it. Another request with the key is refused with the `orderId` that the key belongs to, if there is one: read that
    order before you place anything again.

    An order of an agent must fit its limits (403 `SPEND_LIMIT_EXCEEDED`), and is refused here if a person must approve
    it first (403 `APPROVAL_REQUIRED`).

    An order may have 64 KiB as it is sent, and 200 lines, modifiers included.
    """
    outcome = await call.app.placements.place(
        call.caller, call.body, key=_key(call.head), trace=call.trace, make_origin=call.head.origin
    )
    return _answer(outcome, is_new=True)


def _answer(outcome: OrderOutcome, *, is_new: bool) -> Answer[Order]:
    """Return the outcome that is pinned to a key: a refusal in the format of the first request."""
    match outcome:
        case PlacedOrder(order_id, document, replayed) | CancelledOrder(order_id, document, replayed):
            headers = _REPLAYED if replayed else ()
            if is_new:
                headers = ((b"location", f"{MARKETFRONT}/{uuid_text(order_id)}".encode()), *headers)
            return Answer(raw=document, headers=headers)
        case RefusedOrder(problem, chosen, replayed):
            return Answer(
                raw=represent_detail(problem, chosen),
                status=problem.status,
                media_type=chosen.value.encode(),
                headers=(operations.VARY, *(_REPLAYED if replayed else ())),
                refusal=problem,
            )
        case UnansweredOrder(problem):
            raise problem


@marketfront_orders.post(
    MARKETFRONT + "/{orderId}/cancel",
    summary="Cancel Order",
    answer_headers=("Idempotent-Replayed",),
    request_headers=("Idempotency-Key",),
    checks_head=_key,
    problems=(
        *_KEY_PROBLEMS,
        OrderNotFound,
        OrderClosed,
        CancellationRefused,
        StoreUnreachable,
    ),
)
async def cancel_order(call: Call[CancelOrderRequest, None]) -> Answer[Order]:
    """Cancel an order that this account placed, once for each Idempotency-Key. The answer is the cancelled order.

    Before the store has answered the placement, the order is cancelled at once. Afterwards the store decides: it is
    called with `order.cancel`. While it hasn't answered, the answer is 503: the store is asked again for 10 minutes,
    and a repeat with the same key resumes it. The order's `cancellation` has its status.
    """
    outcome = await call.app.cancellations.cancel(
        call.caller,
        call.ids["orderId"],
        call.body,
        key=_key(call.head),
        make_origin=call.head.origin,
    )
    return _answer(outcome, is_new=False)


@marketfront_orders.get(
    MARKETFRONT, summary="List Orders", id="listMarketfrontOrders", problems=(errors.InvalidCursor,)
)
async def list_own_orders(call: Call[None, MarketfrontOrdersQuery]) -> MarketfrontOrderPage:
    """Return the orders that this account placed, newest first."""
    return await list_marketfront_orders(call.app.db, call.caller, call.query)


@marketfront_orders.get(MARKETFRONT + "/{orderId}", summary="Get Order", id="getMarketfrontOrder")
async def get_marketfront_order(call: Call[None, None]) -> Order:
    """Return the current state of an order that this account placed."""
    return (await call.app.orders.get(call.caller, call.ids["orderId"])).storefront_order


# --- merchants ------------------------------------------------------------------------------------


@commerce_orders.get(COMMERCE, summary="List Orders")
async def list_orders(call: Call[None, OrdersQuery]) -> OrderPage:
    """Return the orders of this account's stores, newest first."""
    return await list_commerce_orders(call.app.db, call.caller, call.query)


@commerce_orders.get(COMMERCE + "/{orderId}", summary="Get Order", id="getOrder")
async def get_order(call: Call[None, None]) -> CommerceOrder:
    """Return the current state of an order of this account's stores, with your own ids on its lines."""
    return commerce_order_of(await call.app.orders.get(call.caller, call.ids["orderId"]))


@marketfront_orders.get(
    MARKETFRONT + "/{orderId}/timeline",
    summary="Get Order Timeline",
    id="getMarketfrontOrderTimeline",
)
@commerce_orders.get(
    COMMERCE + "/{orderId}/timeline",
    summary="Get Order Timeline",
    id="getOrderTimeline",
)
async def get_timeline(call: Call[None, None]) -> OrderTimeline:
    """Return what happened to an order, every webhook attempt included, oldest first."""
    return await call.app.orders.timeline(call.caller, call.ids["orderId"])


@commerce_orders.post(
    COMMERCE + "/status", summary="Update Many Orders' Status", id="updateOrderStatuses", names_unknown=True
)
async def update_order_statuses(call: Call[OrderStatusBatch, None]) -> OrderStatusResults:
    """Update up to 100 orders in one transaction; the answer has a result for each update, in their order.

    Each update is one of Update Order Status. One that is refused has a `problem` and changes nothing; the others
    happen. Updates of the same order are applied one after the other. The request counts as one write.
    """
    updates = call.body.updates
    outcomes = await call.app.orders.update_many(call.caller, [(item.order_id, item) for item in updates])
    origin, now = call.head.origin(), call.app.clock()
    results = []
    for index, (update, outcome) in enumerate(zip(updates, outcomes, strict=True)):
        if isinstance(outcome, Problem):
            problem = detail_within(outcome, origin, f"/updates/{index}", at=now)
            results.append(OrderStatusResult(order_id=update.order_id, problem=problem))
        else:
            results.append(OrderStatusResult(order_id=update.order_id, order=outcome))
    return OrderStatusResults(results=results)


@commerce_orders.post(
    COMMERCE + "/{orderId}/status",
    summary="Update Order Status",
    names_unknown=True,
    problems=(InvalidStatusTransition, OrderClosed, errors.Conflict),
)
async def update_order_status(call: Call[OrderStatusUpdate, None]) -> OrderStatusResponse:
    """Update an order's status, close it, or say when it will be ready, and who brings it when.

    The storefront is notified. `cancellation` decides what it asks for, as the answer to `order.cancel` does.

    `status` only moves forward and may skip steps. `state` `cancelled` needs a `cancelReason`. A repeated update
    changes nothing.
    """
    return await call.app.orders.update(call.caller, call.ids["orderId"], call.body)


@commerce_orders.post(
    COMMERCE + "/{orderId}/adjustments",
    summary="Adjust Order",
    names_unknown=True,
    status=201,
    answer_headers=("Idempotent-Replayed",),
    request_headers=("Idempotency-Key",),
    checks_head=_key,
    problems=(*_KEY_PROBLEMS, OrderNotFound, OrderClosed, errors.Conflict),
)
async def adjust_order(call: Call[AdjustOrderRequest, None]) -> Answer[CommerceOrder]:
    """Record what changed in what an order costs, once for each Idempotency-Key. The answer is the adjusted order.

    A `refund` takes its amount off the total and a `fee` adds it. The amount of a `substitution` is the difference in
    price. The order's `amounts.totalAfterAdjustments` is the result. Payments are between the storefront and the store:
    the service moves no money. An accepted order can be adjusted while it is open and once it is completed.
    """
    adjusted = await call.app.adjustments.adjust(
        call.caller, call.ids["orderId"], call.body, key=_key(call.head)
    )
    return Answer(raw=adjusted.document, headers=_REPLAYED if adjusted.replayed else ())
