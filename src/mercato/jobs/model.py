"""What a job is, what handles it, and what a handler may answer."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from msgspec import Struct

from mercato.db.engine import Read, Write

P = TypeVar("P")


class Hold(Struct, frozen=True):
    """By what the lane of a job is held that runs ahead of the one that was claimed: that one's number and attempt."""

    id: int
    attempt: int


class Job(Struct, Generic[P], frozen=True, kw_only=True):
    """One run of a job: what its handler is given."""

    id: int
    kind: str
    payload: P
    attempt: int
    """The fencing token: every claim of the row adds one, so no two runs share it and `held_by`."""
    failures: int
    """How many runs in a row have failed before this one."""
    enqueued_at: datetime
    deadline: float
    """When the run is cut off, on the event loop's clock: good for `asyncio.timeout_at`."""
    brought: Any = None
    """What the handler's `bring` has read for it; None where it has none, or found nothing."""
    held_by: Hold | None = None
    """Set while it runs ahead in a line (`Handler.in_line`); None for a job that was claimed itself."""
    ahead: Sequence[asyncio.Future[None]] = ()
    """Of the last of a line, whose hold it is: how those ahead of it end that are being finished (`Ending`)."""


class Done(Struct, frozen=True):
    """The job is finished: its row goes."""


class Again(Struct, frozen=True):
    """Run the job again at an instant, or after a time by the database's clock. Not a failure."""

    at: datetime | timedelta


class Dead(Struct, frozen=True):
    """Never run the job again; keep it where operators see it, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The job is finished, and its row is gone: the handler has called `finish` in a transaction of its own."""


class Ending(Struct, frozen=True):
    """The job is being finished, and its line goes on meanwhile.

    `ended` is done when its row is gone, or raises what a handler may raise. The last of a line may not be gone before
    those ahead of it, whose hold it is: they would be lost to it, and run again.
    """

    ended: asyncio.Future[None]


Outcome = Done | Again | Dead | Finished | Ending


class JobLost(Exception):  # noqa: N818  # a state of the world, as `Problem` is
    """The run no longer owns its job: it was slow, and another has taken over. Leave everything as it is."""


def exponential(failures: int) -> timedelta:
    """Return 1, 2, 4 … seconds, at most 5 minutes, give or take a tenth so that a crowd spreads."""
    seconds = min(2.0 ** (failures - 1), 300.0)
    return timedelta(seconds=seconds * random.uniform(0.9, 1.1))  # noqa: S311  # spreading needs no secrecy


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[P]):
    """How one kind of job is run.

    `everywhere` and `per_group` bound what all workers of the database run, `concurrency` what one does.
    """

    fn: Callable[[Job[P]], Awaitable[Outcome]]
    payload: type[P]
    timeout: timedelta = timedelta(seconds=60)
    concurrency: int = 8
    everywhere: int | None = None
    per_group: int | None = None
    max_attempts: int = 10
    """Runs in a row that may raise or overrun before it is dead; a database away is no fault (`MOST_POSTPONED`)."""
    backoff: Callable[[int], timedelta] = exponential
    blocks_lane_while_waiting: bool = False
    """Whether a retry keeps its place: the lane's later jobs wait until it is done."""
    in_line: int = 1
    """How many of a lane's ready jobs are claimed at once, to be run one after the other.

    They hold one place. The line ends early when one of them answers anything but `Done` or `Ending`, when it has taken
    its time, or when the worker stops; those behind are ready as they were.
    """
    bring: Callable[[Read, Sequence[P]], Awaitable[Sequence[Any]]] | None = None
    """Reads what runs will need, in the transaction that claims them: a thing or None for each payload."""
    on_dead: Callable[[Write, Job[P], str], Awaitable[None]] | None = None
    """Called in the transaction that makes a job dead, with the reason, so that no row is left in between."""


Handlers = dict[str, Handler[Any]]
