"""Quote an order for an agent: lines by name, priced by their store, kept for fifteen minutes. Nothing is placed."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from mercato.agents.order_summaries import AmountsSummary, Described, amounts_of, render_amounts
from mercato.agents.ordering import (
    Lines,
    PricedLine,
    pointing_into_arguments,
    priced_lines,
    render_line,
    resolve_lines,
)
from mercato.agents.tools import ENVELOPE, SMALL, Hints, ToolCall, Tools
from mercato.api.orders import marketfront_orders
from mercato.features.partners.model import Surface
from mercato.features.quotes.model import NewQuote, QuoteWarning
from mercato.http.calls import operation_of
from mercato_contract.placements import ClientContext, DeliveryType, ScheduleType
from mercato_contract.problems import Reason
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import FulfillmentMode
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire, as_json, rfc3339

tools: Final = Tools(Surface.MARKETFRONT)

_VALIDATE: Final = operation_of(marketfront_orders, "validateOrder")

QUOTES: Final = Hints(read_only=False, destructive=False, idempotent=False, open_world=True)
"""Keeps a quote, and asks the store. Nothing is ordered."""

ROOM: Final = 2_500
"""Bytes of an answer that the lines leave for the amounts and the warnings."""

LEAST_ROOM: Final = 1_200
"""Bytes that the parts of the amounts have at least."""


class Place(Wire, forbid_unknown_fields=True):
    """Where a delivery goes."""

    address1: str
    address2: str | None = None
    city: str | None = None
    postal_code: str | None = None
    state: str | None = None


class Handover(Wire, kw_only=True, forbid_unknown_fields=True):
    """How an order gets to its customer."""

    mode: FulfillmentMode
    address: Place | None = None
    delivery_type: DeliveryType | None = None
    instructions: str | None = None
    schedule_type: ScheduleType | None = None


class Recipient(Wire, forbid_unknown_fields=True):
    """The person who orders."""

    email: str
    first_name: str
    last_name: str
    phone: str
    partner_user_id: str | None = None


class QuoteOrder(Wire, kw_only=True, forbid_unknown_fields=True):
    """The arguments of quote_order. What has no bound here is bounded as Validate order bounds it."""

    store_id: UUID
    lines: Lines
    fulfillment: Handover
    customer: Recipient
    tip: str | None = None
    note: str | None = None
    scheduled_time: Annotated[str, Meta(description="RFC 3339; now if absent")] | None = None


class QuotedOrder(Wire, kw_only=True):
    """The result of quote_order: an entry for each line, in order, and all amounts."""

    quote_id: UUID
    expires_at: str
    total: str
    currency: str
    ready_at: str | UnsetType = UNSET
    amounts: Described
    lines: list[Described]
    warnings: list[Described]


def render_quote(quote: QuotedOrder) -> str:
    """Return a quote as text."""
    ready = "" if quote.ready_at is UNSET else f" Ready at {quote.ready_at}."
    lines: list[PricedLine] = quote.lines
    warnings: list[QuoteWarning] = quote.warnings
    return "\n".join(
        [
            f"Quote {quote.quote_id}, valid until {quote.expires_at}. Nothing is placed yet.{ready}",
            *(f"{warning.code}: {warning.message}" for warning in warnings),
            *(render_line(line) for line in lines if line.name is not UNSET),
            *render_amounts(quote.amounts),
        ]
    )


@tools.declare(title="Quote an order", calls=[_VALIDATE], hints=QUOTES, render=render_quote)
async def quote_order(call: ToolCall[QuoteOrder]) -> QuotedOrder:
    """Ask the store what an order costs, all included, and keep it for 15 minutes. Lines are those of price_cart. Show
    the customer the total and the warnings, then call place_order.
    """
    asked, app = call.body, call.app
    _check_handover(asked)
    found = await resolve_lines(app, asked.store_id, asked.lines, in_force=True)
    context = ClientContext(
        ip=call.head.address[:64],
        user_agent=call.headers.get(b"user-agent", b"").decode("latin-1")[:1000],
    )
    order = as_json(
        {
            "cart": found.order_cart,
            "clientContext": context,
            "fulfillment": _fulfillment_of(asked),
            "amounts": {"tip": asked.tip},
            "customer": asked.customer,
            "note": asked.note,
        }
    )
    with pointing_into_arguments():
        # Decoded as Validate order decodes it.
        assert _VALIDATE.decode is not None
        quote = await app.quotes.quote(call.caller, _VALIDATE.decode(order), trace=call.trace)
    lines = priced_lines(found, most=SMALL - ROOM).lines
    return _quoted(quote, lines)


def _check_handover(asked: QuoteOrder) -> None:
    """Raise ValidationFailed for what the handover leaves out: the customer would take it for agreed."""
    sent, faults = asked.fulfillment, []
    if sent.mode is FulfillmentMode.PICKUP:
        members = {
            "address": sent.address,
            "deliveryType": sent.delivery_type,
            "instructions": sent.instructions,
        }
        faults += [
            Reason(
                code=ValidationFailed.code,
                message=f"{name} is part of a delivery. Leave it out of a pickup; words for the store are a note.",
                pointer=f"/fulfillment/{name}",
            )
            for name, value in members.items()
            if value
        ]
    if sent.schedule_type is ScheduleType.ASAP and asked.scheduled_time is not None:
        message = "An order for now has no scheduledTime. Leave it out, or send the scheduleType SCHEDULED."
        faults.append(Reason(code=ValidationFailed.code, message=message, pointer="/scheduledTime"))
    if faults:
        detail = faults[0].message if len(faults) == 1 else f"{count_of(len(faults), 'fault')}: see errors."
        raise ValidationFailed(detail, errors=faults)


def _fulfillment_of(asked: QuoteOrder) -> Mapping[str, Any]:
    """Return the fulfillment as Validate order takes it."""
    sent, at = asked.fulfillment, asked.scheduled_time
    schedule = sent.schedule_type or (ScheduleType.ASAP if at is None else ScheduleType.SCHEDULED)
    common = {"mode": sent.mode, "scheduleType": schedule, "scheduledTime": at}
    if sent.mode is FulfillmentMode.PICKUP:
        return common
    return common | {
        "deliveryType": sent.delivery_type or DeliveryType.DOOR_TO_DOOR,
        "address": sent.address,
        "instructions": sent.instructions,
    }


def _quoted(quote: NewQuote, lines: list[PricedLine]) -> QuotedOrder:
    """Return the quote with the lines at the prices that it has, and as many parts of its amounts as have room."""
    order = quote.order
    assert not isinstance(order.amounts, UnsetType), "an order without errors has a price"
    priced = [
        line if shown.amounts is UNSET else replace(line, total=shown.amounts.total)
        for line, shown in zip(lines, order.cart.line_items, strict=True)
    ]
    size = ENVELOPE + sum(len(as_json(line)) + len(as_json(render_line(line))) for line in priced)
    amounts: AmountsSummary = amounts_of(order.amounts, most=max(SMALL - ROOM - size, LEAST_ROOM))
    ready = UNSET if order.estimated_ready_at is UNSET else order.estimated_ready_at
    return QuotedOrder(
        quote_id=quote.id,
        expires_at=rfc3339(quote.expires_at),
        total=amounts.total,
        currency=amounts.currency,
        ready_at=ready,
        amounts=amounts,
        lines=priced,
        warnings=list(quote.warnings),
    )
