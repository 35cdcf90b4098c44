"""Overview: what needs attention, and the newest orders."""

from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from mercato.domain.orders.model import OrderState
from mercato.domain.orders.operators import OrderFilter, count_orders, list_orders
from mercato.domain.webhooks import operators
from mercato.domain.webhooks.model import DeliveryStatus
from mercato.domain.webhooks.queries import DeliveryFilter
from mercato.http.console.screen import PARTNERS, Page, Screens, Visit

screens: Final = Screens(PARTNERS)

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
    failed = DeliveryFilter(
        partner_id=partner.id, store_id=visit.store_id, status=DeliveryStatus.FAILED, since=since
    )
    async with visit.app.db.read() as tx:
        values = {
            "most": MAX_COUNTED,
            "open": await count_orders(tx, open_orders, most=MAX_COUNTED),
            "placed": await count_orders(tx, recent, most=MAX_COUNTED),
            "failed": await operators.count_deliveries(tx, failed, limit=MAX_COUNTED),
            "orders": await list_orders(tx, all_orders, limit=SHOWN),
            "deliveries": await operators.list_rows(tx, failed, limit=SHOWN),
        }
    return Page("overview.html", "Overview", values)
