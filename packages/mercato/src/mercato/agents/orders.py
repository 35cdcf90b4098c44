"""Orders for agents of storefronts: place a quote, read what became of it, list and cancel.

A quote's order is placed once, so a repeat is always safe: it gets the first answer again.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID, uuid5

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from mercato.agents.texts import described, plain
from mercato.agents.tools import (
    LARGE,
    READS,
    SMALL,
    Elicitation,
    Hints,
    RefusedError,
    ToolCall,
    Tools,
    query_of,
    take_within,
)
from mercato.api.orders import marketfront_orders
from mercato.features.orders.errors import OrderClosed, StoreUnreachable
from mercato.features.orders.idempotency import CancelledOrder, PlacedOrder, RefusedOrder, UnansweredOrder
from mercato.features.orders.record import OrderRow
from mercato.features.orders.sentences import facts_of, sentence_of
from mercato.features.orders.service import list_timeline
from mercato.features.partners.model import Surface
from mercato.features.quotes.model import ApprovalRequest, FoundQuote, QuotePlacement, QuoteState
from mercato.http.calls import operation_of
from mercato.http.operations import Operation
from mercato.platform.problem_details import ProblemFormat, represent_detail
from mercato.services import Services
from mercato_contract.orders import (
    CancelOrderRequest,
    MarketfrontOrderPage,
    Order,
    OrderAmounts,
    OrderState,
    OrderStatus,
)
from mercato_contract.pages import cursor_of
from mercato_contract.placements import Amounts, OrderLine, PickupFulfillment
from mercato_contract.refusals import InvalidRequest
from mercato_contract.stores import FulfillmentMode
from mercato_contract.wire import Wire, redacted, rfc3339

tools: Final = Tools(Surface.MARKETFRONT)

LIMIT: Final = 10
MAX_LIMIT: Final = 50
"""Orders of a list: those that it has if the call names no limit, and the most that it may name."""

_PLACE: Final = operation_of(marketfront_orders, "placeOrder")
_GET: Final = operation_of(marketfront_orders, "getMarketfrontOrder")
_LIST: Final = operation_of(marketfront_orders, "listMarketfrontOrders")
_CANCEL: Final = operation_of(marketfront_orders, "cancelOrder")

PLACES: Final = Hints(read_only=False, destructive=False, idempotent=True, open_world=True)
CANCELS: Final = Hints(read_only=False, destructive=True, idempotent=True, open_world=True)

Described = Annotated[Any, Meta(extra_json_schema={"type": "object"})]
"""A part of a result whose members the schema doesn't list: they would be a third of what an agent reads first."""

QuoteId = Annotated[UUID, Meta(description="Of quote_order")]
OrderId = Annotated[UUID, Meta(description="Of place_order or list_orders")]


# --- orders as agents read them -------------------------------------------------------------------


class AmountEntry(Wire):
    """A part of an amount, as the store describes it."""

    of: str
    amount: str
    description: str


class AmountsSummary(Wire, kw_only=True):
    """What an order costs, with the parts of each amount. `more` parts have no room."""

    currency: str
    sub_total: str
    fees: str
    taxes: str
    promotions: str
    adjustments: str
    tip: str
    total: str
    details: list[AmountEntry]
    more: int | UnsetType = UNSET


class LineSummary(Wire, kw_only=True):
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


def amounts_of(amounts: Amounts, *, most: int = AMOUNTS_SIZE) -> AmountsSummary:
    """Return the amounts of an order or a quote, with as many parts as there is room for."""
    entries = [
        AmountEntry(of=kind, amount=entry.amount, description=plain(entry.description))
        for kind in _KINDS
        for entry in getattr(amounts, f"{kind}_description")
    ]
    taken, _ = take_within(entries, _text_of_entry, most=most)
    return AmountsSummary(
        currency=amounts.currency,
        sub_total=amounts.sub_total,
        **{kind: getattr(amounts, kind) for kind in _KINDS},
        total=(isinstance(amounts, OrderAmounts) and amounts.total_after_adjustments) or amounts.total,
        details=taken,
        more=len(entries) - len(taken) or UNSET,
    )


def _text_of_entry(entry: AmountEntry) -> str:
    return f"  {entry.of}: {entry.amount} {entry.description}"


def render_amounts(amounts: AmountsSummary) -> list[str]:
    """Return the amounts as lines of text."""
    parts = [f"{kind} {getattr(amounts, kind)}" for kind in _KINDS if amounts_differ(getattr(amounts, kind))]
    total = f"Total {amounts.total} {amounts.currency}: {', '.join([f'items {amounts.sub_total}', *parts])}."
    more = [] if amounts.more is UNSET else [f"  and {amounts.more} more parts"]
    return [total, *map(_text_of_entry, amounts.details), *more]


