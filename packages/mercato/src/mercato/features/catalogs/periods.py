"""When an owner served which set: the SQL of switches, of their history, and of the deletion of old sets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    union_all,
)

from mercato.features.catalogs.runs import Period
from mercato.features.catalogs.tables import catalog_bodies as bodies
from mercato.features.catalogs.tables import catalog_owners as owners
from mercato.features.catalogs.tables import catalog_periods as periods
from mercato.features.catalogs.tables import catalog_sets as sets
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared, prepared_update

_OF_OWNER: Final = owners.c.id == bindparam("owner_id")
_IS_OPEN: Final = owners.c.closed_at.is_(None)
_OF_SET: Final = sets.c.id == bindparam("set_id")
_LAST: Final = UUID(int=2**128 - 1)

_SERVE: Final = {
    leaves_one: prepared_update(
        owners,
        "current_set_id",
        where=[
            _OF_OWNER,
            _IS_OPEN,
            owners.c.current_set_id == bindparam("leaves")
            if leaves_one
            else owners.c.current_set_id.is_(None),
        ],
    )
    for leaves_one in (True, False)
}
_SUPERSEDE: Final = prepared_update(sets, "superseded_at", where=[_OF_SET])
_FIND_PERIOD_ID: Final = prepared(select(func.coalesce(sets.c.period_id, sets.c.id)).where(_OF_SET))
_LOCK_SET: Final = prepared(
    select(
        sets.c.id,
        sets.c.owner_id,
        sets.c.run_id,
        sets.c.period_id,
        sets.c.rolled_back_from,
        sets.c.created_at,
        sets.c.activated_at,
        sets.c.superseded_at,
    )
    .where(_OF_SET, sets.c.owner_id == bindparam("owner_id"))
    .with_for_update()
)
_BEGIN_PERIOD: Final = prepared_update(
    sets,
    "period_id",
    "run_id",
    "rolled_back_from",
    "activated_at",
    "superseded_at",
    where=[_OF_SET],
)
_NEED_SET: Final = prepared_update(
    sets,
    "needed_until",
    where=[_OF_SET, or_(sets.c.needed_until.is_(None), sets.c.needed_until < bindparam("until"))],
)
_DROP_SET: Final = prepared_update(
    sets,
    "superseded_at",
    where=[_OF_SET, sets.c.superseded_at.is_(None), sets.c.period_id.is_(None), sets.c.run_id.is_not(None)],
)


async def switch(tx: Write, owner_id: UUID, *, leaves: UUID | None, to: UUID, now: datetime) -> bool:
    """Make `to` the owner's current set; False if `leaves` isn't the current one any more, or the owner is closed."""
    moved = await tx.execute(
        _SERVE[leaves is not None], {"owner_id": owner_id, "leaves": leaves, "current_set_id": to}
    )
    if leaves is not None:
        await tx.execute(_SUPERSEDE, {"set_id": leaves, "superseded_at": now})
    return moved.rowcount == 1


async def begin_period(
    tx: Write,
    owner_id: UUID,
    set_id: UUID,
    *,
    period_id: UUID,
    run_id: UUID | None,
    rolled_back_from: UUID | None,
    now: datetime,
) -> bool:
    """Begin a period in which the set is served; False if the owner's set is no longer kept."""
    of_set = {"set_id": set_id, "owner_id": owner_id}
    # Locks the row: what deletes old sets doesn't delete this one then.
    row = await tx.first(_LOCK_SET, of_set)
    if row is None:
        return False
    if row.superseded_at is not None:
        await _keep_periods(tx, [row])
    values = {
        "period_id": period_id,
        "run_id": run_id,
        "rolled_back_from": rolled_back_from,
        "activated_at": now,
        "superseded_at": None,
    }
    await tx.execute(_BEGIN_PERIOD, {"set_id": set_id} | values)
    return True


async def _keep_periods(tx: Write, rows: Sequence[Row[Any]]) -> None:
    """Keep the last periods of sets that were served."""
    ended = [
        {
            "id": row.period_id or row.id,
            "owner_id": row.owner_id,
            "set_id": row.id,
            "run_id": row.run_id,
            "rolled_back_from": row.rolled_back_from,
            "activated_at": row.activated_at or row.created_at,
            "superseded_at": row.superseded_at,
        }
        for row in rows
        if row.period_id is not None or row.run_id is None
    ]
    if ended:
        await tx.execute(insert(periods), ended)


