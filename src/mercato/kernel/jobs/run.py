"""One run of one job: decode its payload, call its handler, judge what came of it."""

import asyncio
from enum import Enum
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from mercato.kernel.db.errors import is_unavailable
from mercato.kernel.jobs.claim import Claimed
from mercato.kernel.jobs.model import Again, Dead, Done, Handler, Job, JobLost, Settled

log = structlog.get_logger("mercato.jobs")

MAX_LOSSES: Final = 20
"""Workers that may vanish over one job before it is dead: one that kills every worker must end some day."""

_REASON_LENGTH: Final = 1_000

_LABELS: Final = {
    "Again": "again",
    "Dead": "dead",
    "Failed": "failed",
    "Postponed": "postponed",
    "Unreadable": "unreadable",
}


class Failed(Struct, frozen=True):
    """The run raised, timed out, or gave no answer."""

    reason: str


class Postponed(Struct, frozen=True):
    """The run could not reach the database, which is not the job's fault."""

    reason: str


class Interrupted(Enum):
    """The run was cancelled: its worker stops, or its job is another's by now."""

    STOPPING = "stopping"
    LOST = "lost"


class Unreadable(Struct, frozen=True):
    """The payload does not fit the handler's type."""

    reason: str


Result = Done | Again | Dead | Settled | Failed | Postponed | Interrupted | Unreadable


def label_of(result: Result) -> str:
    """Return the label under which a run is counted."""
    if isinstance(result, Interrupted):
        return result.value
    return _LABELS.get(type(result).__name__, "done")


class Run:
    """A claimed row on its way through its handler."""

    def __init__(self, claimed: Claimed, handler: Handler[Any]) -> None:
        self.claimed = claimed
        self.handler = handler
        self._unreadable: Unreadable | None = None
        payload = None
        try:
            payload = msgspec.json.decode(claimed.payload, type=handler.payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._unreadable = Unreadable(f"the payload cannot be read: {error}"[:_REASON_LENGTH])
        self.job: Job[Any] = Job(
            id=claimed.id,
            kind=claimed.kind,
            payload=payload,
            attempt=claimed.attempt,
            failures=claimed.failures,
            losses=claimed.losses,
            run_at=claimed.run_at,
            enqueued_at=claimed.enqueued_at,
        )
        self._interrupted: Interrupted | None = None
        self._handling: asyncio.Task[Any] | None = None

    def interrupt(self, why: Interrupted) -> None:
        """Cancel the handler, once; what comes after the handler is never cancelled."""
        if self._interrupted is None:
            self._interrupted = why
            if self._handling is not None:
                self._handling.cancel()

    async def result(self) -> Result:
        """Run the job. Nothing that it does ends the worker: not even SystemExit."""
        if self._unreadable is not None:
            return self._unreadable
        if self.claimed.losses > MAX_LOSSES:
            return Dead(f"{self.claimed.losses} workers vanished while they ran it")
        return self._interrupted or await self._handle()

    async def _handle(self) -> Result:
        task = self._handling = asyncio.current_task()
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
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a job's failure stays the job's
            if limit.expired() and isinstance(error, TimeoutError):
                return Failed(f"took longer than {timeout:g} s")
            return _blame(self.job, error)
        finally:
            self._handling = None
        if isinstance(outcome, Done | Again | Dead | Settled):
            return outcome
        return Failed(f"the handler answered {outcome!r} instead of Done, Again or Dead"[:_REASON_LENGTH])


def _blame(job: Job[Any], error: BaseException) -> Result:
    reason = f"{type(error).__name__}: {error}"[:_REASON_LENGTH]
    if is_unavailable(error):
        log.warning("job postponed: the database is unavailable", job=job.id, kind=job.kind, reason=reason)
        return Postponed(reason)
    log.warning(
        "job failed", job=job.id, kind=job.kind, failures=job.failures + 1, reason=reason, exc_info=error
    )
    return Failed(reason)
