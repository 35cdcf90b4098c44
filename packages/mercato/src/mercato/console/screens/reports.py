"""Reports: what the orders of some days came to, and the same orders as a file."""

from datetime import date, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct, field

from mercato.console.filters import Filters, partner_of, read_filters, store_of
from mercato.console.screen import EVERYBODY, Download, Page, Screens, Visit
from mercato.features.orders.reports import (
    BOM,
    Days,
    Selection,
    Totals,
    check_store,
    code_of,
    day_of,
    days_of,
)
from mercato.features.orders.sentences import readable
from mercato.features.orders.summaries import (
    MAX_SUMMED,
    CurrencySummary,
    Percentiles,
    Summary,
)
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_partner
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.engine import Read
from mercato_contract.money import to_text
from mercato_contract.problems import OTHER
from mercato_contract.refusals import ValidationFailed
from mercato_contract.reports import date_fault
from mercato_contract.wire import Wire

screens: Final = Screens(EVERYBODY)

WEEK: Final = 7
"""Days of the report that is shown at first: the last ones."""

MAX_DAYS: Final = 92
"""Days that the page shows; a file has as many as the API's."""

CSV: Final = b"text/csv; charset=utf-8"

WIDTH: Final = 480
"""The chart's width, which its bars divide."""


class ReportQuery(Wire):
    """The filters, besides the store and, for operators, the partner."""

    from_: str | None = field(name="from", default=None)
    to: str | None = None
    side: Surface | None = None


class Bar(Struct, frozen=True):
    """A day in the chart: its height in hundredths of the highest, and where it stands."""

    day: date
    total: str
    height: int
    x: float
    width: float


class Chart(Struct, frozen=True):
    """The totals of each day in one currency."""

    bars: tuple[Bar, ...]
    most: str


class Part(Struct, frozen=True):
    """A row of a table: a day, a store or all, with its sums as texts."""

    name: str
    store_id: UUID | None
    orders: int
    cancelled: int
    amounts: dict[str, str]


class Section(Struct, frozen=True):
    """What the page shows of one currency."""

    summary: CurrencySummary
    chart: Chart | None
    all: Part
    days: tuple[Part, ...]
    stores: tuple[Part, ...]


@screens.get("reports", needs=Permission.SEE_REPORTS)
async def show_report(visit: Visit) -> Page:
    filters = read_filters(visit, ReportQuery)
    today = day_of(visit.app.clock(), visit.timezone)
    days = _read_days(filters, visit.timezone, today)
    selection = await _select(visit, filters, days)
    summary = None if selection is None else await visit.app.order_summaries.look(selection)
    values = {
        "search": filters,
        "days": days,
        "periods": _periods(today, days, _query(filters, days)),
        "summary": summary,
        "most": MAX_SUMMED,
        "sections": () if summary is None else [_section(summary, one) for one in summary.currencies],
        "cancelled": () if summary is None else _reasons(visit, summary),
        "minutes": () if summary is None else _minutes(summary),
        "query": _query(filters, days),
    }
    return Page("reports.html", "Reports", values)


@screens.get("reports/orders", needs=Permission.SEE_REPORTS)
async def download_orders(visit: Visit) -> Download:
    filters = read_filters(visit, ReportQuery)
    query = filters.query
    filters.check()
    days = days_of(query.from_ or "", query.to or "", visit.timezone)
    selection = await _select(visit, filters, days)
    filters.check()
    if selection is None:
        raise ValidationFailed.at(None, "Choose a partner.")
    parts = visit.app.order_reports.as_csv(selection, mark=BOM, has_words=not visit.is_operator)
    return Download(f"orders-{days.first}-{days.last}.csv", CSV, parts)


def _read_days(filters: Filters[ReportQuery], timezone: str, today: date) -> Days:
    """Return the days of the fields, and say beside them what is wrong; the last week if none are given."""
    query = filters.query
    week = Days(today - timedelta(days=WEEK - 1), today, timezone)
    for name, text in (("from", query.from_), ("to", query.to)):
        fault = None if text is None else date_fault(name, text)
        if fault is not None:
            filters.faults[name] = "Write a date, like 2026-03-01."
    if filters.faults:
        return week
    last = query.to or today.isoformat()
    first = query.from_ or min(week.first, date.fromisoformat(last)).isoformat()
    try:
        days = days_of(first, last, timezone)
    except ValidationFailed as fault:
        filters.faults["from"] = fault.detail
        return week
    if (days.last - days.first).days >= MAX_DAYS:
        filters.faults["from"] = f"This page shows at most {MAX_DAYS} days. A file may have 366."
    return days


