"""Orders as agents read them: in few members, with lines, choices and amounts as far as an answer has room."""

from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato.agents.texts import described, plain
from mercato.agents.tools import ToolCall, take_within
from mercato.http.operations import Operation
from mercato_catalog.carts.names import shown
from mercato_contract.ordering import MAX_NAME
from mercato_contract.orders import (
    CommerceOrder,
    MarketfrontOrderPage,
    Order,
    OrderAmounts,
    OrderPage,
    OrderState,
    OrderStatus,
)
from mercato_contract.pages import cursor_of
from mercato_contract.placements import Amounts, CommerceLine, OrderLine, PickupFulfillment
from mercato_contract.stores import FulfillmentMode
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire

Described = Annotated[Any, Meta(extra_json_schema={"type": "object"})]
"""A part of a result whose members the schema doesn't list: they would be a third of what an agent reads first."""


class AmountEntry(Wire):
    """A part of an amount, as the store describes it."""

    of: str
    amount: str
    description: str


class AmountsSummary(Wire, kw_only=True):
    """What an order costs, with the parts of each amount. `more` parts have no room.

    The amounts add up to `total`, or to `placedTotal` if the order was adjusted since: `total` is what it costs now.
    """

    currency: str
    sub_total: str
    fees: str
    taxes: str
    promotions: str
    adjustments: str
    tip: str
    total: str
    placed_total: str | UnsetType = UNSET
    details: list[AmountEntry]
    more: int | UnsetType = UNSET


class LineSummary(Wire, gc=False):
    """A line of an order, with its choices as text."""

    item_id: UUID
    name: str
    quantity: int
    total: str | UnsetType = UNSET
    choices: str | UnsetType = UNSET
    note: str | UnsetType = UNSET


class OrderSummary(Wire, kw_only=True):
    """An order. `number` is the store's. `moreLines` have no room."""

    order_id: UUID
    store_id: UUID
    state: OrderState
    status: OrderStatus
    number: str | UnsetType = UNSET
    placed_at: str
    ready_at: str | UnsetType = UNSET
    fulfillment: FulfillmentMode
    scheduled_time: str | UnsetType = UNSET
    total: str
    currency: str
    cancel_reason: str | UnsetType = UNSET


class OrderDetails(OrderSummary, kw_only=True):
    """An order with its lines and amounts."""

    amounts: AmountsSummary
    lines: list[LineSummary]
    more_lines: int | UnsetType = UNSET


MAX_NOTE: Final = 200
MAX_CHOICES: Final = 600
"""Characters of a note, and of all choices of a line, that are kept."""

AMOUNTS_SIZE: Final = 3_000
LINES_SIZE: Final = 7_000
"""Bytes that the parts of amounts, and the lines of an order, have in an answer."""

_KINDS: Final = ("fees", "taxes", "promotions", "adjustments", "tip")


