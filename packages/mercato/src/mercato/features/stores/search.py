"""A store in the search index: what storefronts find it by, and the card that they get."""

from uuid import UUID

from mercato.features.catalogs import queries as catalogs
from mercato.features.catalogs.search import SetSearch, unpack_search
from mercato.features.discovery import index
from mercato.features.discovery.hours import INDEFINITELY
from mercato.features.discovery.model import Listing
from mercato.features.stores import queries
from mercato.features.stores.model import StoreRow
from mercato.features.stores.storefront import card_of
from mercato.platform.clock import to_ms
from mercato.platform.db.engine import Write
from mercato_contract.wire import as_json

_EMPTY = SetSearch((), ())


async def refresh(tx: Write, store_id: UUID) -> None:
    """Rewrite the store's entry in the search index; delete that of a store that is hidden.

    The caller has locked the store's row: of two transactions that change one store, the later sees the earlier's
    changes.
    """
    row = await queries.find_store(tx, store_id)
    if row is None:
        await index.remove(tx, store_id)
        return
    packed = await catalogs.find_body(tx, row.catalog_set_id, catalogs.SEARCH)
    await index.put(tx, listing_of(row, unpack_search(packed) if packed is not None else _EMPTY))


def listing_of(row: StoreRow, search: SetSearch) -> Listing:
    """Return what searches find of the store."""
    place = None if row.latitude is None or row.longitude is None else (row.latitude, row.longitude)
    return Listing(
        store_id=row.id,
        name=row.name,
        description=row.description,
        categories=row.categories,
        place=place,
        timezone=row.timezone,
        pickup=row.pickup_allowed,
        delivery=row.delivery_allowed,
        paused_until=_paused_until(row),
        words=search.words,
        spans=search.spans,
        card=as_json(card_of(row, search.spans)),
    )


def _paused_until(row: StoreRow) -> int:
    if not row.paused:
        return 0
    return INDEFINITELY if row.resume_at is None else to_ms(row.resume_at)
