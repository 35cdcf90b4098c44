"""The SQL by which a partner's onboardings and stores go, with all that belongs to them alone."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, select

from mercato.db.engine import Write
from mercato.db.tables import (
    catalog_bodies,
    catalog_owners,
    catalog_runs,
    catalog_sets,
    onboardings,
    sold_out_items,
    stores,
)


async def delete_some(tx: Write, partner_id: UUID, *, most: int) -> Sequence[UUID]:
    """Delete at most `most` onboardings with their stores, catalogs and runs; return the ids of the stores."""
    rows = await tx.all(
        select(onboardings.c.id, onboardings.c.store_id)
        .where(onboardings.c.partner_id == partner_id)
        .order_by(onboardings.c.id)
        .limit(most)
        .with_for_update()
    )
    owners, gone = [row.id for row in rows], [row.store_id for row in rows]
    if not rows:
        return gone
    await tx.execute(delete(sold_out_items).where(sold_out_items.c.store_id.in_(gone)))
    await tx.execute(delete(stores).where(stores.c.id.in_(gone)))
    # The owner first: a run that is about to switch holds it, and is waited for, or finds it gone.
    await tx.execute(delete(catalog_owners).where(catalog_owners.c.id.in_(owners)))
    sets = select(catalog_sets.c.id).where(catalog_sets.c.owner_id.in_(owners))
    await tx.execute(delete(catalog_bodies).where(catalog_bodies.c.set_id.in_(sets)))
    await tx.execute(delete(catalog_sets).where(catalog_sets.c.owner_id.in_(owners)))
    await tx.execute(delete(catalog_runs).where(catalog_runs.c.owner_id.in_(owners)))
    await tx.execute(delete(onboardings).where(onboardings.c.id.in_(owners)))
    return gone
