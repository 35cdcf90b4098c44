"""The SQL of claiming: one statement that shares the free places between groups, and in a group between lanes.

A lane's head is its first row in an index that holds the ready rows alone, ordered by kind, group, lane and
number. The statement walks that index from head to head and jumps over everything behind a head, so that
20,000 rows of one lane cost as much as one.

Groups (partners) share by one rule: a group may hold one place, or as many as it leaves free. One alone gets half of
the places, four get a fifth each, and a fifth stays free for one that holds none. In a group the lanes take turns: the
walk enters it behind the lane that was claimed last, and goes round.
"""

from typing import Any, Final

from sqlalchemy import ARRAY, BigInteger, BindParameter, Text, TextClause, bindparam, func, select, text

from mercato.db.clock import NOW, Dialect
from mercato.db.statements import prepared
from mercato.db.tables import jobs
from mercato.jobs.queries import in_state

RUNNING: Final = prepared(
    select(func.count())
    .select_from(jobs)
    .where(in_state("running"), jobs.c.kind == bindparam("its_kind", type_=Text))
)


# Written with COALESCE and not as (group, lane) > (…), which SQLite answers by reading the whole lane.
# `free`: nothing of the lane runs. `held`: how many of the group run, this one not counted. `pivot`: the lane of the
# group behind which the walk entered it.
_TEMPLATE = """
WITH RECURSIVE turn (group_key, lane) AS (<TURNS>),
walk (id, group_key, lane, free, held, pivot, found, step) AS (
    SELECT head.id, head.group_key, head.lane, <FREE>, <HELD>, <PIVOT>, 0, 1
    FROM jobs AS head
    WHERE head.id = <FIRST>
    UNION ALL
    SELECT head.id, head.group_key, head.lane, <FREE>,
        CASE WHEN head.group_key = walk.group_key THEN walk.held + <TAKEN> ELSE <HELD> END,
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
<WHAT>
"""

_COLUMNS = "id, group_key, lane, payload, attempt, failures, losses, enqueued_at"

# Each head by itself.
_HEADS = """
UPDATE jobs SET state = 'running', attempt = attempt + 1, worker = :worker, lease_until = <NOW> + :lease
WHERE id <IN> (SELECT picked.id FROM picked)<END>
RETURNING <COLUMNS>
"""

# Each head with those behind it in its lane.
_WITH_THOSE_BEHIND = """
SELECT <COLUMNS> FROM jobs
WHERE id <IN> (
    SELECT line.id FROM picked <EACH LINE>
)<END>
"""
_BEHIND = """
    SELECT one.id FROM jobs AS one
    WHERE one.state = 'ready' AND one.kind = :kind AND one.group_key = head.group_key AND one.lane = head.lane
        <IN FRONT>
    ORDER BY one.group_key, one.lane, one.id LIMIT :line
"""

_HOLD_TEMPLATE = """
UPDATE jobs SET state = 'running', attempt = attempt + 1, worker = :worker, lease_until = <NOW> + :lease
WHERE COALESCE(state, '') = 'ready' AND id <IN NUMBERS>
RETURNING id
"""

_FREE = """CASE WHEN EXISTS (
        SELECT 1 FROM jobs AS other WHERE other.state = 'running' AND other.lane = head.lane
    ) <BLOCKED> THEN 0 ELSE 1 END"""

_BLOCKED = """OR EXISTS (
        SELECT 1 FROM jobs AS other
        WHERE other.state = 'waiting' AND other.lane = head.lane AND other.id < head.id
    )"""

_IN_FRONT = """AND NOT EXISTS (
            SELECT 1 FROM jobs AS other
            WHERE other.state = 'waiting' AND other.lane = one.lane AND other.id < one.id
        )"""

_HELD = """(
        SELECT count(*) FROM jobs AS other
        WHERE other.state = 'running' AND other.kind = :kind AND other.group_key = head.group_key
    )"""

# A kind's jobs without a group are nobody's: they share nothing. That there is a free place is known to the walk.
_ROOM = """walk.held < :per_group
            AND (walk.group_key = '' OR walk.held = 0 OR walk.held + 1 < :free - walk.found)"""

_TAKEN = "CASE WHEN walk.free = 1 AND <ROOM> THEN 1 ELSE 0 END"

_PIVOT = "COALESCE((SELECT turn.lane FROM turn WHERE turn.group_key = <OF>.group_key), '')"

# The head at which the walk enters the first such group: behind its pivot, or else its first.
_ENTRY = """(
        SELECT COALESCE((
            SELECT behind.id FROM jobs AS behind
            WHERE behind.state = 'ready' AND behind.kind = :kind AND behind.group_key = one.group_key
                AND behind.lane > <ITS PIVOT>
            ORDER BY behind.group_key, behind.lane, behind.id LIMIT 1
        ), one.id)
        FROM jobs AS one
        WHERE one.state = 'ready' AND one.kind = :kind AND <WHICH>
        ORDER BY one.group_key, one.lane, one.id LIMIT 1
    )"""

