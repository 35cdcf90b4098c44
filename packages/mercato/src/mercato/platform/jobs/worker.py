"""The worker: polls for jobs, claims and runs them, renews their leases, and shuts down gracefully.

It holds no state that matters. If it is killed, another worker claims its jobs when their leases end, or on SQLite when
it gets the file lock.

On PostgreSQL every worker runs jobs, on SQLite the one that holds a file lock. The operating system releases the lock
however its holder dies. So a new holder knows that jobs marked as running aren't running anywhere, and needn't wait
for their leases to end.
"""

import asyncio
import fcntl
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final
from uuid import uuid4

import structlog

from mercato.platform import processes
from mercato.platform.db import postgresql
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import is_unavailable, is_unique_violation
from mercato.platform.db.tables import jobs_one_running_per_key
from mercato.platform.db.url import sqlite_path
from mercato.platform.jobs import maintenance
from mercato.platform.jobs.claim import Rotation, claim
from mercato.platform.jobs.queue import CHANNEL, TOPIC
from mercato.platform.jobs.run import Handlers, Interrupted, Job, Run, label_of
from mercato.platform.jobs.settle import settle
from mercato.platform.telemetry.context import WorkContext, set_context


def _lock_path(url: str) -> Path:
    return Path(f"{sqlite_path(url)}.jobs.lock")


class Ownership:
    """The right to run a database's jobs. `is_exclusive` says that no other process can have it at the same time."""

    def __init__(self, database: Database) -> None:
        self.is_exclusive = database.dialect == "sqlite"
        self._path = _lock_path(database.url) if self.is_exclusive else None
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        return self._path is None or self._file is not None

    def acquire(self) -> bool:
        """Try to lock the file. Return whether this call has locked it."""
        if self._path is None or self._file is not None:
            return False
        # Not inherited by child processes, which would keep the lock after this process ends.
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()} on {socket.gethostname()}".encode())
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def find_owner(url: str) -> str | None:
    """Return which process runs the jobs of a SQLite database, by its id and machine; None if none does.

    Creates no file and takes no lock.
    """
    path = _lock_path(url)
    if not path.exists():
        return None
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # Nothing yet if it has just locked the file.
        return os.read(file, _MAX_OWNER).decode(errors="replace") or "unknown"
    finally:
        os.close(file)
    return None


_MAX_OWNER: Final = 300
"""Bytes of a process's id and its machine's name."""


log = structlog.get_logger("mercato.jobs")

# Seconds after the grace period for handlers to unwind and for their jobs to be released.
_UNWIND_SECONDS: Final = 5.0

# Seconds between two tries when the database is unavailable, or when there is a bug here.
_RETRY_SECONDS: Final = 1.0

# Seconds until the next poll when another worker is moving what is due.
_MIN_POLL_SECONDS: Final = 0.01

_STRANDED_SECONDS: Final = 60.0
"""Seconds between two checks for jobs that wait for a clock that was set back."""

