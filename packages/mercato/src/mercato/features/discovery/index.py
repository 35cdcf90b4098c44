"""A store's entry in the search index, written in the transaction that changes the store."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import ARRAY, BigInteger, Text, bindparam, delete, insert, select, text, update

from mercato.features.discovery.geometry import cell_of, point_of
from mercato.features.discovery.hours import key_of, pack_spans
from mercato.features.discovery.tables import opening_hours, store_cards, store_search, store_words
from mercato.features.discovery.text import Listing, document_of
from mercato.platform.db.engine import AnyRow, Read, Write
from mercato.platform.db.statements import prepared, prepared_insert, prepared_update
from mercato_catalog import words as names

_ADD_HOURS: Final = text(
    "INSERT INTO opening_hours (key, timezone, spans, stores, pickup, delivery) "
    "VALUES (:key, :timezone, :spans, :number, :pickup, :delivery) "
    "ON CONFLICT (key) DO UPDATE SET stores = opening_hours.stores + excluded.stores, "
    "pickup = opening_hours.pickup + excluded.pickup, delivery = opening_hours.delivery + excluded.delivery"
).bindparams(bindparam("key", type_=BigInteger))
_SET_WORDS: Final = text(
    "UPDATE store_search SET words = array_to_tsvector(CAST(:words AS text[])) WHERE number = :number"
).bindparams(bindparam("words", type_=ARRAY(Text)))


_FIND: Final = prepared(
    select(
        *(store_search.c.number, store_search.c.hours_key, store_search.c.pickup, store_search.c.delivery)
    ).where(store_search.c.store_id == bindparam("where_store"))
)
_NUMBER: Final = bindparam("where_number", type_=BigInteger)
# Not prepared: a store may have thousands of words.
_DELETE_WORDS: Final = delete(store_words).where(store_words.c.rowid == _NUMBER)
_INSERT_WORDS: Final = insert(store_words)


MAX_NAME: Final = 200
"""Characters of a name that stores are ordered by: an index entry's length is limited."""


class Hours(NamedTuple):
    """Opening hours and their key."""

    key: int
    timezone: str
    spans: bytes


class SearchColumns(Struct, frozen=True):
    """The columns of `store_search` that a listing decides."""

    name_key: str
    cell: int | None
    x: float | None
    y: float | None
    z: float | None
    pickup: bool
    delivery: bool
    hours_key: int
    paused_until: int


_INSERT: Final = prepared(
    insert(store_search)
    .values({name: bindparam(name) for name in ("store_id", *SearchColumns.__struct_fields__)})
    .returning(store_search.c.number)
)
_UPDATE: Final = prepared_update(
    store_search, *SearchColumns.__struct_fields__, where=[store_search.c.number == _NUMBER]
)
_INSERT_CARD: Final = prepared_insert(store_cards)
_UPDATE_CARD: Final = prepared_update(store_cards, "card", "version", where=[store_cards.c.number == _NUMBER])


def name_key_of(name: str) -> str:
    """Return what stores are found by and ordered by: equal for names that differ in letter case alone."""
    return names.key_of(name)[:MAX_NAME]


def hours_of(listing: Listing) -> Hours:
    """Return the listing's opening hours as they are stored."""
    spans = pack_spans(listing.spans)
    return Hours(key_of(listing.timezone, spans), listing.timezone, spans)


def columns_of(listing: Listing) -> SearchColumns:
    """Return the listing's row of `store_search`."""
    cell = x = y = z = None
    if listing.place is not None:
        cell, (x, y, z) = cell_of(*listing.place), point_of(*listing.place)
    return SearchColumns(
        name_key=name_key_of(listing.name),
        cell=cell,
        x=x,
        y=y,
        z=z,
        pickup=listing.pickup,
        delivery=listing.delivery,
        hours_key=hours_of(listing).key,
        paused_until=listing.paused_until,
    )


async def put(tx: Write, listing: Listing) -> None:
    """Insert the store's entry or replace an older one."""
    old = await _find(tx, listing.store_id)
    await _count(tx, old, listing)
    values = asdict(columns_of(listing))
    card = {"card": listing.card, "version": listing.card_version}
    if old is None:
        number = await tx.scalar(_INSERT, values | {"store_id": listing.store_id})
        await tx.execute(_INSERT_CARD, card | {"number": number, "store_id": listing.store_id})
    else:
        number = old.number
        await tx.execute(_UPDATE, values | {"where_number": number})
        await tx.execute(_UPDATE_CARD, card | {"where_number": number})
    await _write_words(tx, number, document_of(listing, tx.dialect))


async def list_stores(tx: Read, *, after: int, limit: int) -> Sequence[tuple[int, UUID]]:
    """Return the numbers and ids of stores that have an entry, in the order of the numbers."""
    c = store_search.c
    rows = await tx.all(select(c.number, c.store_id).where(c.number > after).order_by(c.number).limit(limit))
    return [(row.number, row.store_id) for row in rows]


async def list_outdated(tx: Read, version: int, *, limit: int) -> list[UUID]:
    """Return stores whose card has an earlier version, in the order in which they may be locked."""
    outdated = select(store_cards.c.store_id).where(store_cards.c.version < version).limit(limit)
    return sorted(row.store_id for row in await tx.all(outdated))


async def remove(tx: Write, store_id: UUID) -> None:
    """Delete the store's entry, if it has one."""
    old = await _find(tx, store_id)
    if old is None:
        return
    await _add(tx, None, old.hours_key, -1, -int(old.pickup), -int(old.delivery))
    await tx.execute(delete(store_cards).where(store_cards.c.number == old.number))
    if tx.dialect == "sqlite":
        await tx.execute(_DELETE_WORDS, {"where_number": old.number})
    await tx.execute(delete(store_search).where(store_search.c.number == old.number))


async def _find(tx: Write, store_id: UUID) -> AnyRow | None:
    return await tx.first(_FIND, {"where_store": store_id})


async def _write_words(tx: Write, number: int, words: Sequence[str]) -> None:
    if tx.dialect == "postgresql":
        await tx.execute(_SET_WORDS, {"number": number, "words": list(words)})
        return
    await tx.execute(_DELETE_WORDS, {"where_number": number})
    await tx.execute(_INSERT_WORDS, {"rowid": number, "words": " ".join(words)})


async def _count(tx: Write, old: AnyRow | None, listing: Listing) -> None:
    """Move the store's count from its old opening hours to its new ones."""
    changes: dict[int, list[int]] = {}
    if old is not None:
        changes[old.hours_key] = [-1, -int(old.pickup), -int(old.delivery)]
    hours = hours_of(listing)
    now = changes.setdefault(hours.key, [0, 0, 0])
    for at, more in enumerate((1, listing.pickup, listing.delivery)):
        now[at] += int(more)
    # In the order of keys, so that two transactions that swap hours don't deadlock.
    for key, change in sorted(changes.items()):
        if any(change):
            await _add(tx, hours if key == hours.key else None, key, *change)


async def _add(tx: Write, hours: Hours | None, key: int, number: int, pickup: int, delivery: int) -> None:
    if hours is None:
        c = opening_hours.c
        values = {"stores": c.stores + number, "pickup": c.pickup + pickup, "delivery": c.delivery + delivery}
        await tx.execute(update(opening_hours).where(c.key == key).values(values))
        await tx.execute(delete(opening_hours).where(c.key == key, c.stores == 0))
        return
    new = {"number": number, "pickup": pickup, "delivery": delivery}
    await tx.execute(_ADD_HOURS, {**hours._asdict(), **new})
