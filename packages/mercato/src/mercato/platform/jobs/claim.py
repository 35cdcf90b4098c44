"""Claims jobs: shares the free slots between groups, and a group's slots between its ordering keys.

The head of an ordering key is its first row in an index that holds only ready rows, ordered by kind, group, key and id.
The claim walks that index from head to head and skips the rows behind a head, so that 20,000 rows of one key cost as
much as one.

Groups (partners) share by one rule: a group may hold one slot, or as many as it leaves free. One group alone gets half
of the slots, four get a fifth each, and a fifth stays free for a group that has none. Within a group the keys take
turns: the walk starts after the key that was claimed last, and wraps around. The partitions of one key share the
group's slots with its other keys by the same rule (`Handler.partitions`).

The SQL is one recursive walk over the heads of ordering keys, a statement for each kind of database. Keys are
compared with COALESCE and not as (group, key) > (…), for which SQLite reads every row of the key.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from string import digits
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import ARRAY, BigInteger, Text, TextClause, bindparam, func, select, text, update

from mercato.platform.db.engine import Write
from mercato.platform.db.statements import prepared
from mercato.platform.db.tables import jobs
from mercato.platform.db.types import NOW, Dialect
from mercato.platform.jobs.run import Handler, Job
from mercato_contract.clock import from_ms
from mercato_contract.wire import as_json

# ruff: noqa: S608  # made of constants


# --- about a head ---------------------------------------------------------------------------------

_IS_RUNNING: Final = """EXISTS (
    SELECT 1 FROM jobs AS other WHERE other.state = 'running' AND other.ordering_key = head.ordering_key
)"""

_IS_BLOCKED: Final = """EXISTS (
    SELECT 1 FROM jobs AS other
    WHERE other.state = 'waiting' AND other.ordering_key = head.ordering_key AND other.id < head.id
)"""
"""An earlier job of the key waits for its retry."""

_BUSY: Final = """(
    SELECT count(*) FROM jobs AS other
    WHERE other.state = 'running' AND other.kind = :kind AND other.group_key = head.group_key
)"""
"""How many jobs of the head's group are running."""


def _unpartitioned(row: str) -> str:
    """Return the row's key without the number of its partition, if the kind has partitions."""
    return f"rtrim({row}.ordering_key, :partition_digits)"


_BUSY_PARTITIONS: Final = f"""CASE WHEN :partition_digits = '' THEN 0 ELSE (
    SELECT count(*) FROM jobs AS other
    WHERE other.state = 'running' AND other.kind = :kind AND other.group_key = head.group_key
        AND {_unpartitioned("other")} = {_unpartitioned("head")}
) END"""
"""How many jobs of the head's key are running, in all its partitions."""


def _pivot(row: str) -> str:
    """Return the last claimed key of the row's group, after which the walk enters the group."""
    return f"COALESCE((SELECT last_key.ordering_key FROM last_key WHERE last_key.group_key = {row}.group_key), '')"


# --- about the walk -------------------------------------------------------------------------------

_HAS_ROOM: Final = """walk.busy < :group_limit
    AND (walk.group_key = '' OR walk.busy = 0 OR walk.busy + 1 < :free - walk.found)"""
"""Jobs without a group share nothing. The walk has already checked that a slot is free."""

_LEAVES_ROOM: Final = """(walk.partitions = 0 OR walk.partitions + 1 < :group_limit - walk.busy
        AND 2 * (walk.partitions + 1) < :free - walk.found - walk.busy)"""
"""Whether the key leaves as many of its group's slots free as it holds: the group may have half of what is free."""

_TAKEN: Final = f"CASE WHEN walk.free = 1 AND {_HAS_ROOM} AND {_LEAVES_ROOM} THEN 1 ELSE 0 END"


