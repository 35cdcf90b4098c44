"""The rules of orders: when one is stored, and what a merchant may change of it afterwards. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.features.orders.checks import OrderCheck
from mercato.features.orders.errors import (
    InvalidStatusTransition,
    OrderClosed,
    OrderTotalDifferent,
    problem_of,
)
from mercato.features.orders.record import (
    OrderContent,
    OrderRow,
    StoreAnswer,
    StoredCancellation,
    take_notes,
    with_notes,
)
from mercato.platform.errors import Conflict
from mercato_contract.amounts import Sums, fits, wire
from mercato_contract.decoding.checks import refuse, uri_fault
from mercato_contract.money import MoneyError, to_minor, to_text
from mercato_contract.orders import (
    MAX_ADJUSTMENTS,
    STATE_TRANSITIONS,
    STATUS_TRANSITIONS,
    AdjustmentType,
    AdjustOrderRequest,
    CancellationDecision,
    CancellationStatus,
    Courier,
    OrderState,
    OrderStatus,
    OrderStatusUpdate,
    find_member,
    reason_fault,
    state_fault,
    status_fault,
)
from mercato_contract.placements import CommerceLine, PlaceOrderRequest
from mercato_contract.problems import OrderError
from mercato_contract.refusals import Problem
from mercato_contract.replies import Quote
from mercato_contract.texts import is_blank, trimmed
from mercato_contract.wire import as_json, instant_fault, parse_instant, rfc3339

# --- placing --------------------------------------------------------------------------------------


NOT_ACCEPTED: Final = "NOT_ACCEPTED"
"""The cancelReason of an order that a person should have accepted, and nobody did in time."""


class RefusePlan(Struct, frozen=True):
    """Refuse the request. If an order was placed with its token, that refusal comes first."""

    problem: Problem
    token_id: UUID | None = None


class StorePlan(Struct, frozen=True):
    """Store the order: it has no errors, and its store has quoted the same price."""

    check: OrderCheck
    quote: Quote
    token_id: UUID | None = None


class ValidatePlan(Struct, frozen=True):
    """Let the store validate the order, which has no token."""

    check: OrderCheck
    token_id: None = None


Plan = RefusePlan | StorePlan | ValidatePlan


def plan_quoted(check: OrderCheck, quote: Quote, token_id: UUID | None = None) -> RefusePlan | StorePlan:
    """Return the plan for an order that its store has quoted: it must still have the same price, and no errors."""
    if check.errors:
        return RefusePlan(problem_of(check.errors), token_id)
    assert check.sums is not None, "an order without a price has errors"
    sums = replace(check.sums, extras=quote.sums.extras)
    if sums != quote.sums:
        at = None if token_id is None else "/validatedOrderToken"
        return RefusePlan(_total_different(sums, at), token_id)
    if check.total is not None and check.total != sums.total:
        return RefusePlan(_total_different(sums, "/amounts/total"), token_id)
    return StorePlan(check, quote, token_id)


def _total_different(sums: Sums, at: str | None) -> Problem:
    total = wire(sums).total
    message = (
        f"The order's total is {total} {sums.currency} now. "
        "Validate it again and show the customer the new total."
    )
    error = OrderError(code=OrderTotalDifferent.code, message=message, pointer=at)
    return OrderTotalDifferent(message, errors=[error])


def new_order(
    order_id: UUID,
    plan: StorePlan,
    request: PlaceOrderRequest,
    *,
    storefront_id: UUID,
    traceparent: str,
    now: datetime,
) -> OrderRow:
    """Return the order of a plan, waiting for its store's answer."""
    check, sums = plan.check, plan.quote.sums
    notes = take_notes(check.cart, check.note)
    content = OrderContent(
        cart=check.cart if notes is None else with_notes(check.cart, None), amounts=wire(sums)
    )
    return OrderRow(
        id=order_id,
        partner_id=check.store.partner_id,
        storefront_id=storefront_id,
        store_id=check.store.id,
        partner_store_id=check.store.partner_store_id,
        state=OrderState.OPEN,
        status=OrderStatus.PENDING,
        answer=StoreAnswer.WAITING,
        handling=None if check.store.orders_url is not None else check.store.handling,
        errors=(),
        partner_order_id=None,
        estimated_ready_at=plan.quote.estimated_ready_at,
        cancel_reason=None,
        notes=notes,
        currency=sums.currency,
        total=sums.total,
        content=as_json(content),
        cart=check.cart,
        amounts=content.amounts,
        fulfillment=check.fulfillment,
        customer=request.customer,
        client_context=request.client_context,
        token_id=plan.token_id,
        sequence=0,
        entries=0,
        traceparent=traceparent,
        created_at=now,
        updated_at=now,
    )


