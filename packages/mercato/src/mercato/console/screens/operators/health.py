"""Health: the checks of the doctor, failing stores and addresses, and request rates."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from mercato.console.screen import OPERATORS, Page, Screens, Visit
from mercato.features.doctor import FAILING_WINDOW, Check, Remedy, checks
from mercato.features.webhooks.endpoints import list_disabled, list_failing_stores
from mercato.platform.outbound.guard import origin_of
from mercato.platform.telemetry.metrics import Interval

screens: Final = Screens(OPERATORS)

SHOWN: Final = 20
"""Stores and addresses that are listed."""

_PLACES: Final = {
    "due work": ("Jobs", "/console/jobs"),
    "dead work": ("Jobs", "/console/jobs"),
    "orders": ("Open orders", "/console/orders?state=open"),
    "deliveries": ("Failed deliveries", "/console/webhooks?status=failed"),
}
"""Where a check's details are, by its name."""

_REMEDIES: Final = {
    Remedy.CREATE_TABLES: "Create them with: mercato migrate",
    Remedy.MIGRATE: "Run mercato migrate: it changes the tables, or says why it can't and what to do.",
    Remedy.REPLACE_DATABASE: "Stop the service: it needs the version that made the database. See: mercato doctor",
    Remedy.START_WORKER: "Start one: mercato serve, or mercato worker.",
    Remedy.REVIVE_JOBS: "The page says why. Revive them once that is fixed. They are deleted after 30 days.",
    Remedy.ENABLE_ENDPOINTS: "Ask their partners; then: mercato webhooks enable PARTNER URL",
    Remedy.LIST_PLACEMENTS: "The stores don't answer; such an order is cancelled after "
    "MERCATO_PLACE_RESEND_SECONDS. The timeline of each order says why.",
    Remedy.LIST_DELIVERIES: "Tell their partners: after 5 days they are disabled.",
}
"""What to do about a check, where a page or a command does it."""


@screens.get("health")
async def show_health(visit: Visit) -> Page:
    app = visit.app
    async with app.db.read() as tx:
        found = [_in_words(check) async for check in checks(tx, app.settings)]
        failing = (await list_failing_stores(tx, since=app.clock() - FAILING_WINDOW))[:SHOWN]
        # Only origins: the rest of an address may grant access.
        disabled = [
            one._replace(url=origin_of(one.url) or "") for one in await list_disabled(tx, limit=SHOWN)
        ]
    values = {"checks": found, "places": _PLACES, "failing": failing, "disabled": disabled}
    return Page("health.html", "Health", values | await _traffic(visit))


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
        [round(one.until.timestamp()) for one in history],
        [round(one.per_second, 2) for one in history],
        [round(one.failed_per_second, 2) for one in history],
        [None if one.median is None else round(one.median, 2) for one in history],
        [None if one.p95 is None else round(one.p95, 2) for one in history],
    ]
    return msgspec.json.encode(columns).decode()
