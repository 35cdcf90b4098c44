"""The worker: polls for work, claims it, keeps its leases, and stops in order.

It holds nothing that matters. Killed at any instant, its jobs are claimed by another when the leases end, or on
SQLite by whoever gets the file lock.
"""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Final
from uuid import uuid4

import structlog

from mercato.kernel import crash
from mercato.kernel.db import postgresql
from mercato.kernel.db.engine import Database
from mercato.kernel.db.errors import is_unavailable, is_unique_violation
from mercato.kernel.db.tables import jobs_one_running_per_key
from mercato.kernel.jobs import maintenance
from mercato.kernel.jobs.claim import Claimed, Rotation, claim
from mercato.kernel.jobs.model import Handlers
from mercato.kernel.jobs.ownership import Ownership
from mercato.kernel.jobs.queue import CHANNEL, TOPIC
from mercato.kernel.jobs.run import Interrupted, Run, label_of
from mercato.kernel.jobs.settle import settle
from mercato.kernel.telemetry.acting import Acting, act_as

log = structlog.get_logger("mercato.jobs")

# After the grace: for handlers to unwind, and for their jobs to be released.
_UNWIND: Final = 5.0

# Between two tries when the database is unavailable, or when there is a bug here.
_TROUBLE: Final = 1.0

# Between two polls for something that should not be there any more.
_AGAIN: Final = 0.01

_STRANDED_SECONDS: Final = 60.0
"""Seconds between two searches for jobs that wait for a clock that was set back."""