# --- updates of state and status ------------------------------------------------------------------


class Progress(Struct, frozen=True, kw_only=True):
    """The state and status of an order."""

    state: OrderState = OrderState.OPEN
    status: OrderStatus = OrderStatus.PENDING
    estimated_ready_at: datetime | None = None
    estimated_delivery_at: datetime | None = None
    courier: Courier | None = None
    cancel_reason: str | None = None
    partner_order_id: str | None = None
    is_erased: bool = False
    """Whether the order's customer was erased: nobody's name or number is kept from then on."""


class ProgressChange(Struct, frozen=True, kw_only=True):
    """A change of an order's progress."""

    before: Progress
    after: Progress
    at: datetime

    @property
    def changes_status(self) -> bool:
        return self.after.status is not self.before.status


class _ParsedUpdate(Struct, frozen=True):
    status: OrderStatus | None
    state: OrderState | None
    ready_at: datetime | None
    delivery_at: datetime | None
    courier: Courier | None
    reason: str | None
    partner_order_id: str | None


_EMPTY_FAULT: Final = (
    "The update changes nothing. Send status, state, partnerOrderId, estimatedReadyAt, estimatedDeliveryAt, courier "
    "or cancellation."
)
_NUMBER_FAULT: Final = "partnerOrderId must be on one line, without control characters."
_PROGRESS_MEMBERS: Final = tuple(
    name for name in OrderStatusUpdate.__struct_fields__ if name != "cancellation"
)
_ALONE_FAULT: Final = (
    "The decision about a cancellation is an update of its own. Send the other members separately."
)
_REASON_FAULT: Final = "reason says why the order goes on. Leave it out if the cancellation is accepted."
_COURIER_FAULT: Final = "courier needs a name, a phone or a trackingUrl. Leave it out to keep the courier."


def change_progress(current: Progress, update: OrderStatusUpdate, now: datetime) -> ProgressChange | None:
    """Return the merchant's change, or None if the update changes nothing.

    Raises ValidationFailed for every fault of the update, OrderClosed, InvalidStatusTransition.
    """
    parsed = _parse(update)
    after = _moved(current, parsed) if STATE_TRANSITIONS[current.state] else _closed(current, parsed)
    return None if after == current else ProgressChange(before=current, after=after, at=now)


def _moved(current: Progress, update: _ParsedUpdate) -> Progress:
    """Return an open order's progress after the update: status first, then state."""
    status, state = update.status or current.status, update.state or current.state
    if status is not current.status and status not in STATUS_TRANSITIONS[current.status]:
        raise InvalidStatusTransition(
            f"The order is {current.status.value} already; its status can't go back to {status.value}."
        )
    return Progress(
        state=state,
        status=status,
        estimated_ready_at=update.ready_at or current.estimated_ready_at,
        estimated_delivery_at=update.delivery_at or current.estimated_delivery_at,
        courier=None if current.is_erased else update.courier or current.courier,
        cancel_reason=update.reason if state is OrderState.CANCELLED else None,
        partner_order_id=update.partner_order_id or current.partner_order_id,
        is_erased=current.is_erased,
    )