def amounts_differ(amount: str) -> bool:
    """Return whether an amount isn't zero."""
    return amount.strip("-0.") != ""


def _line_of(line: OrderLine) -> LineSummary:
    choices = "; ".join(_choices_of(line))
    return LineSummary(
        item_id=line.item_id,
        name=plain(line.name or ""),
        quantity=line.quantity,
        total=UNSET if line.amounts is UNSET else line.amounts.total,
        choices=plain(choices, MAX_CHOICES) or UNSET,
        note=plain(line.note or "", MAX_NOTE) or UNSET,
    )


def _choices_of(line: OrderLine) -> Iterator[str]:
    for group in line.modifier_groups:
        for chosen in group.line_items:
            units = "" if chosen.quantity == 1 else f"{chosen.quantity} x "
            below = ", ".join(_choices_of(chosen))
            name = plain(chosen.name or "")
            yield f"{plain(group.name or '')}: {units}{name}{f' ({below})' if below else ''}"


def _text_of_line(line: LineSummary) -> str:
    price = "" if line.total is UNSET else f" {line.total}"
    choices = "" if line.choices is UNSET else f" ({line.choices})"
    note = "" if line.note is UNSET else f' note: "{line.note}"'
    return f"- {line.quantity} x {line.name}{choices}{price}{note}"


def summary_members(order: Order) -> dict[str, Any]:
    return {
        "order_id": order.order_id,
        "store_id": order.store_id,
        "state": order.state,
        "status": order.status,
        "number": UNSET if order.partner_order_id is None else plain(order.partner_order_id),
        "placed_at": order.created_at,
        "ready_at": order.estimated_ready_at or UNSET,
        "fulfillment": FulfillmentMode.PICKUP
        if isinstance(order.fulfillment, PickupFulfillment)
        else FulfillmentMode.DELIVERY_BY_MERCHANT,
        "scheduled_time": order.fulfillment.scheduled_time or UNSET,
        "total": order.amounts.total_after_adjustments or order.amounts.total,
        "currency": order.amounts.currency,
        "cancel_reason": UNSET if order.cancel_reason is None else described(order.cancel_reason),
    }


