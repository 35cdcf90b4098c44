"""The SQL of catalogs: owners, sets with their bytes, and runs; and the compiled catalogs in memory."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Row, bindparam, delete, exists, func, insert, or_, select

from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.catalogs.runs import OPEN, CurrentSet, NewSet, Owner, Run
from mercato.features.catalogs.tables import catalog_bodies as bodies
from mercato.features.catalogs.tables import catalog_owners as owners
from mercato.features.catalogs.tables import catalog_runs as runs
from mercato.features.catalogs.tables import catalog_sets as sets
from mercato.features.compression import compress, decompress
from mercato.platform.cache import Cache
from mercato.platform.db.engine import AnyRow, Database, Read, Write
from mercato.platform.db.statements import prepared, prepared_insert, prepared_update
from mercato_catalog.building.packed import unpack
from mercato_catalog.model import CompiledCatalog
from mercato_contract.catalogs import CatalogFault, PartnerWarning, RunStatus
from mercato_contract.decoding.decode import end_page, page_of
from mercato_contract.wire import as_json

COMPILED: Final = "compiled"
"""The coding under which the compiled catalog is stored."""

SEARCH: Final = "search"
"""The coding under which a set's words and opening hours are stored, for discovery."""

_faults: Final = msgspec.json.Decoder(tuple[CatalogFault, ...])
_warnings: Final = msgspec.json.Decoder(tuple[PartnerWarning, ...])
_texts: Final = msgspec.json.Decoder(tuple[str, ...])

_OF_OWNER: Final = owners.c.id == bindparam("owner_id")
_IS_OPEN: Final = owners.c.closed_at.is_(None)
_OF_SET: Final = sets.c.id == bindparam("set_id")
_OF_RUN: Final = runs.c.id == bindparam("run_id")
_RUN_OF_OWNER: Final = runs.c.owner_id == bindparam("owner_id")
_RUN_IS_OPEN: Final = or_(*(runs.c.status == status.value for status in OPEN))

# --- owners ---------------------------------------------------------------------------------------

_INSERT_OWNER: Final = prepared_insert(owners, "id", "store_id", "partner_id")
_CLOSE_OWNER: Final = prepared_update(owners, "closed_at", where=[_OF_OWNER])
_SUPERSEDE_CURRENT: Final = prepared_update(
    sets,
    "superseded_at",
    where=[sets.c.id == select(owners.c.current_set_id).where(_OF_OWNER).scalar_subquery()],
)
_LOCK_OWNER: Final = prepared(select(owners.c.id).where(_OF_OWNER, _IS_OPEN).with_for_update())


async def insert_owner(tx: Write, owner: Owner) -> None:
    await tx.execute(_INSERT_OWNER, msgspec.structs.asdict(owner))


async def close_owner(tx: Write, owner_id: UUID, *, now: datetime) -> None:
    """Close the owner: a run in progress can't switch it any more, and its set is superseded."""
    await tx.execute(_CLOSE_OWNER, {"owner_id": owner_id, "closed_at": now})
    await tx.execute(_SUPERSEDE_CURRENT, {"owner_id": owner_id, "superseded_at": now})


async def lock_owner(tx: Write, owner_id: UUID) -> bool:
    """Lock the owner's row until the transaction ends; False if it is closed or doesn't exist."""
    return await tx.first(_LOCK_OWNER, {"owner_id": owner_id}) is not None


# --- sets -----------------------------------------------------------------------------------------

_FIND_CURRENT: Final = prepared(
    select(sets.c.id, sets.c.content_hash, sets.c.currency, sets.c.source_url, sets.c.source_etag)
    .join(owners, owners.c.current_set_id == sets.c.id)
    .where(_OF_OWNER)
)
_FIND_CURRENT_SET: Final = prepared(select(owners.c.current_set_id).where(_OF_OWNER))
_INSERT_SET: Final = prepared_insert(sets, *NewSet.__struct_fields__)
# These two aren't prepared: megabytes are written and read in a thread.
_INSERT_BODY: Final = insert(bodies)
_FIND_BODY: Final = select(bodies.c.body).where(
    bodies.c.set_id == bindparam("set_id"), bodies.c.coding == bindparam("coding")
)
_TOUCH_SOURCE: Final = prepared_update(sets, "source_url", "source_etag", where=[_OF_SET])
_FIND_OWNER_OF_SET: Final = prepared(select(sets.c.owner_id).where(_OF_SET))


