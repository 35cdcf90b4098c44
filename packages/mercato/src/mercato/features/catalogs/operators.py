"""Catalog runs of a partner or of one store, for lists: those of onboardings, too."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import Select, literal_column, select

from mercato.features.catalogs import periods, queries
from mercato.features.catalogs.runs import OPEN, Run
from mercato.features.catalogs.tables import catalog_owners as owners
from mercato.features.catalogs.tables import catalog_runs as runs
from mercato.features.catalogs.tables import catalog_sets as sets
from mercato.features.catalogs.tables import stores
from mercato.platform.db.engine import Read
from mercato_contract.catalogs import CatalogFault, RunStatus
from mercato_contract.clock import first_id

_faults: Final = msgspec.json.Decoder(tuple[CatalogFault, ...])

_FAILED: Final = runs.c.status == literal_column(f"'{RunStatus.FAILED}'")
"""Written into the statement, so that the index of failed runs is chosen."""


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs to list. `before` is the last id shown; with `ids`, only those."""

    ids: Sequence[UUID] | None = None
    partner_id: UUID | None = None
    store_id: UUID | None = None
    failed: bool = False
    since: datetime | None = None
    before: UUID | None = None


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run in a list. `store` is None before the store is live; `took` until the run has ended."""

    id: UUID
    store_id: UUID
    store: str | None
    status: RunStatus
    reason: str | None
    callback_url: str
    created_at: datetime
    took: timedelta | None


async def list_runs(tx: Read, wanted: RunFilter, *, limit: int) -> list[RunSummary]:
    """Return at most `limit` runs, newest first; the first fault of each that failed is its reason."""
    query = select(
        runs.c.id,
        runs.c.store_id,
        stores.c.name.label("store"),
        runs.c.status,
        runs.c.errors,
        runs.c.callback_url,
        runs.c.created_at,
        runs.c.updated_at,
    ).join(stores, stores.c.id == runs.c.store_id, isouter=True)
    rows = await tx.all(_filter(query, wanted).order_by(runs.c.id.desc()).limit(limit))
    found = []
    for row in rows:
        status = RunStatus(row.status)
        faults = _faults.decode(row.errors) if status is RunStatus.FAILED else ()
        found.append(
            RunSummary(
                id=row.id,
                store_id=row.store_id,
                store=row.store,
                status=status,
                reason=faults[0].message if faults else None,
                callback_url=row.callback_url,
                created_at=row.created_at,
                took=None if status in OPEN else row.updated_at - row.created_at,
            )
        )
    return found


def _filter(query: Select[tuple[object, ...]], wanted: RunFilter) -> Select[tuple[object, ...]]:
    if wanted.ids is not None:
        query = query.where(runs.c.id.in_(wanted.ids))
    if wanted.partner_id is not None:
        query = query.where(runs.c.partner_id == wanted.partner_id)
    if wanted.store_id is not None:
        owner = select(owners.c.id).where(owners.c.store_id == wanted.store_id).scalar_subquery()
        query = query.where(runs.c.owner_id == owner)
    if wanted.failed:
        query = query.where(_FAILED)
    if wanted.since is not None:
        query = query.where(runs.c.id >= first_id(wanted.since))
    if wanted.before is not None:
        query = query.where(runs.c.id < wanted.before)
    return query


async def find_previous_set(tx: Read, run: Run) -> UUID | None:
    """Return the set that the owner served before this run switched to its own, or would leave if it switched now.

    None if there was none or it is no longer kept. Of a run that switched nothing, it is the set built before its own.
    """
    if run.status in OPEN:
        return await queries.find_current_set(tx, run.owner.id)
    before = await periods.find_before_run(tx, run.owner.id, run.id)
    if before is not None:
        return before.set_id if before.is_kept else None
    built = (
        select(sets.c.id)
        .where(sets.c.owner_id == run.owner.id, sets.c.id < run.set_id)
        .order_by(sets.c.id.desc())
        .limit(1)
    )
    found: UUID | None = await tx.scalar(built)
    return found


async def is_kept(tx: Read, set_id: UUID) -> bool:
    """Return whether the set is still kept."""
    return await tx.scalar(select(sets.c.id).where(sets.c.id == set_id)) is not None
