"""Reports of orders: what was sold on which days, read in small pages, so that a year of them is never in memory.

A report is sent as it is read. No transaction lasts longer than a page, so what it says of an order is what was stored
when its page was read, and its totals are the sums of the rows that it has sent.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Row,
    Select,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
)

from mercato.features.compression import decompress
from mercato.features.orders.lifecycle import OWN_CODES
from mercato.features.orders.queries import decode_document
from mercato.features.orders.record import StoredAdjustment
from mercato.features.orders.sold import Sold, SoldLine, decode_sold, sold_in
from mercato.features.orders.tables import order_history as history
from mercato.features.orders.tables import orders
from mercato.features.partners.model import Caller, Surface
from mercato.features.stores.model import StoreNotFound
from mercato.features.stores.queries import find_common_timezone
from mercato.features.stores.tables import stores
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.types import json_member
from mercato.platform.slots import Slots
from mercato_contract.clock import first_id, zone
from mercato_contract.money import to_text
from mercato_contract.orders import AdjustmentType, OrderState, OrderStatus
from mercato_contract.problems import OTHER
from mercato_contract.refusals import ValidationFailed
from mercato_contract.reports import (
    MAX_DAYS,
    OrderReportQuery,
    ReportedOrder,
    ReportTotals,
    date_fault,
    parse_date,
)
from mercato_contract.stores import OrderHandling, timezone_fault
from mercato_contract.texts import count_of
from mercato_contract.wire import as_json, rfc3339

PAGE: Final = 200
"""Orders that are read at once: everybody waits while they are decoded, some milliseconds."""

MAX_RUNNING: Final = 4
"""Reports of one account that one process sends at a time."""

RETRY_AFTER: Final = 10

UTC: Final = "UTC"

_SLACK: Final = timedelta(minutes=1)
"""How far the time in an order's id and its `createdAt` may be apart: both are taken while it is stored."""

_ONE_DAY: Final = timedelta(days=1)

_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9000

_ACCEPTING: Final = ("accepted", "updated", "completed")
"""Types of entries in an order's history by which its store accepts it; the first of them does."""

_READY: Final = (OrderStatus.READY, OrderStatus.IN_TRANSIT)


# --- what a report is about ------------------------------------------------------------------------------


class Days(Struct, frozen=True):
    """The days of a report in their time zone, the last included."""

    first: date
    last: date
    timezone: str

    @property
    def start(self) -> datetime:
        """The instant at which the first day begins."""
        return self.start_of(self.first)

    @property
    def end(self) -> datetime:
        """The instant at which the day after the last begins: 23 to 25 hours after the last day's beginning."""
        return self.start_of(self.last + _ONE_DAY)

    @property
    def every(self) -> list[date]:
        """The days, the first of them first."""
        return [self.first + timedelta(days=number) for number in range((self.last - self.first).days + 1)]

    def day_of(self, at: datetime) -> date:
        return day_of(at, self.timezone)

    def start_of(self, day: date) -> datetime:
        """Return the instant at which the day begins."""
        # Where clocks are put forward at midnight, the day begins at that instant: what `fold=0` means.
        return datetime.combine(day, time(), zone(self.timezone)).astimezone(zone(UTC))


def day_of(at: datetime, timezone: str) -> date:
    """Return the day of an instant in the time zone."""
    return at.astimezone(zone(timezone)).date()


class Selection(Struct, frozen=True):
    """Whose orders a report is about: those of a partner's stores, or those that it placed."""

    partner_id: UUID
    surface: Surface
    days: Days
    store_id: UUID | None = None


