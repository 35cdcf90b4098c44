"""The SQL of `claim`: one recursive walk over the heads of ordering keys, a statement for each kind of database.

Keys are compared with COALESCE and not as (group, key) > (…), for which SQLite reads every row of the key.
"""
# ruff: noqa: S608  # made of constants

from typing import Final

from sqlalchemy import ARRAY, BigInteger, Text, TextClause, bindparam, text

from mercato.platform.db.statements import prepared
from mercato.platform.db.types import NOW, Dialect

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


def _pivot(row: str) -> str:
    """Return the last claimed key of the row's group, after which the walk enters the group."""
    return f"COALESCE((SELECT last_key.ordering_key FROM last_key WHERE last_key.group_key = {row}.group_key), '')"


# --- about the walk -------------------------------------------------------------------------------

_HAS_ROOM: Final = """walk.busy < :group_limit
    AND (walk.group_key = '' OR walk.busy = 0 OR walk.busy + 1 < :free - walk.found)"""
"""Jobs without a group share nothing. The walk has already checked that a slot is free."""

_TAKEN: Final = f"CASE WHEN walk.free = 1 AND {_HAS_ROOM} THEN 1 ELSE 0 END"


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

    `free`: no job of the key is running. `busy`: how many jobs of the group are running, this one excluded.
    """
    is_held = f"{_IS_RUNNING} OR {_IS_BLOCKED}" if blocking else _IS_RUNNING
    free = f"CASE WHEN {is_held} THEN 0 ELSE 1 END"
    return f"""
WITH RECURSIVE last_key (group_key, ordering_key) AS ({last_keys}),
walk (id, group_key, ordering_key, free, busy, pivot, found, step) AS (
    SELECT head.id, head.group_key, head.ordering_key, {free}, {_BUSY}, {_pivot("head")}, 0, 1
    FROM jobs AS head
    WHERE head.id = {_FIRST}
    UNION ALL
    SELECT head.id, head.group_key, head.ordering_key, {free},
        CASE WHEN head.group_key = walk.group_key THEN walk.busy + {_TAKEN} ELSE {_BUSY} END,
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
    return prepared(text(statement).bindparams(*counts))


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
