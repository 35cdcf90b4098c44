"""Claiming: one statement that takes the heads of some lanes, and the next ones the next time.

A lane's head is its first row in an index that holds the ready rows alone, ordered by kind, group, lane and
number. The statement walks that index from head to head and jumps over everything behind a head, so that
20,000 rows of one lane cost as much as one; it goes on where the last claim stopped, so that every lane has
its turn; and it leaves a group as soon as that has as many running as it may.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Text,
    TextClause,
    bindparam,
    func,
    select,
    text,
)

from mercato.db.clock import NOW, Dialect
from mercato.db.engine import Write
from mercato.db.prepared import prepared
from mercato.db.tables import jobs
from mercato.db.types import from_ms
from mercato.jobs.model import Handler
from mercato.jobs.queries import in_state

_UNBOUNDED = 1_000_000_000

# Lanes that may be looked at for one claim: most are taken, so this bounds only a crowd of blocked ones.
_STEPS = 20_000


# Of all the lines of one claim: what is read with it holds up the event loop on SQLite, for a few milliseconds.
_MOST_ROWS = 128


class Place(Struct, frozen=True):
    """Where in the order of groups and lanes the last claim stopped."""

    group: str = ""
    lane: str = ""


START: Final = Place()


class Claimed(Struct, frozen=True):
    """A row that is this worker's until its lease ends.

    Of a line it is the last: `ahead` are those before it in their order. They stay ready, and are this worker's because
    one of their lane is marked as running. So whatever ends the worker, the lane's order is what it was.
    """

    id: int
    kind: str
    place: Place
    payload: str
    attempt: int
    failures: int
    losses: int
    enqueued_at: datetime
    ahead: Sequence["Claimed"] = ()


async def claim(
    tx: Write, kind: str, handler: Handler[Any], *, worker: str, lease: timedelta, free: int, after: Place
) -> list[Claimed]:
    """Take up to `free` jobs or lines of the kind for the worker, at most one of a lane, from `after` on.

    In a transaction of its own. Of two workers that want the same lane at the same instant, the schema lets
    one have it, and the other gets an IntegrityError and asks again.
    """
    if handler.everywhere is not None or handler.per_group is not None:
        await _be_alone(tx, kind)
    if handler.everywhere is not None:
        free = min(free, handler.everywhere - await count_running(tx, kind))
    if free <= 0:
        return []
    walk = {
        "kind": kind,
        "free": free,
        "steps": _STEPS,
        "per_group": _UNBOUNDED if handler.per_group is None else handler.per_group,
        "group_key": after.group,
        "lane": after.lane,
    }
    hold = {"worker": worker, "lease": lease // timedelta(milliseconds=1)}
    which = tx.dialect, handler.blocks_lane_while_waiting
    if handler.in_line == 1:
        rows = (await tx.execute(_CLAIM[which], walk | hold)).all()
        return sorted((_claimed(kind, row) for row in rows), key=_order)
    line = max(1, min(handler.in_line, _MOST_ROWS // free))
    found = (await tx.execute(_LINES[which], walk | {"line": line})).all()
    lines = _lines(sorted((_claimed(kind, row) for row in found), key=_order))
    held = await _hold(tx, [one.id for one in lines], hold) if lines else set()
    # On PostgreSQL another may have been quicker.
    return [one for one in lines if one.id in held]


def _order(one: Claimed) -> tuple[str, str, int]:
    return one.place.group, one.place.lane, one.id


def _lines(found: list[Claimed]) -> list[Claimed]:
    """Return the last of each lane's line, as it is once it is claimed, with those ahead of it.

    One whose worker has vanished ends the line before it, and is then run by itself: else it would be the last of
    the line that bears the losses which one ahead of it causes.
    """
    made = []
    for _, its in groupby(found, key=attrgetter("place")):
        first, *more = its
        line = [first]
        if not first.losses:
            line += takewhile(lambda one: not one.losses, more)
        last = line.pop()
        made.append(replace(last, attempt=last.attempt + 1, ahead=line))
    return made


async def _hold(tx: Write, numbers: list[int], hold: dict[str, Any]) -> set[int]:
    """Mark the rows as running, if they are still ready; return which were."""
    its: Any = msgspec.json.encode(numbers).decode() if tx.dialect == "sqlite" else numbers
    return {row[0] for row in (await tx.execute(_HOLD[tx.dialect], hold | {"numbers": its})).all()}


def _claimed(kind: str, row: Sequence[Any]) -> Claimed:
    number, group, lane, payload, attempt, failures, losses, enqueued_at = row
    return Claimed(
        id=number,
        kind=kind,
        place=Place(group, lane),
        payload=payload,
        attempt=attempt,
        failures=failures,
        losses=losses,
        enqueued_at=from_ms(enqueued_at),
    )


async def _be_alone(tx: Write, kind: str) -> None:
    """Let those that count the same running rows count one after the other. SQLite's writer is alone."""
    if tx.dialect == "postgresql":
        await tx.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"jobs:{kind}", 0))))


