"""The SQL of `claim`: one recursive walk over the heads of ordering keys, built for each dialect at import."""

from typing import Final

from sqlalchemy import ARRAY, BigInteger, Text, bindparam, text

from mercato.platform.db.statements import prepared
from mercato.platform.db.types import NOW, Dialect

# Written with COALESCE and not as (group, key) > (…), for which SQLite reads every row of the key.
# `free`: no job of the key is running. `busy`: how many jobs of the group are running, this one excluded.
# `pivot`: the group's last claimed key, after which the walk entered the group.
_CLAIM = """
WITH RECURSIVE last_key (group_key, ordering_key) AS (<LAST KEYS>),
walk (id, group_key, ordering_key, free, busy, pivot, found, step) AS (
    SELECT head.id, head.group_key, head.ordering_key, <FREE>, <BUSY>, <PIVOT>, 0, 1
    FROM jobs AS head
    WHERE head.id = <FIRST>
    UNION ALL
    SELECT head.id, head.group_key, head.ordering_key, <FREE>,
        CASE WHEN head.group_key = walk.group_key THEN walk.busy + <TAKEN> ELSE <BUSY> END,
        CASE WHEN head.group_key = walk.group_key THEN walk.pivot ELSE <PIVOT> END,
        walk.found + <TAKEN>, walk.step + 1
    FROM walk <NEXT HEAD>
    WHERE walk.found + <TAKEN> < :free AND walk.step < :steps
),
picked (id) AS (
    SELECT id FROM jobs
    WHERE COALESCE(state, '') = 'ready'
        AND id <IN> (SELECT walk.id FROM walk WHERE <TAKEN> = 1)<END>
    <LOCK>
)
UPDATE jobs SET state = 'running', attempt = attempt + 1, worker = :worker, lease_until = <NOW> + :lease
WHERE id <IN> (SELECT picked.id FROM picked)<END>
RETURNING id, group_key, ordering_key, payload, attempt, failures, losses, run_at, enqueued_at
"""

_COALESCE = """
DELETE FROM jobs WHERE id <IN> (
    SELECT follower.id FROM jobs AS head <JOIN FOLLOWERS>
    WHERE head.id <IN IDS>
)<END>
RETURNING ordering_key, run_at
"""

_FOLLOWERS = """
    SELECT candidate.id FROM jobs AS candidate
    WHERE candidate.state = 'ready' AND candidate.kind = head.kind AND candidate.group_key = head.group_key
        AND candidate.ordering_key = head.ordering_key
    ORDER BY candidate.group_key, candidate.ordering_key, candidate.id LIMIT :limit
"""

_FREE = """CASE WHEN EXISTS (
        SELECT 1 FROM jobs AS other WHERE other.state = 'running' AND other.ordering_key = head.ordering_key
    ) <BLOCKED> THEN 0 ELSE 1 END"""

_BLOCKED = """OR EXISTS (
        SELECT 1 FROM jobs AS other
        WHERE other.state = 'waiting' AND other.ordering_key = head.ordering_key AND other.id < head.id
    )"""

_BUSY = """(
        SELECT count(*) FROM jobs AS other
        WHERE other.state = 'running' AND other.kind = :kind AND other.group_key = head.group_key
    )"""

# Jobs without a group share nothing. The walk has already checked that a slot is free.
_ROOM = """walk.busy < :group_limit
            AND (walk.group_key = '' OR walk.busy = 0 OR walk.busy + 1 < :free - walk.found)"""

_TAKEN = "CASE WHEN walk.free = 1 AND <ROOM> THEN 1 ELSE 0 END"

_PIVOT = (
    "COALESCE((SELECT last_key.ordering_key FROM last_key WHERE last_key.group_key = <OF>.group_key), '')"
)

# The head at which the walk enters the first such group: after its pivot, or else its first.
_ENTRY = """(
        SELECT COALESCE((
            SELECT later.id FROM jobs AS later
            WHERE later.state = 'ready' AND later.kind = :kind AND later.group_key = candidate.group_key
                AND later.ordering_key > <ENTRY PIVOT>
            ORDER BY later.group_key, later.ordering_key, later.id LIMIT 1
        ), candidate.id)
        FROM jobs AS candidate
        WHERE candidate.state = 'ready' AND candidate.kind = :kind AND <WHICH>
        ORDER BY candidate.group_key, candidate.ordering_key, candidate.id LIMIT 1
    )"""

