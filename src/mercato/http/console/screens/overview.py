"""Overview: what needs attention, refused requests by their code, and the newest orders."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import Row

from mercato.domain.orders.model import OrderState
from mercato.domain.orders.operators import OrderFilter, count_orders, list_orders
from mercato.domain.partners.model import Surface
from mercato.domain.requests.queries import Filter, count_by_code
from mercato.domain.webhooks import operators
from mercato.domain.webhooks.model import DeliveryStatus
from mercato.domain.webhooks.queries import DeliveryFilter
from mercato.http.console.screen import PARTNERS, Page, Screens, Visit
from mercato.kernel.db.engine import Read
from mercato.kernel.errors import all_problems

screens: Final = Screens(PARTNERS)

_TITLES: Final = {kind.code: kind.title for kind in all_problems()}

RECENT: Final = timedelta(days=1)
SHOWN: Final = 10
MAX_COUNTED: Final = 1000
"""A count ends here: how many more there are changes nothing for the reader."""


@screens.get("overview")
async def show_overview(visit: Visit) -> Page:
    partner = visit.session.partner
    assert partner is not None, "a screen of partners"
    since = visit.app.clock() - RECENT
    all_orders = OrderFilter(partner_id=partner.id, store_id=visit.store_id)
    open_orders, recent = replace(all_orders, state=OrderState.OPEN), replace(all_orders, since=since)
    async with visit.app.db.read() as tx:
        values = {
            "most": MAX_COUNTED,
            "open": await count_orders(tx, open_orders, most=MAX_COUNTED),
            "placed": await count_orders(tx, recent, most=MAX_COUNTED),
            "orders": await list_orders(tx, all_orders, limit=SHOWN),
            **await _failed(tx, visit, since),
            "refusals": [row async for row in _refusals(tx, visit, since)],
        }
    return Page("overview.html", "Overview", values)


async def _failed(tx: Read, visit: Visit, since: datetime) -> dict[str, Any]:
    """Return the deliveries that failed, and how many: side by side, which is how the index has them."""
    count = 0
    rows: list[Row[Any]] = []
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
            yield surface, code, _TITLES.get(code), count
