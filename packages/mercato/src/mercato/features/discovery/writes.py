"""The SQL that writes a store's search entry."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ARRAY, BigInteger, Text, bindparam, delete, insert, select, text, update

from mercato.features.discovery.tables import opening_hours, store_cards, store_search, store_words
from mercato.features.stores.tables import stores
from mercato.platform.db.engine import AnyRow, Write

_ADD_HOURS: Final = text(
    "INSERT INTO opening_hours (key, timezone, spans, stores, pickup, delivery) "
    "VALUES (:key, :timezone, :spans, :number, :pickup, :delivery) "
    "ON CONFLICT (key) DO UPDATE SET stores = opening_hours.stores + excluded.stores, "
    "pickup = opening_hours.pickup + excluded.pickup, delivery = opening_hours.delivery + excluded.delivery"
).bindparams(bindparam("key", type_=BigInteger))
_SET_WORDS: Final = text(
    "UPDATE store_search SET words = array_to_tsvector(CAST(:words AS text[])) WHERE number = :number"
).bindparams(bindparam("words", type_=ARRAY(Text)))


class Hours(NamedTuple):
    """Opening hours and their key."""

    key: int
    timezone: str
    spans: bytes


class Entry(Struct, frozen=True):
    """A store's search entry: `columns` of store_search without the key of its hours."""

    store_id: UUID
    columns: Mapping[str, Any]
    words: Sequence[str]
    hours: Hours
    card: bytes


async def lock_store(tx: Write, store_id: UUID) -> bool:
    """Lock the store's row until the transaction ends; return whether it exists."""
    return await tx.first(select(stores.c.id).where(stores.c.id == store_id).with_for_update()) is not None


async def put(tx: Write, entry: Entry) -> None:
    """Insert the entry or replace an older one."""
    old = await _find(tx, entry.store_id)
    await _count(tx, old, entry)
    values = {**entry.columns, "hours_key": entry.hours.key}
    if old is None:
        number = await tx.scalar(
            insert(store_search).values(store_id=entry.store_id, **values).returning(store_search.c.number)
        )
        await tx.execute(insert(store_cards).values(number=number, store_id=entry.store_id, card=entry.card))
    else:
        number = old.number
        await tx.execute(update(store_search).where(store_search.c.number == number).values(values))
        await tx.execute(update(store_cards).where(store_cards.c.number == number).values(card=entry.card))
    await _write_words(tx, number, entry.words)


async def remove(tx: Write, store_id: UUID) -> None:
    """Delete the store's entry, if it has one."""
    old = await _find(tx, store_id)
    if old is None:
        return
    await _add(tx, None, old.hours_key, -1, -int(old.pickup), -int(old.delivery))
    await tx.execute(delete(store_cards).where(store_cards.c.number == old.number))
    if tx.dialect == "sqlite":
        await tx.execute(delete(store_words).where(store_words.c.rowid == old.number))
    await tx.execute(delete(store_search).where(store_search.c.number == old.number))


async def list_stores(tx: Write, *, after: int, limit: int) -> Sequence[tuple[int, UUID]]:
    """Return the numbers and ids of stores that have an entry, in the order of the numbers."""
    c = store_search.c
    rows = await tx.all(select(c.number, c.store_id).where(c.number > after).order_by(c.number).limit(limit))
    return [(row.number, row.store_id) for row in rows]


async def _find(tx: Write, store_id: UUID) -> AnyRow | None:
    c = store_search.c
    return await tx.first(select(c.number, c.hours_key, c.pickup, c.delivery).where(c.store_id == store_id))


async def _write_words(tx: Write, number: int, words: Sequence[str]) -> None:
    if tx.dialect == "postgresql":
        await tx.execute(_SET_WORDS, {"number": number, "words": list(words)})
        return
    await tx.execute(delete(store_words).where(store_words.c.rowid == number))
    await tx.execute(insert(store_words).values(rowid=number, words=" ".join(words)))


async def _count(tx: Write, old: AnyRow | None, entry: Entry) -> None:
    """Move the store's count from its old opening hours to its new ones."""
    changes: dict[int, list[int]] = {}
    if old is not None:
        changes[old.hours_key] = [-1, -int(old.pickup), -int(old.delivery)]
    now = changes.setdefault(entry.hours.key, [0, 0, 0])
    for at, more in enumerate((1, entry.columns["pickup"], entry.columns["delivery"])):
        now[at] += int(more)
    # In the order of keys, so that two transactions that swap hours don't deadlock.
    for key, change in sorted(changes.items()):
        if any(change):
            await _add(tx, entry.hours if key == entry.hours.key else None, key, *change)


async def _add(tx: Write, hours: Hours | None, key: int, number: int, pickup: int, delivery: int) -> None:
    c = opening_hours.c
    values = {"stores": c.stores + number, "pickup": c.pickup + pickup, "delivery": c.delivery + delivery}
    if hours is None:
        await tx.execute(update(opening_hours).where(c.key == key).values(values))
        await tx.execute(delete(opening_hours).where(c.key == key, c.stores == 0))
        return
    new = {"number": number, "pickup": pickup, "delivery": delivery}
    await tx.execute(_ADD_HOURS, {**hours._asdict(), **new})
