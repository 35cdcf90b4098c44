"""Jobs, their handlers, and what a handler returns."""

import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from msgspec import Struct

from mercato.platform.db.engine import Write

P = TypeVar("P")


class Job(Struct, Generic[P], frozen=True, kw_only=True):
    """A claimed job: it belongs to one worker until its lease ends."""

    id: int
    kind: str
    group: str
    ordering_key: str
    payload: P
    attempt: int
    """The fencing token: every claim of the row adds one, so no two runs share it."""
    failures: int
    """How many runs in a row have failed before this one."""
    losses: int
    """How many workers in a row have vanished while they ran it."""
    run_at: datetime
    """When it was due; of a kind that coalesces, when the last job that it replaces was due."""
    enqueued_at: datetime


class Done(Struct, frozen=True):
    """The job is finished: its row is deleted."""


class Settled(Struct, frozen=True):
    """The handler has settled the job in a transaction of its own, with `finish` or `put_back`."""


Outcome = Done | Settled


class JobLost(Exception):  # noqa: N818  # a state, not a bug
    """The run no longer owns its job: it was slow, and another run has taken over. Change nothing."""


def exponential(failures: int) -> timedelta:
    """Return 1, 2, 4 … seconds, at most 5 minutes, with a jitter of 10 %."""
    seconds = min(2.0 ** (failures - 1), 300.0)
    return timedelta(seconds=seconds * random.uniform(0.9, 1.1))  # noqa: S311  # jitter needs no secrecy


class Handler(Struct, Generic[P], frozen=True, kw_only=True):
    """How jobs of one kind are run.

    `concurrency` bounds the runs of one worker, `total_concurrency` and `group_concurrency` those of all workers.
    """

    fn: Callable[[Job[P]], Awaitable[Outcome]]
    payload: type[P]
    timeout: timedelta = timedelta(seconds=60)
    concurrency: int = 8
    total_concurrency: int | None = None
    group_concurrency: int | None = None
    max_attempts: int = 10
    """Runs in a row that may raise or time out before the job is dead. An unavailable database doesn't count
    (`MAX_POSTPONED`)."""
    backoff: Callable[[int], timedelta] = exponential
    blocks_key_while_waiting: bool = False
    """Whether later jobs of the ordering key wait while this one waits for its retry."""
    coalesces: bool = False
    """Whether one run replaces all ready jobs of its ordering key: the claim deletes the others.

    Such a job only says that its key has work, which is stored elsewhere. Work that is added during the run enqueues a
    job of its own, in the same transaction, and so is never missed.
    """
    on_dead: Callable[[Write, Job[P], str], Awaitable[None]] | None = None
    """Called with the reason in the transaction that marks a job as dead."""


Handlers = dict[str, Handler[Any]]