def details_of(order: Order) -> OrderDetails:
    """Return an order with as many of its lines as there is room for."""
    lines = list(map(_line_of, order.cart.line_items))
    taken, _ = take_within(lines, _text_of_line, most=LINES_SIZE)
    return OrderDetails(
        **summary_members(order),
        amounts=amounts_of(order.amounts),
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
    more = [] if order.more_lines is UNSET else [f"and {order.more_lines} more lines"]
    return [text_of_summary(order), *map(_text_of_line, order.lines), *more, *render_amounts(order.amounts)]


# --- what became of a quote -----------------------------------------------------------------------


class OrderStage(StrEnum):
    """What became of a quote. `approval_required`: this call asks a person; `pending_approval`: one is asked."""

    PLACED = "placed"
    APPROVAL_REQUIRED = "approval_required"
    PENDING_APPROVAL = "pending_approval"
    DECLINED = "declined"
    EXPIRED = "expired"
    QUOTED = "quoted"


class OrderAnswer(Wire, kw_only=True):
    """What became of a quote or an order, in a sentence, with the order if there is one."""

    status: str
    sentence: str
    total: str
    currency: str
    quote_id: UUID | UnsetType = UNSET
    order: Described | UnsetType = UNSET
    approval_url: str | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET


def render_answer(answer: OrderAnswer) -> str:
    """Return what became of a quote or an order as text."""
    lines = [answer.sentence]
    if answer.approval_url is not UNSET:
        lines.append(f"Approve or decline: {answer.approval_url}")
    if answer.order is not UNSET:
        lines += text_of_details(answer.order)
    return "\n".join(lines)


@redacted("payment")
class PlaceOrder(Wire, kw_only=True):
    """The arguments of place_order."""

    quote_id: QuoteId
    total: Annotated[str, Meta(max_length=64, description="The quote's total, as the customer agreed to it")]
    payment: (
        Annotated[
            msgspec.Raw,
            Meta(extra_json_schema={"type": "object"}, description="Passed to the store as it is"),
        ]
        | UnsetType
    ) = UNSET


@tools.declare(title="Place an order", calls=[_PLACE], hints=PLACES, render=render_answer)
async def place_order(call: ToolCall[PlaceOrder]) -> OrderAnswer | Elicitation:
    """Place a quote, once: a repeat gets the first answer again, so repeat the call after a lost answer. With status
    approval_required nothing is placed yet: show approvalUrl to the person who decides.
    """
    asked, app = call.body, call.app
    payment = None if asked.payment is UNSET else asked.payment
    outcome = await app.quotes.place(
        call.caller,
        asked.quote_id,
        QuotePlacement(total=asked.total, payment=payment),
        trace=call.trace,
        make_origin=call.head.origin,
    )
    match outcome:
        case ApprovalRequest() as approval:
            url = url_of(call, approval)
            if call.takes_urls:
                return Elicitation(message="A person must approve this order.", url=url)
            return await _waiting(call, approval, OrderStage.APPROVAL_REQUIRED)
        case PlacedOrder(_, document) | CancelledOrder(_, document):
            order = msgspec.json.decode(document, type=Order)
            return await _placed(app, order, quote_id=asked.quote_id)
        case UnansweredOrder(problem):
            raise StoreUnreachable(
                "The store hasn't answered yet. The order is kept, and sent to it again for some minutes. Call "
                "place_order again with the same arguments, or get_order.",
                retry_after=problem.retry_after,
                extensions=problem.extensions,
            )
        case RefusedOrder(problem):
            if problem.error_code == OrderClosed.code:
                problem = replace(
                    problem, detail="The order was cancelled before its store answered. Quote it again."
                )
            raise RefusedError(represent_detail(problem, ProblemFormat.JSON))


def url_of(call: ToolCall[Any], approval: ApprovalRequest) -> str:
    """Return the address of an approval page."""
    return f"{call.head.base_url}/approve/{approval.secret}"


async def _waiting(call: ToolCall[Any], approval: ApprovalRequest, status: OrderStage) -> OrderAnswer:
    return OrderAnswer(
        status=status,
        sentence=f"Nothing is placed yet: a person must approve this order of {approval.total} {approval.currency} by "
        f"{rfc3339(approval.expires_at)}. Show them the address; afterwards call place_order again, or get_order.",
        total=approval.total,
        currency=approval.currency,
        quote_id=approval.quote_id,
        approval_url=url_of(call, approval),
        expires_at=rfc3339(approval.expires_at),
    )


async def _placed(app: Services, order: Order, *, quote_id: UUID) -> OrderAnswer:
    """Return the answer to a placement: the same for every repeat, however much later."""
    store = await app.cache.find(order.store_id)
    place = "" if store is None else f" at {plain(store.name)}"
    number = plain(order.partner_order_id or str(order.order_id))
    ready = "" if order.estimated_ready_at is None else f"; it should be ready at {order.estimated_ready_at}"
    return OrderAnswer(
        status=OrderStage.PLACED,
        sentence=f"The order {number}{place} is placed{ready}. Total {order.amounts.total} {order.amounts.currency}.",
        total=order.amounts.total,
        currency=order.amounts.currency,
        quote_id=quote_id,
        order=details_of(order),
    )


# --- reading --------------------------------------------------------------------------------------


class GetOrder(Wire, kw_only=True):
    """The arguments of get_order: one of the two."""

    order_id: OrderId | None = None
    quote_id: QuoteId | None = None


@tools.declare(title="Read an order", calls=[_GET], hints=READS, render=render_answer)
async def get_order(call: ToolCall[GetOrder]) -> OrderAnswer:
    """Read an order by orderId, or what became of a quote by quoteId: placed, pending_approval, declined, expired or
    quoted.
    """
    asked, app = call.body, call.app
    if (asked.order_id is None) == (asked.quote_id is None):
        raise InvalidRequest("Send either orderId or quoteId.")
    if asked.order_id is not None:
        return await _current(app, await app.orders.get(call.caller, asked.order_id))
    assert asked.quote_id is not None
    found = await app.quotes.find(call.caller, asked.quote_id)
    if found.order is not None:
        return await _current(app, found.order, quote_id=found.id)
    if found.approval is not None:
        return await _waiting(call, found.approval, OrderStage.PENDING_APPROVAL)
    return _unplaced(found, is_over=found.quote is None or found.quote.is_over(app.clock()))


async def _current(app: Services, row: OrderRow, *, quote_id: UUID | UnsetType = UNSET) -> OrderAnswer:
    """Return an order as it is now."""
    async with app.db.read() as tx:
        entries = await list_timeline(tx, row, reader=Surface.MARKETFRONT)
    store = await app.cache.find(row.store_id)
    name = "the store" if store is None else plain(store.name)
    facts = facts_of(
        row, entries, store=name, timezone="UTC" if store is None else store.timezone, now=app.clock()
    )
    order = row.storefront_order
    details = details_of(order)
    return OrderAnswer(
        status=OrderStage.PLACED,
        sentence=described(sentence_of(facts)),
        total=details.total,
        currency=details.currency,
        quote_id=quote_id,
        order=details,
    )


def _unplaced(found: FoundQuote, *, is_over: bool) -> OrderAnswer:
    """Return what became of a quote without an order."""
    quote = found.quote
    assert quote is not None, "a quote without a row has an order"
    until = rfc3339(quote.expires_at)
    match quote.state:
        case QuoteState.DECLINED:
            status, sentence = OrderStage.DECLINED, "A person declined this order. Nothing was placed."
        case _ if is_over:
            status = OrderStage.EXPIRED
            sentence = f"The quote was valid until {until}, and nothing was placed. Quote the order again."
        case QuoteState.PENDING:
            status, sentence = (
                OrderStage.PENDING_APPROVAL,
                f"A person is asked to approve this order until {until}.",
            )
        case _:
            status, sentence = OrderStage.QUOTED, f"Nothing is placed yet. The quote is valid until {until}."
    return OrderAnswer(
        status=status,
        sentence=sentence,
        total=quote.total_text,
        currency=quote.currency,
        quote_id=quote.id,
        expires_at=until,
    )


class ListOrders(Wire, kw_only=True):
    """The arguments of list_orders."""

    state: OrderState | None = None
    store_id: UUID | None = None
    since: Annotated[str, Meta(max_length=64, description="RFC 3339 instant")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description=f"{LIMIT} by default")] | None = None
    cursor: Annotated[str, Meta(max_length=64, description="nextCursor of the answer before")] | None = None


