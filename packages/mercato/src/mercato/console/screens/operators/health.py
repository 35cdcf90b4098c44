"""Health: the checks of the doctor, failing stores and addresses, and request rates."""

from collections.abc import Sequence
from typing import Final

import msgspec

from mercato.console.screen import OPERATORS, Page, Screens, Visit
from mercato.features.doctor import FAILING_WINDOW, checks
from mercato.features.webhooks.endpoints import list_disabled, list_failing_stores
from mercato.platform.outbound.urls import origin_of
from mercato.platform.telemetry.traffic import Interval

screens: Final = Screens(OPERATORS)

SHOWN: Final = 20
"""Stores and addresses that are listed."""

_PLACES: Final = {
    "due work": ("Jobs", "/console/jobs"),
    "dead work": ("Jobs", "/console/jobs"),
    "orders": ("Open orders", "/console/orders?state=open"),
    "deliveries": ("Failed deliveries", "/console/deliveries?status=failed"),
}
"""Where a check's details are, by its name."""


@screens.get("health")
async def show_health(visit: Visit) -> Page:
    app = visit.app
    async with app.db.read() as tx:
        found = [one async for one in checks(tx, app.settings)]
        failing = (await list_failing_stores(tx, since=app.clock() - FAILING_WINDOW))[:SHOWN]
        # Only origins: the rest of an address may grant access.
        disabled = [
            one._replace(url=origin_of(one.url) or "") for one in await list_disabled(tx, limit=SHOWN)
        ]
    values = {"checks": found, "places": _PLACES, "failing": failing, "disabled": disabled}
    return Page("health.html", "Health", values | await _traffic(visit))


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
