"""The SQL of stores and onboardings. What a partner can reach takes its id: another's row isn't found."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict
from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from mercato.features.catalogs.tables import (
    catalog_bodies,
    catalog_owners,
    catalog_periods,
    catalog_runs,
    catalog_sets,
    catalog_uploads,
)
from mercato.features.catalogs.tables import catalog_owners as owners
from mercato.features.catalogs.tables import catalog_sets as sets
from mercato.features.partners.tables import partners
from mercato.features.stores.model import (
    Onboarding,
    OnboardingChange,
    SoldOut,
    StoreChange,
    StoredCharges,
    StoreRow,
)
from mercato.features.stores.tables import onboardings, sold_out_items, stores
from mercato.features.webhooks.tables import failing_stores
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared, prepared_insert
from mercato_contract.catalogs import PartnerWarning
from mercato_contract.decoding.decode import page_of
from mercato_contract.stores import Address, OrderHandling, StoreStatusValue
from mercato_contract.wire import as_json

_address: Final = msgspec.json.Decoder(Address)
_words: Final = msgspec.json.Decoder(tuple[str, ...])
_warnings: Final = msgspec.json.Decoder(tuple[PartnerWarning, ...])
_charges: Final = msgspec.json.Decoder(StoredCharges)
_TEXTS: Final = frozenset({"address", "categories", "unknown_members", "charges"})
"""Columns with JSON."""

# --- stores ---------------------------------------------------------------------------------------

_ANY_STORE: Final = (
    select(*stores.c, owners.c.current_set_id, sets.c.currency)
    .join(owners, owners.c.id == stores.c.onboarding_id)
    .join(sets, sets.c.id == owners.c.current_set_id)
)
# The stores of a suspended partner are hidden.
_STORE: Final = _ANY_STORE.join(partners, partners.c.id == stores.c.partner_id, isouter=True).where(
    partners.c.suspended_at.is_(None)
)
_THIS_STORE: Final = stores.c.id == bindparam("store_id")
_STORE_BY_ID: Final = prepared(_STORE.where(_THIS_STORE))
_ANY_STORE_BY_ID: Final = prepared(_ANY_STORE.where(_THIS_STORE))
_LOCK_OWN: Final = prepared(
    select(stores.c.id)
    .where(_THIS_STORE, stores.c.partner_id == bindparam("where_partner"))
    .with_for_update()
)
_INCREMENT_VERSION: Final = prepared(
    update(stores)
    .where(stores.c.id == bindparam("where_id"))
    .values(version=stores.c.version + literal_column("1"))
)
_AT_ONCE: Final = tuple(f"id_{number}" for number in range(8))
"""The parameters of a statement that reads versions: one store's is read as fast as eight stores' are."""

_VERSIONS: Final = prepared(
    select(stores.c.id, stores.c.version).where(
        stores.c.id.in_([bindparam(name, type_=stores.c.id.type) for name in _AT_ONCE])
    )
)


MAX_LISTED_ITEMS: Final = 10_000
"""Sold-out items of a page of stores. Everybody waits while a page is made: ten times as many took half a second."""

_AT_A_TIME: Final = 1_000
"""Items of one statement."""

_COMPARED: Final = 100
"""Stores whose time zones are compared: every page of the console does, until somebody chooses one."""


def _two_timezones(*chosen: ColumnElement[bool]) -> Select[Any]:
    newest = select(stores.c.timezone).where(*chosen).order_by(stores.c.id.desc()).limit(_COMPARED).subquery()
    return select(newest.c.timezone).distinct().limit(2)


_OF_PARTNER: Final = stores.c.partner_id == bindparam("partner_id")
_COMMON_TIMEZONE: Final = {
    frozenset[str](): prepared(_two_timezones()),
    frozenset({"partner_id"}): prepared(_two_timezones(_OF_PARTNER)),
    frozenset({"store_id"}): prepared(_two_timezones(_THIS_STORE)),
    frozenset({"partner_id", "store_id"}): prepared(_two_timezones(_OF_PARTNER, _THIS_STORE)),
}
"""By which of the two are given."""


async def insert_store(tx: Write, onboarding: Onboarding, *, now: datetime) -> None:
    """Create the onboarding's store: online, with delivery and pickup."""
    same = {name: value for name, value in asdict(onboarding).items() if name in stores.c}
    own = {"id": onboarding.store_id, "onboarding_id": onboarding.id} | _texts(onboarding)
    defaults = {
        "categories": "[]",
        "delivery_allowed": True,
        "pickup_allowed": True,
        "paused": False,
        "version": 1,
    }
    await tx.execute(insert(stores).values(same | own | defaults | {"created_at": now, "updated_at": now}))