class ListedOrders(Wire, kw_only=True):
    """The result of list_orders, newest first."""

    orders: list[Described]
    next_cursor: str | None


def render_orders(found: ListedOrders) -> str:
    """Return orders as text."""
    lines = list(map(text_of_summary, found.orders)) or ["No orders."]
    if found.next_cursor is not None:
        lines.append(f"More: cursor {found.next_cursor}.")
    return "\n".join(lines)


@tools.declare(title="List orders", calls=[_LIST], hints=READS, render=render_orders)
async def list_orders(call: ToolCall[ListOrders]) -> ListedOrders:
    """List the orders of this account, newest first."""
    asked = call.body
    limit = asked.limit or LIMIT
    query = query_of(
        limit=limit,
        state=asked.state and asked.state.value,
        store_id=asked.store_id,
        since=asked.since,
        cursor=asked.cursor,
    )
    orders, cursor = await list_summaries(call, _LIST, query, most=LARGE if limit > LIMIT else SMALL)
    return ListedOrders(orders=orders, next_cursor=cursor)


async def list_summaries(
    call: ToolCall[Any], operation: Operation, query: bytes, *, most: int
) -> tuple[list[OrderSummary], str | None]:
    """Return the orders of a page that the operation lists, as far as an answer has room, and the next cursor."""
    page = await call.perform(operation, returns=MarketfrontOrderPage, query=query)
    summaries = (OrderSummary(**summary_members(order)) for order in page.orders)
    orders, are_left = take_within(summaries, text_of_summary, most=most)
    # The list's own cursors name its entries, too.
    return orders, cursor_of(orders[-1].order_id) if are_left else page.next_cursor


# --- cancelling -----------------------------------------------------------------------------------


class CancelOrder(Wire, kw_only=True):
    """The arguments of cancel_order."""

    order_id: OrderId
    reason: Annotated[str, Meta(min_length=1, max_length=64, description="A short code, as CHANGED_MIND")]
    message: Annotated[str, Meta(max_length=500, description="Words for the store")] | None = None


@tools.declare(title="Cancel an order", calls=[_CANCEL, _GET], hints=CANCELS, render=render_answer)
async def cancel_order(call: ToolCall[CancelOrder]) -> OrderAnswer:
    """Cancel an order, if its store agrees. The same call again gets the first answer again."""
    asked = call.body
    # The same order, reason and message are the same cancellation.
    key = uuid5(asked.order_id, f"{asked.reason}\0{asked.message or ''}")
    cancelled = await call.perform(
        _CANCEL,
        CancelOrderRequest(reason=asked.reason, message=asked.message),
        returns=Order,
        ids={"orderId": asked.order_id},
        key=f"cancel {key}",
    )
    details = details_of(cancelled)
    number = details.number or str(details.order_id)
    return OrderAnswer(
        status=OrderStage.PLACED,
        sentence=f"The order {number} is cancelled.",
        total=details.total,
        currency=details.currency,
        order=details,
    )