def _closed(current: Progress, update: _ParsedUpdate) -> Progress:
    """Return a closed order's progress if the update repeats it. Raises OrderClosed."""
    again = (
        update.state is current.state
        and update.status in (None, current.status)
        and update.ready_at in (None, current.estimated_ready_at)
        and update.delivery_at in (None, current.estimated_delivery_at)
        and (current.is_erased or update.courier in (None, current.courier))
        and update.partner_order_id in (None, current.partner_order_id)
    )
    if not again:
        why = " because nobody accepted it in time" if current.cancel_reason == NOT_ACCEPTED else ""
        raise OrderClosed(f"The order is {current.state.value}{why} and can't change any more.")
    return current


def _parse(update: OrderStatusUpdate) -> _ParsedUpdate:
    """Return the parsed update. Raises ValidationFailed."""
    status, state = find_member(OrderStatus, update.status), find_member(OrderState, update.state)
    instants = {
        "estimatedReadyAt": update.estimated_ready_at,
        "estimatedDeliveryAt": update.estimated_delivery_at,
    }
    ready_at, delivery_at = (None if text is None else parse_instant(text) for text in instants.values())
    reason = trimmed(update.cancel_reason)
    cancels = state is OrderState.CANCELLED
    courier = update.courier
    number = update.partner_order_id
    sent = (update.status, update.state, courier, number, *instants.values())
    is_update = any(value is not None for value in sent)
    refuse(
        [
            (
                "",
                None if is_update else _EMPTY_FAULT,
            ),
            ("/status", None if update.status is None else status_fault(update.status)),
            ("/state", None if update.state is None else state_fault(update.state)),
            *(
                (f"/{name}", instant_fault(name, text))
                for name, text in instants.items()
                if text is not None and parse_instant(text) is None
            ),
            ("/courier", _COURIER_FAULT if courier == Courier() else None),
            ("/courier/trackingUrl", _tracking_fault(courier)),
            ("/cancelReason", "cancelReason is required with cancelled." if cancels and not reason else None),
            ("/partnerOrderId", _NUMBER_FAULT if number is not None and _is_odd(number) else None),
        ]
    )
    return _ParsedUpdate(status, state, ready_at, delivery_at, courier, reason or None, number)


def change_seen(
    current: Progress, update: OrderStatusUpdate, now: datetime, *, seen: OrderStatus
) -> ProgressChange | None:
    """Return the change by a person who saw an open order with this status, or None if it is as they want it already.

    Raises what `change_progress` does, also if somebody else was first: two people decide about the same order.
    """
    change = change_progress(current, update, now)
    if change is None:
        reason = trimmed(update.cancel_reason) or None
        if reason != (current.cancel_reason if reason else None):
            raise OrderClosed(f"The order is {current.state.value} already, for another reason.")
        return None
    if current.status is not seen:
        raise InvalidStatusTransition(
            f"The order isn't {seen.value} any more but {current.status.value}. Read it again."
        )
    return change


def decide_cancellation(
    order: OrderRow, update: OrderStatusUpdate, now: datetime
) -> StoredCancellation | None:
    """Return the storefront's cancellation as the merchant decides it; None if it is decided so already.

    Raises ValidationFailed, OrderClosed, and Conflict if the storefront doesn't ask for it any more, or if its store is
    called about it and the order would go on.
    """
    decision, found = update.cancellation, order.cancellation
    assert decision is not None, "another update"
    is_alone = all(getattr(update, name) is None for name in _PROGRESS_MEMBERS)
    refuse(
        [
            ("/cancellation", None if is_alone else _ALONE_FAULT),
            ("/cancellation/reason", _decision_fault(decision)),
        ]
    )
    status = CancellationStatus.ACCEPTED if decision.accepted else CancellationStatus.REFUSED
    if found is not None and (found.status, found.refusal) == (status, decision.reason):
        return None
    if order.state is not OrderState.OPEN:
        raise OrderClosed(f"The order is {order.state.value} and its cancellation can't be decided any more.")
    if found is None:
        raise Conflict("The storefront hasn't asked to cancel the order, so there is nothing to decide.")
    if found.status is not CancellationStatus.REQUESTED:
        raise Conflict(
            f"The cancellation is {found.status.value} already, and the order goes on. To end it, set its state to "
            "cancelled."
        )
    if not decision.accepted and not order.is_pulled:
        # Another system of the merchant has the call, and may have cancelled the order already.
        raise Conflict(
            f"The store is called about this cancellation until {rfc3339(found.give_up_at)}, and its answer decides: "
            "it may have cancelled the order already. Let it answer order.cancel with accepted false; without an "
            "answer the order goes on, too. To cancel the order now, send accepted true."
        )
    return replace(found, status=status, at=now, refusal=decision.reason)