def amounts_of(amounts: Amounts, *, most: int = AMOUNTS_SIZE, part: int = 1) -> AmountsSummary:
    """Return the amounts of an order or a quote, with as many parts as there is room for.

    Their descriptions are cut to a `part` of a name's characters.
    """
    parts = (
        amounts.fees_description,
        amounts.taxes_description,
        amounts.promotions_description,
        amounts.adjustments_description,
        amounts.tip_description,
    )
    entries = [
        AmountEntry(of=kind, amount=entry.amount, description=plain(entry.description, MAX_NAME // part))
        for kind, listed in zip(_KINDS, parts, strict=True)
        if listed
        for entry in listed
    ]
    taken, _ = take_within(entries, _text_of_entry, most=most)
    adjusted = amounts.total_after_adjustments if isinstance(amounts, OrderAmounts) else UNSET
    return AmountsSummary(
        currency=amounts.currency,
        sub_total=amounts.sub_total,
        fees=amounts.fees,
        taxes=amounts.taxes,
        promotions=amounts.promotions,
        adjustments=amounts.adjustments,
        tip=amounts.tip,
        total=adjusted or amounts.total,
        placed_total=UNSET if adjusted is UNSET else amounts.total,
        details=taken,
        more=len(entries) - len(taken) or UNSET,
    )


def _text_of_entry(entry: AmountEntry) -> str:
    return f"  {entry.of}: {entry.amount} {entry.description}"


def render_amounts(amounts: AmountsSummary) -> list[str]:
    """Return the amounts as lines of text."""
    each = (amounts.fees, amounts.taxes, amounts.promotions, amounts.adjustments, amounts.tip)
    # Those that aren't zero.
    parts = [f"{kind} {amount}" for kind, amount in zip(_KINDS, each, strict=True) if amount.strip("-0.")]
    placed = "" if amounts.placed_total is UNSET else f" after adjustments; placed for {amounts.placed_total}"
    total = f"Total {amounts.total} {amounts.currency}{placed}: {', '.join([f'items {amounts.sub_total}', *parts])}."
    more = [] if amounts.more is UNSET else [f"  and {count_of(amounts.more, 'more part')}"]
    return [total, *map(_text_of_entry, amounts.details), *more]


def _line_of(line: OrderLine | CommerceLine, part: int) -> LineSummary:
    choices = plain("; ".join(_choices_of(line)), MAX_CHOICES // part) if line.modifier_groups else ""
    # By position: names would double the cost of making one.
    return LineSummary(
        line.item_id,
        shown(line.name or "") if part == 1 else plain(line.name or "", MAX_NAME // part),
        line.quantity,
        UNSET if line.amounts is UNSET else line.amounts.total,
        choices or UNSET,
        (plain(line.note, MAX_NOTE // part) or UNSET) if line.note else UNSET,
    )


def _choices_of(line: OrderLine | CommerceLine) -> list[str]:
    texts = []
    for group in line.modifier_groups:
        of_group = shown(group.name or "")
        for chosen in group.line_items:
            text = f"{of_group}: {shown(chosen.name or '')}"
            if chosen.quantity != 1 or chosen.modifier_groups:
                below = f" ({', '.join(_choices_of(chosen))})" if chosen.modifier_groups else ""
                units = "" if chosen.quantity == 1 else f"{chosen.quantity} x "
                text = f"{of_group}: {units}{shown(chosen.name or '')}{below}"
            texts.append(text)
    return texts


def _text_of_line(line: LineSummary) -> str:
    price = "" if line.total is UNSET else f" {line.total}"
    choices = "" if line.choices is UNSET else f" ({line.choices})"
    note = "" if line.note is UNSET else f' note: "{line.note}"'
    return f"- {line.quantity} x {line.name}{choices}{price}{note}"


def _summary_members(order: Order | CommerceOrder, part: int = 1) -> dict[str, Any]:
    return {
        "order_id": order.order_id,
        "store_id": order.store_id,
        "state": order.state,
        "status": order.status,
        "number": (plain(order.partner_order_id) or UNSET) if order.partner_order_id else UNSET,
        "placed_at": order.created_at,
        "ready_at": order.estimated_ready_at or UNSET,
        "fulfillment": FulfillmentMode.PICKUP
        if isinstance(order.fulfillment, PickupFulfillment)
        else FulfillmentMode.DELIVERY_BY_MERCHANT,
        "scheduled_time": order.fulfillment.scheduled_time or UNSET,
        "total": order.amounts.total_after_adjustments or order.amounts.total,
        "currency": order.amounts.currency,
        "cancel_reason": (described(order.cancel_reason, part) or UNSET) if order.cancel_reason else UNSET,
    }


def details_of(order: Order | CommerceOrder, part: int) -> OrderDetails:
    """Return an order, of either representation, with as many of its lines as there is room for.

    `part` is that of `cut_to_fit`.
    """
    lines = [_line_of(line, part) for line in order.cart.line_items]
    taken, _ = take_within(lines, _text_of_line, most=LINES_SIZE // part)
    return OrderDetails(
        **_summary_members(order, part),
        amounts=amounts_of(order.amounts, most=AMOUNTS_SIZE // part, part=part),
        lines=taken,
        more_lines=len(lines) - len(taken) or UNSET,
    )


def text_of_summary(order: OrderSummary) -> str:
    number = "" if order.number is UNSET else f", the store's number {order.number}"
    reason = "" if order.cancel_reason is UNSET else f" ({order.cancel_reason})"
    ready = "" if order.ready_at is UNSET else f", ready at {order.ready_at}"
    state = f"{order.state.value}{reason}, {order.status.value}"
    return f"- {order.order_id}{number}: {state}{ready}, {order.total} {order.currency}, placed {order.placed_at}"


def text_of_details(order: OrderDetails) -> list[str]:
    more = [] if order.more_lines is UNSET else [f"and {count_of(order.more_lines, 'more line')}"]
    return [text_of_summary(order), *map(_text_of_line, order.lines), *more, *render_amounts(order.amounts)]


async def list_summaries(
    call: ToolCall[Any],
    operation: Operation,
    query: bytes,
    *,
    returns: type[MarketfrontOrderPage | OrderPage],
    most: int,
) -> tuple[list[OrderSummary], str | None]:
    """Return the orders of a page that the operation lists, as far as an answer has room, and the next cursor."""
    page = await call.perform(operation, returns=returns, query=query)
    summaries = (OrderSummary(**_summary_members(order)) for order in page.orders)
    orders, are_left = take_within(summaries, text_of_summary, most=most)
    # The list's own cursors name its entries, too.
    return orders, cursor_of(orders[-1].order_id) if are_left else page.next_cursor
