"""Claiming: one statement that shares the free places between groups, and in a group between ordering keys.

A key's head is its first row in an index that holds the ready rows alone, ordered by kind, group, key and number. The
statement walks that index from head to head and jumps over everything behind a head, so that 20,000 rows of one
key cost as much as one.

Groups (partners) share by one rule: a group may hold one place, or as many as it leaves free. One alone gets half of
the places, four get a fifth each, and a fifth stays free for one that holds none. In a group the keys take turns: the
walk enters it behind the key that was claimed last, and goes round.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import ARRAY, BigInteger, Text, bindparam, func, select, text, update

from mercato.kernel.db.engine import Write
from mercato.kernel.db.statements import prepared
from mercato.kernel.db.tables import jobs
from mercato.kernel.db.types import NOW, Dialect, from_ms
from mercato.kernel.jobs.model import Handler

_UNBOUNDED: Final = 1_000_000_000

_STEPS: Final = 20_000
"""Heads that one claim looks at: most are free, so this bounds only a crowd of blocked ones."""

_MAX_COALESCED: Final = 512
"""Rows that one claim deletes: on SQLite the event loop waits for them, for a few milliseconds."""

MAX_GROUPS: Final = 64
"""Groups in which a worker remembers whose turn is next; in the others the first key is."""


class Place(Struct, frozen=True):
    """A job's group and ordering key."""

    group: str = ""
    key: str = ""


class Claimed(Struct, frozen=True):
    """A row that is this worker's until its lease ends."""

    id: int
    kind: str
    place: Place
    payload: str
    attempt: int
    failures: int
    losses: int
    run_at: datetime
    enqueued_at: datetime


class Rotation(Struct):
    """Where a worker's next claim of a kind begins, so that all groups, and all keys of a group, have their turn."""

    group: str = ""
    """The claim begins behind this group; empty is the first."""
    keys: dict[str, str] = field(default_factory=dict)
    """By group, the key that was claimed last."""

    def advance(self, claimed: Sequence[Claimed], *, is_full: bool) -> None:
        """Note what a claim has returned: if it took all places, the next goes on behind its last group."""
        for one in claimed:
            self.keys.pop(one.place.group, None)
            self.keys[one.place.group] = one.place.key
        while len(self.keys) > MAX_GROUPS:
            del self.keys[next(iter(self.keys))]
        self.group = claimed[-1].place.group if is_full else ""


async def claim(
    tx: Write,
    kind: str,
    handler: Handler[Any],
    *,
    worker: str,
    lease: timedelta,
    free: int,
    rotation: Rotation,
) -> list[Claimed]:
    """Claim up to `free` jobs of the kind for the worker, at most one of an ordering key, in their turn.

    `free` are the worker's free places: a group takes no more of them than it leaves.

    In a transaction of its own. Of two workers that want the same key at the same instant, the schema lets
    one have it, and the other gets an IntegrityError and tries again.
    """
    if handler.everywhere is not None or handler.per_group is not None:
        await _serialise(tx, kind)
    if handler.everywhere is not None:
        free = min(free, handler.everywhere - await tx.scalar(_RUNNING, {"its_kind": kind}))
    if free <= 0:
        return []
    rows = await tx.all(
        _CLAIM[tx.dialect, handler.blocks_key_while_waiting],
        {
            "kind": kind,
            "free": free,
            "steps": _STEPS,
            "per_group": _UNBOUNDED if handler.per_group is None else handler.per_group,
            "group_key": rotation.group,
            "turns": msgspec.json.encode(rotation.keys).decode(),
            "worker": worker,
            "lease": lease // timedelta(milliseconds=1),
        },
    )

    def turn(one: Claimed) -> tuple[str, bool, str]:
        group, key = one.place.group, one.place.key
        return group, key <= rotation.keys.get(group, ""), key

    claimed = sorted((_claimed(kind, row) for row in rows), key=turn)
    return await _coalesce(tx, claimed) if handler.coalesces and claimed else claimed


def _claimed(kind: str, row: Sequence[Any]) -> Claimed:
    number, group, key, payload, attempt, failures, losses, run_at, enqueued_at = row
    return Claimed(
        id=number,
        kind=kind,
        place=Place(group, key),
        payload=payload,
        attempt=attempt,
        failures=failures,
        losses=losses,
        run_at=from_ms(run_at),
        enqueued_at=from_ms(enqueued_at),
    )