def days_of(first: str, last: str, timezone: str) -> Days:
    """Return the days of a report. Raises ValidationFailed."""
    faults = (date_fault("from", first), date_fault("to", last), timezone_fault(timezone))
    for fault in faults:
        if fault is not None:
            raise ValidationFailed.at(None, fault)
    begins, ends = parse_date(first), parse_date(last)
    assert begins is not None
    assert ends is not None
    if begins > ends:
        raise ValidationFailed.at(
            None, f"from ({begins}) is after to ({ends}). Send the earlier day as from."
        )
    days = (ends - begins).days + 1
    if days > MAX_DAYS:
        raise ValidationFailed.at(
            None,
            f"from {begins} to {ends} are {count_of(days, 'day')}, and a report has at most {MAX_DAYS}. "
            "Ask for one year at a time.",
        )
    # Beyond these, instants have no dates in some time zone.
    if begins.year < _FIRST_YEAR or ends.year > _LAST_YEAR:
        raise ValidationFailed.at(None, f"from and to must be of the years {_FIRST_YEAR} to {_LAST_YEAR}.")
    return Days(begins, ends, timezone)


async def find_account_timezone(tx: Read, caller: Caller) -> str:
    """Return the time zone that the account's stores have in common, a storefront's are the network's; else UTC."""
    own = caller.partner_id if caller.surface is Surface.COMMERCE else None
    return await find_common_timezone(tx, partner_id=own) or UTC


async def check_store(tx: Read, store_id: UUID, partner_id: UUID, surface: Surface) -> None:
    """Raise StoreNotFound unless the partner can have orders of the store: it owns it, or is a storefront."""
    conditions = [stores.c.id == store_id]
    if surface is Surface.COMMERCE:
        conditions.append(stores.c.partner_id == partner_id)
    if await tx.scalar(select(stores.c.id).where(*conditions)) is None:
        raise StoreNotFound(store_id)


# --- what it says -----------------------------------------------------------------------------------------


_AMOUNTS: Final = ("gross", "promotions", "adjustments", "refunds", "net", "fees", "taxes", "tips", "total")


@dataclass(slots=True)
class Sales:
    """Amounts in minor units of one currency, which can be added up."""

    gross: int = 0
    promotions: int = 0
    adjustments: int = 0
    refunds: int = 0
    fees: int = 0
    taxes: int = 0
    tips: int = 0

    @property
    def net(self) -> int:
        return self.gross - self.promotions + self.adjustments - self.refunds

    @property
    def total(self) -> int:
        """What the customers paid in the end: the orders' totals after their adjustments."""
        return self.net + self.fees + self.taxes + self.tips

    def add(self, other: "Sales") -> None:
        self.gross += other.gross
        self.promotions += other.promotions
        self.adjustments += other.adjustments
        self.refunds += other.refunds
        self.fees += other.fees
        self.taxes += other.taxes
        self.tips += other.tips

    def add_order(self, sold: Sold, adjustments: Sequence[StoredAdjustment]) -> None:
        """Add what an order came to, with all that its merchant changed afterwards."""
        self.gross += sold.sub_total
        self.promotions += sold.promotions
        self.adjustments += sold.adjustments
        self.fees += sold.fees
        self.taxes += sold.taxes
        self.tips += sold.tip
        for adjustment in adjustments:
            match adjustment.type:
                case AdjustmentType.REFUND:
                    self.refunds += adjustment.amount
                case AdjustmentType.FEE:
                    self.fees += adjustment.amount
                case AdjustmentType.SUBSTITUTION:
                    self.adjustments += adjustment.amount

    def texts(self, currency: str) -> dict[str, str]:
        """Return the amounts as decimals, by their names in Python."""
        return {name: to_text(getattr(self, name), currency) for name in _AMOUNTS}


@dataclass(slots=True)
class Totals:
    """The sums of orders in one currency: how many were sold, how many cancelled, and the amounts of the sold ones."""

    orders: int
    cancelled: int
    sales: Sales

    @classmethod
    def of_none(cls) -> "Totals":
        return cls(0, 0, Sales())

    def add(self, other: "Totals") -> None:
        self.orders += other.orders
        self.cancelled += other.cancelled
        self.sales.add(other.sales)

    def add_order(self, row: "ReportRow") -> None:
        if row.is_cancelled:
            self.cancelled += 1
        else:
            self.orders += 1
            self.sales.add(row.sales)


