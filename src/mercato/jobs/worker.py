"""The worker: looks for work, claims it, keeps its leases, and stops in order.

It holds nothing that matters. Killed at any instant, what it ran is taken up by another when the lease ends, or on
SQLite by whoever gets the file lock.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Final
from uuid import uuid4

import structlog

from mercato import crash
from mercato.db import postgresql
from mercato.db.engine import Database
from mercato.db.errors import is_unavailable
from mercato.jobs import moves, queries
from mercato.jobs.entry import CHANNEL, TOPIC
from mercato.jobs.model import Done, Ending, Handlers
from mercato.jobs.ownership import Ownership
from mercato.jobs.run import Interrupted, Line, Run, Verdict, outcome_of
from mercato.jobs.settle import settle
from mercato.jobs.taking import Taker
from mercato.jobs.upkeep import prune
from mercato.telemetry.acting import Acting, act_as

log = structlog.get_logger("mercato.jobs")

# After the cut at the end of the grace: for handlers to unwind, and for their jobs to be given back.
_UNWIND: Final = 5.0

# Between two tries when the database is away, or when there is a bug here.
_TROUBLE: Final = 1.0

# Between two looks at something that should not be there any more.
_AGAIN: Final = 0.01

_STRANDED_SECONDS: Final = 60.0
"""Seconds between two looks for jobs that wait for a clock that was set back."""

_PRUNE_EVERY: Final = 600.0

# After which the rest of a line goes back: others wait for its place, too.
_LINE_SECONDS: Final = 0.25


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
        observe: Callable[[str, str, float], None] = lambda _kind, _outcome, _seconds: None,
    ) -> None:
        """`lease` is how long a vanished worker's jobs stay its own, and `poll` how late a word may be missed.

        `observe` is told of every run: its kind, what came of it, and the seconds it took.
        """
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._database = database
        self._lease = lease
        self._heartbeat = heartbeat.total_seconds()
        self._poll = poll.total_seconds()
        self._keep_dead = keep_dead
        self._observe = observe
        self._ownership = Ownership(database)
        self._orphans = False
        self._taker = Taker(database, handlers, worker=self.name, lease=lease, start=self._start)
        self._lines: dict[asyncio.Task[None], Line] = {}
        self._told: set[str] = set()
        self._next_look = 0.0  # in monotonic seconds
        self._next_stranded = 0.0
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`. A database that is away is waited for; cancelled, it gives back what it runs."""
        forget = [self._database.signals.listen(TOPIC, self._hear)]
        if self._ownership.alone:
            forget.append(self._database.signals.listen(queries.LEAVING, self._leave))
        helpers = [
            asyncio.create_task(self._again_and_again(helper, until=self._stopped))
            for helper in (self._keep_leases, self._keep_tidy, self._keep_listening)
        ]
        try:
            await self._again_and_again(self._work, until=self._stopping)
            await self._stopped.wait()
        finally:
            for ear in forget:
                ear()
            await self._give_back()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            self._ownership.release()

    async def stop(self, *, grace: timedelta) -> None:
        """Claim nothing more at once; return when what runs has finished, or was given back after the grace."""
        self._stopping.set()
        self._wake.set()
        await self._taker.stop(seconds=_UNWIND)
        if self._lines:
            await asyncio.wait(self._lines, timeout=grace.total_seconds())
        await self._give_back()
        self._stopped.set()

    async def _give_back(self) -> None:
        """Cut off what still runs, and make it due again at once; what cannot even unwind is abandoned."""
        self._stopping.set()
        await self._taker.stop(seconds=_UNWIND)
        for line in self._lines.values():
            line.interrupt(Interrupted.STOPPING)
        if self._lines:
            await asyncio.wait(self._lines, timeout=_UNWIND)
        for task in self._lines:
            task.cancel()

    def _hear(self, kind: str) -> None:
        self._told.add(kind)
        self._wake.set()

    def _leave(self, kind: str) -> None:
        if self._ownership.held:
            self._taker.take_soon(kind)

    async def _again_and_again(self, part: Callable[[], Awaitable[None]], *, until: asyncio.Event) -> None:
        """Do a part of the work, whatever goes wrong on the way: a worker outlives what it stumbles over."""
        while not until.is_set():
            try:
                await part()
            except Exception as error:
                if is_unavailable(error):
                    log.warning("jobs wait: the database is away", reason=str(error))
                else:
                    log.exception("jobs stumbled")
                await _wait(until, _TROUBLE)

    # --- finding work -------------------------------------------------------------------------------

    async def _work(self) -> None:
        self._wake.clear()
        await _wait(self._wake, await self._turn())

    async def _turn(self) -> float:
        """Look, and claim what there is; return the seconds until the next look, if nobody says a word."""
        if self._ownership.acquire():
            self._orphans = True
        if not self._ownership.held:
            return self._poll
        if self._orphans:
            await self._take_over()
        # Who is alone asks for what he was told of at once: on SQLite that costs less than a look.
        told, self._told = self._told, set()
        if told and self._ownership.alone and await self._taker.take_all(told):
            return max(self._next_look - monotonic(), 0.0)
        pause = await self._look()
        self._next_look = monotonic() + pause
        return pause

    async def _look(self) -> float:
        """Look for all that there is to do, and do it; return the seconds until something is due."""
        kinds = self._taker.kinds()
        async with self._database.read() as tx:
            found = await queries.look(tx, kinds)
        moved = await self._move_stranded()
        due = found.due_in is not None and found.due_in <= timedelta(0)
        if due or found.expired:
            moved += await self._move(due=due, expired=found.expired)
        for kind in kinds if moved else found.ready:
            await self._taker.take(kind)
        if moved:
            return 0.0
        if found.due_in is None:
            return self._poll
        # Due and not moved: another worker is at it.
        return min(self._poll, max(found.due_in.total_seconds(), _AGAIN))

    async def _move_stranded(self) -> int:
        """Look now and then whether the clock was set back past what waits."""
        if monotonic() < self._next_stranded:
            return 0
        self._next_stranded = monotonic() + _STRANDED_SECONDS
        async with self._database.write() as tx:
            moved = await moves.move_stranded(tx)
        if moved:
            log.warning("the clock was set back: jobs that waited are due now", count=moved)
        return moved

    async def _take_over(self) -> None:
        """Nobody else can be at work: what is marked as running is due at once."""
        async with self._database.write() as tx:
            while count := await moves.move_orphans(tx):
                log.info("jobs taken over", count=count)
        self._orphans = False

    async def _move(self, *, due: bool, expired: bool) -> int:
        async with self._database.write() as tx:
            moved = await moves.move_due(tx) if due else 0
            if expired:
                # Alone, our own runs cannot be anybody else's: a clock that was set may not take them away.
                own = [line.claimed.id for line in self._lines.values()] if self._ownership.alone else []
                lost = await moves.move_expired(tx, but=own)
                if lost:
                    log.warning("jobs of a vanished worker are due again", count=lost)
                moved += lost
        return moved

    def _start(self, line: Line) -> None:
        claimed = line.claimed
        task = asyncio.create_task(self._carry_out(line), name=f"job {claimed.id} {claimed.kind}")
        self._lines[task] = line
        task.add_done_callback(self._finished)

    async def _carry_out(self, line: Line) -> None:
        acting = Acting(action=line.claimed.kind)
        ending: list[tuple[Run, Ending, float]] = []
        goes_on = await self._carried_out_ahead(line, acting, ending) if line.ahead else True
        line.last.follow([one for _, one, _ in ending])
        act_as(acting)
        began = monotonic()
        # Else the lane's hold ends, and all that is left of the line is due again.
        verdict = await line.last.verdict() if goes_on else Interrupted.STOPPING
        seconds = monotonic() - began
        for run, one, its_seconds in ending:
            await self._settled(run, await run.ended(one), its_seconds)
        if isinstance(verdict, Ending):
            verdict = await line.last.ended(verdict)
        if goes_on:
            await self._settled(line.last, verdict, seconds)
        else:
            await settle(self._database, line.last.job, line.last.handler, verdict)

    async def _carried_out_ahead(
        self, line: Line, acting: Acting, ending: list[tuple[Run, Ending, float]]
    ) -> bool:
        """Run those ahead in the line; add those that are being finished; return whether the line goes on."""
        ends = monotonic() + _LINE_SECONDS
        for run in line.ahead:
            began = monotonic()
            if began >= ends or self._stopping.is_set():
                return False
            act_as(acting)
            verdict = await run.verdict()
            if isinstance(verdict, Ending):
                ending.append((run, verdict, monotonic() - began))
                continue
            await self._settled(run, verdict, monotonic() - began)
            if not isinstance(verdict, Done):
                return False
        # The last one's time to run is reckoned from the claim, too.
        return monotonic() < ends and not self._stopping.is_set()

    async def _settled(self, run: Run, verdict: Verdict, seconds: float) -> None:
        self._observe(run.claimed.kind, outcome_of(verdict), seconds)
        crash.point("job.done")
        # One ahead in a line that is cut off is ready as it was.
        if run.job.held_by is None or verdict is not Interrupted.STOPPING:
            await settle(self._database, run.job, run.handler, verdict)

    def _finished(self, task: asyncio.Task[None]) -> None:
        kind = self._lines.pop(task).claimed.kind
        self._taker.give_back(kind)
        # Its lane and its place are free for what waits for them.
        self._hear(kind)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job left to the end of its lease", exc_info=error)

    # --- keeping ------------------------------------------------------------------------------------

    async def _keep_leases(self) -> None:
        await asyncio.sleep(self._heartbeat)
        lines = list(self._lines.values())
        if not lines:
            return
        numbers = [line.claimed.id for line in lines]
        async with self._database.write() as tx:
            held = await queries.renew(tx, self.name, numbers, self._lease)
        for line in lines:
            if (line.claimed.id, line.claimed.attempt) not in held and line in self._lines.values():
                line.interrupt(Interrupted.LOST)

    async def _keep_tidy(self) -> None:
        await asyncio.sleep(_PRUNE_EVERY)
        if self._ownership.held:
            await prune(self._database, older_than=self._keep_dead)

    async def _keep_listening(self) -> None:
        """Hear of other processes' jobs; without it they are found by the poll."""
        if self._database.dialect == "postgresql":
            await postgresql.listen(self._database.url, CHANNEL, self._hear)
            await asyncio.sleep(_TROUBLE)
        else:
            await self._stopped.wait()