_FIRST = f"""COALESCE(
    {_ENTRY.replace("<WHICH>", "candidate.group_key = '' AND :group_key = ''")},
    {_ENTRY.replace("<WHICH>", "candidate.group_key > :group_key")}
)"""

_NEXT_KEY = """(
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind AND group_key = walk.group_key AND <ROOM> AND <WHICH>
        ORDER BY group_key, ordering_key, id LIMIT 1
    )"""

# From the pivot to the last key, then from the first key to the pivot; then the next group.
_AFTER_PIVOT = "walk.ordering_key > walk.pivot AND ordering_key > walk.ordering_key"
_WRAP = "walk.ordering_key > walk.pivot AND ordering_key <= walk.pivot"
_BEFORE_PIVOT = (
    "walk.ordering_key <= walk.pivot AND ordering_key > walk.ordering_key AND ordering_key <= walk.pivot"
)
_NEXT = f"""COALESCE(
    {_NEXT_KEY.replace("<WHICH>", _AFTER_PIVOT)},
    {_NEXT_KEY.replace("<WHICH>", _WRAP)},
    {_NEXT_KEY.replace("<WHICH>", _BEFORE_PIVOT)},
    {_ENTRY.replace("<WHICH>", "candidate.group_key > walk.group_key")}
)"""


# PostgreSQL caches a plan, perhaps made while the table was small, and keeps it as the table grows. Its fragments leave
# it no choice but the primary key: LATERAL with OFFSET, ANY, a state that matches no index. SQLite needs none of this.
_DIALECT: Final[dict[Dialect, dict[str, str]]] = {
    "sqlite": {
        "<NEXT HEAD>": "JOIN jobs AS head ON head.id = <NEXT>",
        "<JOIN FOLLOWERS>": "JOIN jobs AS follower ON follower.id IN (<FOLLOWERS>)",
        "<IN IDS>": "IN (SELECT value FROM json_each(:ids))",
        "<IN>": "IN",
        "<END>": "",
        "<LOCK>": "",
        "<LAST KEYS>": "SELECT key, value FROM json_each(:last_keys)",
    },
    "postgresql": {
        "<NEXT HEAD>": """CROSS JOIN LATERAL (
            SELECT id, group_key, ordering_key FROM jobs WHERE id = <NEXT> OFFSET 0
        ) AS head""",
        "<JOIN FOLLOWERS>": "CROSS JOIN LATERAL (<FOLLOWERS> FOR UPDATE SKIP LOCKED) AS follower",
        "<IN IDS>": "= ANY(:ids)",
        "<IN>": "= ANY(ARRAY",
        "<END>": ")",
        "<LOCK>": "FOR UPDATE SKIP LOCKED",
        "<LAST KEYS>": "SELECT key, value FROM jsonb_each_text(CAST(:last_keys AS jsonb))",
    },
}


def _sql(template: str, dialect: Dialect, *, blocking: bool = False) -> str:
    parts = {
        **_DIALECT[dialect],
        "<FOLLOWERS>": _FOLLOWERS,
        "<NEXT>": _NEXT,
        "<FREE>": _FREE,
        "<BLOCKED>": _BLOCKED if blocking else "",
        "<FIRST>": _FIRST,
        "<BUSY>": _BUSY,
        "<PIVOT>": _PIVOT.replace("<OF>", "head"),
        "<ENTRY PIVOT>": _PIVOT.replace("<OF>", "candidate"),
        "<TAKEN>": _TAKEN,
        "<ROOM>": _ROOM,
        "<NOW>": NOW[dialect],
    }
    for name, part in parts.items():
        template = template.replace(name, part)
    return template


_DIALECTS: Final[tuple[Dialect, ...]] = ("sqlite", "postgresql")

# By dialect, and by whether a waiting job blocks its key.
CLAIM: Final = {
    (dialect, blocking): prepared(
        text(_sql(_CLAIM, dialect, blocking=blocking)).bindparams(
            *(bindparam(name, type_=BigInteger) for name in ("free", "group_limit", "steps", "lease"))
        )
    )
    for dialect in _DIALECTS
    for blocking in (False, True)
}
COALESCE: Final = {
    dialect: prepared(
        text(_sql(_COALESCE, dialect)).bindparams(
            bindparam("limit", type_=BigInteger),
            bindparam("ids", type_=Text() if dialect == "sqlite" else ARRAY(BigInteger)),
        )
    )
    for dialect in _DIALECTS
}