async def _coalesce(tx: Write, claimed: list[Claimed]) -> list[Claimed]:
    """Delete the ready jobs behind the claimed ones, each of which is then due when the last of its own was."""
    ids: Any = [one.id for one in claimed]
    if tx.dialect == "sqlite":
        ids = msgspec.json.encode(ids).decode()
    most = max(1, _MAX_COALESCED // len(claimed))
    last_due: dict[str, datetime] = {}
    for key, run_at in await tx.all(_COALESCE[tx.dialect], {"ids": ids, "most": most}):
        last_due[key] = max(from_ms(run_at), last_due.get(key, from_ms(run_at)))
    due = [replace(one, run_at=max(one.run_at, last_due.get(one.place.key, one.run_at))) for one in claimed]
    changed = [after for before, after in zip(claimed, due, strict=True) if after.run_at != before.run_at]
    if changed:
        # For the run after this one, if this one's worker vanishes.
        await tx.execute(_SET_RUN_AT, [{"its_id": one.id, "due": one.run_at} for one in changed])
    return due


async def _serialise(tx: Write, kind: str) -> None:
    """Let those that count the same running rows count one after the other. SQLite has one writer."""
    if tx.dialect == "postgresql":
        await tx.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"jobs:{kind}", 0))))


# --- the SQL ------------------------------------------------------------------------------------------

# Written with COALESCE and not as (group, key) > (…), which SQLite answers by reading the whole key.
# `free`: nothing of the key runs. `held`: how many of the group run, this one not counted. `pivot`: the key of the
# group behind which the walk entered it.
_CLAIM_TEMPLATE = """
WITH RECURSIVE turn (group_key, ordering_key) AS (<TURNS>),
walk (id, group_key, ordering_key, free, held, pivot, found, step) AS (
    SELECT head.id, head.group_key, head.ordering_key, <FREE>, <HELD>, <PIVOT>, 0, 1
    FROM jobs AS head
    WHERE head.id = <FIRST>
    UNION ALL
    SELECT head.id, head.group_key, head.ordering_key, <FREE>,
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
UPDATE jobs SET state = 'running', attempt = attempt + 1, worker = :worker, lease_until = <NOW> + :lease
WHERE id <IN> (SELECT picked.id FROM picked)<END>
RETURNING id, group_key, ordering_key, payload, attempt, failures, losses, run_at, enqueued_at
"""

_COALESCE_TEMPLATE = """
DELETE FROM jobs WHERE id <IN> (
    SELECT behind.id FROM jobs AS head <EACH BEHIND>
    WHERE head.id <IN IDS>
)<END>
RETURNING ordering_key, run_at
"""

_BEHIND = """
    SELECT one.id FROM jobs AS one
    WHERE one.state = 'ready' AND one.kind = head.kind AND one.group_key = head.group_key
        AND one.ordering_key = head.ordering_key
    ORDER BY one.group_key, one.ordering_key, one.id LIMIT :most
"""

_FREE = """CASE WHEN EXISTS (
        SELECT 1 FROM jobs AS other WHERE other.state = 'running' AND other.ordering_key = head.ordering_key
    ) <BLOCKED> THEN 0 ELSE 1 END"""

_BLOCKED = """OR EXISTS (
        SELECT 1 FROM jobs AS other
        WHERE other.state = 'waiting' AND other.ordering_key = head.ordering_key AND other.id < head.id
    )"""

_HELD = """(
        SELECT count(*) FROM jobs AS other
        WHERE other.state = 'running' AND other.kind = :kind AND other.group_key = head.group_key
    )"""

# A kind's jobs without a group are nobody's: they share nothing. That there is a free place is known to the walk.
_ROOM = """walk.held < :per_group
            AND (walk.group_key = '' OR walk.held = 0 OR walk.held + 1 < :free - walk.found)"""

_TAKEN = "CASE WHEN walk.free = 1 AND <ROOM> THEN 1 ELSE 0 END"

_PIVOT = "COALESCE((SELECT turn.ordering_key FROM turn WHERE turn.group_key = <OF>.group_key), '')"

# The head at which the walk enters the first such group: behind its pivot, or else its first.
_ENTRY = """(
        SELECT COALESCE((
            SELECT behind.id FROM jobs AS behind
            WHERE behind.state = 'ready' AND behind.kind = :kind AND behind.group_key = one.group_key
                AND behind.ordering_key > <ITS PIVOT>
            ORDER BY behind.group_key, behind.ordering_key, behind.id LIMIT 1
        ), one.id)
        FROM jobs AS one
        WHERE one.state = 'ready' AND one.kind = :kind AND <WHICH>
        ORDER BY one.group_key, one.ordering_key, one.id LIMIT 1
    )"""

