"""What one worker claims: as much of a kind as it has places for, from where it stopped the last time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import structlog

from mercato import crash
from mercato.db.engine import Database, Write
from mercato.db.errors import is_unique_violation
from mercato.db.tables import jobs_one_running_per_lane
from mercato.jobs.claim import START, Place, claim, count_running
from mercato.jobs.model import Handler, Handlers
from mercato.jobs.run import Line, NotBrought, bring

log = structlog.get_logger("mercato.jobs")


class Taker:
    """Claims jobs for a worker; `start` is called with each line of them."""

    def __init__(
        self,
        database: Database,
        handlers: Handlers,
        *,
        worker: str,
        lease: timedelta,
        start: Callable[[Line], None],
    ) -> None:
        self.stopped = False
        self._database = database
        self._handlers = handlers
        self._worker = worker
        self._lease = lease
        self._start = start
        self._places: dict[str, Place] = {}
        self._running: Counter[str] = Counter()
        self._soon: set[str] = set()
        self._asking: set[asyncio.Future[list[Line]]] = set()

    async def stop(self, *, seconds: float) -> None:
        """Take nothing more; return when what was asked for has been started, or after so long."""
        self.stopped = True
        if self._asking:
            await asyncio.wait(self._asking, timeout=seconds)

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that have a place free."""
        return tuple(kind for kind in self._handlers if self._free(kind) > 0)

    def give_back(self, kind: str) -> None:
        """Take note that a run of the kind has ended."""
        self._running[kind] -= 1

    def _free(self, kind: str) -> int:
        return self._handlers[kind].concurrency - self._running[kind]

    async def take_all(self, kinds: set[str]) -> bool:
        """Take what there is of these kinds; tell whether each had something, or has no place free for it."""
        found = [await self.take(kind) for kind in kinds if kind in self._handlers]
        return all(found) and len(found) == len(kinds)

    async def take(self, kind: str) -> bool:
        """Start what is ready, from where the last claim stopped, and once more from the start.

        Return whether there was something, or no place for it.
        """
        place = self._places.get(kind, START)
        found = self._free(kind) <= 0
        while (free := self._free(kind)) > 0 and not self.stopped:
            lines = await self._claim_from(kind, place, free)
            self._begin(kind, lines)
            found = found or bool(lines)
            if len(lines) == free:
                self._places[kind] = lines[-1].claimed.place
                return True
            self._places[kind] = START
            if place == START:
                break
            place = START
        return found

    def take_soon(self, kind: str) -> None:
        """Take what there is place for once the block that says so has ended, with the commit that ends its jobs.

        For a worker that is alone: then what runs in the database is its own.
        """
        if self.stopped or kind in self._soon or kind not in self._handlers:
            return
        self._soon.add(kind)
        place = self._places.get(kind, START)
        asking = asyncio.ensure_future(
            self._database.soon(partial(self._claimed_soon, kind=kind, place=place))
        )
        self._asking.add(asking)
        asking.add_done_callback(partial(self._took, kind))

    async def _claimed_soon(self, tx: Write, *, kind: str, place: Place) -> list[Line]:
        # What ends from now on is for the next one.
        self._soon.discard(kind)
        handler = self._handlers[kind]
        free = handler.concurrency - await count_running(tx, kind)
        if self.stopped or free <= 0:
            return []
        lines = await self._claimed(tx, kind=kind, handler=handler, place=place, free=free)
        self._places[kind] = lines[-1].claimed.place if len(lines) == free else START
        return lines

    def _took(self, kind: str, asking: asyncio.Future[list[Line]]) -> None:
        self._asking.discard(asking)
        self._soon.discard(kind)
        # What has failed is tried again, and told of, when the worker asks by itself.
        if not asking.cancelled() and asking.exception() is None:
            self._begin(kind, asking.result())

    def _begin(self, kind: str, lines: list[Line]) -> None:
        if lines:
            crash.point("job.claimed")
        for line in lines:
            self._running[kind] += 1
            self._start(line)

    async def _claim_from(self, kind: str, place: Place, free: int) -> list[Line]:
        handler = self._handlers[kind]
        for wanted in (free, free, free, 1):
            try:
                return await self._database.atomically(
                    partial(self._claimed, kind=kind, handler=handler, place=place, free=wanted)
                )
            except NotBrought:
                # The runs read for themselves what they need, and the one that can't fails alone.
                log.exception("what claimed jobs need could not be read beforehand", kind=kind)
                handler = replace(handler, bring=None)
            except Exception as error:
                # Another worker was quicker in some lane.
                if not is_unique_violation(error, jobs_one_running_per_lane):
                    raise
        return []

    async def _claimed(
        self, tx: Write, *, kind: str, handler: Handler[Any], place: Place, free: int
    ) -> list[Line]:
        claimed = await claim(
            tx, kind, handler, worker=self._worker, lease=self._lease, free=free, after=place
        )
        lines = [Line(one, handler) for one in claimed]
        await bring(tx, handler, [run for line in lines for run in line.runs])
        return lines
