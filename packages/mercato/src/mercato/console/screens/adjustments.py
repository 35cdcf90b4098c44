"""Adjusting an order: a form with the faults beside its fields. Sent twice, it records one adjustment.

Its button is on the order's own page.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final
from uuid import UUID, uuid5

from msgspec import Meta
from msgspec.structs import replace

from mercato.console.screen import MERCHANTS, Done, Field, Question, Screens, Visit
from mercato.features.orders.errors import OrderNotFound
from mercato.features.orders.operators import describe_notice
from mercato.features.orders.record import OrderRow, StoredAdjustment
from mercato.features.orders.rules import adjustment_refusal
from mercato.features.orders.sentences import number_of
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.platform.errors import Conflict, IdempotencyKeyReused
from mercato_contract.amounts import fits
from mercato_contract.events import EventType
from mercato_contract.money import MoneyError, get_scale, to_minor, to_text
from mercato_contract.orders import AdjustmentType, AdjustOrderRequest, reason_fault
from mercato_contract.placements import Text255
from mercato_contract.wire import Wire

screens: Final = Screens(MERCHANTS)

_ADJUSTING: Final = {
    AdjustmentType.REFUND.value: "Refund: takes the amount off",
    AdjustmentType.FEE.value: "Fee: adds the amount",
    AdjustmentType.SUBSTITUTION.value: "Substitution: adds the difference",
}


class AdjustQuery(Wire):
    """`after` is how many adjustments the order had where `Adjust order` was pressed."""

    after: Annotated[int, Meta(ge=0)] | None = None


async def _ask_to_adjust(visit: Visit) -> Question:
    row = await _own_order(visit)
    if (refused := adjustment_refusal(row)) is not None:
        raise refused
    after = visit.filters(AdjustQuery).after
    return _adjustment_question(
        row, AdjustmentForm(after=len(row.adjustments or ()) if after is None else after)
    )


class AdjustmentForm(Wire, kw_only=True):
    """An adjustment of one line or of the whole order, as it was typed.

    `after` is how many adjustments the order had when the form was opened. The address has it, too, so it is the same
    when a browser goes back to the form: an order gets one adjustment after so many, and no second one.
    """

    after: Annotated[int, Meta(ge=0)]
    type: AdjustmentType = AdjustmentType.REFUND
    amount: Text255 = ""
    reason: Text255 = ""
    line_item_id: UUID | None = None


_STALE: Final = (
    "This order was adjusted since you opened this form, so nothing was recorded. Open the order, see its amounts, and "
    "press Adjust order again if something is still to be adjusted."
)


@screens.post("orders/{order}/adjust", needs=Permission.CHANGE_ORDERS, ask=_ask_to_adjust)
async def adjust_order(visit: Visit) -> Done | Question:
    row = await _own_order(visit)
    form = visit.fields(AdjustmentForm)
    form = replace(form, amount=form.amount.strip())
    recorded = row.adjustments or ()
    if form.after != len(recorded):
        if form.after > len(recorded) or not _is_recorded(form, recorded[form.after], row.currency):
            raise Conflict(_STALE)
        return _adjusted(row, "This adjustment was recorded already, once.")
    if (refused := adjustment_refusal(row)) is not None:
        raise refused
    if faults := _adjustment_faults(row, form):
        return _adjustment_question(row, form, faults)
    request = AdjustOrderRequest(
        type=form.type,
        amount=form.amount,
        reason=form.reason,
        line_item_ids=None if form.line_item_id is None else [form.line_item_id],
    )
    # Of two forms at once, the first is recorded.
    key = str(uuid5(row.id, f"adjustment after {form.after}"))
    try:
        await visit.app.adjustments.adjust(visit.caller(Surface.COMMERCE), row.id, request, key=key)
    except IdempotencyKeyReused:
        raise Conflict(_STALE) from None
    changed = await _own_order(visit)
    async with visit.app.db.read() as tx:
        notice = await describe_notice(tx, changed, EventType.ORDER_ADJUSTED, is_store_told=False)
    return _adjusted(changed, f"The order is adjusted. {notice}")


def _adjusted(row: OrderRow, message: str) -> Done:
    costs = to_text(row.total_after_adjustments, row.currency)
    return Done(f"{message} It costs {costs} {row.currency} now.", to=f"/console/orders/{row.id}")


def _adjustment_question(
    row: OrderRow, form: AdjustmentForm, faults: Mapping[str, str] = MappingProxyType({})
) -> Question:
    """Return the form, with what was typed and what is wrong with it."""
    costs, currency = to_text(row.total_after_adjustments, row.currency), row.currency
    lines = {
        str(line.line_item_id): f"{line.quantity} \N{MULTIPLICATION SIGN} {line.name or line.item_id}"
        for line in row.cart.line_items
    }
    item = "" if form.line_item_id is None else str(form.line_item_id)
    return Question(
        f"Adjust order {number_of(row)}",
        f"The order costs {costs} {currency} now. An adjustment stays: to undo it, record its opposite. "
        "This service moves no money: settle the payment with the storefront. A substitution "
        "that costs less has an amount below 0.",
        back=f"/console/orders/{row.id}",
        fields=(
            Field(name="after", value=str(form.after)),
            Field(name="type", label="Type", value=form.type.value, options=_ADJUSTING),
            Field(
                name="amount",
                label=f"Amount in {currency}, such as {_example(currency)}",
                value=form.amount,
                is_required=True,
                fault=faults.get("amount"),
            ),
            Field(
                name="reason",
                label="Reason, which the storefront sees",
                value=form.reason,
                is_required=True,
                fault=faults.get("reason"),
            ),
            Field(name="lineItemId", label="Item", value=item, options={"": "The whole order"} | lines),
        ),
    )


def _example(currency: str) -> str:
    return to_text(450, currency)


def _is_recorded(form: AdjustmentForm, one: StoredAdjustment, currency: str) -> bool:
    """Return whether the adjustment is what the form says. That of an erased customer has no reason any more."""
    try:
        amount = to_minor(form.amount, currency)
    except MoneyError:
        return False
    lines = () if form.line_item_id is None else (form.line_item_id,)
    sent = (form.type, amount, lines)
    return sent == (one.type, one.amount, one.line_item_ids) and one.reason in {None, form.reason}


def _adjustment_faults(row: OrderRow, form: AdjustmentForm) -> dict[str, str]:
    """Return what is wrong with the fields that people type, for people; the service checks again."""
    found = {"amount": _amount_fault(row, form)}
    if reason_fault(form.reason) is not None:
        found["reason"] = "Write why, in one line."
    return {name: fault for name, fault in found.items() if fault is not None}


def _amount_fault(row: OrderRow, form: AdjustmentForm) -> str | None:
    scale, costs = get_scale(row.currency), row.total_after_adjustments
    try:
        amount = to_minor(form.amount, row.currency)
    except MoneyError:
        number = f"number such as {_example(row.currency)}"
        return (
            f"Write a {number}, with a point and at most {scale} decimals."
            if scale
            else f"Write a whole {number}."
        )
    if form.type is not AdjustmentType.SUBSTITUTION and amount <= 0:
        return "Write an amount above 0: a refund takes it off, a fee adds it."
    change = -amount if form.type is AdjustmentType.REFUND else amount
    if costs + change < 0:
        return f"The order costs {to_text(costs, row.currency)} {row.currency} now: no more can be taken off."
    return None if fits(costs + change) else "This is too much. Write a smaller amount."


async def _own_order(visit: Visit) -> OrderRow:
    """Return the merchant's order of the path. Raises OrderNotFound, also for another merchant's."""
    row = await visit.app.orders.get(visit.caller(Surface.COMMERCE), visit.ids["order"])
    visit.check_store(row.store_id, OrderNotFound(row.id))
    return row
