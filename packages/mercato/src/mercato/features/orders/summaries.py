"""What the orders of some days come to: sums by currency, day and store, best items, minutes, reasons to cancel.

Only so many orders are summed up: whole days, the newest first, as long as they fit. What is summed is kept for half a
minute, and one summary is made at a time, so that pages of reports never take more than a part of a process.
"""

import asyncio
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import BigInteger, Row, select, type_coerce

from mercato.features.orders import reports
from mercato.features.orders.queries import decode_document
from mercato.features.orders.reports import Days, Selection, Totals, read_sold
from mercato.features.orders.tables import orders
from mercato.features.stores.tables import stores
from mercato.platform.db.engine import Database, Read
from mercato.platform.slots import Slots
from mercato_contract.clock import Clock, to_ms
from mercato_contract.orders import OrderState
from mercato_contract.placements import ScheduleType
from mercato_contract.wire import Wire

MAX_SUMMED: Final = 5_000
"""Orders that one summary reads."""

PAGE: Final = 500
"""Orders that are read at once: everybody waits while they are summed up, some milliseconds."""

KEPT: Final = timedelta(seconds=30)
MAX_KEPT: Final = 64

MAX_WAITING: Final = 8
"""Summaries of one account that are made, or wait until others are: else all would wait for those of one."""

RETRY_AFTER: Final = 2

BEST: Final = 10
"""Items and reasons that are shown, those with the most first."""

MAX_STORES: Final = 50

MAX_NAMES: Final = 20_000
"""Different names of items that are counted."""


class Percentiles(Struct, frozen=True):
    """How long something took: for half of the orders at most `p50`, for nine in ten at most `p90`."""

    orders: int
    p50: timedelta
    p90: timedelta


class BestItem(Struct, frozen=True):
    """An item, by the name that the orders have of it, and how many were sold."""

    name: str
    quantity: int


class StoreTotals(Struct, frozen=True):
    """A store's part. It has no name once it is deleted."""

    store_id: UUID
    name: str | None
    totals: Totals


class CurrencySummary(Struct, frozen=True):
    """The orders in one currency: all of them, on each day, and of each store, the one that sold most first."""

    currency: str
    totals: Totals
    days: tuple[tuple[date, Totals], ...]
    stores: tuple[StoreTotals, ...]
    more_stores: int
    best: tuple[BestItem, ...]


class Summary(Struct, frozen=True):
    """What the orders of some days came to at `at`.

    `first` is the first day that is summed up, later than the one asked for if there were too many orders; None if
    those of the last day alone were too many.
    """

    selection: Selection
    at: datetime
    first: date | None
    currencies: tuple[CurrencySummary, ...] = ()
    cancelled: tuple[tuple[str, int], ...] = ()
    accepted: Percentiles | None = None
    ready: Percentiles | None = None

    @property
    def is_cut(self) -> bool:
        """Whether days are left out because there are too many orders."""
        return self.first != self.selection.days.first


@dataclass(slots=True)
class _Currency:
    totals: Totals = field(default_factory=Totals.of_none)
    days: defaultdict[date, Totals] = field(default_factory=lambda: defaultdict(Totals.of_none))
    stores: defaultdict[UUID, Totals] = field(default_factory=lambda: defaultdict(Totals.of_none))
    items: Counter[str] = field(default_factory=Counter)


class _Sums:
    """Adds orders up."""

    def __init__(self, days: Days) -> None:
        # By the currency, the number of the day, and the store.
        self._cells: defaultdict[tuple[str, int, UUID], Totals] = defaultdict(Totals.of_none)
        self._items: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.cancelled: Counter[str] = Counter()
        self.accepted: list[int] = []
        self.ready: list[int] = []
        self._days = days.every
        self._starts = [to_ms(days.start_of(day)) for day in self._days]
        self._end = to_ms(days.end)

    def add(self, row: Row[Any]) -> None:
        """Add an order, unless it was placed before or after these days."""
        created_at: int = row.created_ms
        if not self._starts[0] <= created_at < self._end:
            return
        day = bisect_right(self._starts, created_at) - 1
        cell = self._cells[row.currency, day, row.store_id]
        if row.accepted_ms is not None:
            self.accepted.append(row.accepted_ms - created_at)
        # How long an order for later takes says nothing of the kitchen.
        if row.ready_ms is not None and not _is_scheduled(row.fulfillment):
            self.ready.append(row.ready_ms - created_at)
        if row.state == OrderState.CANCELLED:
            cell.cancelled += 1
            self.cancelled[row.cancel_reason or ""] += 1
            return
        sold = read_sold(row)
        cell.orders += 1
        cell.sales.add_order(sold, decode_document("adjustments", row.adjustments) or ())
        items = self._items[row.currency]
        for line in sold.lines:
            name = line.name
            if name is not None and (name in items or len(items) < MAX_NAMES):
                items[name] += line.quantity

    def currencies(self) -> dict[str, _Currency]:
        """Return the sums of each currency."""
        found: defaultdict[str, _Currency] = defaultdict(_Currency)
        for (currency, day, store_id), cell in self._cells.items():
            own = found[currency]
            for totals in (own.totals, own.days[self._days[day]], own.stores[store_id]):
                totals.add(cell)
        for currency, items in self._items.items():
            found[currency].items = items
        return found


