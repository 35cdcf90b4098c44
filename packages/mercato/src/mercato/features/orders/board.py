"""The board: the open orders that people accept, make and hand over, as cards in columns.

It has the orders about which no store is called. A store's own system shows the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select

from mercato.features.orders import queries
from mercato.features.orders.by_hand import KIND
from mercato.features.orders.cancellation_calls import find_requested
from mercato.features.orders.checks import MAX_DAYS_AHEAD
from mercato.features.orders.headlines import short_name
from mercato.features.orders.record import OrderRow, StoreAnswer, StoredCancellation
from mercato.features.partners.model import Caller
from mercato.features.stores.queries import list_names_and_timezones
from mercato.platform.db.engine import Read
from mercato.platform.db.tables import jobs
from mercato_contract.orders import OrderStatus
from mercato_contract.placements import CommerceLine, PickupFulfillment
from mercato_contract.wire import parse_instant

MAX_CARDS: Final = 200
"""Orders of one board: the newest. A person can't survey as many."""

KEPT: Final = timedelta(days=MAX_DAYS_AHEAD + 1)
"""How long an open order stays on the board: a day longer than it may be scheduled for."""

UNTOUCHED: Final = timedelta(minutes=5)
"""After this a new order is late that the service has accepted."""

WAITING: Final = timedelta(minutes=15)
_LAST: Final = datetime.max.replace(tzinfo=UTC) - WAITING
"""How long after its time an order that is ready isn't late yet: somebody comes for it."""

NUMBER_LENGTH: Final = 5
"""Characters of an id that tell orders apart. The last ones: those placed in the same minute begin alike."""


class Column(StrEnum):
    """A column of the board, as people read it."""

    NEW = "New"
    PREPARING = "Preparing"
    READY = "Ready"


COLUMNS: Final[Mapping[OrderStatus, Column]] = {
    OrderStatus.PENDING: Column.NEW,
    OrderStatus.CONFIRMED: Column.PREPARING,
    OrderStatus.PREPARING: Column.PREPARING,
    OrderStatus.READY: Column.READY,
    OrderStatus.IN_TRANSIT: Column.READY,
}


class CardLine(Struct, frozen=True):
    """A line of the cart, and what was chosen of it."""

    quantity: int
    name: str
    note: str | None
    choices: tuple["CardLine", ...]


class Card(Struct, frozen=True, kw_only=True):
    """An order on the board. Without a customer, who was erased, there is neither a name nor a note.

    `due` is when it should be ready, None for as soon as possible; `scheduled_for` what the customer has chosen.
    `accept_until` is when it is cancelled unless a person accepts it; `late_at` when it begins to be late.
    """

    order: OrderRow
    column: Column
    number: str
    name: str | None
    store: str | None
    timezone: str
    lines: tuple[CardLine, ...]
    note: str | None
    is_pickup: bool
    scheduled_for: datetime | None
    due: datetime | None
    accept_until: datetime | None
    late_at: datetime | None
    cancellation: StoredCancellation | None

    @property
    def id(self) -> UUID:
        return self.order.id


async def list_cards(
    tx: Read, caller: Caller, *, store_id: UUID | None, now: datetime
) -> tuple[list[Card], bool]:
    """Return the cards of the caller's stores, or of one, in the order of their columns; and whether there are more."""
    rows, has_more = await queries.list_open_pulled(
        tx, caller, store_id=store_id, since=now - KEPT, limit=MAX_CARDS
    )
    places = await list_names_and_timezones(tx, {row.store_id for row in rows})
    until = await _find_ends(tx, [row for row in rows if row.answer is StoreAnswer.PENDING])
    cards = [card_of(row, places.get(row.store_id), until.get(row.id)) for row in rows]
    return sorted(cards, key=_place), has_more


async def get_card(tx: Read, caller: Caller, order_id: UUID) -> Card:
    """Return the card of the caller's order, in whatever state. Raises OrderNotFound."""
    row = await queries.get_own_order(tx, caller, order_id)
    places = await list_names_and_timezones(tx, [row.store_id])
    return card_of(row, places.get(row.store_id), None)


async def _find_ends(tx: Read, pending: Sequence[OrderRow]) -> dict[UUID, datetime]:
    """Return until when each of the orders may be accepted."""
    ids = {row.id.hex: row.id for row in pending}
    query = select(jobs.c.dedup, jobs.c.run_at).where(
        jobs.c.kind == KIND, jobs.c.dedup.in_(ids), jobs.c.state != "dead"
    )
    return {ids[row.dedup]: row.run_at for row in (await tx.all(query) if ids else ())}


def card_of(row: OrderRow, place: tuple[str, str] | None, accept_until: datetime | None) -> Card:
    """Return an order as a card; `place` is its store's name and time zone, None once it is deleted."""
    fulfillment = row.fulfillment
    scheduled = fulfillment.scheduled_time and parse_instant(fulfillment.scheduled_time)
    due = row.estimated_ready_at or scheduled or None
    column = COLUMNS[row.status]
    store, timezone = place or (None, "UTC")
    return Card(
        order=row,
        column=column,
        number=short_number(row),
        name=short_name(row.customer),
        store=store,
        timezone=timezone,
        lines=tuple(_lines(row.cart.line_items)),
        note=None if row.notes is None else row.notes.order,
        is_pickup=isinstance(fulfillment, PickupFulfillment),
        scheduled_for=scheduled or None,
        due=due,
        accept_until=accept_until,
        late_at=_late_at(row, column, due, accept_until),
        cancellation=find_requested(row),
    )


def short_number(row: OrderRow) -> str:
    """Return what people call the order: the store's number of it, or the end of its id."""
    return row.partner_order_id or row.id.hex[-NUMBER_LENGTH:].upper()


def _lines(lines: Sequence[CommerceLine]) -> Iterator[CardLine]:
    for line in lines:
        choices = tuple(one for group in line.modifier_groups for one in _lines(group.line_items))
        yield CardLine(line.quantity, line.name or str(line.item_id), line.note, choices)


def _late_at(
    row: OrderRow, column: Column, due: datetime | None, accept_until: datetime | None
) -> datetime | None:
    match column:
        case Column.NEW if accept_until is not None:
            return row.created_at + (accept_until - row.created_at) / 2
        case Column.NEW:
            return max(row.created_at + UNTOUCHED, due) if due else row.created_at + UNTOUCHED
        case Column.PREPARING:
            return due
        case Column.READY:
            return due and min(due, _LAST) + WAITING


def _place(card: Card) -> tuple[datetime, UUID]:
    """Return where a card stands in its column: new ones by when they came, the others by when they are due."""
    came = card.order.created_at
    return (came if card.column is Column.NEW else card.due or came, card.id)