def code_of(reason: str | None) -> str | None:
    """Return why an order was cancelled, in a code of this service: operators see no words of partners."""
    return reason if reason is None or reason in OWN_CODES else OTHER


class ReportRow(Struct, frozen=True, kw_only=True):
    """An order of a report. `sales` are zero once it is cancelled; `placed_total` is in minor units, too.

    Nothing of it is the customer's: what is here stays when the customer is erased.
    """

    id: UUID
    day: date
    created_at: datetime
    store_id: UUID
    partner_store_id: str
    partner_order_id: str | None
    state: OrderState
    status: OrderStatus
    cancel_reason: str | None
    accepted_at: datetime | None
    ready_at: datetime | None
    currency: str
    sales: Sales
    placed_total: int
    lines: tuple[SoldLine, ...]

    @property
    def is_cancelled(self) -> bool:
        return self.state is OrderState.CANCELLED

    def without_words(self) -> "ReportRow":
        """Return the row as operators see it: without what partners wrote, which may be of the customer."""
        return replace(self, partner_order_id=None, cancel_reason=code_of(self.cancel_reason))

    def on_the_wire(self) -> ReportedOrder:
        return ReportedOrder(
            order_id=self.id,
            date=self.day.isoformat(),
            created_at=rfc3339(self.created_at),
            store_id=self.store_id,
            partner_store_id=self.partner_store_id,
            partner_order_id=self.partner_order_id,
            state=self.state,
            status=self.status,
            cancel_reason=self.cancel_reason,
            accepted_at=None if self.accepted_at is None else rfc3339(self.accepted_at),
            ready_at=None if self.ready_at is None else rfc3339(self.ready_at),
            items=sum(line.quantity for line in self.lines),
            placed_total=to_text(self.placed_total, self.currency),
            currency=self.currency,
            **self.sales.texts(self.currency),
        )


# --- reading -----------------------------------------------------------------------------------------------

_MAX_ENTRIES: Final = 100
"""Entries of one order's history that are read: a merchant's updates have no limit of their own."""


def _moment(*conditions: ColumnElement[bool]) -> ColumnElement[datetime]:
    """Return the instant of the first entry by which an order was accepted, and that meets the conditions."""
    c = history.c
    return (
        select(func.min(c.at))
        .where(
            c.order_id == orders.c.id,
            c.number < _MAX_ENTRIES,
            or_(*(c.type == kind for kind in _ACCEPTING)),
            # A person accepts an order by its status: another update before says nothing of it.
            or_(
                c.type != "updated",
                func.coalesce(orders.c.handling, "") != OrderHandling.MANUAL.value,
                c.detail.contains('"status":"'),
            ),
            *conditions,
        )
        .scalar_subquery()
    )


ACCEPTED_AT: Final = _moment().label("accepted_at")
READY_AT: Final = _moment(
    json_member(history.c.detail, literal_column("'status'")).in_(
        [literal_column(f"'{status.value}'") for status in _READY]
    )
).label("ready_at")

CONTENT: Final = case((orders.c.sold.is_(None), orders.c.content)).label("content")
"""The content of an order that was placed by an earlier release; None of others."""

_READ: Final = (
    *(
        orders.c[name]
        for name in (
            *("id", "created_at", "store_id", "partner_store_id", "partner_order_id", "state", "status"),
            *("cancel_reason", "currency", "total", "sold", "adjustments"),
        )
    ),
    CONTENT,
    ACCEPTED_AT,
    READY_AT,
)


AFTER: Final = bindparam("after", type_=orders.c.id.type)
"""The last order that was read: a report makes two statements, not one for each page, which would be much garbage."""


