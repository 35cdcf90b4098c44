"""Overview: what needs somebody, today beside yesterday, refused requests by their code, and the newest orders."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.console.filters import headlines_of
from mercato.console.hours import Slot, bars_of
from mercato.console.screen import PARTNERS, Page, Screens, Visit
from mercato.console.times import say
from mercato.features.catalogs import operators as catalogs
from mercato.features.catalogs.operators import RunFilter
from mercato.features.orders.operators import (
    HOUR,
    HOURS,
    OrderFilter,
    OrderSummary,
    count_orders,
    list_orders,
    list_pending,
    sum_orders,
)
from mercato.features.orders.operators import MAX_COUNTED as MAX_HOUR
from mercato.features.orders.reports import Days, day_of
from mercato.features.orders.summaries import MAX_SUMMED
from mercato.features.partners.model import Surface
from mercato.features.requests.queries import TITLES, Filter, count_by_code
from mercato.features.stores import operators as stores
from mercato.features.stores.operators import CallFailures, StoreFilter, StoreSummary
from mercato.features.stores.registrations import list_registrations
from mercato.features.stores.search import MAX_SEARCHED, list_closed
from mercato.features.webhooks import operators
from mercato.features.webhooks.queries import DeliveryFilter, DeliveryRow
from mercato.platform.db.engine import Read
from mercato_contract.clock import zone
from mercato_contract.orders import OrderState
from mercato_contract.stores import StoreStatusValue
from mercato_contract.webhooks import DeliveryStatus

screens: Final = Screens(PARTNERS)

RECENT: Final = timedelta(days=1)
SHOWN: Final = 10
MAX_COUNTED: Final = 1000
"""A count ends here: how many more there are changes nothing for the reader."""


class Closed(Struct, frozen=True):
    """A store that may not be orderable now, and why."""

    store_id: UUID
    name: str
    why: str
    since: datetime


@screens.get("overview")
async def show_overview(visit: Visit) -> Page:
    partner = visit.session.partner
    assert partner is not None, "a screen of partners"
    now = visit.app.clock()
    since = now - RECENT
    all_orders = OrderFilter(
        partner_id=partner.id, surface=visit.session.only_surface, store_id=visit.store_id
    )
    open_orders = replace(all_orders, state=OrderState.OPEN)
    async with visit.app.db.read() as tx:
        pending = await _pending(tx, visit, all_orders)
        orders = await list_orders(tx, all_orders, limit=SHOWN)
        values = {
            "most": MAX_COUNTED,
            "open": await count_orders(tx, open_orders, most=MAX_COUNTED),
            "pending": pending,
            **await _today(tx, visit, all_orders, now),
            "orders": orders,
            "headlines": await headlines_of(tx, visit, (*pending, *orders)),
            **await _failed(tx, visit, since),
            "refusals": [row async for row in _refusals(tx, visit, since)],
            **await _catalogs_and_stores(tx, visit, since),
        }
    return Page("overview.html", "Overview", values)


async def _pending(tx: Read, visit: Visit, wanted: OrderFilter) -> list[OrderSummary]:
    """Return a merchant's orders that wait for a person to accept them."""
    if Surface.COMMERCE not in visit.surfaces:
        return []
    return await list_pending(tx, replace(wanted, surface=Surface.COMMERCE), limit=SHOWN)


