"""The SQL of onboardings. What a partner can reach takes the caller's partner id: another's row isn't found."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict
from sqlalchemy import Row, delete, insert, select, update

from mercato.features.catalogs.tables import catalog_bodies, catalog_owners, catalog_runs, catalog_sets
from mercato.features.stores.model import Onboarding, OnboardingChange
from mercato.features.stores.tables import onboardings, sold_out_items, stores
from mercato.platform.db.engine import Read, Write
from mercato_contract.stores import Address
from mercato_contract.wire import as_json

_address: Final = msgspec.json.Decoder(Address)


async def insert_onboarding(tx: Write, onboarding: Onboarding) -> None:
    """The unique index refuses a second onboarding that holds the same partnerStoreId."""
    address = as_json(onboarding.address).decode()
    await tx.execute(insert(onboardings).values(asdict(onboarding) | {"address": address}))


async def find_onboarding(
    tx: Read, partner_id: UUID, onboarding_id: UUID, *, lock: bool = False
) -> Onboarding | None:
    """Return the partner's onboarding unless it is cancelled; `lock` locks its row until the transaction ends."""
    query = select(onboardings).where(
        onboardings.c.id == onboarding_id,
        onboardings.c.partner_id == partner_id,
        onboardings.c.cancelled_at.is_(None),
    )
    row = await tx.first(query.with_for_update() if lock else query)
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
    await tx.execute(delete(stores).where(stores.c.id.in_(gone)))
    # The owner first: a run that is about to switch has locked it, or doesn't find it afterwards.
    await tx.execute(delete(catalog_owners).where(catalog_owners.c.id.in_(owners)))
    sets = select(catalog_sets.c.id).where(catalog_sets.c.owner_id.in_(owners))
    await tx.execute(delete(catalog_bodies).where(catalog_bodies.c.set_id.in_(sets)))
    await tx.execute(delete(catalog_sets).where(catalog_sets.c.owner_id.in_(owners)))
    await tx.execute(delete(catalog_runs).where(catalog_runs.c.owner_id.in_(owners)))
    await tx.execute(delete(onboardings).where(onboardings.c.id.in_(owners)))
    return gone


def _onboarding(row: Row[Any]) -> Onboarding:
    values = row._asdict()
    values["address"] = _address.decode(values["address"])
    return Onboarding(**values)
