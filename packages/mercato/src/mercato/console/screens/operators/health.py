"""Health, where operators land: orders an hour, what is in trouble, the checks of the doctor, and request rates."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from mercato.console.hours import Slot, bars_of
from mercato.console.screen import OPERATORS, Page, Screens, Visit
from mercato.console.store_states import StoreState, find_states
from mercato.features.doctor import Check, Remedy, State, checks
from mercato.features.orders.operators import HOURS, MAX_COUNTED, Hour, OrderFilter, sum_orders
from mercato.features.orders.reports import Days, day_of
from mercato.features.orders.summaries import MAX_SUMMED
from mercato.features.stores.operators import StoreFilter, StoreSummary, list_stores, list_stores_of
from mercato.features.webhooks.endpoint_health import list_disabled, list_failing
from mercato.features.webhooks.store_health import list_failing_stores
from mercato.platform.db.engine import Read
from mercato.platform.telemetry.metrics import Interval
from mercato_contract.clock import zone
from mercato_contract.stores import StoreStatusValue
from mercato_outbound.guard import origin_of

screens: Final = Screens(OPERATORS)

SHOWN: Final = 20
"""Stores and addresses that are listed."""

_PLACES: Final = {
    "due work": ("Jobs", "/console/jobs"),
    "dead work": ("Jobs", "/console/jobs"),
    "stores": ("Stores in trouble", "/console/stores?inTrouble=true"),
    "orders": ("Open orders", "/console/orders?state=open"),
    "deliveries": ("Failed deliveries", "/console/webhooks?status=failed"),
}
"""Where a check's details are, by its name."""

_REMEDIES: Final = {
    Remedy.CREATE_TABLES: "Create them with: mercato migrate",
    Remedy.MIGRATE: "Run mercato migrate: it changes the tables, or says why it can't and what to do.",
    Remedy.FINISH_COPY: "Finish it with the same mercato db copy, or name another database.",
    Remedy.REPLACE_DATABASE: "Stop the service: it needs the version that made the database. See: mercato doctor",
    Remedy.START_WORKER: "Start one: mercato serve, or mercato worker.",
    Remedy.REVIVE_JOBS: "The page says why. Revive them once that is fixed. They are deleted after 30 days.",
    Remedy.ENABLE_ENDPOINTS: "Ask their partners; then: mercato webhooks enable PARTNER URL",
    Remedy.LIST_PLACEMENTS: "The stores don't answer; such an order is cancelled after "
    "MERCATO_PLACE_RESEND_SECONDS. The timeline of each order says why.",
    Remedy.LIST_STORES: "Tell their merchants: each store's page says why. The first call that succeeds ends it.",
    Remedy.LIST_DELIVERIES: "Tell their partners: after 5 days they are disabled.",
}
"""What to do about a check, where a page or a command does it."""


@screens.get("health")
async def show_health(visit: Visit) -> Page:
    app = visit.app
    async with app.db.read() as tx:
        found = [_in_words(check) async for check in checks(tx, app.settings)]
        hours = await app.hourly_orders.look(tx)
        today = day_of(app.clock(), visit.timezone)
        since = Days(today, today, visit.timezone).start
        money = await sum_orders(tx, OrderFilter(since=since), most=MAX_SUMMED)
        troubled = await _troubled(tx, app.clock())
        # Only origins: the rest of an address may grant access.
        failing = [
            endpoint._replace(url=origin_of(endpoint.url) or "")
            for endpoint in await list_failing(tx, limit=SHOWN)
        ]
        disabled = [
            endpoint._replace(url=origin_of(endpoint.url) or "")
            for endpoint in await list_disabled(tx, limit=SHOWN)
        ]
    values = {
        # What needs somebody first.
        "checks": sorted(found, key=lambda check: check.state is State.OK),
        "money": money,
        "most_summed": MAX_SUMMED,
        "places": _PLACES,
        "bars": bars_of(_slots(hours, visit.timezone)),
        "most_orders": MAX_COUNTED,
        "troubled": troubled,
        "failing": failing,
        "disabled": disabled,
        "shown": SHOWN,
    }
    return Page("health.html", "Health", values | await _traffic(visit))


def _slots(hours: Sequence[Hour], timezone: str) -> list[Slot]:
    """Return the last 24 of 48 hours, each beside the one a day before."""
    return [
        Slot(hour.at.astimezone(zone(timezone)).strftime("%H:%M"), hour.count, before.count)
        for before, hour in zip(hours, hours[HOURS:], strict=False)
    ]


async def _troubled(tx: Read, now: datetime) -> list[tuple[StoreSummary, StoreState]]:
    """Return stores that need somebody: those whose calls fail, and then those that are paused."""
    failing = [store.store_id for store in await list_failing_stores(tx, limit=SHOWN)]
    paused = await list_stores(tx, StoreFilter(status=StoreStatusValue.PAUSED), limit=SHOWN, now=now)
    called = await list_stores_of(tx, failing, now=now)
    rows = [*called, *(store for store in paused if store.id not in failing)]
    states = await find_states(tx, rows, now)
    return [(row, states[row.id]) for row in rows[:SHOWN] if states[row.id].is_trouble]


def _in_words(check: Check) -> Check:
    return replace(check, advice=_REMEDIES[check.advice]) if isinstance(check.advice, Remedy) else check


@screens.get("health/traffic")
async def show_traffic(visit: Visit) -> Page:
    return Page("traffic.html", "Traffic", await _traffic(visit))


async def _traffic(visit: Visit) -> dict[str, object]:
    history = await visit.app.traffic.look()
    return {"now": await visit.app.traffic.recent(), "series": _series(history)}


def _series(history: Sequence[Interval]) -> str:
    """Return the columns of the charts as JSON: seconds of the epoch, two rates, and two durations."""
    columns = [
        [round(interval.until.timestamp()) for interval in history],
        [round(interval.per_second, 2) for interval in history],
        [round(interval.failed_per_second, 2) for interval in history],
        [None if interval.median is None else round(interval.median, 2) for interval in history],
        [None if interval.p95 is None else round(interval.p95, 2) for interval in history],
    ]
    return msgspec.json.encode(columns).decode()