async def find_current(tx: Read, owner_id: UUID) -> CurrentSet | None:
    """Return the set that the owner serves now, if any."""
    row = await tx.first(_FIND_CURRENT, {"owner_id": owner_id})
    return None if row is None else CurrentSet(*row)


async def find_current_set(tx: Read, owner_id: UUID) -> UUID | None:
    """Return the id of the set that the owner serves now."""
    found: UUID | None = await tx.scalar(_FIND_CURRENT_SET, {"owner_id": owner_id})
    return found


async def insert_set(tx: Write, new: NewSet, parts: Mapping[str, bytes]) -> None:
    """Store a set and its bytes (coding → body); it isn't served before `periods.switch`."""
    await tx.execute(_INSERT_SET, msgspec.structs.asdict(new))
    for coding, body in parts.items():
        await tx.execute(_INSERT_BODY, {"set_id": new.id, "coding": coding, "body": body})


async def touch_source(tx: Write, set_id: UUID, *, url: str, etag: str | None) -> None:
    """Store where the set's content was last pulled from, for the next conditional pull."""
    await tx.execute(_TOUCH_SOURCE, {"set_id": set_id, "source_url": url, "source_etag": etag})


async def find_body(tx: Read, set_id: UUID, coding: str) -> bytes | None:
    """Return the set's bytes in one coding (`zstd`, `br`, `gzip`, COMPILED or SEARCH)."""
    body: bytes | None = await tx.scalar(_FIND_BODY, {"set_id": set_id, "coding": coding})
    return body


async def find_owner_of_set(tx: Read, set_id: UUID) -> UUID | None:
    """Return the owner that serves or has served the set, while the set is kept."""
    owner_id: UUID | None = await tx.scalar(_FIND_OWNER_OF_SET, {"set_id": set_id})
    return owner_id


# --- runs -----------------------------------------------------------------------------------------

_RUN: Final = [column for column in runs.c if column.name != "excerpts"]
_INSERT_RUN: Final = prepared_insert(runs, *(column.name for column in _RUN))
_COUNT_WAITING: Final = prepared(
    select(func.count()).where(_RUN_OF_OWNER, runs.c.status == RunStatus.QUEUED.value)
)
_COUNT_COMING: Final = prepared(
    select(func.count()).where(
        _RUN_OF_OWNER, _RUN_IS_OPEN, runs.c.set_id.is_(None), runs.c.id != bindparam("besides")
    )
)
_FIND_RUN: Final = prepared(select(*_RUN).where(_OF_RUN))
_LIST_NOTIFIED: Final = prepared(
    select(*_RUN)
    .where(_RUN_OF_OWNER, runs.c.notified, runs.c.id < bindparam("before"))
    .order_by(runs.c.id.desc())
    .limit(bindparam("limit"))
)
_LAST: Final = UUID(int=2**128 - 1)
_MOVE_RUN: Final = prepared_update(runs, "status", "updated_at", where=[_OF_RUN, _RUN_IS_OPEN])
_SCHEDULE_RUN: Final = prepared_update(
    runs, "warnings", "set_id", "updated_at", where=[_OF_RUN, _RUN_IS_OPEN]
)
_LIST_DUE: Final = prepared(
    select(*_RUN)
    .where(_RUN_OF_OWNER, runs.c.set_id.is_not(None), runs.c.activate_at <= bindparam("until"), _RUN_IS_OPEN)
    .order_by(runs.c.activate_at, runs.c.id)
)
_HAS_SWITCHED_AFTER: Final = prepared(
    select(
        exists().where(
            _RUN_OF_OWNER,
            runs.c.status == RunStatus.SUCCEEDED.value,
            func.coalesce(runs.c.activate_at, runs.c.created_at) > bindparam("instant"),
        )
    )
)
_COUNT_SCHEDULED: Final = prepared(
    select(func.count()).where(_RUN_OF_OWNER, runs.c.activate_at.is_not(None), _RUN_IS_OPEN)
)
_END: Final = ("status", "errors", "updated_at")
_END_RUN: Final = prepared_update(
    runs, *_END, "warnings", "excerpts", "set_id", where=[_OF_RUN, _RUN_IS_OPEN]
)
_END_OPEN_RUNS: Final = prepared_update(runs, *_END, where=[_RUN_OF_OWNER, _RUN_IS_OPEN])
_FIND_WARNINGS: Final = prepared(
    select(runs.c.warnings)
    .where(_RUN_OF_OWNER, runs.c.set_id == bindparam("set_id"))
    .order_by(runs.c.id.desc())
    .limit(1)
)


