"""Orders for agents of storefronts: place a quote, read what became of it, list and cancel.

A quote's order is placed once, so a repeat is always safe: it gets the first answer again.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID, uuid5

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from mercato.agents.order_summaries import (
    Described,
    details_of,
    list_summaries,
    text_of_details,
    text_of_summary,
)
from mercato.agents.ordering import in_arguments, pointing_into_arguments
from mercato.agents.protocol import Consent
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
    cut_to_fit,
    query_of,
)
from mercato.api.orders import marketfront_orders
from mercato.features.orders.errors import OrderClosed, StoreUnreachable
from mercato.features.orders.idempotency import CancelledOrder, PlacedOrder, RefusedOrder, UnansweredOrder
from mercato.features.orders.record import OrderRow, commerce_order_of
from mercato.features.orders.sentences import facts_of, sentence_of
from mercato.features.orders.service import list_changes
from mercato.features.partners.model import Surface
from mercato.features.quotes.model import ApprovalRequest, FoundQuote, QuotePlacement, QuoteState
from mercato.http.calls import operation_of
from mercato.platform.problem_details import ProblemFormat, represent_detail
from mercato.services import Services
from mercato_contract.orders import (
    CancelOrderRequest,
    CommerceOrder,
    MarketfrontOrderPage,
    Order,
    OrderState,
    TimelineEntry,
)
from mercato_contract.refusals import InvalidRequest
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

QuoteId = Annotated[UUID, Meta(description="Of quote_order")]
OrderId = Annotated[UUID, Meta(description="Of place_order or list_orders")]


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
class PlaceOrder(Wire, kw_only=True, forbid_unknown_fields=True):
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
    """Place a quote, once: a repeat, as after a lost answer, gets the first answer again. With status approval_required
    nothing is placed yet: show approvalUrl to the person who decides.
    """
    asked, app = call.body, call.app
    payment = None if asked.payment is UNSET else asked.payment
    with pointing_into_arguments():
        outcome = await app.quotes.place(
            call.caller,
            asked.quote_id,
            QuotePlacement(total=asked.total, payment=payment),
            trace=call.trace,
            make_origin=call.head.origin,
        )
    match outcome:
        case ApprovalRequest() as approval:
            if call.takes_urls and call.consent is None:
                message = f"Approve or decline an order of {approval.total} {approval.currency}."
                return Elicitation(message=message, url=url_of(call, approval))
            return _waiting(call, approval, OrderStage.APPROVAL_REQUIRED)
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
            if problem.errors is not None:
                problem = replace(problem, errors=list(in_arguments(problem.errors)))
            raise RefusedError(represent_detail(problem, ProblemFormat.JSON))


def url_of(call: ToolCall[Any], approval: ApprovalRequest) -> str:
    """Return the address of an approval page."""
    return f"{call.head.base_url}/approve/{approval.secret}"


_SHOWN: Final[Mapping[Consent | None, str]] = {
    None: "Show them the address; afterwards call place_order again, or get_order.",
    "accept": "They have the address. Once they have decided, call place_order again, or get_order.",
    "decline": "They were asked to open the address and said no. Ask them what to change, and quote that.",
    "cancel": "They were asked to open the address and didn't answer. Show it to them when they are ready.",
}
"""What comes next, by what the person answered who was asked to open the approval page."""


def _waiting(call: ToolCall[Any], approval: ApprovalRequest, status: OrderStage) -> OrderAnswer:
    return OrderAnswer(
        status=status,
        sentence=f"Nothing is placed yet: a person must approve this order of {approval.total} {approval.currency} by "
        f"{rfc3339(approval.expires_at)}. {_SHOWN[call.consent]}",
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
    # An answer that is no longer kept is made anew, of the order as it is.
    became = (
        f"was placed, and is {order.state} now" if order.state is not OrderState.OPEN else f"is placed{ready}"
    )
    sentence = f"The order {number}{place} {became}. Total {order.amounts.total} {order.amounts.currency}."
    return _answer_about(order, sentence, quote_id=quote_id, total=order.amounts.total)


def _answer_about(
    order: Order | CommerceOrder,
    sentence: str,
    *,
    quote_id: UUID | UnsetType = UNSET,
    total: str | None = None,
) -> OrderAnswer:
    """Return the answer about an order. `total` is what the quote said, if not what the order costs now."""

    def make(part: int) -> OrderAnswer:
        details = details_of(order, part)
        return OrderAnswer(
            status=OrderStage.PLACED,
            sentence=sentence if part == 1 else described(sentence, part),
            total=total or details.total,
            currency=details.currency,
            quote_id=quote_id,
            order=details,
        )

    return cut_to_fit(make, render_answer)


# --- reading --------------------------------------------------------------------------------------


class GetOrder(Wire, kw_only=True, forbid_unknown_fields=True):
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
        return await _current(app, *await app.orders.get_with_changes(call.caller, asked.order_id))
    assert asked.quote_id is not None
    found = await app.quotes.find(call.caller, asked.quote_id)
    if found.order is not None:
        async with app.db.read() as tx:
            changes = await list_changes(tx, found.order)
        return await _current(app, found.order, changes, quote_id=found.id)
    if found.approval is not None:
        return _waiting(call, found.approval, OrderStage.PENDING_APPROVAL)
    return _unplaced(found, is_over=found.quote is None or found.quote.is_over(app.clock()))


async def _current(
    app: Services, row: OrderRow, changes: Sequence[TimelineEntry], *, quote_id: UUID | UnsetType = UNSET
) -> OrderAnswer:
    """Return an order as it is now."""
    store = await app.cache.find(row.store_id)
    name = "the store" if store is None else plain(store.name)
    facts = facts_of(
        row, changes, store=name, timezone="UTC" if store is None else store.timezone, now=app.clock()
    )
    # The merchant's representation has the lines as they are stored. None of its own ids are in the details.
    return _answer_about(commerce_order_of(row), described(sentence_of(facts)), quote_id=quote_id)


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


class ListOrders(Wire, kw_only=True, forbid_unknown_fields=True):
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
    orders, cursor = await list_summaries(
        call, _LIST, query, returns=MarketfrontOrderPage, most=LARGE if limit > LIMIT else SMALL
    )
    return ListedOrders(orders=orders, next_cursor=cursor)


# --- cancelling -----------------------------------------------------------------------------------


class CancelOrder(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of cancel_order."""

    order_id: OrderId
    reason: Annotated[str, Meta(min_length=1, max_length=64, description="A short code, as CHANGED_MIND")]
    message: Annotated[str, Meta(max_length=500, description="Words for the store")] | None = None


@tools.declare(title="Cancel an order", calls=[_CANCEL, _GET], hints=CANCELS, render=render_answer)
async def cancel_order(call: ToolCall[CancelOrder]) -> OrderAnswer:
    """Cancel an order, if its store agrees. A repeat gets the first answer again."""
    asked = call.body
    # The same order, reason and message are the same cancellation.
    key = uuid5(asked.order_id, f"{asked.reason}\0{asked.message or ''}")
    try:
        cancelled = await call.perform(
            _CANCEL,
            CancelOrderRequest(reason=asked.reason, message=asked.message),
            returns=Order,
            ids={"orderId": asked.order_id},
            key=f"cancel {key}",
        )
    except StoreUnreachable as unanswered:
        raise StoreUnreachable(
            "The store hasn't answered yet, so the order isn't cancelled. The store is asked again for some minutes. "
            "Call cancel_order again with the same arguments, or get_order.",
            retry_after=unanswered.retry_after,
            extensions=unanswered.extensions,
        ) from None
    number = plain(cancelled.partner_order_id or "") or str(cancelled.order_id)
    return _answer_about(cancelled, f"The order {number} is cancelled.")
