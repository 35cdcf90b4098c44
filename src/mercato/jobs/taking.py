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
from mercato.jobs.claim import Rotation, claim, count_running
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
        self._rotations: dict[str, Rotation] = {kind: Rotation() for kind in handlers}
        self._running: Counter[str] = Counter()
        self._soon: set[str] = set()
        self._asking: set[asyncio.Future[None]] = set()

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
        """Start what is ready, from where the last claim stopped, and once more from the first group.

        Return whether there was something, or no place for it.
        """
        rotation = self._rotations[kind]
        found = self._free(kind) <= 0
        while (free := self._free(kind)) > 0 and not self.stopped:
            is_whole = rotation.group == ""
            lines = await self._claim_from(kind, rotation, free)
            self._begin(kind, lines)
            found = found or bool(lines)
            if self._advance(kind, lines, free) or is_whole:
                break
        return found

    def _advance(self, kind: str, lines: list[Line], free: int) -> bool:
        """Note what was claimed; return whether it took every free place."""
        is_full = len(lines) == free
        self._rotations[kind].advance([line.claimed for line in lines], is_full=is_full)
        return is_full

    def take_soon(self, kind: str) -> None:
        """Take what there is place for once the block that says so has ended, with the commit that ends its jobs.

        For a worker that is alone: then what runs in the database is its own.
        """
        if self.stopped or kind in self._soon or kind not in self._handlers:
            return
        self._soon.add(kind)
        asking = asyncio.ensure_future(self._claim_soon(kind))
        self._asking.add(asking)
        asking.add_done_callback(partial(self._took, kind))

    async def _claim_soon(self, kind: str) -> None:
        async with self._database.write() as tx:
            lines = await self._claimed_soon(tx, kind=kind)
        self._begin(kind, lines)

    async def _claimed_soon(self, tx: Write, *, kind: str) -> list[Line]:
        # What ends from now on is for the next one.
        self._soon.discard(kind)
        handler = self._handlers[kind]
        free = handler.concurrency - await count_running(tx, kind)
        if self.stopped or free <= 0:
            return []
        rotation = self._rotations[kind]
        lines = await self._claimed(tx, kind=kind, handler=handler, rotation=rotation, free=free)
        self._advance(kind, lines, free)
        return lines

    def _took(self, kind: str, asking: asyncio.Future[None]) -> None:
        self._asking.discard(asking)
        self._soon.discard(kind)
        if not asking.cancelled():
            asking.exception()  # what has failed is tried again, and logged, when the worker claims by itself

    def _begin(self, kind: str, lines: list[Line]) -> None:
        if lines:
            crash.point("job.claimed")
        for line in lines:
            self._running[kind] += 1
            self._start(line)

    async def _claim_from(self, kind: str, rotation: Rotation, free: int) -> list[Line]:
        handler = self._handlers[kind]
        for wanted in (free, free, free, 1):
            try:
                async with self._database.write() as tx:
                    return await self._claimed(tx, kind=kind, handler=handler, rotation=rotation, free=wanted)
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
        self, tx: Write, *, kind: str, handler: Handler[Any], rotation: Rotation, free: int
    ) -> list[Line]:
        if tx.dialect == "sqlite":
            # This worker is alone, and another claim of it may have filled places since it looked.
            free = min(free, handler.concurrency - await count_running(tx, kind))
            if free <= 0:
                return []
        claimed = await claim(
            tx, kind, handler, worker=self._worker, lease=self._lease, free=free, rotation=rotation
        )
        lines = [Line(one, handler) for one in claimed]
        await bring(tx, handler, [run for line in lines for run in line.runs])
        return lines