async def insert_run(tx: Write, run: Run) -> None:
    row = msgspec.structs.asdict(run) | {
        "owner_id": run.owner.id,
        "store_id": run.owner.store_id,
        "partner_id": run.owner.partner_id,
        "status": run.status.value,
        "errors": "[]",
        "warnings": as_json(run.warnings).decode(),
    }
    await tx.execute(_INSERT_RUN, row)


async def schedule_run(
    tx: Write, run_id: UUID, set_id: UUID, *, warnings: Sequence[PartnerWarning], now: datetime
) -> None:
    """Record the set of a run that waits for its instant."""
    texts = as_json(warnings).decode()
    await tx.execute(
        _SCHEDULE_RUN, {"run_id": run_id, "set_id": set_id, "warnings": texts, "updated_at": now}
    )


async def list_due(tx: Read, owner_id: UUID, *, until: datetime) -> list[Run]:
    """Return the owner's scheduled runs up to the instant, in the order in which they switch."""
    return [_run(row) for row in await tx.all(_LIST_DUE, {"owner_id": owner_id, "until": until})]


async def has_switched_after(tx: Read, owner_id: UUID, instant: datetime) -> bool:
    """Return whether a run has succeeded whose own instant is later: its `activateAt`, else when it was requested."""
    return bool(await tx.scalar(_HAS_SWITCHED_AFTER, {"owner_id": owner_id, "instant": instant}))


async def count_scheduled(tx: Read, owner_id: UUID) -> int:
    """Return how many of the owner's runs that haven't ended switch at an instant."""
    return int(await tx.scalar(_COUNT_SCHEDULED, {"owner_id": owner_id}))


async def count_waiting(tx: Read, owner_id: UUID) -> int:
    """Return how many of the owner's runs are queued."""
    return int(await tx.scalar(_COUNT_WAITING, {"owner_id": owner_id}))


async def is_set_coming(tx: Read, owner_id: UUID, *, besides: UUID) -> bool:
    """Return whether a run besides this one may give the owner a set at any moment: one that is scheduled doesn't."""
    return bool(await tx.scalar(_COUNT_COMING, {"owner_id": owner_id, "besides": besides}))


async def find_run(tx: Read, run_id: UUID) -> Run | None:
    row = await tx.first(_FIND_RUN, {"run_id": run_id})
    return None if row is None else _run(row)


async def find_excerpts(tx: Read, run_id: UUID) -> tuple[str, ...]:
    """Return what the run's document has at each of its errors, nothing if it couldn't be pulled."""
    stored: bytes | None = await tx.scalar(select(runs.c.excerpts).where(runs.c.id == run_id))
    return () if stored is None else _texts.decode(decompress(stored))


MAX_PAGE_CHARS: Final = 1024 * 1024
"""Characters of faults, as they are stored, after which a page of runs ends: everybody waits while one is made."""


async def list_notified(
    tx: Read, owner_id: UUID, *, before: UUID | None, limit: int
) -> tuple[list[Run], str | None]:
    """Return the runs that a partner requested, newest first, older than the run `before`, and the `nextCursor`.

    They are at most `limit`, and fewer if they have many faults: a page ends after MAX_PAGE_CHARS.
    """
    given = {"owner_id": owner_id, "before": before or _LAST, "limit": limit + 1}
    rows = await tx.all(_LIST_NOTIFIED, given)
    page, cursor = page_of(rows, limit, lambda row: row.id, _fault_chars, most=MAX_PAGE_CHARS)
    return [_run(row) for row in page], cursor


def _fault_chars(row: AnyRow) -> int:
    return len(row.errors) + len(row.warnings)


_other: Final = runs.alias()
# PostgreSQL before version 18 has no max() of UUIDs.
_NEWEST: Final = (
    select(_other.c.id).where(_other.c.owner_id == runs.c.owner_id).order_by(_other.c.id.desc()).limit(1)
)
# Not prepared: the faults of many runs are long.
_LATEST: Final = select(*_RUN).where(
    runs.c.owner_id.in_(bindparam("owner_ids", expanding=True)), runs.c.id == _NEWEST.scalar_subquery()
)


