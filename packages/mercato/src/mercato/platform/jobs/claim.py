"""Claims jobs: shares the free slots between groups, and a group's slots between its ordering keys.

The head of an ordering key is its first row in an index that holds only ready rows, ordered by kind, group, key and id.
The claim walks that index from head to head and skips the rows behind a head, so that 20,000 rows of one key cost as
much as one.

Groups (partners) share by one rule: a group may hold one slot, or as many as it leaves free. One group alone gets half
of the slots, four get a fifth each, and a fifth stays free for a group that has none. Within a group the keys take
turns: the walk starts after the key that was claimed last, and wraps around.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import Text, bindparam, func, select, text, update

from mercato.platform.clock import from_ms
from mercato.platform.db.engine import Write
from mercato.platform.db.statements import prepared
from mercato.platform.db.tables import jobs
from mercato.platform.jobs.claim_sql import CLAIM, COALESCE
from mercato.platform.jobs.model import Handler, Job
from mercato_contract.wire import as_json

_UNBOUNDED: Final = 1_000_000_000

_MAX_STEPS: Final = 20_000
"""Heads that one claim visits. Most are free, so this bounds only a crowd of blocked keys."""

_MAX_COALESCED: Final = 512
"""Rows that one claim deletes: on SQLite they block the event loop for a few milliseconds."""

MAX_GROUPS: Final = 64
"""Groups for which a worker remembers the last claimed key; other groups start at their first key."""

_SET_RUN_AT: Final = prepared(
    update(jobs).where(jobs.c.id == bindparam("where_id")).values(run_at=bindparam("due"))
)
_COUNT_RUNNING: Final = prepared(
    select(func.count())
    .select_from(jobs)
    .where(text("state = 'running'"), jobs.c.kind == bindparam("where_kind", type_=Text))
)


class Rotation(Struct):
    """Where a worker's next claim of a kind starts, so that all groups, and all keys of a group, take turns."""

    group: str = ""
    """The claim starts after this group; empty is the first."""
    keys: dict[str, str] = field(default_factory=dict)
    """By group, the key that was claimed last."""

    def advance(self, claimed: Sequence[Job[str]], *, is_full: bool) -> None:
        """Record a claim. If it filled every slot, the next one continues after its last group."""
        for job in claimed:
            self.keys.pop(job.group, None)
            self.keys[job.group] = job.ordering_key
        while len(self.keys) > MAX_GROUPS:
            del self.keys[next(iter(self.keys))]
        self.group = claimed[-1].group if is_full else ""

    def position(self, job: Job[str]) -> tuple[str, bool, str]:
        """Return the sort key of the job's turn: keys after the group's last claimed one come first."""
        return job.group, job.ordering_key <= self.keys.get(job.group, ""), job.ordering_key


async def claim(
    tx: Write,
    kind: str,
    handler: Handler[Any],
    *,
    worker: str,
    lease: timedelta,
    free: int,
    rotation: Rotation,
) -> list[Job[str]]:
    """Claim up to `free` jobs of the kind, at most one per ordering key, in their turn. Payloads are JSON, not decoded.

    `free` is the worker's number of free slots: a group gets no more of them than it leaves.

    Needs a transaction of its own: if two workers want the same key at the same time, the schema lets one have it, and
    the other gets an IntegrityError and tries again.
    """
    total, group_limit = handler.total_concurrency, handler.group_concurrency
    if (total is not None or group_limit is not None) and tx.dialect == "postgresql":
        # Claims that count the same running rows go one after the other. SQLite has one writer.
        await tx.execute(
            select(
                func.pg_advisory_xact_lock(func.hashtextextended(f"jobs:{kind}:" + func.current_schema(), 0))
            )
        )
    if total is not None:
        free = min(free, total - await tx.scalar(_COUNT_RUNNING, {"where_kind": kind}))
    if free <= 0:
        return []
    rows = await tx.all(
        CLAIM[tx.dialect, handler.blocks_key_while_waiting],
        {
            "kind": kind,
            "free": free,
            "steps": _MAX_STEPS,
            "group_limit": _UNBOUNDED if group_limit is None else group_limit,
            "group_key": rotation.group,
            "last_keys": as_json(rotation.keys).decode(),
            "worker": worker,
            "lease": lease // timedelta(milliseconds=1),
        },
    )
    claimed = sorted((_job(kind, row) for row in rows), key=rotation.position)
    return await _coalesce(tx, claimed) if handler.coalesces and claimed else claimed


def _job(kind: str, row: Sequence[Any]) -> Job[str]:
    id_, group, key, payload, attempt, failures, losses, run_at, enqueued_at = row
    return Job(
        id=id_,
        kind=kind,
        group=group,
        ordering_key=key,
        payload=payload,
        attempt=attempt,
        failures=failures,
        losses=losses,
        run_at=from_ms(run_at),
        enqueued_at=from_ms(enqueued_at),
    )


async def _coalesce(tx: Write, claimed: list[Job[str]]) -> list[Job[str]]:
    """Delete the ready jobs behind the claimed ones, which get the latest `run_at` of those that they replace."""
    ids: Any = [job.id for job in claimed]
    if tx.dialect == "sqlite":
        ids = as_json(ids).decode()
    limit = max(1, _MAX_COALESCED // len(claimed))
    last_due: dict[str, datetime] = {}
    for key, run_at in await tx.all(COALESCE[tx.dialect], {"ids": ids, "limit": limit}):
        last_due[key] = max(from_ms(run_at), last_due.get(key, from_ms(run_at)))
    due = [
        replace(job, run_at=max(job.run_at, last_due.get(job.ordering_key, job.run_at))) for job in claimed
    ]
    changed = [after for before, after in zip(claimed, due, strict=True) if after.run_at != before.run_at]
    if changed:
        # For the run after this one, if this worker vanishes.
        await tx.execute(_SET_RUN_AT, [{"where_id": job.id, "due": job.run_at} for job in changed])
    return due