async def read_pages(
    db: Database, selection: Selection, columns: Sequence[ColumnElement[Any]], *, size: int
) -> AsyncGenerator[Sequence[Row[Any]]]:
    """Yield columns of the orders that meet `conditions_of`, in pages, the oldest first, each in a short transaction.

    The id is among the columns.
    """
    query, following = (_page(selection, columns, after, size) for after in (None, AFTER))
    last: dict[str, UUID] = {}
    while True:
        async with db.read() as tx:
            found = await tx.all(query, last)
        yield found
        if len(found) < size:
            return
        query, last = following, {AFTER.key: found[-1].id}


def _page(
    selection: Selection, columns: Sequence[ColumnElement[Any]], after: BindParameter[UUID] | None, size: int
) -> Select[Any]:
    return select(*columns).where(*conditions_of(selection, after)).order_by(orders.c.id).limit(size)


async def read_rows(db: Database, selection: Selection) -> AsyncGenerator[list[ReportRow]]:
    """Yield the orders of these days in pages, the oldest first."""
    start, end = selection.days.start, selection.days.end
    async with aclosing(read_pages(db, selection, _READ, size=PAGE)) as pages:
        async for found in pages:
            yield [_row(row, selection.days) for row in found if start <= row.created_at < end]


def conditions_of(
    selection: Selection, after: BindParameter[UUID] | None = None
) -> list[ColumnElement[bool]]:
    """Return the conditions of the orders of these days, and of a minute before and after.

    `after` is for the last one that was read. It stands in the place of the first day: of two lower bounds an index
    uses one, perhaps the lower, and would read all that was read before.
    """
    days = selection.days
    return [
        *_whose(selection),
        orders.c.id >= first_id(days.start - _SLACK) if after is None else orders.c.id > after,
        orders.c.id < first_id(days.end + _SLACK),
    ]


def _whose(selection: Selection) -> list[ColumnElement[bool]]:
    side = orders.c.partner_id if selection.surface is Surface.COMMERCE else orders.c.storefront_id
    conditions: list[ColumnElement[bool]] = [side == selection.partner_id]
    if selection.store_id is not None:
        conditions.append(orders.c.store_id == selection.store_id)
    return conditions


def read_sold(row: Row[Any]) -> Sold:
    """Return what was sold by an order: `sold`, or `CONTENT` in its place."""
    return sold_in(decompress(row.content), row.currency) if row.sold is None else decode_sold(row.sold)


def _row(row: Row[Any], days: Days) -> ReportRow:
    state, sold = OrderState(row.state), read_sold(row)
    sales = Sales()
    if state is not OrderState.CANCELLED:
        sales.add_order(sold, decode_document("adjustments", row.adjustments) or ())
    return ReportRow(
        id=row.id,
        day=days.day_of(row.created_at),
        created_at=row.created_at,
        store_id=row.store_id,
        partner_store_id=row.partner_store_id,
        partner_order_id=row.partner_order_id,
        state=state,
        status=OrderStatus(row.status),
        cancel_reason=row.cancel_reason,
        accepted_at=row.accepted_at,
        ready_at=row.ready_at,
        currency=row.currency,
        sales=sales,
        placed_total=row.total,
        lines=sold.lines,
    )


# --- sending -----------------------------------------------------------------------------------------------

COLUMNS: Final = (
    *("orderId", "date", "createdAt", "storeId", "partnerStoreId", "partnerOrderId", "state", "status"),
    *("cancelReason", "acceptedAt", "readyAt", "items", "currency", "gross", "promotions", "adjustments"),
    *("refunds", "net", "fees", "taxes", "tips", "total", "placedTotal"),
)
"""The columns of the CSV: the members of a row, in an order for people."""

_FORMULA: Final = re.compile(r"""(^|[,;"\t\r\n])(?=\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])""")
"""Where a spreadsheet would begin to calculate: at the start of a cell, and after what some take for its end."""

