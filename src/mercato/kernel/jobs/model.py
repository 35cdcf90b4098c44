"""What a job is, what handles it, and what a handler may answer."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from msgspec import Struct

from mercato.kernel.db.engine import Write

P = TypeVar("P")


class Job(Struct, Generic[P], frozen=True, kw_only=True):
    """One run of a job: what its handler is given."""

    id: int
    kind: str
    payload: P
    attempt: int
    """The fencing token: every claim of the row adds one, so no two runs share it."""
    failures: int
    """How many runs in a row have failed before this one."""
    losses: int
    """How many workers in a row have vanished while they ran it."""
    run_at: datetime
    """When it was due; of a kind that coalesces, when the last job was due that this run stands for."""
    enqueued_at: datetime


class Done(Struct, frozen=True):
    """The job is finished: its row goes."""


class Again(Struct, frozen=True):
    """Run the job again at an instant, or after a time by the database's clock. Not a failure."""

    at: datetime | timedelta


class Dead(Struct, frozen=True):
    """Never run the job again; keep it where operators see it, with the reason."""

    reason: str


class Settled(Struct, frozen=True):
    """The handler has settled the job in a transaction of its own, with `finish` or `put_back`."""


Outcome = Done | Again | Dead | Settled


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
    """Runs in a row that may raise or time out before the job is dead; an unavailable database isn't the job's
    failure (`MAX_POSTPONED`)."""
    backoff: Callable[[int], timedelta] = exponential
    blocks_key_while_waiting: bool = False
    """Whether a retry keeps its place: later jobs of its ordering key wait until it is done."""
    coalesces: bool = False
    """Whether one run stands for all jobs of its ordering key that are ready: the claim deletes the others.

    Such a job only says that its key has work, which stands elsewhere. Work that is added while the job runs brings a
    job of its own, in the same transaction, and so is never missed.
    """
    on_dead: Callable[[Write, Job[P], str], Awaitable[None]] | None = None
    """Called in the transaction that makes a job dead, with the reason, so that no row is left in between."""


Handlers = dict[str, Handler[Any]]