def percentiles_of(durations: Sequence[int]) -> Percentiles | None:
    """Return the nearest ranks of durations in milliseconds; None of nothing."""
    if not durations:
        return None
    found, count = sorted(durations), len(durations)
    p50, p90 = (found[-(-count * percent // 100) - 1] for percent in (50, 90))
    return Percentiles(count, timedelta(milliseconds=p50), timedelta(milliseconds=p90))


class _Fulfillment(Wire):
    schedule_type: ScheduleType


_fulfillment: Final = msgspec.json.Decoder(_Fulfillment)


def _is_scheduled(fulfillment: str) -> bool:
    """Return whether the order is for a later time, by its stored fulfillment."""
    return _fulfillment.decode(fulfillment).schedule_type is ScheduleType.SCHEDULED


class Summaries:
    """Makes summaries, one at a time, and keeps them for a while."""

    def __init__(self, db: Database, now: Clock) -> None:
        self._db = db
        self._now = now
        self._one = asyncio.Lock()
        self.slots = Slots(
            MAX_WAITING,
            full=f"{MAX_WAITING} reports of this account are being made already. Wait for one, then try again.",
            retry_after=RETRY_AFTER,
        )
        self._kept: dict[Selection, Summary] = {}

    async def look(self, selection: Selection) -> Summary:
        """Return the summary, at most half a minute old. Raises RateLimited."""
        if (kept := self._find(selection)) is not None:
            return kept
        with self.slots.slot(selection.partner_id):
            async with self._one:
                # Somebody else may have waited for the same one.
                return self._find(selection) or self._keep(await self._make(selection))

    def _keep(self, made: Summary) -> Summary:
        self._kept = {key: one for key, one in self._kept.items() if self._is_fresh(one)}
        if len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[made.selection] = made
        return made

    def _find(self, selection: Selection) -> Summary | None:
        found = self._kept.get(selection)
        return found if found is not None and self._is_fresh(found) else None

    def _is_fresh(self, summary: Summary) -> bool:
        # A clock that was set back makes none of them older.
        return timedelta() <= self._now() - summary.at < KEPT

    async def _make(self, selection: Selection) -> Summary:
        at = self._now()
        async with self._db.read() as tx:
            first = await _find_first_day(tx, selection)
        summary = Summary(selection=selection, at=at, first=first)
        if first is None:
            return summary
        shown = replace(selection, days=replace(selection.days, first=first))
        sums = _Sums(shown.days)
        async for rows in reports.read_pages(self._db, shown, _READ, size=PAGE):
            for row in rows:
                sums.add(row)
        found = sorted(sums.currencies().items(), key=lambda one: (-one[1].totals.orders, one[0]))
        async with self._db.read() as tx:
            currencies = [await _summarize(tx, currency, own) for currency, own in found]
        return replace(
            summary,
            currencies=tuple(currencies),
            cancelled=tuple(sums.cancelled.most_common(BEST)),
            accepted=percentiles_of(sums.accepted),
            ready=percentiles_of(sums.ready),
        )


_READ: Final = (
    *(orders.c.id, orders.c.store_id, orders.c.state, orders.c.cancel_reason, orders.c.currency),
    *(orders.c.sold, orders.c.adjustments, orders.c.fulfillment, reports.CONTENT),
    # Instants as milliseconds: of some thousand orders, conversions take longer than sums.
    type_coerce(orders.c.created_at, BigInteger).label("created_ms"),
    type_coerce(reports.ACCEPTED_AT, BigInteger).label("accepted_ms"),
    type_coerce(reports.READY_AT, BigInteger).label("ready_ms"),
)


async def _find_first_day(tx: Read, selection: Selection) -> date | None:
    """Return the first day from which on all orders fit into a summary, None if those of the last day don't."""
    query = select(orders.c.created_at).where(*reports.conditions_of(selection))
    beyond: datetime | None = await tx.scalar(query.order_by(orders.c.id.desc()).offset(MAX_SUMMED).limit(1))
    days = selection.days
    if beyond is None or beyond < days.start:
        return days.first
    first = days.day_of(beyond) + timedelta(days=1)
    return first if first <= days.last else None


async def _summarize(tx: Read, currency: str, own: _Currency) -> CurrencySummary:
    best = sorted(own.stores.items(), key=lambda one: (-one[1].sales.total, one[0]))[:MAX_STORES]
    ids = [store_id for store_id, _ in best]
    rows = await tx.all(select(stores.c.id, stores.c.name).where(stores.c.id.in_(ids)))
    names = {row.id: row.name for row in rows}
    items = sorted(own.items.items(), key=lambda one: (-one[1], one[0]))[:BEST]
    return CurrencySummary(
        currency=currency,
        totals=own.totals,
        days=tuple(sorted(own.days.items())),
        stores=tuple(StoreTotals(store_id, names.get(store_id), totals) for store_id, totals in best),
        more_stores=len(own.stores) - len(best),
        best=tuple(BestItem(name, quantity) for name, quantity in items),
    )