_PLAIN: Final = re.compile(r"(\w[\w.:/ -]*)?", re.ASCII)
"""What stays as it is: most cells, which are told from the others in a fifth of the time."""

BOM: Final = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()
"""By which spreadsheets know that a file is UTF-8."""


def csv_text(text: str) -> str:
    """Return a text as a cell: in quotes if need be, and never a formula, with `'` where one would begin."""
    if _PLAIN.fullmatch(text):
        return text
    safe = _FORMULA.sub(r"\1'", text)
    return '"' + safe.replace('"', '""') + '"'


def csv_line(row: ReportRow) -> str:
    """Return an order's line. Only what partners wrote can be a formula: amounts and dates are the service's."""
    amounts = row.sales.texts(row.currency)
    return ",".join(
        (
            str(row.id),
            row.day.isoformat(),
            rfc3339(row.created_at),
            str(row.store_id),
            csv_text(row.partner_store_id),
            csv_text(row.partner_order_id or ""),
            row.state.value,
            row.status.value,
            csv_text(row.cancel_reason or ""),
            "" if row.accepted_at is None else rfc3339(row.accepted_at),
            "" if row.ready_at is None else rfc3339(row.ready_at),
            str(sum(line.quantity for line in row.lines)),
            row.currency,
            *amounts.values(),
            to_text(row.placed_total, row.currency),
        )
    )


class OrderReports:
    """Sends reports of orders. An account gets some at a time: each keeps a connection as long as it is read."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.slots = Slots(
            MAX_RUNNING,
            full=f"{MAX_RUNNING} reports of this account are being sent already. Wait until one has ended.",
            retry_after=RETRY_AFTER,
        )

    async def select(self, caller: Caller, query: OrderReportQuery) -> Selection:
        """Return which orders the query is about. Raises ValidationFailed, StoreNotFound."""
        async with self._db.read() as tx:
            timezone = query.timezone or await find_account_timezone(tx, caller)
            days = days_of(query.from_, query.to, timezone)
            if query.store_id is not None:
                await check_store(tx, query.store_id, caller.partner_id, caller.surface)
        return Selection(caller.partner_id, caller.surface, days, query.store_id)

    async def as_json(self, selection: Selection) -> AsyncGenerator[bytes]:
        """Yield the parts of an `OrderReport`. Raises RateLimited before the first."""
        with self.slots.slot(selection.partner_id):
            days = selection.days
            head = {
                "from": days.first.isoformat(),
                "to": days.last.isoformat(),
                "timezone": days.timezone,
                "storeId": selection.store_id,
            }
            before = as_json(head)[:-1] + b',"orders":['
            totals: dict[str, Totals] = {}
            async for rows in read_rows(self._db, selection):
                for row in rows:
                    totals.setdefault(row.currency, Totals.of_none()).add_order(row)
                if rows:
                    yield before + b",".join(as_json(row.on_the_wire()) for row in rows)
                    before = b","
            sums = [_totals(currency, found) for currency, found in sorted(totals.items())]
            yield (b"" if totals else before) + b'],"totals":' + as_json(sums) + b"}"

    async def as_csv(
        self, selection: Selection, *, mark: bytes = b"", has_words: bool = True
    ) -> AsyncGenerator[bytes]:
        """Yield the parts of a table with a header, after the byte order mark. Raises RateLimited before the first.

        Operators get it without what partners wrote.
        """
        with self.slots.slot(selection.partner_id):
            before = mark + ",".join(COLUMNS).encode() + b"\r\n"
            async for rows in read_rows(self._db, selection):
                shown = rows if has_words else [row.without_words() for row in rows]
                yield before + "".join(csv_line(row) + "\r\n" for row in shown).encode()
                before = b""


def _totals(currency: str, totals: Totals) -> ReportTotals:
    return ReportTotals(
        orders=totals.orders,
        cancelled=totals.cancelled,
        currency=currency,
        **totals.sales.texts(currency),
    )
