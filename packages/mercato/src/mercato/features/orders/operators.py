"""Orders as the service's operators see them: of every partner, masked, and how many there are."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select, union

from mercato.features.orders import queries
from mercato.features.orders.privacy import (
    mask_all,
    mask_order,
    mask_phone,
    mask_reason,
    mask_text,
    private_texts,
    without_address,
)
from mercato.features.orders.record import OrderRow, StoreAnswer, adjustments_of
from mercato.features.orders.service import list_timeline
from mercato.features.orders.tables import orders
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_event_url
from mercato.features.partners.tables import partners
from mercato.features.stores.tables import stores
from mercato.features.webhooks.operators import HIDDEN
from mercato.features.webhooks.outbox import is_pushed
from mercato.platform.db.engine import Read
from mercato.platform.db.search import get_id
from mercato_contract.clock import Clock, first_id
from mercato_contract.events import EventType
from mercato_contract.money import to_text
from mercato_contract.orders import (
    CancellationStatus,
    Courier,
    OrderAdjustment,
    OrderState,
    OrderStatus,
    TimelineEntry,
)
from mercato_contract.placements import CommerceCart, CommerceLine, Customer, Fulfillment
from mercato_contract.problems import OrderError


class OrderView(StrEnum):
    """Which of the newest orders to list: those for a later time, or those that somebody should look at."""

    SCHEDULED = "scheduled"
    PROBLEM = "problem"


MAX_VIEWED: Final = 1_000
"""The newest orders, of those that the other filters fit, among which a view looks."""


class OrderFilter(Struct, frozen=True, kw_only=True):
    """Which orders to list: all that fit, placed since an instant and before another. `before` is the last id shown.

    `partner_id` is either side's, with `surface` that side's.
    """

    partner_id: UUID | None = None
    surface: Surface | None = None
    store_id: UUID | None = None
    state: OrderState | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: UUID | None = None
    view: OrderView | None = None
    now: datetime | None = None
    """Of the reader, for a view."""


class OrderSummary(Struct, frozen=True, kw_only=True):
    """An order in a list. Names are None once the partner or store is deleted; `total` is a decimal."""

    id: UUID
    partner_id: UUID
    partner: str | None
    storefront_id: UUID
    storefront: str | None
    store_id: UUID
    partner_store_id: str
    store: str | None
    state: OrderState
    status: OrderStatus
    answer: StoreAnswer
    partner_order_id: str | None
    cancel_reason: str | None
    total: str
    currency: str
    created_at: datetime
    updated_at: datetime


class OrderDetail(OrderSummary, frozen=True, kw_only=True):
    """An order with its lines, the store's reasons for a refusal, and everything that happened to it."""

    estimated_ready_at: datetime | None
    adjustments: tuple[OrderAdjustment, ...]
    total_after_adjustments: str
    lines: tuple[CommerceLine, ...]
    errors: tuple[OrderError, ...]
    timeline: list[TimelineEntry]


_storefronts: Final = partners.alias()

_PRIVATE: Final = ("customer", "client_context", "fulfillment", "notes")
"""The columns that say who ordered: partners' words in a list may repeat them."""

_SUMMARY: Final = (
    select(
        *(orders.c[name] for name in (*OrderSummary.__struct_fields__, *_PRIVATE) if name in orders.c),
        partners.c.name.label("partner"),
        _storefronts.c.name.label("storefront"),
        stores.c.name.label("store"),
    )
    .join(partners, partners.c.id == orders.c.partner_id, isouter=True)
    .join(_storefronts, _storefronts.c.id == orders.c.storefront_id, isouter=True)
    .join(stores, stores.c.id == orders.c.store_id, isouter=True)
)


async def list_orders(tx: Read, wanted: OrderFilter, *, limit: int) -> list[OrderSummary]:
    """Return at most `limit` orders, newest first."""
    query = _SUMMARY.where(orders.c.id.in_(_ids(wanted, limit))).order_by(orders.c.id.desc())
    return [_summary(row) for row in await tx.all(query.limit(limit))]


