"""The page on which a person approves or declines what an agent wants to order. Its address is all that they need.

It needs no session, works without JavaScript, and only its form decides: a scanner that looks at it uses nothing up.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mercato.console.forms import MAX_FORM, decode_form
from mercato.console.rendering import render, render_refusal
from mercato.console.session import Cookies
from mercato.console.times import UTC, say, say_text
from mercato.features.orders.privacy import without_customer
from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.orders.sentences import facts_of, number_of, sentence_of
from mercato.features.orders.service import list_timeline
from mercato.features.quotes.approvals import Approval, PageRequest
from mercato.features.quotes.model import QuoteState
from mercato.features.quotes.rules import EXTRAS, differences
from mercato.http.operations import Answer, Call, ReadBody
from mercato.services import Services
from mercato_contract.orders import OrderState
from mercato_contract.placements import (
    AmountDetail,
    Amounts,
    CommerceLine,
    Customer,
    DeliveryFulfillment,
    Fulfillment,
    OrderLine,
)
from mercato_contract.refusals import Problem
from mercato_contract.wire import Wire

PLACE: Final = "place"

_ZERO: Final = frozenset("-0.")


class Decision(Wire):
    """The form: what the person pressed, and the total that they saw."""

    decision: Literal["place", "decline"]
    total: Annotated[str, Meta(max_length=100)] = ""


class _Row(Struct, frozen=True):
    """An amount as the page shows it; a part of the one above it, if `is_part`."""

    name: str
    amount: str
    is_part: bool = False


async def answer(call: Call[ReadBody, None], _cookies: Cookies) -> Answer[str]:
    """Return the page; act on the form that it sends."""
    secret, approvals = call.texts["path"], call.app.approvals
    request = PageRequest(
        request_id=call.head.request_id,
        trace_id=call.head.trace_id,
        trace=call.trace,
        make_origin=call.head.origin,
    )
    try:
        if call.head.method != "POST":
            return await _page(call.app, await approvals.get(secret, request))
        form = decode_form(Decision, await call.body(MAX_FORM))
        if form.decision == PLACE:
            approval = await approvals.place(secret, request, total=form.total)
        else:
            approval = await approvals.decline(secret, request)
    except Problem as problem:
        return render_refusal(problem, call.head.request_id)
    if approval.problem is not None:
        return await _page(call.app, approval)
    # What a reload repeats is looking, not deciding.
    here = f"/approve/{secret}".encode()
    return Answer(status=303, headers=((b"location", here), (b"cache-control", b"no-store")))


async def _page(app: Services, approval: Approval) -> Answer[str]:
    quote, store = approval.quote, approval.store
    timezone = UTC if store is None else store.timezone
    now = app.clock()
    values: dict[str, Any] = {
        "quote": quote,
        "asks": None
        if approval.caller is None or approval.caller.agent is None
        else approval.caller.agent.name,
        "partner": approval.partner,
        "store": "a store that is gone" if store is None else store.name,
        "total": approval.total,
        "until": say(quote.expires_at, timezone),
        "minutes": max(int((quote.expires_at - now).total_seconds() // 60), 0),
        "problem": approval.problem,
        "sentence": None,
        "changes": (),
    }
    if approval.order is not None:
        # Whoever keeps the address sees the customer no longer than the quote was valid.
        order = approval.order if now < quote.expires_at else without_customer(approval.order)
        note = None if order.notes is None else order.notes.order
        values |= _shown(
            order.cart.line_items, order.amounts, order.fulfillment, order.customer, note, timezone
        )
        values["sentence"] = await _sentence(app, order, approval, timezone, now)
        return render("approval.html", title=_title_of(order), console=None, **values)
    if approval.content is None:
        return render(
            "approval.html", status=410, title=_title_of_none(approval), console=None, lines=None, **values
        )
    content = approval.content
    shown = content.order
    assert not isinstance(shown.amounts, UnsetType), "an order without errors has a price"
    values |= _shown(
        shown.cart.line_items, shown.amounts, shown.fulfillment, shown.customer or None, shown.note, timezone
    )
    values["ready"] = (
        None if shown.estimated_ready_at is UNSET else say_text(shown.estimated_ready_at, timezone)
    )
    if content.first is not None:
        values["changes"] = differences(content.first, shown)
    return render("approval.html", title="Approve this order?", console=None, **values)


def _shown(
    lines: Sequence[OrderLine] | Sequence[CommerceLine],
    amounts: Amounts,
    fulfillment: Fulfillment,
    customer: Customer | None,
    note: str | None,
    timezone: str,
) -> dict[str, Any]:
    """Return what the page shows of an order."""
    delivery = fulfillment if isinstance(fulfillment, DeliveryFulfillment) else None
    at = fulfillment.scheduled_time
    return {
        "lines": lines,
        "currency": amounts.currency,
        "sum": f"{amounts.total} {amounts.currency}",
        "amounts": list(_rows(amounts)),
        "how": "Pickup" if delivery is None else "Delivery by the store",
        "when": "as soon as possible" if at is None else say_text(at, timezone),
        "ready": None,
        "address": None if delivery is None else _address(delivery),
        "instructions": None if delivery is None else delivery.instructions,
        "note": note,
        "customer": customer,
    }


def _rows(amounts: Amounts) -> Iterator[_Row]:
    yield _Row("Items", amounts.sub_total)
    for name in EXTRAS:
        member = name.lower()
        amount: str = getattr(amounts, member)
        details: Sequence[AmountDetail] = getattr(amounts, f"{member}_description")
        if set(amount) <= _ZERO and not details:
            continue
        sign = "-" if name == "Promotions" and not set(amount) <= _ZERO else ""
        yield _Row(name, sign + amount)
        if len(details) > 1 or (details and details[0].description.casefold() != member):
            for detail in details:
                yield _Row(detail.description, sign + detail.amount, is_part=True)


def _address(delivery: DeliveryFulfillment) -> str | None:
    address = delivery.address
    if address is None:
        return None
    parts = (address.address1, address.address2, address.postal_code, address.city, address.state)
    return ", ".join(part for part in parts if part)


def _title_of(order: OrderRow) -> str:
    if order.state is OrderState.CANCELLED:
        was_placed = order.answer is not StoreAnswer.REFUSED or order.is_pulled
        return "The order is cancelled" if was_placed else "The order was not placed"
    return "The store is being asked" if order.answer is StoreAnswer.WAITING else "The order is placed"


def _title_of_none(approval: Approval) -> str:
    if approval.quote.state is QuoteState.DECLINED:
        return "The order was declined"
    return "This can't be approved any more"


async def _sentence(app: Services, order: OrderRow, approval: Approval, timezone: str, now: datetime) -> str:
    async with app.db.read() as tx:
        entries = await list_timeline(tx, order)
    name = "the store" if approval.store is None else approval.store.name
    said = sentence_of(facts_of(order, entries, store=name, timezone=timezone, now=now))
    return f"Order {number_of(order)}: {said}"