async def need_set(tx: Write, set_id: UUID, *, until: datetime) -> None:
    """Keep the set for a switch that is scheduled."""
    await tx.execute(_NEED_SET, {"set_id": set_id, "until": until, "needed_until": until})


async def drop_set(tx: Write, set_id: UUID, *, now: datetime) -> None:
    """Let the retention of a set begin that isn't served and has never been."""
    await tx.execute(_DROP_SET, {"set_id": set_id, "superseded_at": now})


async def find_period_id(tx: Read, set_id: UUID) -> UUID | None:
    """Return the id of the set's last period."""
    found: UUID | None = await tx.scalar(_FIND_PERIOD_ID, {"set_id": set_id})
    return found


async def find_period(tx: Read, owner_id: UUID, set_id: UUID) -> Period | None:
    """Return the last period of the owner's set, kept or not; None for a set that was never served."""
    found = await tx.first(_history(periods.c.set_id == set_id, sets.c.id == set_id, owner_id).limit(1))
    return None if found is None else Period(*found)


async def find_before_run(tx: Read, owner_id: UUID, run_id: UUID) -> Period | None:
    """Return the owner's period before the one that the run began; None if it began none, or the first that is kept."""
    of_run = _history(periods.c.run_id == run_id, sets.c.run_id == run_id, owner_id)
    begun = await tx.first(of_run.limit(1))
    before = [] if begun is None else await list_periods(tx, owner_id, before=begun.id, limit=1)
    return before[0] if before else None


async def list_periods(tx: Read, owner_id: UUID, *, before: UUID | None, limit: int) -> list[Period]:
    """Return when the owner served which set, the last period first, older than the period `before`."""
    last = before or _LAST
    id_of_set = func.coalesce(sets.c.period_id, sets.c.id)
    return [
        Period(*row)
        for row in await tx.all(_history(periods.c.id < last, id_of_set < last, owner_id).limit(limit))
    ]


def _history(of_past: ColumnElement[bool], of_sets: ColumnElement[bool], owner_id: UUID) -> Select[Any]:
    """Select periods: those of earlier times from their table, the last one of each set that is kept from its row."""
    kept = sets.alias("kept")
    past = select(
        periods.c.id,
        periods.c.set_id,
        periods.c.run_id,
        periods.c.rolled_back_from,
        periods.c.activated_at,
        periods.c.superseded_at,
        exists().where(kept.c.id == periods.c.set_id).label("is_kept"),
    ).where(periods.c.owner_id == owner_id, of_past)
    own = select(
        func.coalesce(sets.c.period_id, sets.c.id).label("id"),
        sets.c.id.label("set_id"),
        sets.c.run_id,
        sets.c.rolled_back_from,
        func.coalesce(sets.c.activated_at, sets.c.created_at).label("activated_at"),
        sets.c.superseded_at,
        true().label("is_kept"),
    ).where(sets.c.owner_id == owner_id, or_(sets.c.period_id.is_not(None), sets.c.run_id.is_(None)), of_sets)
    both = union_all(own, past).subquery()
    return select(both).order_by(both.c.id.desc())


async def prune_sets(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` sets that were superseded before the instant, and keep their periods; return how many."""
    served = select(owners.c.current_set_id).where(owners.c.current_set_id.is_not(None), _IS_OPEN)
    old = (
        select(sets)
        .where(
            sets.c.superseded_at < before,
            or_(sets.c.needed_until.is_(None), sets.c.needed_until < before),
            ~sets.c.id.in_(served),
        )
        .limit(limit)
        # A set that is about to be served again is locked.
        .with_for_update(skip_locked=True)
    )
    rows = await tx.all(old)
    ids = [row.id for row in rows]
    if ids:
        await _keep_periods(tx, rows)
        await tx.execute(delete(bodies).where(bodies.c.set_id.in_(ids)))
        await tx.execute(delete(sets).where(sets.c.id.in_(ids)))
    return len(ids)


async def prune_periods(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` periods that ended before the instant; return how many."""
    old = select(periods.c.id).where(periods.c.superseded_at < before).limit(limit)
    return (await tx.execute(delete(periods).where(periods.c.id.in_(old)))).rowcount
