"""The only SQL of catalogs: owners, sets with their bytes, and runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Row, and_, delete, exists, func, insert, select, update

from mercato.catalog.model import CatalogFault, PartnerWarning
from mercato.catalog.runs import OPEN, CurrentSet, Owner, Run, RunStatus
from mercato.db.engine import Read, Write
from mercato.db.tables import catalog_bodies as bodies
from mercato.db.tables import catalog_owners as owners
from mercato.db.tables import catalog_runs as runs
from mercato.db.tables import catalog_sets as sets

COMPILED: Final = "compiled"
"""The coding under which the form that pricing reads stands beside the bytes that are served."""

SEARCH: Final = "search"
"""The coding under which a set's words and opening hours stand, for discovery."""

_faults = msgspec.json.Decoder(tuple[CatalogFault, ...])
_warnings: Final = msgspec.json.Decoder(tuple[PartnerWarning, ...])

# --- owners ---------------------------------------------------------------------------------------


async def insert_owner(tx: Write, owner: Owner) -> None:
    await tx.execute(insert(owners).values(id=owner.id, store_id=owner.store_id, partner_id=owner.partner_id))


async def close_owner(tx: Write, owner_id: UUID, *, now: datetime) -> None:
    """Let the owner take no set from now on: what a run brings later is thrown away, and its set goes in time."""
    await tx.execute(update(owners).where(owners.c.id == owner_id).values(closed_at=now))
    held = select(owners.c.current_set_id).where(owners.c.id == owner_id).scalar_subquery()
    await tx.execute(update(sets).where(sets.c.id == held).values(superseded_at=now))


async def lock_owner(tx: Write, owner_id: UUID) -> bool:
    """Hold the owner's row until the transaction ends; False when it is closed or not there."""
    open_owner = select(owners.c.id).where(owners.c.id == owner_id, owners.c.closed_at.is_(None))
    return await tx.first(open_owner.with_for_update()) is not None


# --- sets -----------------------------------------------------------------------------------------


async def find_current(tx: Read, owner_id: UUID) -> CurrentSet | None:
    """Return the set that the owner serves now, if any."""
    row = await tx.first(
        select(sets.c.id, sets.c.content_hash, sets.c.currency, sets.c.source_url, sets.c.source_etag)
        .join(owners, owners.c.current_set_id == sets.c.id)
        .where(owners.c.id == owner_id)
    )
    return None if row is None else CurrentSet(*row)


async def insert_set(
    tx: Write,
    *,
    set_id: UUID,
    owner: Owner,
    content_hash: str,
    currency: str,
    summary: bytes,
    source_url: str,
    source_etag: str | None,
    parts: Mapping[str, bytes],
    now: datetime,
) -> None:
    """Store a set and its bytes (coding → body); nobody is served it before `switch`."""
    await tx.execute(
        insert(sets).values(
            id=set_id,
            owner_id=owner.id,
            store_id=owner.store_id,
            partner_id=owner.partner_id,
            content_hash=content_hash,
            currency=currency,
            summary=summary.decode(),
            source_url=source_url,
            source_etag=source_etag,
            created_at=now,
        )
    )
    for coding, body in parts.items():
        await tx.execute(insert(bodies).values(set_id=set_id, coding=coding, body=body))


async def switch(tx: Write, owner_id: UUID, *, leaves: UUID | None, to: UUID, now: datetime) -> bool:
    """Make `to` the owner's current set; False when it isn't on `leaves` any more, or closed."""
    at = owners.c.current_set_id.is_(None) if leaves is None else owners.c.current_set_id == leaves
    moved = await tx.execute(
        update(owners)
        .where(owners.c.id == owner_id, owners.c.closed_at.is_(None), at)
        .values(current_set_id=to)
    )
    if leaves is not None:
        await tx.execute(update(sets).where(sets.c.id == leaves).values(superseded_at=now))
    return moved.rowcount == 1


async def touch_source(tx: Write, set_id: UUID, *, url: str, etag: str | None) -> None:
    """Remember where the set's very content was last seen, for the next conditional pull."""
    await tx.execute(update(sets).where(sets.c.id == set_id).values(source_url=url, source_etag=etag))


async def find_body(tx: Read, set_id: UUID, coding: str) -> bytes | None:
    """Return the set's bytes in one coding (`zstd`, `br`, `gzip`, COMPILED or SEARCH)."""
    body: bytes | None = await tx.scalar(
        select(bodies.c.body).where(bodies.c.set_id == set_id, bodies.c.coding == coding)
    )
    return body


async def find_owner_of_set(tx: Read, set_id: UUID) -> UUID | None:
    """Return the owner that serves or has served the set, while the set is kept."""
    owner_id: UUID | None = await tx.scalar(select(sets.c.owner_id).where(sets.c.id == set_id))
    return owner_id


