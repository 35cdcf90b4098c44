"""Claiming: whose the jobs are that a worker runs, and the lines in which those of one lane are run.

Groups, which are partners, share the places first: see `statements`. In a group the lanes take turns.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import func, select

from mercato.db.engine import Write
from mercato.db.types import from_ms
from mercato.jobs import statements
from mercato.jobs.model import Handler

_UNBOUNDED = 1_000_000_000

# Lanes that may be looked at for one claim: most are taken, so this bounds only a crowd of blocked ones.
_STEPS = 20_000


# Of all the lines of one claim: what is read with it holds up the event loop on SQLite, for a few milliseconds.
_MOST_ROWS = 128


MOST_GROUPS: Final = 64
"""Groups in which a worker remembers whose turn is next; in the others the first lane is."""


class Place(Struct, frozen=True):
    """A job's group and lane."""

    group: str = ""
    lane: str = ""


class Rotation(Struct):
    """Where a worker's next claim of a kind begins, so that all groups, and all lanes of a group, have their turn."""

    group: str = ""
    """The claim begins behind this group; empty is the first."""
    lanes: dict[str, str] = field(default_factory=dict)
    """By group, the lane that was claimed last."""

    def advance(self, claimed: Sequence["Claimed"], *, is_full: bool) -> None:
        """Note what a claim has brought: if it took all places, the next goes on behind its last group."""
        for one in claimed:
            self.lanes.pop(one.place.group, None)
            self.lanes[one.place.group] = one.place.lane
        while len(self.lanes) > MOST_GROUPS:
            del self.lanes[next(iter(self.lanes))]
        self.group = claimed[-1].place.group if is_full else ""


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
    tx: Write,
    kind: str,
    handler: Handler[Any],
    *,
    worker: str,
    lease: timedelta,
    free: int,
    rotation: Rotation,
) -> list[Claimed]:
    """Take up to `free` jobs or lines of the kind for the worker, at most one of a lane, in their turn.

    `free` are the worker's free places: a group takes no more of them than it leaves.

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
        "group_key": rotation.group,
        "turns": msgspec.json.encode(rotation.lanes).decode(),
    }

    def turn(one: Claimed) -> tuple[str, bool, str, int]:
        group, lane = one.place.group, one.place.lane
        return group, lane <= rotation.lanes.get(group, ""), lane, one.id

    hold = {"worker": worker, "lease": lease // timedelta(milliseconds=1)}
    which = tx.dialect, handler.blocks_lane_while_waiting
    if handler.in_line == 1:
        rows = (await tx.execute(statements.CLAIM[which], walk | hold)).all()
        return sorted((_claimed(kind, row) for row in rows), key=turn)
    line = max(1, min(handler.in_line, _MOST_ROWS // free))
    found = (await tx.execute(statements.LINES[which], walk | {"line": line})).all()
    lines = _lines(sorted((_claimed(kind, row) for row in found), key=turn))
    held = await _hold(tx, [one.id for one in lines], hold) if lines else set()
    # On PostgreSQL another may have been quicker.
    return [one for one in lines if one.id in held]


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
    return {row[0] for row in (await tx.execute(statements.HOLD[tx.dialect], hold | {"numbers": its})).all()}


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
    running: int = await tx.scalar(statements.RUNNING, {"its_kind": kind})
    return running
