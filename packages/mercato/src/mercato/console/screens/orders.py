"""Orders: the newest first; one of them with what is happening to it, and what can be done."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta
from msgspec.structs import replace

from mercato.console.filters import before_of, headlines_of, partner_of, read_filters, store_of
from mercato.console.screen import (
    EVERYBODY,
    OPERATORS,
    Done,
    Field,
    Page,
    Question,
    Screens,
    Visit,
)
from mercato.console.times import say_text
from mercato.features.orders import operators
from mercato.features.orders.board import short_number
from mercato.features.orders.cancellation_calls import is_store_called
from mercato.features.orders.errors import OrderNotFound
from mercato.features.orders.history import ADJUSTMENTS, note_of, title_of
from mercato.features.orders.idempotency import RefusedOrder, UnansweredOrder
from mercato.features.orders.lifecycle import CANCELLED_BY_OPERATOR
from mercato.features.orders.operators import OrderRecipient, OrderView
from mercato.features.orders.privacy import mask_all
from mercato.features.orders.record import OrderRow
from mercato.features.orders.rules import adjustment_refusal
from mercato.features.orders.sentences import (
    CANCELLED_BY_CUSTOMER,
    CANCELLED_BY_STORE,
    facts_of,
    number_of,
    progress_of,
    sentence_of,
)
from mercato.features.orders.service import ATTEMPT, describe
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_names
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.queries import find_name_and_timezone
from mercato.features.webhooks.operators import count_redeliverable, redeliver_some
from mercato.features.webhooks.queries import DeliveryFilter
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Read
from mercato_contract.clock import new_id
from mercato_contract.decoding.decode import page_of
from mercato_contract.events import EventType
from mercato_contract.money import to_text
from mercato_contract.orders import (
    CancelOrderRequest,
    OrderState,
    OrderStatusUpdate,
    TimelineEntry,
    state_fault,
)
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.placements import (
    CommerceLine,
    DeliveryAddress,
    DeliveryFulfillment,
    DeliveryType,
)
from mercato_contract.refusals import ValidationFailed
from mercato_contract.texts import count_of, trimmed
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import Instant, Wire, parse_instant, validator

screens: Final = Screens(EVERYBODY)

MAX_REASON: Final = 64
"""Characters of a storefront's reason."""

MAX_RESENT: Final = 200
"""Webhooks that one press of `Resend` sends, each in a separate transaction."""


def _view_fault(text: str) -> str | None:
    views = list(OrderView)
    return None if text in views else f"view must be one of {', '.join(views)}."


class OrdersQuery(Wire):
    """The filters of the list, besides the store and, for operators, the partner."""

    state: Annotated[str, Meta(extra=validator(state_fault))] | None = None
    view: Annotated[str, Meta(extra=validator(_view_fault))] | None = None
    since: Instant | None = None
    until: Instant | None = None
    cursor: Cursor | None = None


@screens.get("orders")
async def list_orders(visit: Visit) -> Page:
    filters = read_filters(visit, OrdersQuery)
    query = filters.query
    async with visit.app.db.read() as tx:
        wanted = operators.OrderFilter(
            partner_id=await partner_of(tx, visit, filters),
            surface=visit.session.only_surface,
            store_id=await store_of(tx, visit, filters),
            state=None if query.state is None else OrderState(query.state.lower()),
            since=None if query.since is None else parse_instant(query.since),
            before=before_of(query.cursor, query.until),
            view=None if query.view is None else OrderView(query.view),
            now=visit.app.clock(),
        )
        rows = [] if filters.faults else await operators.list_orders(tx, wanted, limit=PAGE + 1)
        page, cursor = page_of(rows, PAGE, lambda row: row.id)
        headlines = await headlines_of(tx, visit, page)
    filters.listed(page)
    values = {
        "orders": page,
        "headlines": headlines,
        "next_cursor": cursor,
        "search": filters,
        "states": list(OrderState),
        "most": operators.MAX_VIEWED,
    }
    return Page("orders.html", "Orders", values)


@screens.get("orders/{order}")
async def show_order(visit: Visit) -> Page:
    row, entries = await _read(visit)
    recipient = operators.recipient_of(row)
    if visit.is_operator and visit.may(Permission.SEE_CUSTOMERS):
        async with visit.app.db.read() as tx:
            recipient = await operators.get_recipient(tx, row.id, masked=True)
        return await _page(visit, row, entries, recipient, is_masked=recipient.customer is not None)
    return await _page(visit, row, entries, recipient)


@screens.post("orders/{order}/customer", needs=Permission.SEE_CUSTOMERS, audiences=OPERATORS)
async def show_customer(visit: Visit) -> Page:
    """Show an operator who ordered, which the audit trail records before."""
    row, entries = await _read(visit)
    async with visit.app.db.write() as tx:
        recipient = await operators.get_recipient(tx, row.id, masked=False)
        await audit(tx, "order", row.id, partner_id=row.partner_id, detail={"customerShown": True})
    return await _page(visit, row, entries, recipient)


