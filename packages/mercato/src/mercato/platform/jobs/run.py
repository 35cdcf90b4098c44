"""Jobs, their handlers, and one run of one job: decode the payload, call the handler, classify the result."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.platform.db.engine import Write
from mercato.platform.db.errors import is_unavailable

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


JobOutcome = Done | Settled


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

    fn: Callable[[Job[P]], Awaitable[JobOutcome]]
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
    partitions: bool = False
    """Whether the number at an ordering key's end is a partition of it. Then what runs in all partitions of a key takes
    one slot of its group, or as many as it leaves free to the group's other keys."""
    on_dead: Callable[[Write, Job[P], str], Awaitable[None]] | None = None
    """Called with the reason in the transaction that marks a job as dead."""


Handlers = dict[str, Handler[Any]]


log = structlog.get_logger("mercato.jobs")

MAX_LOSSES: Final = 20
"""Workers that may vanish while they run a job before it is dead: it may be what kills them."""

MAX_POSTPONED: Final = 50
"""Attempts after which an unavailable database counts as the job's failure. The database was available to claim the job
and to settle it, so perhaps the job asks for more than any statement timeout allows."""

_MAX_REASON: Final = 1_000


class Dead(Struct, frozen=True):
    """The job is not run again."""

    reason: str


class Failed(Struct, frozen=True):
    """The run raised, timed out, or returned something else than an outcome."""

    reason: str


class Postponed(Struct, frozen=True):
    """The database was unavailable to the run, which isn't the job's fault."""

    reason: str


class Unreadable(Struct, frozen=True):
    """The payload does not fit the handler's type."""

    reason: str


class Interrupted(Enum):
    """The run was cancelled: its worker is stopping, or another worker owns the job."""

    STOPPING = "stopping"
    LOST = "lost"


Unsettled = Done | Dead | Failed | Postponed | Unreadable | Interrupted
Result = Settled | Unsettled


def label_of(result: Result) -> str:
    """Return the metric label of a result."""
    if isinstance(result, Interrupted):
        return result.value
    return "done" if isinstance(result, Settled) else type(result).__name__.lower()


class Run:
    """One run of a claimed job. `job.payload` is None if it can't be decoded."""

    def __init__(self, claimed: Job[str], handler: Handler[Any]) -> None:
        self.handler = handler
        self._unreadable: Unreadable | None = None
        payload = None
        try:
            payload = msgspec.json.decode(claimed.payload, type=handler.payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._unreadable = Unreadable(f"the payload cannot be read: {error}"[:_MAX_REASON])
        self.job: Job[Any] = replace(claimed, payload=payload)
        self._interrupted: Interrupted | None = None
        self._task: asyncio.Task[Any] | None = None

    def interrupt(self, reason: Interrupted) -> None:
        """Cancel the handler, once. What follows the handler is never cancelled."""
        if self._interrupted is None:
            self._interrupted = reason
            if self._task is not None:
                self._task.cancel()

    async def result(self) -> Result:
        """Run the job. Nothing that the handler does ends the worker, not even SystemExit."""
        if self._unreadable is not None:
            return self._unreadable
        if self.job.losses > MAX_LOSSES:
            return Dead(f"{self.job.losses} workers vanished while they ran it")
        return self._interrupted or await self._handle()

    async def _handle(self) -> Result:
        task = self._task = asyncio.current_task()
        assert task is not None
        timeout = self.handler.timeout.total_seconds()
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                outcome = await self.handler.fn(self.job)
        except JobLost:
            return Interrupted.LOST
        except asyncio.CancelledError:
            if task.cancelling() == 0:
                return Failed("the handler cancelled itself")
            task.uncancel()
            return self._interrupted or Interrupted.STOPPING
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a handler's failure never ends the worker
            if limit.expired() and isinstance(error, TimeoutError):
                return Failed(f"took longer than {timeout:g} s")
            return _failure(self.job, error)
        finally:
            self._task = None
        if isinstance(outcome, Done | Settled):
            return outcome
        return Failed(f"the handler returned {outcome!r} instead of Done or Settled"[:_MAX_REASON])


def _failure(job: Job[Any], error: BaseException) -> Result:
    reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
    facts = {"job": job.id, "kind": job.kind, "reason": reason}
    if is_unavailable(error) and job.attempt < MAX_POSTPONED:
        log.warning("job postponed: the database is unavailable", **facts)
        return Postponed(reason)
    log.warning("job failed", failures=job.failures + 1, exc_info=error, **facts)
    return Failed(reason)