async def find_store(tx: Read, store_id: UUID, *, with_items: bool = True) -> StoreRow | None:
    """Return a store of any partner with its current set and sold-out items: callers check the partner.

    There may be thousands of items: `with_items=False` leaves them out.
    """
    row = await tx.first(_STORE_BY_ID, {"store_id": store_id})
    if row is None:
        return None
    if not with_items:
        return _store(row, ())
    # Read after the version: a comparison of versions then detects a change in between.
    sold_out = await _sold_out(tx, [store_id])
    return _store(row, sold_out.get(store_id, ()))


async def get_any_store(tx: Read, store_id: UUID) -> StoreRow:
    """Return a store that is locked, also one that is hidden, without its sold-out items."""
    row = await tx.first(_ANY_STORE_BY_ID, {"store_id": store_id})
    assert row is not None, "its caller has locked the store"
    return _store(row, ())


async def find_name_and_timezone(tx: Read, store_id: UUID) -> tuple[str, str] | None:
    """Return the name and the time zone of a store, also of one that is hidden; None once it is deleted."""
    row = await tx.first(select(stores.c.name, stores.c.timezone).where(stores.c.id == store_id))
    return None if row is None else (row.name, row.timezone)


async def list_names_and_timezones(tx: Read, store_ids: Collection[UUID]) -> dict[UUID, tuple[str, str]]:
    """Return the names and the time zones of those of the stores that aren't deleted, also of hidden ones."""
    query = select(stores.c.id, stores.c.name, stores.c.timezone).where(stores.c.id.in_(set(store_ids)))
    rows = await tx.all(query) if store_ids else ()
    return {row.id: (row.name, row.timezone) for row in rows}


async def find_common_timezone(
    tx: Read, *, partner_id: UUID | None = None, store_id: UUID | None = None
) -> str | None:
    """Return the time zone of the newest stores, of a partner or of all, if they have one in common."""
    given = {"partner_id": partner_id, "store_id": store_id}
    chosen = frozenset(name for name, value in given.items() if value is not None)
    found = await tx.all(_COMMON_TIMEZONE[chosen], given)
    return found[0].timezone if len(found) == 1 else None


async def find_versions(tx: Read, store_ids: Sequence[UUID]) -> dict[int, int]:
    """Return the committed versions of the stores that exist, by the integers of their ids."""
    found: dict[int, int] = {}
    for start in range(0, len(store_ids), len(_AT_ONCE)):
        some = store_ids[start : start + len(_AT_ONCE)]
        rows = await tx.all(_VERSIONS, dict(zip(_AT_ONCE, chain(some, repeat(some[0])), strict=False)))
        found.update((row.id.int, row.version) for row in rows)
    return found


async def increment_version(tx: Write, store_id: UUID) -> bool:
    """Invalidate every earlier plan for the store, and lock its row; return whether it exists."""
    changed = await tx.execute(_INCREMENT_VERSION, {"where_id": store_id})
    return changed.rowcount == 1


async def list_stores_by_id(tx: Read, store_ids: Sequence[UUID]) -> list[StoreRow]:
    """Return the stores without their sold-out items."""
    return [_store(row, ()) for row in await tx.all(_STORE.where(stores.c.id.in_(store_ids)))]


class LiveSet(Struct, frozen=True):
    """A CatalogSet of a live store, with the merchant's id."""

    content_hash: str
    partner_id: UUID
    created_at: datetime


async def find_live_set(tx: Read, set_id: UUID) -> LiveSet | None:
    """Return a CatalogSet that a live store serves or has served."""
    row = await tx.first(
        select(sets.c.content_hash, stores.c.partner_id, sets.c.created_at)
        .join(stores, stores.c.id == sets.c.store_id)
        .join(partners, partners.c.id == stores.c.partner_id, isouter=True)
        .where(sets.c.id == set_id, partners.c.suspended_at.is_(None))
    )
    return None if row is None else LiveSet(*row)


