"""Suspends and deletes partners, with their keys, stores and deliveries; orders stay.

Each step is a separate transaction, so that servers can write in between. After an interruption the same call
continues.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, func, or_, select

from mercato.features.certification import queries as certification
from mercato.features.discovery.index import remove
from mercato.features.events import log as events
from mercato.features.events.log import ALL_KINDS
from mercato.features.orders.tables import orders
from mercato.features.partners import accounts
from mercato.features.partners.model import OpenOrdersError
from mercato.features.partners.queries import hold_for_deletion
from mercato.features.partners.tables import api_keys
from mercato.features.quotes import queries as quotes
from mercato.features.requests import queries as requests
from mercato.features.sign_in import people
from mercato.features.sign_in import sessions as console
from mercato.features.stores import queries, registrations
from mercato.features.stores.cache import TOPIC, publish_change
from mercato.features.stores.tables import onboardings, stores
from mercato.features.webhooks import queries as webhooks
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.changes import announce
from mercato.platform.db.engine import Database, Read
from mercato_contract.clock import Clock
from mercato_contract.feeds import StoreChangeKind
from mercato_contract.orders import OrderState
from mercato_contract.webhooks import DeliveryStatus

STORES: Final = 50
"""Stores in one transaction."""

ROWS: Final = 500
"""Deliveries, events, refused requests or quotes in one transaction."""


class Holdings(Struct, frozen=True, kw_only=True):
    """Counts of what a partner has. Orders are those of its stores and those that it placed."""

    keys: int
    stores: int
    onboardings: int
    deliveries: int
    pending_deliveries: int
    orders: int
    open_orders: int


async def count_holdings(tx: Read, partner_id: UUID) -> Holdings:
    """Return the partner's counts."""
    placed_orders = or_(orders.c.partner_id == partner_id, orders.c.storefront_id == partner_id)
    own_deliveries = deliveries.c.partner_id == partner_id
    return Holdings(
        keys=await _count(tx, api_keys, api_keys.c.partner_id == partner_id),
        stores=await _count(tx, stores, stores.c.partner_id == partner_id),
        onboardings=await _count(tx, onboardings, onboardings.c.partner_id == partner_id),
        deliveries=await _count(tx, deliveries, own_deliveries),
        pending_deliveries=await _count(
            tx, deliveries, own_deliveries, deliveries.c.status == DeliveryStatus.PENDING
        ),
        orders=await _count(tx, orders, placed_orders),
        open_orders=await _count_open(tx, partner_id),
    )


async def suspend(db: Database, partner_id: UUID, *, now: Clock) -> None:
    """Disable the partner's keys, and hide its stores. Raises UnknownPartnerError.

    Orders that wait for a store, and deliveries, go on.
    """
    async with db.write() as tx:
        partner = await accounts.get_partner(tx, partner_id)
        if partner.suspended_at is None:
            await accounts.set_suspended(tx, partner_id, now())
    await _refresh_stores(db, partner_id, (StoreChangeKind.GONE,), at=now())


async def resume(db: Database, partner_id: UUID, *, now: Clock) -> None:
    """Undo `suspend`. Raises UnknownPartnerError."""
    async with db.write() as tx:
        await accounts.set_suspended(tx, partner_id, None)
    await _refresh_stores(db, partner_id, ALL_KINDS, at=now())


async def delete(db: Database, partner_id: UUID, *, now: Clock) -> None:
    """Delete the partner with everything but its orders. Raises OpenOrdersError while an order is open.

    The partner is suspended first, and stays so if an order was placed in the meantime.
    """
    async with db.read() as look:
        await _refuse_open(look, partner_id)
    await suspend(db, partner_id, now=now)
    while await _delete_stores(db, partner_id):
        pass
    for delete_some in (
        webhooks.delete_of_partner,
        events.delete_of_partner,
        requests.delete_of_partner,
        quotes.delete_of_partner,
    ):
        more = True
        while more:
            async with db.write() as tx:
                more = await delete_some(tx, partner_id, limit=ROWS) == ROWS
    async with db.write() as tx:
        # One that was being placed when the partner was suspended.
        await hold_for_deletion(tx, partner_id)
        await _refuse_open(tx, partner_id)
        await certification.delete_of_partner(tx, partner_id)
        await console.delete_of_partner(tx, partner_id)
        await people.delete_of_partner(tx, partner_id)
        await registrations.delete_of_partner(tx, partner_id)
        await accounts.delete_partner(tx, partner_id)


async def _delete_stores(db: Database, partner_id: UUID) -> bool:
    async with db.write() as tx:
        await _refuse_open(tx, partner_id)
        gone = await queries.delete_onboardings(tx, partner_id, limit=STORES)
        for store_id in gone:
            await remove(tx, store_id)
            await announce(tx, TOPIC, str(store_id))
    return bool(gone)


async def _refresh_stores(
    db: Database, partner_id: UUID, kinds: Sequence[StoreChangeKind], *, at: datetime
) -> None:
    """Show or hide the partner's stores everywhere, depending on its suspension."""
    after: UUID | None = None
    while True:
        async with db.write() as tx:
            found = await queries.list_store_ids(tx, partner_id, after=after, limit=STORES)
            for store_id in found:
                await publish_change(tx, store_id, kinds, at=at)
        if not found:
            return
        after = found[-1]


async def _refuse_open(tx: Read, partner_id: UUID) -> None:
    count = await _count_open(tx, partner_id)
    if count:
        raise OpenOrdersError(partner_id, count)


async def _count_open(tx: Read, partner_id: UUID) -> int:
    side = or_(orders.c.partner_id == partner_id, orders.c.storefront_id == partner_id)
    return await _count(tx, orders, side, orders.c.state == OrderState.OPEN)


async def _count(tx: Read, table: Table, *conditions: ColumnElement[bool]) -> int:
    found: int = await tx.scalar(select(func.count()).select_from(table).where(*conditions))
    return found