async def list_latest(tx: Read, owner_ids: Sequence[UUID]) -> dict[UUID, Run]:
    """Return each owner's newest run: of the first owners, if theirs have more faults than MAX_PAGE_CHARS."""
    rows = await tx.all(_LATEST, {"owner_ids": owner_ids})
    found = {row.owner_id: row for row in rows}
    in_order = [found[owner] for owner in owner_ids]
    newest_runs, _ = end_page(in_order, len(in_order), _fault_chars, most=MAX_PAGE_CHARS)
    return {row.owner_id: _run(row) for row in newest_runs}


async def move_run(tx: Write, run_id: UUID, *, to: RunStatus, now: datetime) -> bool:
    """Move an open run on; False when it has ended already."""
    moved = await tx.execute(_MOVE_RUN, {"run_id": run_id, "status": to.value, "updated_at": now})
    return moved.rowcount == 1


async def end_run(
    tx: Write,
    run_id: UUID,
    *,
    status: RunStatus,
    errors: Sequence[CatalogFault],
    warnings: Sequence[PartnerWarning],
    excerpts: Sequence[str],
    set_id: UUID | None,
    now: datetime,
) -> bool:
    """End an open run; False when it has ended already. `excerpts` are those of the errors, in their order."""
    end = {
        "run_id": run_id,
        "status": status.value,
        "errors": as_json(errors).decode(),
        "warnings": as_json(warnings).decode(),
        "excerpts": compress(as_json(excerpts)) if any(excerpts) else None,
        "set_id": set_id,
        "updated_at": now,
    }
    return (await tx.execute(_END_RUN, end)).rowcount == 1


async def find_warnings(tx: Read, owner_id: UUID, set_id: UUID) -> tuple[PartnerWarning, ...]:
    """Return the warnings of the newest run that ended with the set."""
    found = await tx.scalar(_FIND_WARNINGS, {"owner_id": owner_id, "set_id": set_id})
    return () if found is None else _warnings.decode(found)


async def end_open_runs(tx: Write, owner_id: UUID, *, fault: CatalogFault, now: datetime) -> None:
    """End every open run of an owner `failed`, for the one reason given."""
    errors = as_json([fault]).decode()
    await tx.execute(
        _END_OPEN_RUNS,
        {"owner_id": owner_id, "status": RunStatus.FAILED.value, "errors": errors, "updated_at": now},
    )


async def prune_runs(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete runs that ended before an instant, never the newest of an onboarding or a store; return how many."""
    later = runs.alias("later")
    superseded = exists().where(
        later.c.owner_id == runs.c.owner_id, later.c.notified == runs.c.notified, later.c.id > runs.c.id
    )
    old = select(runs.c.id).where(runs.c.updated_at < before, ~_RUN_IS_OPEN, superseded)
    ids = [row.id for row in await tx.all(old.order_by(runs.c.updated_at).limit(limit))]
    if ids:
        await tx.execute(delete(runs).where(runs.c.id.in_(ids)))
    return len(ids)


def _run(row: Row[Any]) -> Run:
    members = {name: getattr(row, name) for name in Run.__struct_fields__ if name != "owner"}
    return Run(
        **members
        | {
            "owner": Owner(id=row.owner_id, store_id=row.store_id, partner_id=row.partner_id),
            "status": RunStatus(row.status),
            "errors": _faults.decode(row.errors),
            "warnings": _warnings.decode(row.warnings),
        }
    )


MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of compiled catalogs in their stored form; in memory each takes a few times as much."""


class CompiledCatalogs:
    """The catalogs that pricing reads, by CatalogSet id."""

    def __init__(self, db: Database, *, max_bytes: int = MAX_BYTES) -> None:
        self._db = db
        self._cache = Cache[int, tuple[CompiledCatalog, int]](
            capacity=max_bytes, weigh=lambda entry: entry[1]
        )
        self.lookups = self._cache.lookups

    async def get(self, set_id: UUID) -> CompiledCatalog:
        """Return the catalog. Raises CatalogSetNotFound."""
        found = await self._cache.get(set_id.int, self._read, set_id)
        if found is None:
            raise CatalogSetNotFound(set_id)
        return found[0]

    async def _read(self, set_id: UUID) -> tuple[CompiledCatalog, int] | None:
        body = await self._db.find_immutable(lambda tx: find_body(tx, set_id, COMPILED))
        return None if body is None else (unpack(body), len(body))