_FIRST = f"""COALESCE(
    {_ENTRY.replace("<WHICH>", "one.group_key = '' AND :group_key = ''")},
    {_ENTRY.replace("<WHICH>", "one.group_key > :group_key")}
)"""

_NEXT_LANE = """(
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind AND group_key = walk.group_key AND <ROOM> AND <WHICH>
        ORDER BY group_key, lane, id LIMIT 1
    )"""

# Up from the pivot, round to the first, up to the pivot; then the next group.
_NEXT = f"""COALESCE(
    {_NEXT_LANE.replace("<WHICH>", "walk.lane > walk.pivot AND lane > walk.lane")},
    {_NEXT_LANE.replace("<WHICH>", "walk.lane > walk.pivot AND lane <= walk.pivot")},
    {_NEXT_LANE.replace("<WHICH>", "walk.lane <= walk.pivot AND lane > walk.lane AND lane <= walk.pivot")},
    {_ENTRY.replace("<WHICH>", "one.group_key > walk.group_key")}
)"""


# PostgreSQL makes a plan once, perhaps while the table is small, and keeps it while the table grows. Each part
# that is its own leaves it no choice but the primary key: LATERAL with OFFSET, ANY, a state it cannot match with
# an index. SQLite knows none of these and needs none.
_DIALECT: Final[dict[Dialect, dict[str, str]]] = {
    "sqlite": {
        "<NEXT HEAD>": "JOIN jobs AS head ON head.id = <NEXT>",
        "<IN>": "IN",
        "<END>": "",
        "<LOCK>": "",
        "<TURNS>": "SELECT key, value FROM json_each(:turns)",
        "<EACH LINE>": "JOIN jobs AS head ON head.id = picked.id JOIN jobs AS line ON line.id IN (<BEHIND>)",
        "<IN NUMBERS>": "IN (SELECT value FROM json_each(:numbers))",
    },
    "postgresql": {
        "<NEXT HEAD>": """CROSS JOIN LATERAL (
            SELECT id, group_key, lane FROM jobs WHERE id = <NEXT> OFFSET 0
        ) AS head""",
        "<IN>": "= ANY(ARRAY",
        "<END>": ")",
        "<LOCK>": "FOR UPDATE SKIP LOCKED",
        "<TURNS>": "SELECT key, value FROM jsonb_each_text(CAST(:turns AS jsonb))",
        "<EACH LINE>": """JOIN jobs AS head ON head.id = picked.id
            CROSS JOIN LATERAL (<BEHIND> OFFSET 0) AS line""",
        "<IN NUMBERS>": "= ANY(:numbers)",
    },
}


def _statement(template: str, dialect: Dialect, *binds: BindParameter[Any], blocking: bool) -> TextClause:
    parts = {
        **_DIALECT[dialect],
        "<COLUMNS>": _COLUMNS,
        "<BEHIND>": _BEHIND,
        "<NEXT>": _NEXT,
        "<FREE>": _FREE,
        "<BLOCKED>": _BLOCKED if blocking else "",
        "<IN FRONT>": _IN_FRONT if blocking else "",
        "<FIRST>": _FIRST,
        "<HELD>": _HELD,
        "<PIVOT>": _PIVOT.replace("<OF>", "head"),
        "<ITS PIVOT>": _PIVOT.replace("<OF>", "one"),
        "<TAKEN>": _TAKEN,
        "<ROOM>": _ROOM,
        "<NOW>": NOW[dialect],
    }
    for name, part in parts.items():
        template = template.replace(name, part)
    return prepared(text(template).bindparams(*binds))


def _numbers(*names: str) -> list[BindParameter[Any]]:
    return [bindparam(name, type_=BigInteger) for name in names]


_DIALECTS: Final[tuple[Dialect, ...]] = ("sqlite", "postgresql")
_WALKED: Final = ("free", "per_group", "steps")
_EITHER: Final = [(dialect, blocking) for dialect in _DIALECTS for blocking in (False, True)]

# By dialect, and by whether what waits holds up its lane.
CLAIM: Final = {
    (dialect, blocking): _statement(
        _TEMPLATE.replace("<WHAT>", _HEADS), dialect, *_numbers(*_WALKED, "lease"), blocking=blocking
    )
    for dialect, blocking in _EITHER
}
LINES: Final = {
    (dialect, blocking): _statement(
        _TEMPLATE.replace("<WHAT>", _WITH_THOSE_BEHIND),
        dialect,
        *_numbers(*_WALKED, "line"),
        blocking=blocking,
    )
    for dialect, blocking in _EITHER
}
HOLD: Final = {
    dialect: _statement(
        _HOLD_TEMPLATE,
        dialect,
        *_numbers("lease"),
        bindparam("numbers", type_=Text() if dialect == "sqlite" else ARRAY(BigInteger)),
        blocking=False,
    )
    for dialect in _DIALECTS
}