async def prune_sets(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` sets that were superseded before the instant; return how many went."""
    old = (
        select(sets.c.id)
        .where(
            sets.c.superseded_at < before, ~sets.c.id.in_(select(owners.c.current_set_id).where(_served()))
        )
        .limit(limit)
    )
    ids = [row.id for row in await tx.all(old)]
    if ids:
        await tx.execute(delete(bodies).where(bodies.c.set_id.in_(ids)))
        await tx.execute(delete(sets).where(sets.c.id.in_(ids)))
    return len(ids)


def _served() -> Any:
    return and_(owners.c.current_set_id.is_not(None), owners.c.closed_at.is_(None))


# --- runs -----------------------------------------------------------------------------------------


async def insert_run(tx: Write, run: Run) -> None:
    await tx.execute(
        insert(runs).values(
            id=run.id,
            owner_id=run.owner.id,
            store_id=run.owner.store_id,
            partner_id=run.owner.partner_id,
            notified=run.notified,
            callback_url=run.callback_url,
            status=run.status.value,
            errors="[]",
            warnings="[]",
            traceparent=run.traceparent,
            created_at=run.created_at,
            updated_at=run.updated_at,
        )
    )


async def count_waiting(tx: Read, owner_id: UUID) -> int:
    """Return how many of the owner's runs have not begun."""
    waiting = select(func.count()).where(runs.c.owner_id == owner_id, runs.c.status == RunStatus.QUEUED.value)
    return int(await tx.scalar(waiting) or 0)


async def find_run(tx: Read, run_id: UUID) -> Run | None:
    row = await tx.first(select(runs).where(runs.c.id == run_id))
    return None if row is None else _run(row)


async def list_notified(tx: Read, owner_id: UUID, *, before: UUID | None, limit: int) -> list[Run]:
    """Return the runs a partner asked for, newest first, at most `limit`, older than the run `before`."""
    query = select(runs).where(runs.c.owner_id == owner_id, runs.c.notified)
    if before is not None:
        query = query.where(runs.c.id < before)
    return [_run(row) for row in await tx.all(query.order_by(runs.c.id.desc()).limit(limit))]


async def list_latest(tx: Read, owner_ids: Sequence[UUID]) -> dict[UUID, Run]:
    """Return each owner's newest run."""
    other = runs.alias()
    # Not max(): PostgreSQL before version 18 has none of uuids.
    newest = (
        select(other.c.id).where(other.c.owner_id == runs.c.owner_id).order_by(other.c.id.desc()).limit(1)
    )
    rows = await tx.all(
        select(runs).where(runs.c.owner_id.in_(owner_ids), runs.c.id == newest.scalar_subquery())
    )
    return {row.owner_id: _run(row) for row in rows}


async def move_run(tx: Write, run_id: UUID, *, to: RunStatus, now: datetime) -> bool:
    """Move an open run on; False when it has ended already."""
    moved = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.status.in_([status.value for status in OPEN]))
        .values(status=to.value, updated_at=now)
    )
    return moved.rowcount == 1


async def end_run(
    tx: Write,
    run_id: UUID,
    *,
    status: RunStatus,
    errors: Sequence[CatalogFault],
    warnings: Sequence[PartnerWarning],
    set_id: UUID | None,
    now: datetime,
) -> bool:
    """Bring an open run to its end; False when it has ended already."""
    moved = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.status.in_([open_status.value for open_status in OPEN]))
        .values(
            status=status.value,
            errors=msgspec.json.encode(errors).decode(),
            warnings=msgspec.json.encode(warnings).decode(),
            set_id=set_id,
            updated_at=now,
        )
    )
    return moved.rowcount == 1


async def find_warnings(tx: Read, owner_id: UUID, set_id: UUID) -> tuple[PartnerWarning, ...]:
    """Return the warnings of the newest run that ended with the set."""
    query = select(runs.c.warnings).where(runs.c.owner_id == owner_id, runs.c.set_id == set_id)
    found = await tx.scalar(query.order_by(runs.c.id.desc()).limit(1))
    return () if found is None else _warnings.decode(found)


async def end_open_runs(tx: Write, owner_id: UUID, *, fault: CatalogFault, now: datetime) -> None:
    """Bring every open run of an owner to `failed`, for the one reason given."""
    still_open = runs.c.status.in_([open_status.value for open_status in OPEN])
    await tx.execute(
        update(runs)
        .where(runs.c.owner_id == owner_id, still_open)
        .values(status=RunStatus.FAILED.value, errors=msgspec.json.encode([fault]).decode(), updated_at=now)
    )


async def prune_runs(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete runs that ended before an instant, never the newest of an onboarding or a store; return how many."""
    later = runs.alias("later")
    superseded = exists().where(
        later.c.owner_id == runs.c.owner_id, later.c.notified == runs.c.notified, later.c.id > runs.c.id
    )
    ended = runs.c.status.not_in([open_status.value for open_status in OPEN])
    old = select(runs.c.id).where(runs.c.updated_at < before, ended, superseded)
    ids = [row.id for row in await tx.all(old.order_by(runs.c.updated_at).limit(limit))]
    if ids:
        await tx.execute(delete(runs).where(runs.c.id.in_(ids)))
    return len(ids)


def _run(row: Row[Any]) -> Run:
    return Run(
        id=row.id,
        owner=Owner(id=row.owner_id, store_id=row.store_id, partner_id=row.partner_id),
        notified=row.notified,
        callback_url=row.callback_url,
        status=RunStatus(row.status),
        errors=_faults.decode(row.errors),
        warnings=_warnings.decode(row.warnings),
        set_id=row.set_id,
        traceparent=row.traceparent,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