def _entry(groups: str) -> str:
    """Return the head at which the walk enters the first such group: after its pivot, or else its first."""
    return f"""(
        SELECT COALESCE((
            SELECT later.id FROM jobs AS later
            WHERE later.state = 'ready' AND later.kind = :kind AND later.group_key = candidate.group_key
                AND later.ordering_key > {_pivot("candidate")}
            ORDER BY later.group_key, later.ordering_key, later.id LIMIT 1
        ), candidate.id)
        FROM jobs AS candidate
        WHERE candidate.state = 'ready' AND candidate.kind = :kind AND {groups}
        ORDER BY candidate.group_key, candidate.ordering_key, candidate.id LIMIT 1
    )"""


def _next_key(keys: str) -> str:
    """Return the head of the first such key in the walk's group."""
    return f"""(
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind AND group_key = walk.group_key AND {_HAS_ROOM} AND {keys}
        ORDER BY group_key, ordering_key, id LIMIT 1
    )"""


_FIRST: Final = f"""COALESCE(
    {_entry("candidate.group_key = '' AND :group_key = ''")},
    {_entry("candidate.group_key > :group_key")}
)"""

# From the pivot to the last key, then from the first key to the pivot; then the next group.
_NEXT: Final = f"""COALESCE(
    {_next_key("walk.ordering_key > walk.pivot AND ordering_key > walk.ordering_key")},
    {_next_key("walk.ordering_key > walk.pivot AND ordering_key <= walk.pivot")},
    {
    _next_key(
        "walk.ordering_key <= walk.pivot AND ordering_key > walk.ordering_key AND ordering_key <= walk.pivot"
    )
},
    {_entry("candidate.group_key > walk.group_key")}
)"""

_CLAIMED: Final = "id, group_key, ordering_key, payload, attempt, failures, losses, run_at, enqueued_at"


def _walk(*, last_keys: str, next_head: str, blocking: bool) -> str:
    """Return the walk from head to head, the same on both databases but for two joins.

    `free`: no job of the key is running. `busy`: how many jobs of the group are running, this one excluded;
    `partitions`: how many of those have its key but for the partition.
    """
    is_held = f"{_IS_RUNNING} OR {_IS_BLOCKED}" if blocking else _IS_RUNNING
    free = f"CASE WHEN {is_held} THEN 0 ELSE 1 END"
    return f"""
WITH RECURSIVE last_key (group_key, ordering_key) AS ({last_keys}),
walk (id, group_key, ordering_key, free, busy, partitions, pivot, found, step) AS (
    SELECT head.id, head.group_key, head.ordering_key, {free}, {_BUSY}, {_BUSY_PARTITIONS}, {_pivot("head")}, 0, 1
    FROM jobs AS head
    WHERE head.id = {_FIRST}
    UNION ALL
    SELECT head.id, head.group_key, head.ordering_key, {free},
        CASE WHEN head.group_key = walk.group_key THEN walk.busy + {_TAKEN} ELSE {_BUSY} END,
        CASE WHEN head.group_key = walk.group_key AND {_unpartitioned("head")} = {_unpartitioned("walk")}
            THEN walk.partitions + {_TAKEN} ELSE {_BUSY_PARTITIONS} END,
        CASE WHEN head.group_key = walk.group_key THEN walk.pivot ELSE {_pivot("head")} END,
        walk.found + {_TAKEN}, walk.step + 1
    FROM walk {next_head}
    WHERE walk.found + {_TAKEN} < :free AND walk.step < :steps
)"""


# --- SQLite ---------------------------------------------------------------------------------------


def _claim_on_sqlite(*, blocking: bool) -> str:
    walk = _walk(
        last_keys="SELECT key, value FROM json_each(:last_keys)",
        next_head=f"JOIN jobs AS head ON head.id = {_NEXT}",
        blocking=blocking,
    )
    return f"""{walk},
picked (id) AS (
    SELECT id FROM jobs
    WHERE COALESCE(state, '') = 'ready' AND id IN (SELECT walk.id FROM walk WHERE {_TAKEN} = 1)
)
UPDATE jobs SET state = 'running', attempt = attempt + 1, worker = :worker,
    lease_until = {NOW["sqlite"]} + :lease
WHERE id IN (SELECT picked.id FROM picked)
RETURNING {_CLAIMED}
"""