async def list_stores(
    tx: Read,
    partner_id: UUID,
    *,
    before: UUID | None,
    limit: int,
    status: StoreStatusValue | None,
    partner_store_id: str | None,
    now: datetime,
) -> tuple[list[StoreRow], str | None]:
    """Return a page of the partner's stores, newest first, and its `nextCursor`.

    A page ends early with the store that brings its sold-out items to MAX_LISTED_ITEMS.
    """
    query: Select[Any] = _STORE.where(stores.c.partner_id == partner_id)
    if before is not None:
        query = query.where(stores.c.id < before)
    if partner_store_id is not None:
        query = query.where(stores.c.partner_store_id == partner_store_id)
    paused = and_(stores.c.paused, or_(stores.c.resume_at.is_(None), stores.c.resume_at > now))
    if status is not None:
        query = query.where(paused if status is StoreStatusValue.PAUSED else ~paused)
    rows = await tx.all(query.order_by(stores.c.id.desc()).limit(limit + 1))
    ids = [row.id for row in rows[:limit]]
    of_ids = select(sold_out_items.c.store_id, func.count().label("many")).where(
        sold_out_items.c.store_id.in_(ids)
    )
    counted = await tx.all(of_ids.group_by(sold_out_items.c.store_id)) if ids else []
    counts: dict[UUID, int] = {row.store_id: row.many for row in counted}
    page, cursor = page_of(
        rows, limit, lambda row: row.id, lambda row: counts.get(row.id, 0), most=MAX_LISTED_ITEMS
    )
    sold_out = await _sold_out(tx, [row.id for row in page])
    return [_store(row, sold_out.get(row.id, ())) for row in page], cursor


async def list_store_ids(tx: Read, partner_id: UUID, *, after: UUID | None, limit: int) -> list[UUID]:
    """Return the ids of the partner's stores in order, hidden ones too."""
    query = select(stores.c.id).where(stores.c.partner_id == partner_id).order_by(stores.c.id).limit(limit)
    if after is not None:
        query = query.where(stores.c.id > after)
    return [row.id for row in await tx.all(query)]


async def update_store(
    tx: Write, partner_id: UUID, store_id: UUID, change: StoreChange, *, now: datetime
) -> bool:
    """Change the partner's store; return whether it exists."""
    values = {
        name: _text(value) if name in _TEXTS and value is not None else value
        for name in change.members
        for value in [getattr(change, name)]
    }
    moved = await tx.execute(
        update(stores)
        .where(stores.c.id == store_id, stores.c.partner_id == partner_id)
        .values(**values, updated_at=now)
    )
    return moved.rowcount == 1


async def list_webhook_urls(tx: Read, partner_id: UUID) -> list[str]:
    """Return the distinct webhook URLs of the partner's stores and onboardings."""
    of_stores = select(stores.c.webhook_url).where(
        stores.c.partner_id == partner_id, stores.c.webhook_url.is_not(None)
    )
    of_onboardings = select(onboardings.c.webhook_url).where(
        onboardings.c.partner_id == partner_id,
        onboardings.c.webhook_url.is_not(None),
        onboardings.c.activated_at.is_(None),
        onboardings.c.cancelled_at.is_(None),
    )
    return [row.webhook_url for row in await tx.all(of_stores.union(of_onboardings))]


async def set_onboarding_timezone(tx: Write, onboarding: Onboarding, timezone: str) -> bool:
    """Set the onboarding's time zone, and its store's if it has the registered address; return whether it has."""
    await tx.execute(update(onboardings).where(onboardings.c.id == onboarding.id).values(timezone=timezone))
    of_onboarding = stores.c.onboarding_id == onboarding.id
    return await _set_timezone(tx, of_onboarding, onboarding, timezone)


async def set_store_timezone(tx: Write, row: StoreRow, timezone: str) -> bool:
    """Set the store's time zone; return False if its address or time zone has changed since."""
    return await _set_timezone(tx, stores.c.id == row.id, row, timezone)


async def _set_timezone(
    tx: Write, which: ColumnElement[bool], place: Onboarding | StoreRow, timezone: str
) -> bool:
    moved = await tx.execute(
        update(stores)
        .where(
            which,
            ~stores.c.timezone_given,
            stores.c.address == _text(place.address),
            stores.c.latitude.is_not_distinct_from(place.latitude),
        )
        .values(timezone=timezone)
    )
    return moved.rowcount == 1


async def lock(tx: Write, store_id: UUID) -> bool:
    """Lock the row of a store of any partner until the transaction ends; return whether it exists."""
    return await tx.first(select(stores.c.id).where(stores.c.id == store_id).with_for_update()) is not None


async def lock_stores(tx: Write, partner_id: UUID, store_ids: Collection[UUID]) -> None:
    """Lock the rows of those stores that are the partner's, in the order of their ids: no two requests deadlock."""
    mine = select(stores.c.id).where(stores.c.id.in_(store_ids), stores.c.partner_id == partner_id)
    await tx.all(mine.order_by(stores.c.id).with_for_update())