def _decision_fault(decision: CancellationDecision) -> str | None:
    """Return what is wrong with the reason of a decision."""
    if decision.reason is None:
        return None
    return _REASON_FAULT if decision.accepted else reason_fault(decision.reason)


def _is_odd(number: str) -> bool:
    return not number.isprintable() or is_blank(number)


def _tracking_fault(courier: Courier | None) -> str | None:
    url = None if courier is None else courier.tracking_url
    return None if url is None else uri_fault(url, "trackingUrl")


# --- adjustments ----------------------------------------------------------------------------------


def adjustment_refusal(order: OrderRow) -> Problem | None:
    """Return why nothing of the order can be adjusted, None if something can be."""
    if order.state is OrderState.CANCELLED:
        return OrderClosed("The order is cancelled: nothing of it is charged, so there is nothing to adjust.")
    if order.answer in {StoreAnswer.WAITING, StoreAnswer.PENDING}:
        return Conflict(
            "The store has not answered the placement yet. Answer it, or set the order's status to confirmed, and "
            "adjust the order then."
        )
    if len(order.adjustments or ()) >= MAX_ADJUSTMENTS:
        return Conflict(
            f"The order has {MAX_ADJUSTMENTS} adjustments already, the most that an order may have."
        )
    return None


def check_adjustment(order: OrderRow, request: AdjustOrderRequest) -> int:
    """Return the amount in minor units. Raises ValidationFailed for every fault, OrderClosed, Conflict."""
    if (refused := adjustment_refusal(order)) is not None:
        raise refused
    amount, fault = _amount(order, request)
    refuse(
        [
            ("/amount", fault),
            ("/reason", reason_fault(request.reason)),
            ("/currency", _currency_fault(order, request.currency)),
            *_line_faults(order, request.line_item_ids or ()),
        ]
    )
    return amount


def _amount(order: OrderRow, request: AdjustOrderRequest) -> tuple[int, str | None]:
    """Return the amount in minor units, and what is wrong with it."""
    try:
        amount = to_minor(request.amount, order.currency)
    except MoneyError as fault:
        return 0, f"amount {fault}"
    kind, costs = request.type, order.total_after_adjustments
    if kind is not AdjustmentType.SUBSTITUTION and amount <= 0:
        return amount, f"amount of a {kind.value} must be above zero. {_SIGNS[kind]}"
    after = costs + (-amount if kind is AdjustmentType.REFUND else amount)
    if after < 0:
        now = to_text(costs, order.currency)
        return amount, (
            f"amount takes more off than the order costs. At most {now} {order.currency} can be taken off: that is "
            "its amounts.totalAfterAdjustments."
        )
    if not fits(after):
        return amount, "amount makes the order's total out of range. Send a smaller one."
    return amount, None


_SIGNS: Final = {
    AdjustmentType.REFUND: "A refund takes it off the total.",
    AdjustmentType.FEE: "A fee adds it to the total. To take something off, send a refund.",
}


def _currency_fault(order: OrderRow, currency: str | None) -> str | None:
    if currency in {None, order.currency}:
        return None
    return f"currency must be the order's, {order.currency}. Leave it out, or send that."


def _line_faults(order: OrderRow, line_item_ids: Sequence[UUID]) -> Iterator[tuple[str, str]]:
    known = set(_ids_of(order.cart.line_items))
    for index, id_ in enumerate(line_item_ids):
        if id_ not in known:
            yield (
                f"/lineItemIds/{index}",
                f"The order has no line {id_}. Send lineItemIds of its cart.",
            )


def _ids_of(lines: Sequence[CommerceLine]) -> Iterator[UUID]:
    for line in lines:
        yield line.line_item_id
        for group in line.modifier_groups:
            yield from _ids_of(group.line_items)
