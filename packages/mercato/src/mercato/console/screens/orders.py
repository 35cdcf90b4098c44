"""Orders: the newest first, and all that happened to one of them."""

from collections.abc import Mapping
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato.console.filters import partner_of, read_filters, store_of
from mercato.console.forms import read_query
from mercato.console.screen import EVERYBODY, Page, Screens, Visit
from mercato.features.orders import operators
from mercato.features.orders.errors import OrderNotFound
from mercato.features.orders.record import OrderRow
from mercato.features.orders.service import ATTEMPT, describe
from mercato.features.partners.queries import find_names
from mercato.features.stores.queries import find_name
from mercato.platform.wire.decode import page_of, read_cursor
from mercato_contract.orders import OrderState, PickupFulfillment, TimelineEntry, state_fault
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.wire import Instant, Wire, parse_instant, validator

screens: Final = Screens(EVERYBODY)


class OrdersQuery(Wire):
    """The filters of the list, besides the store and, for operators, the partner."""

    state: Annotated[str, Meta(extra=validator(state_fault))] | None = None
    since: Instant | None = None
    cursor: Cursor | None = None


@screens.get("orders")
async def list_orders(visit: Visit) -> Page:
    filters = read_filters(OrdersQuery, read_query(visit.head.query))
    query = filters.query
    async with visit.app.db.read() as tx:
        wanted = operators.OrderFilter(
            partner_id=await partner_of(tx, visit, filters),
            surface=visit.session.only_surface,
            store_id=await store_of(tx, visit, filters),
            state=None if query.state is None else OrderState(query.state.lower()),
            since=None if query.since is None else parse_instant(query.since),
            before=read_cursor(query.cursor),
        )
        rows = [] if filters.faults else await operators.list_orders(tx, wanted, limit=PAGE + 1)
    page, cursor = page_of(rows, PAGE, lambda row: row.id)
    filters.listed(page)
    values = {"orders": page, "next_cursor": cursor, "search": filters, "states": list(OrderState)}
    return Page("orders.html", "Orders", values)


@screens.get("orders/{order}")
async def show_order(visit: Visit) -> Page:
    order_id = visit.ids["order"]
    row, entries = await _read(visit, order_id)
    visit.check_store(row.store_id, OrderNotFound(order_id))
    async with visit.app.db.read() as tx:
        store = await find_name(tx, row.store_id)
    values = {
        "order": row,
        "store": store,
        "fulfillment": "pickup" if isinstance(row.fulfillment, PickupFulfillment) else "delivery",
        "timeline": [(entry, describe(entry)) for entry in entries],
        "attempt": ATTEMPT,
        "customer": row.customer,
        "partners": await _partners(visit, row),
    }
    return Page("order.html", f"Order {order_id}", values)


async def _read(visit: Visit, order_id: UUID) -> tuple[OrderRow, list[TimelineEntry]]:
    """Return the order and its timeline as the account sees them. Raises OrderNotFound."""
    orders = visit.app.orders
    if visit.is_operator:
        async with visit.app.db.read() as tx:
            return await operators.get_row(tx, order_id)
    for surface in visit.surfaces:
        caller = visit.caller(surface)
        try:
            row = await orders.get(caller, order_id)
        except OrderNotFound:
            continue
        return row, (await orders.timeline(caller, order_id)).entries
    raise OrderNotFound(order_id)


async def _partners(visit: Visit, row: OrderRow) -> Mapping[str, tuple[UUID, str]]:
    """Return both sides of the order for operators: the id and the name, which is the id of one that is deleted."""
    if not visit.is_operator:
        return {}
    sides = {"Merchant": row.partner_id, "Storefront": row.storefront_id}
    async with visit.app.db.read() as tx:
        names = await find_names(tx, sides.values())
    return {side: (its_id, names.get(its_id, str(its_id))) for side, its_id in sides.items()}