_FIRST = f"""COALESCE(
    {_ENTRY.replace("<WHICH>", "one.group_key = '' AND :group_key = ''")},
    {_ENTRY.replace("<WHICH>", "one.group_key > :group_key")}
)"""

_NEXT_KEY = """(
        SELECT id FROM jobs
        WHERE state = 'ready' AND kind = :kind AND group_key = walk.group_key AND <ROOM> AND <WHICH>
        ORDER BY group_key, ordering_key, id LIMIT 1
    )"""

# Up from the pivot, round to the first, up to the pivot; then the next group.
_UP = "walk.ordering_key > walk.pivot AND ordering_key > walk.ordering_key"
_ROUND = "walk.ordering_key > walk.pivot AND ordering_key <= walk.pivot"
_UP_TO_PIVOT = (
    "walk.ordering_key <= walk.pivot AND ordering_key > walk.ordering_key AND ordering_key <= walk.pivot"
)
_NEXT = f"""COALESCE(
    {_NEXT_KEY.replace("<WHICH>", _UP)},
    {_NEXT_KEY.replace("<WHICH>", _ROUND)},
    {_NEXT_KEY.replace("<WHICH>", _UP_TO_PIVOT)},
    {_ENTRY.replace("<WHICH>", "one.group_key > walk.group_key")}
)"""


# PostgreSQL makes a plan once, perhaps while the table is small, and keeps it while the table grows. Each part
# that is its own leaves it no choice but the primary key: LATERAL with OFFSET, ANY, a state it cannot match with
# an index. SQLite knows none of these and needs none.
_DIALECT: Final[dict[Dialect, dict[str, str]]] = {
    "sqlite": {
        "<NEXT HEAD>": "JOIN jobs AS head ON head.id = <NEXT>",
        "<EACH BEHIND>": "JOIN jobs AS behind ON behind.id IN (<BEHIND>)",
        "<IN IDS>": "IN (SELECT value FROM json_each(:ids))",
        "<IN>": "IN",
        "<END>": "",
        "<LOCK>": "",
        "<TURNS>": "SELECT key, value FROM json_each(:turns)",
    },
    "postgresql": {
        "<NEXT HEAD>": """CROSS JOIN LATERAL (
            SELECT id, group_key, ordering_key FROM jobs WHERE id = <NEXT> OFFSET 0
        ) AS head""",
        "<EACH BEHIND>": "CROSS JOIN LATERAL (<BEHIND> FOR UPDATE SKIP LOCKED) AS behind",
        "<IN IDS>": "= ANY(:ids)",
        "<IN>": "= ANY(ARRAY",
        "<END>": ")",
        "<LOCK>": "FOR UPDATE SKIP LOCKED",
        "<TURNS>": "SELECT key, value FROM jsonb_each_text(CAST(:turns AS jsonb))",
    },
}


def _sql(template: str, dialect: Dialect, *, blocking: bool = False) -> str:
    parts = {
        **_DIALECT[dialect],
        "<BEHIND>": _BEHIND,
        "<NEXT>": _NEXT,
        "<FREE>": _FREE,
        "<BLOCKED>": _BLOCKED if blocking else "",
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
    return template


_DIALECTS: Final[tuple[Dialect, ...]] = ("sqlite", "postgresql")

# By dialect, and by whether a waiting job holds up its key.
_CLAIM: Final = {
    (dialect, blocking): prepared(
        text(_sql(_CLAIM_TEMPLATE, dialect, blocking=blocking)).bindparams(
            *(bindparam(name, type_=BigInteger) for name in ("free", "per_group", "steps", "lease"))
        )
    )
    for dialect in _DIALECTS
    for blocking in (False, True)
}
_COALESCE: Final = {
    dialect: prepared(
        text(_sql(_COALESCE_TEMPLATE, dialect)).bindparams(
            bindparam("most", type_=BigInteger),
            bindparam("ids", type_=Text() if dialect == "sqlite" else ARRAY(BigInteger)),
        )
    )
    for dialect in _DIALECTS
}
_SET_RUN_AT: Final = prepared(
    update(jobs).where(jobs.c.id == bindparam("its_id")).values(run_at=bindparam("due"))
)
_RUNNING: Final = prepared(
    select(func.count())
    .select_from(jobs)
    .where(text("state = 'running'"), jobs.c.kind == bindparam("its_kind", type_=Text))
)