_PRUNE_EVERY: Final = 600.0


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, or after so long. Not `wait_for`, which may swallow a cancellation."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Worker:
    """Runs the jobs of the kinds in the table until it is stopped."""

    def __init__(
        self,
        database: Database,
        handlers: Handlers,
        *,
        lease: timedelta = timedelta(seconds=15),
        heartbeat: timedelta = timedelta(seconds=5),
        poll: timedelta = timedelta(seconds=1),
        keep_dead: timedelta = timedelta(days=30),
        observe: Callable[[str, str, float], None] = lambda _kind, _label, _seconds: None,
    ) -> None:
        """`lease` is how long a vanished worker's jobs stay its own, and `poll` how late a missed signal is found.

        `observe` is called for every run with its kind, what came of it, and the seconds it took.
        """
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._database = database
        self._handlers = handlers
        self._lease = lease
        self._heartbeat = heartbeat.total_seconds()
        self._poll_seconds = poll.total_seconds()
        self._keep_dead = keep_dead
        self._observe = observe
        self._ownership = Ownership(database)
        self._orphans = False
        self._rotations = {kind: Rotation() for kind in handlers}
        self._running: Counter[str] = Counter()
        self._runs: dict[asyncio.Task[None], Run] = {}
        self._next_stranded = 0.0  # in monotonic seconds
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`. An unavailable database is waited for; cancelled, it releases what it runs."""
        unlisten = self._database.signals.listen(TOPIC, self._hear)
        helpers = [
            asyncio.create_task(self._repeat(helper, until=self._stopped))
            for helper in (self._keep_leases, self._keep_tidy, self._keep_listening)
        ]
        try:
            await self._repeat(self._work, until=self._stopping)
            await self._stopped.wait()
        finally:
            unlisten()
            await self._release()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            self._ownership.release()

    async def stop(self, *, grace: timedelta) -> None:
        """Claim nothing more at once; return when what runs has finished, or was released after the grace."""
        self._stopping.set()
        self._wake.set()
        if self._runs:
            await asyncio.wait(self._runs, timeout=grace.total_seconds())
        await self._release()
        self._stopped.set()

    async def _release(self) -> None:
        """Cancel what still runs, and make it due again at once; what cannot even unwind is abandoned."""
        self._stopping.set()
        for run in self._runs.values():
            run.interrupt(Interrupted.STOPPING)
        if self._runs:
            await asyncio.wait(self._runs, timeout=_UNWIND)
        for task in self._runs:
            task.cancel()

    def _hear(self, _kind: str) -> None:
        self._wake.set()

    async def _repeat(self, part: Callable[[], Awaitable[None]], *, until: asyncio.Event) -> None:
        """Do a part of the work, whatever goes wrong on the way: a worker outlives its failures."""
        while not until.is_set():
            try:
                await part()
            except Exception as error:
                if is_unavailable(error):
                    log.warning("jobs wait: the database is unavailable", reason=str(error))
                else:
                    log.exception("worker failed")
                await _wait(until, _TROUBLE)

    # --- finding work -------------------------------------------------------------------------------

    async def _work(self) -> None:
        self._wake.clear()
        await _wait(self._wake, await self._look_for_work())

    async def _look_for_work(self) -> float:
        """Poll, if this process may run jobs; return the seconds until the next poll, if no signal comes."""
        if self._ownership.acquire():
            self._orphans = True
        if not self._ownership.held:
            return self._poll_seconds
        if self._orphans:
            await self._take_over()
        return await self._poll()

    async def _poll(self) -> float:
        """Look for all that there is to do, and do it; return the seconds until something is due."""
        kinds = tuple(kind for kind in self._handlers if self._free(kind) > 0)
        async with self._database.read() as tx:
            found = await maintenance.poll(tx, kinds)
        moved = await self._move_stranded()
        due = found.due_in is not None and found.due_in <= timedelta(0)
        if due or found.expired:
            moved += await self._move(due=due, expired=found.expired)
        for kind in kinds if moved else found.ready:
            await self._claim(kind)
        if moved:
            return 0.0
        if found.due_in is None:
            return self._poll_seconds
        # Due and not moved: another worker is at it.
        return min(self._poll_seconds, max(found.due_in.total_seconds(), _AGAIN))

    async def _move_stranded(self) -> int:
        """Look now and then whether the clock was set back past what waits."""
        if monotonic() < self._next_stranded:
            return 0
        self._next_stranded = monotonic() + _STRANDED_SECONDS
        async with self._database.write() as tx:
            moved = await maintenance.move_stranded(tx)
        if moved:
            log.warning("the clock was set back: jobs that waited are due now", count=moved)
        return moved

    async def _take_over(self) -> None:
        """Nobody else can be at work: what is marked as running is due at once."""
        async with self._database.write() as tx:
            while count := await maintenance.move_orphans(tx):
                log.info("jobs taken over", count=count)
        self._orphans = False

    async def _move(self, *, due: bool, expired: bool) -> int:
        async with self._database.write() as tx:
            moved = await maintenance.move_due(tx) if due else 0
            if expired:
                # Alone, our own runs cannot be anybody else's: a clock that was set may not take them away.
                own = [run.claimed.id for run in self._runs.values()] if self._ownership.alone else []
                lost = await maintenance.move_expired(tx, but=own)
                if lost:
                    log.warning("jobs of a vanished worker are due again", count=lost)
                moved += lost
        return moved

    # --- claiming -----------------------------------------------------------------------------------

    def _free(self, kind: str) -> int:
        return self._handlers[kind].concurrency - self._running[kind]

    async def _claim(self, kind: str) -> None:
        """Start what is ready, from where the last claim stopped, and once more from the first group."""
        rotation = self._rotations[kind]
        while (free := self._free(kind)) > 0 and not self._stopping.is_set():
            is_whole = rotation.group == ""
            claimed = await self._claim_from(kind, rotation, free)
            is_full = len(claimed) == free
            rotation.advance(claimed, is_full=is_full)
            if claimed:
                crash.point("job.claimed")
            for one in claimed:
                self._start(Run(one, self._handlers[kind]))
            if is_full or is_whole:
                return

    async def _claim_from(self, kind: str, rotation: Rotation, free: int) -> list[Claimed]:
        for wanted in (free, free, free, 1):
            try:
                async with self._database.write() as tx:
                    return await claim(
                        tx,
                        kind,
                        self._handlers[kind],
                        worker=self.name,
                        lease=self._lease,
                        free=wanted,
                        rotation=rotation,
                    )
            except Exception as error:
                # Another worker was quicker with some ordering key.
                if not is_unique_violation(error, jobs_one_running_per_key):
                    raise
        return []

    # --- running ------------------------------------------------------------------------------------

    def _start(self, run: Run) -> None:
        claimed = run.claimed
        self._running[claimed.kind] += 1
        task = asyncio.create_task(self._run(run), name=f"job {claimed.id} {claimed.kind}")
        self._runs[task] = run
        task.add_done_callback(self._finished)

    async def _run(self, run: Run) -> None:
        act_as(Acting(action=run.claimed.kind))
        began = monotonic()
        result = await run.result()
        self._observe(run.claimed.kind, label_of(result), monotonic() - began)
        crash.point("job.done")
        await settle(self._database, run.job, run.handler, result)

    def _finished(self, task: asyncio.Task[None]) -> None:
        kind = self._runs.pop(task).claimed.kind
        self._running[kind] -= 1
        # Its ordering key and its place are free for what waits for them.
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job left to the end of its lease", exc_info=error)

    # --- keeping ------------------------------------------------------------------------------------

    async def _keep_leases(self) -> None:
        await asyncio.sleep(self._heartbeat)
        runs = list(self._runs.values())
        if not runs:
            return
        numbers = [run.claimed.id for run in runs]
        async with self._database.write() as tx:
            held = await maintenance.renew(tx, self.name, numbers, self._lease)
        for run in runs:
            if (run.claimed.id, run.claimed.attempt) not in held and run in self._runs.values():
                run.interrupt(Interrupted.LOST)

    async def _keep_tidy(self) -> None:
        await asyncio.sleep(_PRUNE_EVERY)
        if self._ownership.held:
            await maintenance.prune(self._database, older_than=self._keep_dead)

    async def _keep_listening(self) -> None:
        """Hear of other processes' jobs; without it they are found by the poll."""
        if self._database.dialect == "postgresql":
            await postgresql.listen(self._database.url, CHANNEL, self._hear)
            await asyncio.sleep(_TROUBLE)
        else:
            await self._stopped.wait()
