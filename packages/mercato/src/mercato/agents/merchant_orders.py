"""Orders for agents of merchants: list them, read one, and say how far it is."""

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from mercato.agents.merchant_stores import Cursor
from mercato.agents.order_summaries import (
    OrderDetails,
    OrderSummary,
    details_of,
    list_summaries,
    text_of_details,
    text_of_summary,
)
from mercato.agents.texts import described, plain
from mercato.agents.tools import LARGE, READS, SMALL, Hints, ToolCall, Tools, cut_to_fit, query_of
from mercato.api.orders import commerce_orders
from mercato.features.partners.model import Surface
from mercato.http.calls import operation_of
from mercato_contract.ordering import MAX_NAME
from mercato_contract.orders import (
    CommerceOrder,
    OrderPage,
    OrderState,
    OrderStatus,
    OrderStatusResponse,
)
from mercato_contract.placements import PickupFulfillment
from mercato_contract.wire import Wire

tools: Final = Tools(Surface.COMMERCE)

LIMIT: Final = 20
MAX_LIMIT: Final = 100

_LIST: Final = operation_of(commerce_orders, "listOrders")
_GET: Final = operation_of(commerce_orders, "getOrder")
_UPDATE: Final = operation_of(commerce_orders, "updateOrderStatus")

UPDATES: Final = Hints(read_only=False, destructive=True, idempotent=True, open_world=True)
"""Tells a customer, and may cancel."""

OrderId = Annotated[UUID, Meta(description="Of list_orders")]


class ListOrders(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of list_orders."""

    store_id: UUID | None = None
    state: OrderState | None = None
    since: Annotated[str, Meta(max_length=64, description="RFC 3339 instant")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description=f"{LIMIT} by default")] | None = None
    cursor: Cursor | None = None


class ListedOrders(Wire, kw_only=True):
    """The result of list_orders, newest first."""

    orders: list[OrderSummary]
    next_cursor: str | None


def render_orders(found: ListedOrders) -> str:
    """Return orders as text."""
    lines = list(map(text_of_summary, found.orders)) or ["No orders."]
    if found.next_cursor is not None:
        lines.append(f"More: cursor {found.next_cursor}")
    return "\n".join(lines)


@tools.declare(title="List orders", calls=[_LIST], hints=READS, render=render_orders)
async def list_orders(call: ToolCall[ListOrders]) -> ListedOrders:
    """List the orders of your stores, newest first."""
    asked = call.body
    limit = asked.limit or LIMIT
    query = query_of(
        store_id=asked.store_id,
        state=asked.state and asked.state.value,
        since=asked.since,
        limit=limit,
        cursor=asked.cursor,
    )
    orders, cursor = await list_summaries(
        call, _LIST, query, returns=OrderPage, most=LARGE if limit > LIMIT else SMALL
    )
    return ListedOrders(orders=orders, next_cursor=cursor)


class GetOrder(Wire, forbid_unknown_fields=True):
    """The arguments of get_order."""

    order_id: OrderId


class MerchantOrder(OrderDetails, kw_only=True):
    """An order, with whom it is for and where it goes, until the customer is erased."""

    customer: str | UnsetType = UNSET
    phone: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    note: str | UnsetType = UNSET


def render_order(order: MerchantOrder) -> str:
    """Return an order as text."""
    words = {
        "For": " ".join(part for part in (order.customer, order.phone) if part),
        "To": order.address or "",
        "Instructions": order.instructions or "",
        "Note": order.note or "",
    }
    return "\n".join([*text_of_details(order), *(f"{name}: {text}" for name, text in words.items() if text)])


@tools.declare(title="Read an order", calls=[_GET], hints=READS, render=render_order)
async def get_order(call: ToolCall[GetOrder]) -> MerchantOrder:
    """Read an order of one of your stores: its lines with choices and notes, its amounts, and whom it is for."""
    order = await call.perform(_GET, returns=CommerceOrder, ids={"orderId": call.body.order_id})
    customer = None if order.customer is UNSET else order.customer
    name = "" if customer is None else " ".join(filter(None, (customer.first_name, customer.last_name)))
    phone = "" if customer is None else customer.phone or ""

    def make(part: int) -> MerchantOrder:
        return MerchantOrder(
            **asdict(details_of(order, part)),
            customer=plain(name, MAX_NAME // part) or UNSET,
            phone=plain(phone, MAX_NAME // part) or UNSET,
            address=described(_address(order), part) or UNSET,
            instructions=described(_instructions(order), part) or UNSET,
            note=described(order.note or "", part) or UNSET,
        )

    return cut_to_fit(make, render_order)


def _instructions(order: CommerceOrder) -> str:
    fulfillment = order.fulfillment
    return "" if isinstance(fulfillment, PickupFulfillment) else fulfillment.instructions or ""


def _address(order: CommerceOrder) -> str:
    if isinstance(order.fulfillment, PickupFulfillment) or order.fulfillment.address is None:
        return ""
    sent = order.fulfillment.address
    parts = (sent.address1, sent.address2, sent.postal_code, sent.city, sent.state)
    return ", ".join(part for part in parts if part)


class UpdateOrder(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of update_order."""

    order_id: OrderId
    status: Annotated[OrderStatus | None, Meta(description="Only forward; pending can't be set")] = None
    state: Annotated[OrderState | None, Meta(description="completed, or cancelled with a cancelReason")] = (
        None
    )
    cancel_reason: Annotated[str, Meta(max_length=255, description="The storefront reads it")] | None = None
    estimated_ready_at: Annotated[str, Meta(max_length=64, description="RFC 3339 instant")] | None = None


def render_update(found: OrderStatusResponse) -> str:
    """Return an order's state as text."""
    return f"The order {found.order_id} is {found.state.value}, {found.status.value}, at {found.updated_at}."


@tools.declare(title="Update an order", calls=[_UPDATE], hints=UPDATES, render=render_update)
async def update_order(call: ToolCall[UpdateOrder]) -> OrderStatusResponse:
    """Say how far an order is (confirmed, preparing, ready, inTransit), complete it, or cancel it. Its storefront is
    told.
    """
    asked = call.body
    body = {
        "status": asked.status and asked.status.value,
        "state": asked.state and asked.state.value,
        "cancelReason": asked.cancel_reason,
        "estimatedReadyAt": asked.estimated_ready_at,
    }
    return await call.perform(_UPDATE, body, returns=OrderStatusResponse, ids={"orderId": asked.order_id})