async def list_orders_of(tx: Read, ids: Sequence[UUID]) -> list[OrderSummary]:
    """Return the orders of these ids, newest first."""
    rows = await tx.all(_SUMMARY.where(orders.c.id.in_(ids)).order_by(orders.c.id.desc())) if ids else ()
    return [_summary(row) for row in rows]


async def count_orders(tx: Read, wanted: OrderFilter, *, most: int) -> int:
    """Return how many orders there are, at most `most`."""
    count: int = await tx.scalar(select(func.count()).select_from(_ids(wanted, most).limit(most).subquery()))
    return count


async def get_order_id(tx: Read, text: str) -> UUID:
    """Return the id of the order that begins with the text. Raises UnknownIdError."""
    return await get_id(tx, orders.c.id, text, noun="order")


async def get_order(tx: Read, order_id: UUID) -> OrderDetail:
    """Return the order with its timeline. Raises OrderNotFound."""
    row, timeline = await get_row(tx, order_id)
    found = await tx.first(_SUMMARY.where(orders.c.id == order_id))
    assert found is not None, "orders are never deleted"
    return OrderDetail(
        **asdict(_summary(found)),
        lines=row.cart.line_items,
        errors=row.errors,
        estimated_ready_at=row.estimated_ready_at,
        adjustments=adjustments_of(row),
        total_after_adjustments=to_text(row.total_after_adjustments, row.currency),
        timeline=timeline,
    )


async def get_row(tx: Read, order_id: UUID) -> tuple[OrderRow, list[TimelineEntry]]:
    """Return the order and its timeline as neither side sees it: with the attempts of both. Raises OrderNotFound."""
    row = await queries.get_order(tx, order_id)
    return mask_all(row, await list_timeline(tx, row))


class OrderRecipient(Struct, frozen=True):
    """Who ordered, how it gets there, who brings it, and what the customer wrote: `note`, and notes of lines in `cart`.

    Nothing is left of a customer who was erased.
    """

    customer: Customer | None
    fulfillment: Fulfillment
    courier: Courier | None
    note: str | None
    cart: CommerceCart


def recipient_of(row: OrderRow) -> OrderRecipient:
    """Return what the order says of its recipient."""
    note = None if row.notes is None else row.notes.order
    return OrderRecipient(row.customer, row.fulfillment, row.courier, note, row.cart)


async def get_recipient(tx: Read, order_id: UUID, *, masked: bool) -> OrderRecipient:
    """Return who ordered, for an operator who speaks to them; `masked` is their name and a part of the phone number.

    Raises OrderNotFound.
    """
    row = await queries.get_order(tx, order_id)
    if not masked:
        return recipient_of(row)
    customer = row.customer
    if customer is not None:
        customer = replace(customer, email=HIDDEN, phone=mask_phone(customer.phone), partner_user_id=None)
    return replace(
        recipient_of(mask_order(row)), customer=customer, fulfillment=without_address(row.fulfillment)
    )


def _ids(wanted: OrderFilter, limit: int) -> Select[Any]:
    """Return the query of the ids: for a partner one of each side, so that either has its index."""
    conditions: list[ColumnElement[bool]] = []
    if wanted.store_id is not None:
        conditions.append(orders.c.store_id == wanted.store_id)
    if wanted.state is not None:
        conditions.append(orders.c.state == wanted.state)
    if wanted.since is not None:
        conditions.append(orders.c.id >= first_id(wanted.since))
    if wanted.until is not None:
        conditions.append(orders.c.id < first_id(wanted.until))
    if wanted.before is not None:
        conditions.append(orders.c.id < wanted.before)
    if wanted.view is OrderView.SCHEDULED:
        conditions.append(orders.c.state == OrderState.OPEN)
    newest = select(orders.c.id).where(*conditions).order_by(orders.c.id.desc())
    newest = newest.limit(limit if wanted.view is None else MAX_VIEWED)
    if wanted.view is not None:
        return _viewed(_of_partner(newest, wanted), wanted).limit(limit)
    return _of_partner(newest, wanted)