async def _select(visit: Visit, filters: Filters[ReportQuery], days: Days) -> Selection | None:
    """Return whose orders are reported; None if that isn't known, and the faults say why. Raises StoreNotFound."""
    async with visit.app.db.read() as tx:
        partner_id = await partner_of(tx, visit, filters)
        if partner_id is None:
            return None
        surface = await _side(tx, visit, filters, partner_id)
        store_id = await store_of(tx, visit, filters, None if visit.is_operator else surface)
        if filters.faults or surface is None:
            return None
        if store_id is not None:
            await check_store(tx, store_id, partner_id, surface)
    return Selection(partner_id, surface, days, store_id)


async def _side(tx: Read, visit: Visit, filters: Filters[ReportQuery], partner_id: UUID) -> Surface | None:
    side = filters.query.side
    if not visit.is_operator:
        return visit.caller_of(side).surface
    partner = await find_partner(tx, partner_id)
    if partner is None:
        filters.faults["partner"] = "No partner has this id."
        return None
    surfaces = partner.kind.surfaces
    return side if side in surfaces else surfaces[0]


def _periods(today: date, shown: Days, query: dict[str, str]) -> list[tuple[str, dict[str, str], bool]]:
    """Return the periods that are a press away: the name, the query, and whether it is the one that is shown."""
    yesterday = today - timedelta(days=1)
    return [
        (
            name,
            query | {"from": first.isoformat(), "to": last.isoformat()},
            (shown.first, shown.last) == (first, last),
        )
        for name, first, last in (
            ("Today", today, today),
            ("Yesterday", yesterday, yesterday),
            (f"Last {WEEK} days", today - timedelta(days=WEEK - 1), today),
            ("Last 30 days", today - timedelta(days=29), today),
        )
    ]


def _query(filters: Filters[ReportQuery], days: Days) -> dict[str, str]:
    """Return the query of the same report elsewhere."""
    kept = {name: filters.texts[name] for name in ("storeId", "partner", "side") if filters.texts.get(name)}
    return {"from": days.first.isoformat(), "to": days.last.isoformat()} | kept


def _section(summary: Summary, one: CurrencySummary) -> Section:
    assert summary.first is not None
    sold = dict(one.days)
    count = (summary.selection.days.last - summary.first).days + 1
    every = [summary.first + timedelta(days=number) for number in range(count)]
    totals = [sold.get(day, Totals.of_none()) for day in every]
    return Section(
        one,
        _chart(every, totals, one.currency) if count > 1 else None,
        _part("All", one.totals, one.currency),
        tuple(
            _part(day.isoformat(), total, one.currency)
            for day, total in reversed(list(zip(every, totals, strict=True)))
            if total.orders or total.cancelled
        ),
        tuple(
            _part(store.name or str(store.store_id), store.totals, one.currency, store_id=store.store_id)
            for store in one.stores
        ),
    )


def _part(name: str, totals: Totals, currency: str, *, store_id: UUID | None = None) -> Part:
    return Part(name, store_id, totals.orders, totals.cancelled, totals.sales.texts(currency))


def _chart(days: list[date], totals: list[Totals], currency: str) -> Chart | None:
    sums = [max(one.sales.total, 0) for one in totals]
    highest = max(sums)
    if highest == 0:
        return None
    width = WIDTH / len(days)
    return Chart(
        tuple(
            Bar(day, to_text(total, currency), -(-100 * total // highest), number * width, width * 0.8)
            for number, (day, total) in enumerate(zip(days, sums, strict=True))
        ),
        to_text(highest, currency),
    )


def _reasons(visit: Visit, summary: Summary) -> list[tuple[str | None, str | None, int]]:
    """Return why orders were cancelled, as it was said and in words, and how many.

    Operators see no words of partners: they may be of a customer.
    """
    counts: dict[str | None, int] = {}
    for reason, count in summary.cancelled:
        shown = code_of(reason) if visit.is_operator else reason
        counts[shown] = counts.get(shown, 0) + count
    return [
        (reason, reason and _in_words(reason), count)
        for reason, count in sorted(counts.items(), key=lambda one: -one[1])
    ]


def _in_words(reason: str) -> str:
    """Return a code as people write it, and what people wrote as it is."""
    words = readable(reason)
    return words.capitalize() if words != reason or reason == OTHER else reason


def _minutes(summary: Summary) -> list[tuple[str, str, str, int]]:
    """Return what took how long: for half of the orders, for nine in ten, and of how many."""
    found = (("To accept", summary.accepted), ("To be ready", summary.ready))
    return [
        (name, _words(one.p50), _words(one.p90), one.orders)
        for name, one in found
        if isinstance(one, Percentiles)
    ]


def _words(duration: timedelta) -> str:
    tenths = round(duration / timedelta(seconds=6))
    return f"{tenths // 10}.{tenths % 10}"
