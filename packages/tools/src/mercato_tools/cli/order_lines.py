"""An order event as a person reads it: which order, how much, how far it is, and what to do next."""

from collections.abc import Iterator
from typing import Final

import msgspec

from mercato_contract.orders import CancellationStatus, OrderState, OrderStatus
from mercato_contract.stores import OrderHandling
from mercato_contract.texts import count_of

NUMBER_LENGTH: Final = 5
"""Characters of an order's id that people say, as on the board of the console: the last ones."""


class _Line(msgspec.Struct, rename="camel"):
    quantity: int = 0


class _Cart(msgspec.Struct, rename="camel"):
    line_items: list[_Line] = []


class _Amounts(msgspec.Struct, rename="camel"):
    total: str = ""
    currency: str | None = None


class _Cancellation(msgspec.Struct, rename="camel"):
    status: str = ""
    reason: str = ""


class _Order(msgspec.Struct, rename="camel"):
    order_id: str
    state: str
    status: str
    amounts: _Amounts
    cart: _Cart
    partner_order_id: str | None = None
    cancel_reason: str | None = None
    cancellation: _Cancellation | None = None


class _Data(msgspec.Struct, rename="camel"):
    order: _Order
    order_handling: str | None = None
    """Only a merchant's event has it."""


class _Event(msgspec.Struct):
    data: _Data


_decode: Final = msgspec.json.Decoder(_Event).decode


def sentences_of(type_: str, body: bytes) -> Iterator[str]:
    """Yield the order of an event, and what its merchant does next; nothing for an event of another shape."""
    if not type_.startswith("order."):
        return
    try:
        data = _decode(body).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    order = data.order
    number = order.partner_order_id or order.order_id.replace("-", "")[-NUMBER_LENGTH:].upper()
    items = count_of(sum(line.quantity for line in order.cart.line_items), "item")
    progress = order.status if order.state == OrderState.OPEN else order.state
    total = f"{order.amounts.total} {order.amounts.currency or ''}".strip()
    yield f"Order {number}: {items}, {total}, {progress}."
    if data.order_handling is not None:
        yield from _next_step(order, data.order_handling)


def _next_step(order: _Order, handling: str) -> Iterator[str]:
    path = f"POST /v1/commerce/orders/{order.order_id}/status"
    asks = order.cancellation is not None and order.cancellation.status == CancellationStatus.REQUESTED
    if order.state == OrderState.CANCELLED:
        yield f"Don't make it: {order.cancel_reason or 'it is cancelled'}."
    elif order.state != OrderState.OPEN:
        return
    elif asks and order.cancellation is not None:
        yield (
            f"The storefront asks to cancel it ({order.cancellation.reason}). Decide: {path} "
            '{"cancellation": {"accepted": true}}, or false to keep it.'
        )
    elif order.status == OrderStatus.PENDING and handling == OrderHandling.MANUAL:
        yield (
            f'Accept it: {path} {{"status": "confirmed"}}; or refuse it with '
            '{"state": "cancelled", "cancelReason": "…"}.'
        )
    elif order.status == OrderStatus.PENDING:
        yield f'The service has accepted it. Make it, then: {path} {{"status": "ready"}}.'
    elif order.status in {OrderStatus.READY, OrderStatus.IN_TRANSIT}:
        yield f'Once it is handed over: {path} {{"state": "completed"}}.'