async def _page(
    visit: Visit,
    row: OrderRow,
    entries: list[TimelineEntry],
    recipient: OrderRecipient,
    *,
    is_masked: bool = False,
) -> Page:
    fulfillment = recipient.fulfillment
    async with visit.app.db.read() as tx:
        found = await find_name_and_timezone(tx, row.store_id)
        failed = await _count_failed(tx, visit, row.id)
        partners = await _partners(tx, visit, row)
    store = None if found is None else found[0]  # None once it is deleted
    facts = facts_of(row, entries, store=store or "the store", timezone=visit.timezone, now=visit.app.clock())
    say = partial(say_text, timezone=visit.timezone)
    address = fulfillment.address if isinstance(fulfillment, DeliveryFulfillment) else None
    values = {
        "order": row,
        "sentence": sentence_of(facts),
        "progress": progress_of(row, entries),
        "amounts": list(_amounts(row)),
        "totals": _TOTALS,
        # Of what the store's own system takes there is neither a card nor a ticket, and its number is in the heading.
        "ticket_number": short_number(row) if row.handling and not row.partner_order_id else None,
        "store": store,
        "how": _handover(row),
        "address": None if address is None else _one_line(address),
        "instructions": getattr(fulfillment, "instructions", None),
        "timeline": [
            (entry, title_of(entry), note_of(entry, show_instant=say))
            for entry in entries
            if entry.type != ATTEMPT
        ],
        "calls": [(entry, describe(entry, show_instant=say)) for entry in entries if entry.type == ATTEMPT],
        "customer": recipient.customer,
        "courier": recipient.courier,
        "note": recipient.note,
        "lines": recipient.cart.line_items,
        "is_masked": is_masked,
        "partners": partners,
        "may_adjust": _may_adjust(visit, row),
        "may_cancel": row.state is OrderState.OPEN,
        "may_resend": failed > 0,
        "may_print": _side(visit, row) is Surface.COMMERCE and visit.may(Permission.CHANGE_ORDERS),
    }
    return Page("order.html", f"{store or 'Order'} {number_of(row)}", values)


async def _ask_to_cancel(visit: Visit) -> Question:
    row, _ = await _read(visit)
    return Question(
        f"Cancel order {number_of(row)}?",
        "The store is asked first if it has accepted the order. It may refuse; then the order goes on. "
        "A cancelled order stays cancelled."
        if _side(visit, row) is Surface.MARKETFRONT
        else f"The order ends, which can't be undone. {await _notice(visit, row)}",
        back=f"/console/orders/{row.id}",
        otherwise="Keep the order",
        fields=(Field(name="reason", label="Reason, which both sides see (optional)"),),
    )


async def _notice(visit: Visit, row: OrderRow) -> str:
    """Return who hears of a cancellation that isn't the storefront's own."""
    async with visit.app.db.read() as tx:
        return await operators.describe_notice(
            tx, row, EventType.ORDER_UPDATED, is_store_told=visit.is_operator or is_store_called(row)
        )


class CancelForm(Wire):
    """Why an order is cancelled."""

    reason: Annotated[str, Meta(max_length=255)] | None = None


@screens.post("orders/{order}/cancel", needs=Permission.CHANGE_ORDERS, ask=_ask_to_cancel)
async def cancel_order(visit: Visit) -> Done:
    form, order_id = visit.fields(CancelForm), visit.ids["order"]
    row, _ = await _read(visit)
    reason = trimmed(form.reason)
    if visit.is_operator:
        await visit.app.orders.cancel(order_id, reason=reason or CANCELLED_BY_OPERATOR)
    elif _side(visit, row) is Surface.MARKETFRONT:
        message = await _cancel_for_customer(visit, order_id, reason or CANCELLED_BY_CUSTOMER)
        return Done(message, to=f"/console/orders/{order_id}")
    else:
        change = OrderStatusUpdate(state=OrderState.CANCELLED, cancel_reason=reason or CANCELLED_BY_STORE)
        await visit.app.orders.update(visit.caller(Surface.COMMERCE), order_id, change)
    return Done(f"The order is cancelled. {await _notice(visit, row)}", to=f"/console/orders/{order_id}")


def _may_adjust(visit: Visit, row: OrderRow) -> bool:
    return _side(visit, row) is Surface.COMMERCE and adjustment_refusal(row) is None


async def _cancel_for_customer(visit: Visit, order_id: UUID, reason: str) -> str:
    """Cancel the storefront's order, if its store consents; return the message to show."""
    if len(reason) > MAX_REASON:
        raise ValidationFailed.at(
            "/reason", f"The reason of a storefront has at most {MAX_REASON} characters."
        )
    outcome = await visit.app.cancellations.cancel(
        visit.caller(Surface.MARKETFRONT),
        order_id,
        CancelOrderRequest(reason=reason),
        # A second press joins the cancellation that is already requested.
        key=str(new_id()),
        make_origin=visit.head.origin,
    )
    match outcome:
        case RefusedOrder(problem):
            return problem.detail or problem.title
        case UnansweredOrder():
            return "The store hasn't answered yet. The service keeps asking for some minutes. See this page."
        case _:
            return "The order is cancelled."