async def _today(tx: Read, visit: Visit, wanted: OrderFilter, now: datetime) -> dict[str, Any]:
    """Return the orders of today by the hour beside yesterday's, how many there were by now, and what they came to."""
    today = day_of(now, visit.timezone)
    here, before = (Days(day, day, visit.timezone) for day in (today, today - RECENT))
    slots = [0] * HOURS, [0] * HOURS
    for counts, day in zip(slots, (here, before), strict=True):
        # A day on which clocks change has an hour twice, or lacks one.
        starts = [day.start + number * HOUR for number in range(-(-(day.end - day.start) // HOUR))]
        for hour in await visit.app.hourly_orders.count(tx, starts, wanted):
            counts[hour.at.astimezone(zone(visit.timezone)).hour] += hour.count
    by_now = replace(wanted, since=before.start, until=before.start + (now - here.start))
    since = replace(wanted, since=here.start)
    return {
        "bars": bars_of(
            [Slot(f"{number:02}:00", *pair) for number, pair in enumerate(zip(*slots, strict=True))]
        ),
        "most_hour": MAX_HOUR,
        "placed": await count_orders(tx, since, most=MAX_COUNTED),
        "placed_before": await count_orders(tx, by_now, most=MAX_COUNTED),
        "money": await sum_orders(tx, since, most=MAX_SUMMED),
        "most_summed": MAX_SUMMED,
    }


async def _failed(tx: Read, visit: Visit, since: datetime) -> dict[str, Any]:
    """Return the deliveries that failed, and how many: side by side, which is how the index has them."""
    count = 0
    rows: list[DeliveryRow] = []
    for surface in visit.surfaces:
        failed = DeliveryFilter(
            partner_id=visit.caller(surface).partner_id,
            surface=surface,
            store_id=visit.store_id,
            status=DeliveryStatus.FAILED,
            since=since,
        )
        count += await operators.count_deliveries(tx, failed, limit=MAX_COUNTED)
        rows += await operators.list_rows(tx, failed, limit=SHOWN)
    newest = sorted(rows, key=lambda row: row.id, reverse=True)[:SHOWN]
    return {"failed": min(count, MAX_COUNTED), "deliveries": newest}


async def _refusals(
    tx: Read, visit: Visit, since: datetime
) -> AsyncIterator[tuple[Surface, str, str | None, int]]:
    """Yield the side, the code, its title and how many requests were refused so."""
    for surface in visit.surfaces:
        wanted = Filter(caller=visit.caller(surface), store_id=visit.store_id, since=since)
        for code, count in await count_by_code(tx, wanted, limit=MAX_COUNTED):
            yield surface, code, TITLES.get(code), count


async def _catalogs_and_stores(tx: Read, visit: Visit, since: datetime) -> dict[str, Any]:
    """Return a merchant's catalog runs that failed, its paused stores, and those in trouble."""
    if Surface.COMMERCE not in visit.surfaces:
        return {"is_merchant": False, "is_new": False, "runs": [], "stores": [], "closed": []}
    partner_id, now = visit.caller(Surface.COMMERCE).partner_id, visit.app.clock()
    failed = RunFilter(partner_id=partner_id, store_id=visit.store_id, failed=True, since=since)
    paused = StoreFilter(partner_id=partner_id, store_id=visit.store_id, status=StoreStatusValue.PAUSED)
    found = [
        _paused(store, visit.timezone) for store in await stores.list_stores(tx, paused, limit=SHOWN, now=now)
    ]
    failing = StoreFilter(partner_id=partner_id, store_id=visit.store_id, failing=True)
    paused_ids = {store.store_id for store in found}
    found += [
        _failing(store, store.failing)
        for store in await stores.list_stores(tx, failing, limit=SHOWN, now=now)
        if store.failing is not None and store.id not in paused_ids
    ]
    runs = await catalogs.list_runs(tx, failed, limit=SHOWN)
    own_stores = StoreFilter(partner_id=partner_id, store_id=visit.store_id)
    is_new = visit.store_id is None and not await stores.list_stores(tx, own_stores, limit=1, now=now)
    closed, more = await list_closed(tx, partner_id, store_id=visit.store_id, now=now)
    return {
        "is_merchant": True,
        "is_new": is_new,
        "registrations": await list_registrations(tx, partner_id) if is_new else [],
        "runs": runs,
        "stores": found,
        "closed": closed[:SHOWN],
        "closed_count": len(closed),
        "newest": MAX_SEARCHED if more else None,
    }


def _failing(store: StoreSummary, failing: CallFailures) -> Closed:
    why = f"Its last {failing.calls} calls failed. The last one: {failing.error or 'it was not called'}"
    return Closed(store.id, store.name, why, failing.since)


def _paused(store: StoreSummary, timezone: str) -> Closed:
    why = "It is paused" if store.pause_reason is None else f"It is paused: {store.pause_reason}"
    until = store.resume_at
    why += "." if until is None else f", until {say(until, timezone)}."
    return Closed(store.id, store.name, why, store.updated_at)