def _of_partner(newest: Select[Any], wanted: OrderFilter) -> Select[Any]:
    if wanted.partner_id is None:
        return select(newest.subquery().c.id)
    columns = {Surface.COMMERCE: orders.c.partner_id, Surface.MARKETFRONT: orders.c.storefront_id}
    sides = [columns[side] for side in (Surface if wanted.surface is None else (wanted.surface,))]
    one, *others = (select(newest.where(side == wanted.partner_id).subquery().c.id) for side in sides)
    return select(union(one, *others).subquery().c.id) if others else one


def _viewed(newest: Select[Any], wanted: OrderFilter) -> Select[Any]:
    """Return the query of those that a view shows. Its text is compared with JSON, in which a quote has a backslash."""
    assert wanted.view is not None
    if wanted.view is OrderView.SCHEDULED:
        fits = orders.c.fulfillment.contains('"scheduledTime":"', autoescape=True)
    else:
        is_late = and_(
            orders.c.estimated_ready_at < wanted.now,
            orders.c.status.notin_((OrderStatus.READY, OrderStatus.IN_TRANSIT)),
        )
        waits = orders.c.cancellation.contains(f'"status":"{CancellationStatus.REQUESTED}"', autoescape=True)
        is_stuck = or_(orders.c.answer == StoreAnswer.WAITING, is_late, waits)
        unanswered = orders.c.answer.in_((StoreAnswer.REFUSED, StoreAnswer.GIVEN_UP))
        fits = or_(
            and_(orders.c.state == OrderState.OPEN, is_stuck),
            and_(orders.c.state == OrderState.CANCELLED, unanswered),
        )
    return select(orders.c.id).where(orders.c.id.in_(newest), fits).order_by(orders.c.id.desc())


def _summary(row: Row[Any]) -> OrderSummary:
    members = row._asdict()
    private = private_texts(*(queries.decode_document(name, members.pop(name)) for name in _PRIVATE))
    return OrderSummary(
        **members
        | {
            "partner_order_id": mask_text(row.partner_order_id, private),
            "cancel_reason": mask_reason(row.cancel_reason, StoreAnswer(row.answer), private),
            "state": OrderState(row.state),
            "status": OrderStatus(row.status),
            "answer": StoreAnswer(row.answer),
            "total": to_text(row.total, row.currency),
        }
    )


# --- how many orders were placed, and what they came to ------------------------------------------------

HOURS: Final = 24

MAX_COUNTED: Final = 10_000
"""A count of an hour's orders ends here."""

HOUR: Final = timedelta(hours=1)

_SETTLED: Final = timedelta(minutes=5)
"""How long after an hour's end an order of the hour may still be committed."""

_MAX_KEPT: Final = 20_000
"""Counts of past hours that are kept, of all accounts together."""

_ALL: Final = OrderFilter()


class Hour(Struct, frozen=True):
    """How many orders were placed in the hour that begins at the instant, at most `MAX_COUNTED`."""

    at: datetime
    count: int


class HourlyOrders:
    """Counts orders by hours. Past hours are counted once: orders are never deleted within two days."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._past: dict[tuple[OrderFilter, datetime], int] = {}

    async def look(self, tx: Read) -> list[Hour]:
        """Return the last 48 hours of all partners' orders, the present one last."""
        present = self._now().replace(minute=0, second=0, microsecond=0)
        return await self.count(tx, [present - number * HOUR for number in reversed(range(2 * HOURS))])

    async def count(self, tx: Read, hours: Sequence[datetime], wanted: OrderFilter = _ALL) -> list[Hour]:
        """Return the hours that begin at these instants. Later ones have no orders yet."""
        now = self._now()
        if len(self._past) > _MAX_KEPT:
            oldest = now - 2 * HOURS * HOUR
            self._past = {key: count for key, count in self._past.items() if key[1] >= oldest}
        if len(self._past) > _MAX_KEPT:
            self._past.clear()
        unknown = [at for at in hours if at <= now and (wanted, at) not in self._past]
        first = await _find_first(tx, wanted, min(unknown)) if unknown else None
        found = []
        for at in hours:
            count = self._past.get((wanted, at)) if at <= now else 0
            if count is None:
                # All hours before the first order are known by it: nearly all of a new account's.
                is_empty = first is None or first_id(at + HOUR) <= first
                count = 0 if is_empty else await _count(tx, wanted, at)
                if at + HOUR + _SETTLED <= now:
                    self._past[wanted, at] = count
            found.append(Hour(at, count))
        return found