@screens.post("orders/{order}/resend", needs=Permission.CHANGE_ORDERS)
async def resend_webhooks(visit: Visit) -> Done:
    row, _ = await _read(visit)
    sent = await _resend(visit, row.id)
    return Done(f"{count_of(sent, 'webhook')} sent again.", to=f"/console/orders/{row.id}")


async def _resend(visit: Visit, order_id: UUID) -> int:
    """Send what failed again, MAX_RESENT of both sides together; return how many."""
    sent = 0
    for criteria in _failed(visit, order_id):
        sent += await redeliver_some(visit.app.db, criteria, most=MAX_RESENT - sent, now=visit.app.clock)
    return sent


def _side(visit: Visit, row: OrderRow) -> Surface | None:
    """Return the side of the order that the account is on, the merchant's if it is on both; None for an operator."""
    partner = visit.session.partner
    if partner is None:
        return None
    is_merchant = Surface.COMMERCE in visit.surfaces and row.partner_id == partner.id
    return Surface.COMMERCE if is_merchant else Surface.MARKETFRONT


def _failed(visit: Visit, order_id: UUID) -> list[DeliveryFilter]:
    """Return which webhooks about the order failed, of each side that the session shows."""
    failed = DeliveryFilter(order_id=order_id, status=DeliveryStatus.FAILED)
    if visit.session.partner is None:
        return [failed]
    partner_id = visit.session.partner.id
    return [replace(failed, partner_id=partner_id, surface=surface) for surface in visit.surfaces]


async def _count_failed(tx: Read, visit: Visit, order_id: UUID) -> int:
    counts = [
        count for criteria in _failed(visit, order_id) for count in await count_redeliverable(tx, criteria)
    ]
    return sum(count.count for count in counts)


_HANDOVER: Final = {
    DeliveryType.DOOR_TO_DOOR: "delivered to the door by the merchant",
    DeliveryType.LEAVE_AT_DOOR: "delivered by the merchant, left at the door",
}


def _handover(row: OrderRow) -> str:
    if isinstance(row.fulfillment, DeliveryFulfillment):
        return _HANDOVER[row.fulfillment.delivery_type]
    return "picked up at the store"


def _one_line(address: DeliveryAddress) -> str:
    street = address.address1 or address.street or None
    parts = (street, address.address2, address.postal_code, address.city, address.state)
    return ", ".join(part for part in parts if part)


_TOTALS: Final = ("Total", "Total after adjustments")


def _amounts(row: OrderRow) -> Iterator[tuple[str, str, bool]]:
    """Yield what the totals are made of: a name, a decimal, and whether it is a part of the amount before it."""
    amounts, names = row.amounts, dict(_names(row.cart.line_items))
    yield "Items", amounts.sub_total, False
    for name, amount, parts in (
        ("Fees", amounts.fees, amounts.fees_description),
        ("Promotions", amounts.promotions, amounts.promotions_description),
        ("Taxes", amounts.taxes, amounts.taxes_description),
        ("Adjustments", amounts.adjustments, amounts.adjustments_description),
        ("Tip", amounts.tip, ()),
    ):
        if parts or amount.strip("0.-"):
            yield name, amount, False
        for part in parts:
            yield part.description, part.amount, True
    yield _TOTALS[0], amounts.total, False
    for one in row.adjustments or ():
        yield ADJUSTMENTS[one.type], to_text(one.difference, row.currency), False
        if one.line_item_ids:
            yield ", ".join(names[id_] for id_ in one.line_item_ids), "", True
        if one.reason is not None:
            yield one.reason, "", True
    if row.adjustments:
        yield _TOTALS[1], to_text(row.total_after_adjustments, row.currency), False


def _names(lines: Sequence[CommerceLine]) -> Iterator[tuple[UUID, str]]:
    """Yield the id and the name of each line, modifiers too."""
    for line in lines:
        yield line.line_item_id, line.name or str(line.item_id)
        for group in line.modifier_groups:
            yield from _names(group.line_items)


async def _read(visit: Visit) -> tuple[OrderRow, list[TimelineEntry]]:
    """Return the order of the path and its timeline as the session sees them. Raises OrderNotFound."""
    orders, order_id = visit.app.orders, visit.ids["order"]
    if visit.is_operator:
        async with visit.app.db.read() as tx:
            return await operators.get_row(tx, order_id)
    for surface in visit.surfaces:
        caller = visit.caller(surface)
        try:
            row = await orders.get(caller, order_id)
        except OrderNotFound:
            continue
        visit.check_store(row.store_id, OrderNotFound(order_id))
        entries = (await orders.timeline(caller, order_id)).entries
        return (row, entries) if visit.may(Permission.SEE_CUSTOMERS) else mask_all(row, entries)
    raise OrderNotFound(order_id)


async def _partners(tx: Read, visit: Visit, row: OrderRow) -> Mapping[str, tuple[UUID, str]]:
    """Return both sides of the order for operators: the id and the name, which is the id of one that is deleted."""
    if not visit.is_operator:
        return {}
    sides = {"Merchant": row.partner_id, "Storefront": row.storefront_id}
    names = await find_names(tx, sides.values())
    return {side: (its_id, names.get(its_id, str(its_id))) for side, its_id in sides.items()}