_PRUNE_SECONDS: Final = 600.0


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, or after that time. Not `wait_for`, which may swallow a cancellation."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Worker:
    """Runs jobs of the kinds that have handlers until it is stopped."""

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
        """`lease` is how long a vanished worker keeps its jobs; `poll` is how late a job without a signal is found.

        `observe` is called after every run with the kind, the result's label, and the seconds it took.
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
        """Work until `stop`, also through an unavailable database. If cancelled, release the running jobs."""
        unlisten = self._database.signals.listen(TOPIC, self._signal)
        helpers = [
            asyncio.create_task(self._repeat(helper, until=self._stopped))
            for helper in (self._renew_leases, self._prune, self._listen)
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
        """Stop claiming at once. Return when the running jobs have finished, or are released after the grace period."""
        self._stopping.set()
        self._wake.set()
        if self._runs:
            await asyncio.wait(self._runs, timeout=grace.total_seconds())
        await self._release()
        self._stopped.set()

    async def _release(self) -> None:
        """Cancel the running jobs and make them ready again. Those that can't unwind are abandoned."""
        self._stopping.set()
        for run in self._runs.values():
            run.interrupt(Interrupted.STOPPING)
        if self._runs:
            await asyncio.wait(self._runs, timeout=_UNWIND_SECONDS)
        for task in self._runs:
            task.cancel()

    def _signal(self, _kind: str) -> None:
        self._wake.set()

    async def _repeat(self, step: Callable[[], Awaitable[None]], *, until: asyncio.Event) -> None:
        """Repeat the step until the event is set: a worker survives its own failures."""
        while not until.is_set():
            try:
                await step()
            except Exception as error:
                if is_unavailable(error):
                    log.warning("worker waits: the database is unavailable", reason=str(error))
                else:
                    log.exception("worker failed")
                await _wait(until, _RETRY_SECONDS)

    # --- polling -------------------------------------------------------------------------------

    async def _work(self) -> None:
        self._wake.clear()
        await _wait(self._wake, await self._find_work())

    async def _find_work(self) -> float:
        """Poll if this process may run jobs. Return the seconds until the next poll if there is no signal."""
        if self._ownership.acquire():
            self._orphans = True
        if not self._ownership.is_held:
            return self._poll_seconds
        if self._orphans:
            await self._take_over()
        return await self._poll()

    async def _poll(self) -> float:
        """Return due and lost jobs to the queue and claim what is ready. Return the seconds until the next poll."""
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
        # Due and not moved: another worker is moving it.
        return min(self._poll_seconds, max(found.due_in.total_seconds(), _MIN_POLL_SECONDS))

    async def _move_stranded(self) -> int:
        """Check now and then whether the clock was set back past waiting jobs, or past leases."""
        if monotonic() < self._next_stranded:
            return 0
        self._next_stranded = monotonic() + _STRANDED_SECONDS
        async with self._database.write() as tx:
            moved = await maintenance.move_stranded(tx)
            await maintenance.shorten_leases(tx, self._lease)
        if moved:
            log.warning("the clock was set back: waiting jobs are due now", count=moved)
        return moved

    async def _take_over(self) -> None:
        """Make running jobs ready: no other process can be running them."""
        async with self._database.write() as tx:
            while count := await maintenance.move_orphans(tx):
                log.info("jobs taken over", count=count)
        self._orphans = False

    async def _move(self, *, due: bool, expired: bool) -> int:
        async with self._database.write() as tx:
            moved = await maintenance.move_due(tx) if due else 0
            if expired:
                # This process's own runs are alive, even if the clock was set and their leases seem expired.
                own = [run.job.id for run in self._runs.values()] if self._ownership.is_exclusive else []
                lost = await maintenance.move_expired(tx, excluded=own)
                if lost:
                    log.warning("jobs of a vanished worker are due again", count=lost)
                moved += lost
        return moved

    # --- claiming -----------------------------------------------------------------------------------

    def _free(self, kind: str) -> int:
        return self._handlers[kind].concurrency - self._running[kind]

    async def _claim(self, kind: str) -> None:
        """Start ready jobs, from where the last claim stopped, and then from the first group."""
        rotation = self._rotations[kind]
        while (free := self._free(kind)) > 0 and not self._stopping.is_set():
            is_whole = rotation.group == ""
            claimed = await self._claim_from(kind, rotation, free)
            is_full = len(claimed) == free
            rotation.advance(claimed, is_full=is_full)
            if claimed:
                processes.crash_point("job.claimed")
            for job in claimed:
                self._start(Run(job, self._handlers[kind]))
            if is_full or is_whole:
                return

    async def _claim_from(self, kind: str, rotation: Rotation, free: int) -> list[Job[str]]:
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
                # Another worker has claimed one of the ordering keys.
                if not is_unique_violation(error, jobs_one_running_per_key):
                    raise
        return []

    # --- running ------------------------------------------------------------------------------------

    def _start(self, run: Run) -> None:
        kind = run.job.kind
        self._running[kind] += 1
        task = asyncio.create_task(self._run(run), name=f"job {run.job.id} {kind}")
        self._runs[task] = run
        task.add_done_callback(self._forget)

    async def _run(self, run: Run) -> None:
        set_context(WorkContext(action=run.job.kind))
        started_at = monotonic()
        result = await run.result()
        self._observe(run.job.kind, label_of(result), monotonic() - started_at)
        processes.crash_point("job.done")
        await settle(self._database, run.job, run.handler, result)

    def _forget(self, task: asyncio.Task[None]) -> None:
        kind = self._runs.pop(task).job.kind
        self._running[kind] -= 1
        # Its ordering key and its slot are free.
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job left to the end of its lease", exc_info=error)

    # --- upkeep -------------------------------------------------------------------------------------

    async def _renew_leases(self) -> None:
        await asyncio.sleep(self._heartbeat)
        runs = list(self._runs.values())
        if not runs:
            return
        ids = [run.job.id for run in runs]
        async with self._database.write() as tx:
            held = await maintenance.renew(tx, self.name, ids, self._lease)
        for run in runs:
            if (run.job.id, run.job.attempt) not in held and run in self._runs.values():
                run.interrupt(Interrupted.LOST)

    async def _prune(self) -> None:
        await asyncio.sleep(_PRUNE_SECONDS)
        if self._ownership.is_held:
            await maintenance.prune(self._database, older_than=self._keep_dead)

    async def _listen(self) -> None:
        """Receive the signals of other processes. Without them the poll finds their jobs."""
        if self._database.dialect == "postgresql":
            await postgresql.listen(self._database.url, CHANNEL, self._signal)
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            await self._stopped.wait()