async def _find_first(tx: Read, wanted: OrderFilter, since: datetime) -> UUID | None:
    """Return the id of the first order that was placed since the instant."""
    first = select(orders.c.id).where(orders.c.id >= first_id(since)).order_by(orders.c.id).limit(1)
    if wanted.store_id is not None:
        first = first.where(orders.c.store_id == wanted.store_id)
    of_each_side = _of_partner(first, wanted).subquery()
    found: UUID | None = await tx.scalar(select(of_each_side.c.id).order_by(of_each_side.c.id).limit(1))
    return found


async def _count(tx: Read, wanted: OrderFilter, at: datetime) -> int:
    return await count_orders(tx, replace(wanted, since=at, until=at + HOUR), most=MAX_COUNTED)


_HALF: Final = 2**32
"""Totals are summed up in two halves: SQLite refuses a sum beyond 64 bits, which two orders may have."""


async def sum_orders(tx: Read, wanted: OrderFilter, *, most: int) -> dict[str, str] | None:
    """Return what the orders that weren't cancelled came to, as decimals by their currency; None if more than `most`.

    It is their totals with all that their merchants changed afterwards.
    """
    if await count_orders(tx, wanted, most=most + 1) > most:
        return None
    fits = orders.c.id.in_(_ids(wanted, most)), orders.c.state != OrderState.CANCELLED
    c = orders.c
    totals = select(c.currency, func.sum(c.total // _HALF), func.sum(c.total % _HALF)).where(*fits)
    found = await tx.all(totals.group_by(c.currency))
    sums = {currency: int(high) * _HALF + int(low) for currency, high, low in found}
    changed = select(orders.c.currency, orders.c.adjustments).where(*fits, orders.c.adjustments.is_not(None))
    for currency, text in await tx.all(changed):
        sums[currency] += sum(one.difference for one in queries.decode_document("adjustments", text))
    return {currency: to_text(total, currency) for currency, total in sorted(sums.items())}


async def list_pending(tx: Read, wanted: OrderFilter, *, limit: int) -> list[OrderSummary]:
    """Return the orders that wait for a person to accept them, the oldest first, of the newest that are open."""
    newest = _ids(replace(wanted, state=OrderState.OPEN), MAX_VIEWED)
    query = _SUMMARY.where(orders.c.id.in_(newest), orders.c.answer == StoreAnswer.PENDING)
    return [_summary(row) for row in await tx.all(query.order_by(orders.c.id).limit(limit))]


# --- who is notified ------------------------------------------------------------------------------


async def describe_notice(tx: Read, order: OrderRow, event_type: EventType, *, is_store_told: bool) -> str:
    """Return in a sentence or two who hears of a change of the order at once, and who only reads it."""
    event_url = await find_event_url(tx, order.storefront_id)
    told = {
        "storefront": await is_pushed(
            tx,
            event_type,
            partner_id=order.storefront_id,
            surface=Surface.MARKETFRONT,
            base_url=event_url,
            store_id=order.store_id,
        )
    }
    if is_store_told:
        told["store"] = await is_pushed(
            tx,
            EventType.ORDER_CANCELLED,
            partner_id=order.partner_id,
            surface=Surface.COMMERCE,
            base_url=await queries.find_webhook_url(tx, order),
            store_id=order.store_id,
        )
    heard = [side for side, is_told in told.items() if is_told]
    silent = [side for side, is_told in told.items() if not is_told]
    sentences = []
    if heard:
        sentences.append(f"The {' and the '.join(heard)} {'is' if len(heard) == 1 else 'are'} notified.")
    if silent:
        has, sees = ("has", "sees") if len(silent) == 1 else ("have", "see")
        which = f"The {' and the '.join(silent)} {has} no working address for this event"
        sentences.append(f"{which} and {sees} it on reading the order or the events feed.")
    return " ".join(sentences)