_COALESCE_ON_SQLITE: Final = """
DELETE FROM jobs WHERE id IN (
    SELECT follower.id FROM jobs AS head JOIN jobs AS follower ON follower.id IN (
        SELECT candidate.id FROM jobs AS candidate
        WHERE candidate.state = 'ready' AND candidate.kind = head.kind AND candidate.group_key = head.group_key
            AND candidate.ordering_key = head.ordering_key
        ORDER BY candidate.group_key, candidate.ordering_key, candidate.id LIMIT :limit
    )
    WHERE head.id IN (SELECT value FROM json_each(:ids))
)
RETURNING ordering_key, run_at
"""


# --- PostgreSQL -----------------------------------------------------------------------------------

# PostgreSQL caches a plan, perhaps made while the table was small, and keeps it as the table grows. These statements
# leave it no choice but the primary key: LATERAL with OFFSET, ANY, a state that matches no index.


def _claim_on_postgresql(*, blocking: bool) -> str:
    walk = _walk(
        last_keys="SELECT key, value FROM jsonb_each_text(CAST(:last_keys AS jsonb))",
        next_head=f"""CROSS JOIN LATERAL (
            SELECT id, group_key, ordering_key FROM jobs WHERE id = {_NEXT} OFFSET 0
        ) AS head""",
        blocking=blocking,
    )
    return f"""{walk},
picked (id) AS (
    SELECT id FROM jobs
    WHERE COALESCE(state, '') = 'ready' AND id = ANY(ARRAY (SELECT walk.id FROM walk WHERE {_TAKEN} = 1))
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs SET state = 'running', attempt = attempt + 1, worker = :worker,
    lease_until = {NOW["postgresql"]} + :lease
WHERE id = ANY(ARRAY (SELECT picked.id FROM picked))
RETURNING {_CLAIMED}
"""


_COALESCE_ON_POSTGRESQL: Final = """
DELETE FROM jobs WHERE id = ANY(ARRAY (
    SELECT follower.id FROM jobs AS head CROSS JOIN LATERAL (
        SELECT candidate.id FROM jobs AS candidate
        WHERE candidate.state = 'ready' AND candidate.kind = head.kind AND candidate.group_key = head.group_key
            AND candidate.ordering_key = head.ordering_key
        ORDER BY candidate.group_key, candidate.ordering_key, candidate.id LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS follower
    WHERE head.id = ANY(:ids)
))
RETURNING ordering_key, run_at
"""


# --- prepared -------------------------------------------------------------------------------------


def _prepared_claim(statement: str) -> TextClause:
    counts = (bindparam(name, type_=BigInteger) for name in ("free", "group_limit", "steps", "lease"))
    return prepared(text(statement).bindparams(*counts, bindparam("partition_digits", type_=Text)))


CLAIM: Final[dict[tuple[Dialect, bool], TextClause]] = {
    ("sqlite", False): _prepared_claim(_claim_on_sqlite(blocking=False)),
    ("sqlite", True): _prepared_claim(_claim_on_sqlite(blocking=True)),
    ("postgresql", False): _prepared_claim(_claim_on_postgresql(blocking=False)),
    ("postgresql", True): _prepared_claim(_claim_on_postgresql(blocking=True)),
}
"""By dialect, and by whether a waiting job blocks its key."""

_LIMIT: Final = bindparam("limit", type_=BigInteger)
COALESCE: Final[dict[Dialect, TextClause]] = {
    "sqlite": prepared(text(_COALESCE_ON_SQLITE).bindparams(_LIMIT, bindparam("ids", type_=Text()))),
    "postgresql": prepared(
        text(_COALESCE_ON_POSTGRESQL).bindparams(_LIMIT, bindparam("ids", type_=ARRAY(BigInteger)))
    ),
}


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
            "partition_digits": digits if handler.partitions else "",
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
