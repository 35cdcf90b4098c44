"""Reports of orders, for the merchant and for the storefront, sent as they are read."""

from typing import Final

from mercato.features.stores.model import StoreNotFound
from mercato.http import operations
from mercato.http.operations import Access, Answer, Call, Operations, begun
from mercato.platform.problem_details import prefers
from mercato_contract.reports import OrderReport, OrderReportQuery

CSV: Final = b"text/csv; charset=utf-8"


async def report_orders(call: Call[None, OrderReportQuery]) -> Answer[OrderReport]:
    """Return a row for each order that was placed from one day to another, the oldest first, and their sums.

    Days are those of `timezone`, and `to` is included. Prefer `text/csv` in `Accept` for a table. Amounts add up to the
    orders' to the last minor unit, cancelled ones count zero; nothing in a row is a customer's. It is sent while it is
    read: each row is as it was stored then. At most 4 reports of an account are sent at a time.
    """
    reports = call.app.order_reports
    selection = await reports.select(call.caller, call.query)
    if not prefers(call.headers.get(b"accept", b""), "text/csv"):
        return Answer(parts=await begun(reports.as_json(selection)), headers=(operations.VARY,))
    name = f"orders-{selection.days.first}-{selection.days.last}.csv"
    headers = (operations.VARY, (b"content-disposition", f'attachment; filename="{name}"'.encode()))
    return Answer(parts=await begun(reports.as_csv(selection)), media_type=CSV, headers=headers)


def _declare(access: Access, surface: str) -> Operations:
    made = Operations(access=access, tag="Reports", for_agents=False)
    made.get(
        f"/v1/{surface}/reports/orders",
        id=f"report{surface.title()}Orders",
        summary="Report Orders",
        other_media_types=("text/csv",),
        answer_headers=("Vary", "Content-Disposition"),
        problems=(StoreNotFound,),
    )(report_orders)
    return made


commerce_reports = _declare(Access.COMMERCE, "commerce")
marketfront_reports = _declare(Access.MARKETFRONT, "marketfront")
