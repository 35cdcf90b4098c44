"""One run of one job: decode, hand to the handler, judge what came of it."""

import asyncio
from collections.abc import Awaitable, Sequence
from enum import Enum
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from mercato.db.engine import Read
from mercato.db.errors import is_unavailable
from mercato.jobs.claim import Claimed
from mercato.jobs.model import Again, Dead, Done, Ending, Finished, Handler, Hold, Job, JobLost, Outcome

log = structlog.get_logger("mercato.jobs")

MAX_LOSSES: Final = 20
"""Workers that may vanish over one job before it is dead: one that kills every worker must end some day."""

_REASON_LENGTH: Final = 1_000

_WORDS: Final = {
    "Again": "again",
    "Dead": "dead",
    "Failed": "failed",
    "Postponed": "postponed",
    "Unreadable": "unreadable",
}


class Failed(Struct, frozen=True):
    """The run raised, overran, or gave no answer."""

    reason: str


class Postponed(Struct, frozen=True):
    """The run could not reach the database, which is not the job's fault."""

    reason: str


class Interrupted(Enum):
    """The run was cut off: its worker stops, or its job is another's by now."""

    STOPPING = "stopping"
    LOST = "lost"


class Unreadable(Struct, frozen=True):
    """The payload does not fit the handler's type."""

    reason: str


Verdict = Done | Again | Dead | Finished | Failed | Postponed | Interrupted | Unreadable


class Run:
    """A row on its way through its handler: one that was claimed, or one that is ahead of it in its line."""

    def __init__(self, claimed: Claimed, handler: Handler[Any], *, held_by: Hold | None = None) -> None:
        self.claimed = claimed
        self.handler = handler
        self.unreadable: Unreadable | None = None
        payload = None
        try:
            payload = msgspec.json.decode(claimed.payload, type=handler.payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            self.unreadable = Unreadable(f"the payload cannot be read: {error}"[:_REASON_LENGTH])
        self.job: Job[Any] = _job(claimed, handler, payload, held_by)
        self._interrupted: Interrupted | None = None
        self._is_ending = False
        self._handling: asyncio.Task[Any] | None = None

    def interrupt(self, why: Interrupted) -> None:
        """Cut the handler off, once; what comes after the handler is never cut off."""
        if self._interrupted is None:
            self._interrupted = why
            if self._handling is not None and not self._is_ending:
                self._handling.cancel()

    def follow(self, ahead: Sequence[Ending]) -> None:
        """Tell the job what of its line is still being finished."""
        if ahead:
            self.job = msgspec.structs.replace(self.job, ahead=[one.ended for one in ahead])

    async def verdict(self) -> Verdict | Ending:
        """Return what came of the job. Nothing that it does ends the worker: not even SystemExit."""
        if self.unreadable is not None:
            return self.unreadable
        if self.claimed.losses > MAX_LOSSES:
            return Dead(f"{self.claimed.losses} workers vanished while they ran it")
        return self._interrupted or await self._handle(self.handler.fn(self.job))

    async def ended(self, ending: Ending) -> Verdict:
        """Return what came of a job that was being finished."""
        if ending.ended.done() and not ending.ended.cancelled() and ending.ended.exception() is None:
            return Finished()
        self._is_ending = True
        verdict = await self._handle(_finished(ending))
        assert not isinstance(verdict, Ending)
        return verdict

    async def _handle(self, handling: Awaitable[Outcome]) -> Verdict | Ending:
        task = self._handling = asyncio.current_task()
        assert task is not None
        limit = asyncio.timeout_at(self.job.deadline)
        try:
            async with limit:
                outcome = await handling
            return _checked(outcome)
        except JobLost:
            return Interrupted.LOST
        except asyncio.CancelledError:
            if task.cancelling() == 0:
                return Failed("the handler cancelled itself")
            task.uncancel()
            return self._interrupted or Interrupted.STOPPING
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a job's fault stays the job's
            if limit.expired() and isinstance(error, TimeoutError):
                return Failed(f"took longer than {self.handler.timeout.total_seconds():g} s")
            return _blame(self.job, error)
        finally:
            self._handling = None


class Line:
    """The runs of one claim, one after the other; the last one's row is what was claimed."""

    def __init__(self, claimed: Claimed, handler: Handler[Any]) -> None:
        hold = Hold(claimed.id, claimed.attempt)
        self.ahead = [Run(one, handler, held_by=hold) for one in claimed.ahead]
        self.last = Run(claimed, handler)

    @property
    def claimed(self) -> Claimed:
        return self.last.claimed

    @property
    def runs(self) -> list[Run]:
        return [*self.ahead, self.last]

    def interrupt(self, why: Interrupted) -> None:
        """Cut off what runs of it now; what comes after is not begun."""
        for run in self.runs:
            run.interrupt(why)


async def _finished(ending: Ending) -> Finished:
    await ending.ended
    return Finished()


def outcome_of(verdict: Verdict) -> str:
    """Return the one word for what came of a run that is counted."""
    if isinstance(verdict, Interrupted):
        return verdict.value
    return _WORDS.get(type(verdict).__name__, "done")


class NotBrought(Exception):  # noqa: N818  # a verdict on `bring`, not on the jobs
    """What the runs need could not be read for a reason that a further try would meet again."""


async def bring(tx: Read, handler: Handler[Any], runs: Sequence[Run]) -> None:
    """Give the runs what their handler reads for them beforehand. Raises NotBrought, or that the database is away."""
    readable = [run for run in runs if run.unreadable is None]
    if handler.bring is None or not readable:
        return
    try:
        brought = await handler.bring(tx, [run.job.payload for run in readable])
    except Exception as error:
        if is_unavailable(error):
            raise
        raise NotBrought(handler.payload.__name__) from error
    for run, one in zip(readable, brought, strict=True):
        run.job = msgspec.structs.replace(run.job, brought=one)


def _job(claimed: Claimed, handler: Handler[Any], payload: Any, held_by: Hold | None) -> Job[Any]:
    return Job(
        id=claimed.id,
        kind=claimed.kind,
        payload=payload,
        attempt=claimed.attempt,
        failures=claimed.failures,
        enqueued_at=claimed.enqueued_at,
        deadline=asyncio.get_running_loop().time() + handler.timeout.total_seconds(),
        held_by=held_by,
    )


def _checked(outcome: Any) -> Verdict | Ending:
    if isinstance(outcome, Done | Again | Dead | Finished | Ending):
        return outcome
    return Failed(f"the handler answered {outcome!r} instead of Done, Again or Dead"[:_REASON_LENGTH])


def _blame(job: Job[Any], error: BaseException) -> Verdict:
    reason = f"{type(error).__name__}: {error}"[:_REASON_LENGTH]
    if is_unavailable(error):
        log.warning("job postponed: the database is away", job=job.id, kind=job.kind, reason=reason)
        return Postponed(reason)
    log.warning(
        "job failed", job=job.id, kind=job.kind, failures=job.failures + 1, reason=reason, exc_info=error
    )
    return Failed(reason)