async def count_running(tx: Write, kind: str) -> int:
    """Return how many of the kind run, whoever's they are."""
    running: int = await tx.scalar(_RUNNING, {"its_kind": kind})
    return running


_RUNNING: Final = prepared(
    select(func.count())
    .select_from(jobs)
    .where(in_state("running"), jobs.c.kind == bindparam("its_kind", type_=Text))
)


# Written with COALESCE and not as (group, lane) > (…), which SQLite answers by reading the whole lane.
# `free`: nothing of the lane runs. `room`: how many more of the group may run, this one not counted yet.
_TEMPLATE = """
WITH RECURSIVE walk (id, group_key, lane, free, room, found, step) AS (
    SELECT head.id, head.group_key, head.lane, <FREE>, <ROOM>, 0, 1
    FROM jobs AS head
    WHERE head.id = COALESCE((
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind AND group_key = :group_key AND lane > :lane
        ORDER BY group_key, lane, id LIMIT 1
    ), (
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind AND group_key > :group_key
        ORDER BY group_key, lane, id LIMIT 1
    ))
    UNION ALL
    SELECT head.id, head.group_key, head.lane, <FREE>,
        CASE WHEN head.group_key = walk.group_key THEN walk.room - walk.free ELSE <ROOM> END,
        walk.found + <TAKEN>, walk.step + 1
    FROM walk <NEXT HEAD>
    WHERE walk.found + <TAKEN> < :free AND walk.step < :steps
),
picked (id) AS (
    SELECT id FROM jobs
    WHERE COALESCE(state, '') = 'ready'
        AND id <IN> (SELECT walk.id FROM walk WHERE walk.free = 1 AND walk.room > 0)<END>
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

_ROOM = """:per_group - (
        SELECT count(*) FROM jobs AS other
        WHERE other.state = 'running' AND other.kind = :kind AND other.group_key = head.group_key
    )"""

_NEXT = """COALESCE((
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind
            AND group_key = walk.group_key AND lane > walk.lane AND walk.room - walk.free > 0
        ORDER BY group_key, lane, id LIMIT 1
    ), (
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind AND group_key > walk.group_key
        ORDER BY group_key, lane, id LIMIT 1
    ))"""

_TAKEN = "CASE WHEN walk.free = 1 AND walk.room > 0 THEN 1 ELSE 0 END"


# PostgreSQL makes a plan once, perhaps while the table is small, and keeps it while the table grows. Each part
# that is its own leaves it no choice but the primary key: LATERAL with OFFSET, ANY, a state it cannot match with
# an index. SQLite knows none of these and needs none.
_DIALECT: Final[dict[Dialect, dict[str, str]]] = {
    "sqlite": {
        "<NEXT HEAD>": "JOIN jobs AS head ON head.id = <NEXT>",
        "<IN>": "IN",
        "<END>": "",
        "<LOCK>": "",
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
        "<ROOM>": _ROOM,
        "<TAKEN>": _TAKEN,
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

_CLAIM: Final = {
    (dialect, blocking): _statement(
        _TEMPLATE.replace("<WHAT>", _HEADS), dialect, *_numbers(*_WALKED, "lease"), blocking=blocking
    )
    for dialect, blocking in _EITHER
}
_LINES: Final = {
    (dialect, blocking): _statement(
        _TEMPLATE.replace("<WHAT>", _WITH_THOSE_BEHIND),
        dialect,
        *_numbers(*_WALKED, "line"),
        blocking=blocking,
    )
    for dialect, blocking in _EITHER
}
_HOLD: Final = {
    dialect: _statement(
        _HOLD_TEMPLATE,
        dialect,
        *_numbers("lease"),
        bindparam("numbers", type_=Text() if dialect == "sqlite" else ARRAY(BigInteger)),
        blocking=False,
    )
    for dialect in _DIALECTS
}