async def lock_own(tx: Write, partner_id: UUID, store_id: UUID) -> bool:
    """Lock the row of the partner's store until the transaction ends; return whether it exists."""
    own = {"store_id": store_id, "where_partner": partner_id}
    return await tx.first(_LOCK_OWN, own) is not None


async def lock_store(tx: Write, partner_id: UUID, store_id: UUID) -> StoreRow | None:
    """Return the partner's store, as `find_store` does, and lock its row until the transaction ends."""
    return await find_store(tx, store_id) if await lock_own(tx, partner_id, store_id) else None


# --- sold out -------------------------------------------------------------------------------------

# Not prepared: there may be thousands.
_SOLD_OUT: Final = (
    select(sold_out_items)
    .where(sold_out_items.c.store_id.in_(bindparam("store_ids", expanding=True)))
    .order_by(sold_out_items.c.store_id, sold_out_items.c.item_id)
)
_DELETE_SOLD_OUT: Final = delete(sold_out_items).where(
    sold_out_items.c.store_id == bindparam("where_store"),
    sold_out_items.c.item_id.in_(bindparam("where_items", expanding=True)),
)
_INSERT_SOLD_OUT: Final = insert(sold_out_items)


async def replace_sold_out(
    tx: Write, store_id: UUID, *, sold_out: Iterable[SoldOut], available: Iterable[UUID]
) -> None:
    """Mark items as sold out, and others as available again."""
    rows = [{"store_id": store_id, "item_id": item.item_id, "until": item.until} for item in sold_out]
    changed = [row["item_id"] for row in rows] + list(available)
    await tx.execute(_DELETE_SOLD_OUT, {"where_store": store_id, "where_items": changed})
    if rows:
        await tx.execute(_INSERT_SOLD_OUT, rows)


