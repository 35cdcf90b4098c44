"""A store's search entry, written in the transaction that changes the store."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from mercato.features.catalogs import queries as catalogs
from mercato.features.catalogs.search import SetSearch, unpack_search
from mercato.features.catalogs.words import key_of as name_key_of
from mercato.features.discovery import writes
from mercato.features.discovery.hours import INDEFINITELY, key_of, pack_spans
from mercato.features.discovery.model import Card
from mercato.features.discovery.places import cell_of, point_of
from mercato.features.discovery.text import document_of
from mercato.features.discovery.writes import Entry, Hours
from mercato.features.stores import queries as stores
from mercato.features.stores.model import StoreRow
from mercato.features.stores.storefront import address_shown, modes_of, windows_in
from mercato.platform.clock import to_ms
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.types import Dialect
from mercato_contract.wire import as_json

MAX_NAME: Final = 200
"""Characters of a name that stores are ordered by: an index entry's length is limited."""

REFRESHED: Final = 20
"""Stores whose entries are rewritten in one transaction."""

_EMPTY: Final = SetSearch((), ())


async def refresh(tx: Write, store_id: UUID) -> None:
    """Rewrite the store's search entry; delete that of a store that is hidden or doesn't exist.

    The store's row is locked: of two transactions that change one store, the later sees the earlier's changes.
    """
    if not await writes.lock_store(tx, store_id):
        return
    row = await stores.find_store(tx, store_id)
    if row is None:
        await writes.remove(tx, store_id)
        return
    packed = await catalogs.find_body(tx, row.catalog_set_id, catalogs.SEARCH)
    await writes.put(tx, entry_of(row, unpack_search(packed) if packed is not None else _EMPTY, tx.dialect))


async def refresh_all(db: Database, *, progress: Callable[[int], None]) -> None:
    """Rewrite every store's search entry, and with it the words, which differ between the kinds of database."""
    after, done = 0, 0
    while True:
        async with db.write() as tx:
            found = await writes.list_stores(tx, after=after, limit=REFRESHED)
            for _, store_id in found:
                await refresh(tx, store_id)
        if not found:
            return
        after, done = found[-1][0], done + len(found)
        progress(done)


def entry_of(row: StoreRow, search: SetSearch, dialect: Dialect) -> Entry:
    """Return the store's search entry."""
    spans = pack_spans(search.spans)
    return Entry(
        store_id=row.id,
        columns={
            "name_key": name_key_of(row.name)[:MAX_NAME],
            "pickup": row.pickup_allowed,
            "delivery": row.delivery_allowed,
            "paused_until": _paused_until(row.paused, row.resume_at),
        }
        | _place(row),
        words=document_of(row, search.words, dialect),
        hours=Hours(key=key_of(row.timezone, spans), timezone=row.timezone, spans=spans),
        card=as_json(_card(row, search)),
    )


def _card(row: StoreRow, search: SetSearch) -> Card:
    return Card(
        store_id=row.id,
        catalog_set_id=row.catalog_set_id,
        name=row.name,
        description=row.description or UNSET,
        phone=row.phone or UNSET,
        logo_url=row.logo_url or UNSET,
        timezone=row.timezone,
        address=address_shown(row),
        availability=windows_in(search.spans),
        categories=row.categories,
        fulfillment_types=modes_of(row),
        minimum_order_amount=row.minimum_text or UNSET,
    )


def _paused_until(paused: bool, resume_at: datetime | None) -> int:  # noqa: FBT001  # a column of the row
    if not paused:
        return 0
    return INDEFINITELY if resume_at is None else to_ms(resume_at)


def _place(row: StoreRow) -> dict[str, Any]:
    if row.latitude is None or row.longitude is None:
        return {"cell": None, "x": None, "y": None, "z": None}
    point = point_of(row.latitude, row.longitude)
    return {"cell": cell_of(row.latitude, row.longitude)} | point._asdict()
