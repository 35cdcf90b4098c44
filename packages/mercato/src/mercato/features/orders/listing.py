"""Lists of orders: a merchant's, of its stores, and a storefront's, which it placed."""

from collections.abc import Sequence
from uuid import UUID

from mercato.features.orders import queries
from mercato.features.orders.record import OrderRow, commerce_order_of
from mercato.features.partners.model import Caller
from mercato.platform.db.engine import Database, Read
from mercato.platform.errors import InvalidCursor
from mercato.platform.wire.decode import page_of, read_cursor
from mercato_contract.orders import (
    MarketfrontOrderPage,
    MarketfrontOrdersQuery,
    OrderPage,
    OrdersFilter,
    OrdersQuery,
    OrderState,
)
from mercato_contract.pages import parse_cursor
from mercato_contract.wire import parse_instant


async def list_commerce_orders(db: Database, caller: Caller, query: OrdersQuery) -> OrderPage:
    """Return a page of the orders of the merchant's stores, newest first. Raises ValidationFailed."""
    async with db.read() as tx:
        rows, cursor = await _page(tx, caller, query, before=read_cursor(query.cursor))
    return OrderPage(orders=[commerce_order_of(row) for row in rows], next_cursor=cursor)


async def list_marketfront_orders(
    db: Database, caller: Caller, query: MarketfrontOrdersQuery
) -> MarketfrontOrderPage:
    """Return a page of the orders that the storefront placed, newest first. Raises ValidationFailed, InvalidCursor."""
    async with db.read() as tx:
        before = None if query.cursor is None else await _own_cursor(tx, caller, query.cursor)
        rows, cursor = await _page(tx, caller, query, before=before)
    return MarketfrontOrderPage(orders=[row.storefront_order for row in rows], next_cursor=cursor)


async def _own_cursor(tx: Read, caller: Caller, text: str) -> UUID:
    """Return the order that the cursor names. Raises InvalidCursor unless it is one of the caller's."""
    before = parse_cursor(text)
    # Orders are never deleted, so a cursor that was given out stays good.
    if before is None or not await queries.is_own_order(tx, caller, before):
        raise InvalidCursor
    return before


async def _page(
    tx: Read, caller: Caller, query: OrdersFilter, *, before: UUID | None
) -> tuple[Sequence[OrderRow], str | None]:
    rows = await queries.list_orders(
        tx,
        caller,
        store_id=query.store_id,
        state=None if query.state is None else OrderState(query.state.lower()),
        since=None if query.since is None else parse_instant(query.since),
        before=before,
        limit=query.limit + 1,
    )
    return page_of(rows, query.limit, lambda row: row.id)