async def delete_sold_out(tx: Write, store_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Forget that items were sold out, however many."""
    for at in range(0, len(item_ids), _AT_A_TIME):
        some = item_ids[at : at + _AT_A_TIME]
        await tx.execute(_DELETE_SOLD_OUT, {"where_store": store_id, "where_items": some})


async def prune_sold_out(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` expired entries; return how many."""
    key = (sold_out_items.c.store_id, sold_out_items.c.item_id)
    over = select(*key).where(sold_out_items.c.until < before).limit(limit)
    gone = await tx.execute(delete(sold_out_items).where(tuple_(*key).in_(over)))
    return gone.rowcount


async def _sold_out(tx: Read, store_ids: list[UUID]) -> dict[UUID, tuple[SoldOut, ...]]:
    if not store_ids:
        return {}
    rows = await tx.all(_SOLD_OUT, {"store_ids": store_ids})
    return {
        store_id: tuple(SoldOut(row.item_id, row.until) for row in group)
        for store_id, group in groupby(rows, key=attrgetter("store_id"))
    }


# --- rows -----------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return as_json(value).decode()


def _texts(onboarding: Onboarding) -> dict[str, str | None]:
    unknown = onboarding.unknown_members
    return {
        "address": _text(onboarding.address),
        "unknown_members": None if unknown is None else _text(unknown),
    }


def _values(row: Row[Any]) -> dict[str, Any]:
    values = row._asdict()
    values["address"] = _address.decode(values["address"])
    if values["unknown_members"] is not None:
        values["unknown_members"] = _warnings.decode(values["unknown_members"])
    if values["order_handling"] is not None:
        values["order_handling"] = OrderHandling(values["order_handling"])
    return values


def _store(row: Row[Any], sold_out: tuple[SoldOut, ...]) -> StoreRow:
    values = _values(row)
    values["categories"] = _words.decode(values["categories"])
    values["catalog_set_id"] = values.pop("current_set_id")
    if values["charges"] is not None:
        values["charges"] = _charges.decode(values["charges"])
    return StoreRow(**values, sold_out=sold_out)


# --- onboardings -----------------------------------------------------------------------------------


_ONBOARDING: Final = select(onboardings).where(
    onboardings.c.id == bindparam("where_id"),
    onboardings.c.partner_id == bindparam("where_partner"),
    onboardings.c.cancelled_at.is_(None),
)
_FIND_ONBOARDING: Final = {False: prepared(_ONBOARDING), True: prepared(_ONBOARDING.with_for_update())}
"""By whether the row is locked."""

_INSERT_ONBOARDING: Final = prepared_insert(onboardings, *Onboarding.__struct_fields__)


async def insert_onboarding(tx: Write, onboarding: Onboarding) -> None:
    """The unique index refuses a second onboarding that holds the same partnerStoreId."""
    await tx.execute(_INSERT_ONBOARDING, asdict(onboarding) | _texts(onboarding))


async def find_onboarding(
    tx: Read, partner_id: UUID, onboarding_id: UUID, *, lock: bool = False
) -> Onboarding | None:
    """Return the partner's onboarding unless it is cancelled; `lock` locks its row until the transaction ends."""
    row = await tx.first(_FIND_ONBOARDING[lock], {"where_id": onboarding_id, "where_partner": partner_id})
    return None if row is None else _onboarding(row)


async def find_name_holder(tx: Read, partner_id: UUID, partner_store_id: str) -> Onboarding | None:
    """Return the onboarding that holds this partnerStoreId, and lock its row until the transaction ends."""
    row = await tx.first(
        select(onboardings)
        .where(
            onboardings.c.partner_id == partner_id,
            onboardings.c.partner_store_id == partner_store_id,
            onboardings.c.holds_name,
        )
        .with_for_update()
    )
    return None if row is None else _onboarding(row)


async def list_onboardings(
    tx: Read, partner_id: UUID, *, before: UUID | None, limit: int
) -> list[Onboarding]:
    """Return the partner's onboardings, newest first."""
    query = select(onboardings).where(
        onboardings.c.partner_id == partner_id, onboardings.c.cancelled_at.is_(None)
    )
    if before is not None:
        query = query.where(onboardings.c.id < before)
    return [_onboarding(row) for row in await tx.all(query.order_by(onboardings.c.id.desc()).limit(limit))]


async def update_onboarding(tx: Write, onboarding_id: UUID, change: OnboardingChange) -> bool:
    """Change an onboarding that is neither active nor cancelled; return False for others."""
    moved = await tx.execute(
        update(onboardings)
        .where(
            onboardings.c.id == onboarding_id,
            onboardings.c.activated_at.is_(None),
            onboardings.c.cancelled_at.is_(None),
        )
        .values({name: value for name, value in asdict(change).items() if value is not UNSET})
    )
    return moved.rowcount == 1


async def find_onboarding_by_id(tx: Read, onboarding_id: UUID) -> Onboarding | None:
    """Return an onboarding of any partner, for background work."""
    row = await tx.first(select(onboardings).where(onboardings.c.id == onboarding_id))
    return None if row is None else _onboarding(row)


async def delete_onboardings(tx: Write, partner_id: UUID, *, limit: int) -> Sequence[UUID]:
    """Delete at most `limit` onboardings with their stores, catalogs and runs; return the ids of the stores."""
    rows = await tx.all(
        select(onboardings.c.id, onboardings.c.store_id)
        .where(onboardings.c.partner_id == partner_id)
        .order_by(onboardings.c.id)
        .limit(limit)
        .with_for_update()
    )
    owners, gone = [row.id for row in rows], [row.store_id for row in rows]
    if not rows:
        return gone
    await tx.execute(delete(sold_out_items).where(sold_out_items.c.store_id.in_(gone)))
    await tx.execute(delete(failing_stores).where(failing_stores.c.store_id.in_(gone)))
    await tx.execute(delete(stores).where(stores.c.id.in_(gone)))
    # The owner first: a run that is about to switch has locked it, or doesn't find it afterwards.
    await tx.execute(delete(catalog_owners).where(catalog_owners.c.id.in_(owners)))
    sets = select(catalog_sets.c.id).where(catalog_sets.c.owner_id.in_(owners))
    await tx.execute(delete(catalog_bodies).where(catalog_bodies.c.set_id.in_(sets)))
    await tx.execute(delete(catalog_sets).where(catalog_sets.c.owner_id.in_(owners)))
    await tx.execute(delete(catalog_periods).where(catalog_periods.c.owner_id.in_(owners)))
    runs = select(catalog_runs.c.id).where(catalog_runs.c.owner_id.in_(owners))
    await tx.execute(delete(catalog_uploads).where(catalog_uploads.c.run_id.in_(runs)))
    await tx.execute(delete(catalog_runs).where(catalog_runs.c.owner_id.in_(owners)))
    await tx.execute(delete(onboardings).where(onboardings.c.id.in_(owners)))
    return gone


def _onboarding(row: Row[Any]) -> Onboarding:
    return Onboarding(**_values(row))
