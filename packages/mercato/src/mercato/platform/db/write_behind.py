"""Rows that nothing waits for: one task writes them in batches. A process that is killed loses those of a second."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

import structlog

from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import is_unavailable

log = structlog.get_logger("mercato.db")

T = TypeVar("T")

BATCH: Final = 200
"""Rows in one transaction."""

FLUSH_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 3.0
"""How long the end of the process waits for the last batch."""


class WriteBehind(Generic[T]):
    """A bounded queue of rows and the task that writes them. What can't be queued or written is dropped and counted."""

    def __init__(
        self,
        db: Database,
        write: Callable[[Write, Sequence[T]], Awaitable[None]],
        *,
        name: str,
        max_size: int,
        dropped: Callable[[str, int], None],
    ) -> None:
        """`max_size` is in the units of `put`; `dropped` takes a reason, one of a few constants, and a number."""
        self._db = db
        self._write = write
        self._name = name
        self._max_size = max_size
        self._dropped = dropped
        self._waiting: deque[tuple[T, int]] = deque()
        self._size = 0
        self._writing = asyncio.Lock()

    def put(self, row: T, *, size: int = 1) -> None:
        """Queue a row, or drop it if the queue is full."""
        if self._size + size > self._max_size:
            self._dropped("queue_full", 1)
            return
        self._waiting.append((row, size))
        self._size += size

    async def run(self) -> None:
        """Write rows until cancelled, and at the end those that still wait."""
        flushing: asyncio.Task[None] | None = None
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                # Not cancelled with this task: a commit that is cancelled may have stored its rows all the same, and
                # they would be written a second time.
                flushing = asyncio.create_task(self.flush())
                await asyncio.shield(flushing)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.flush()
            if flushing is not None:
                flushing.cancel()

    async def flush(self) -> None:
        """Write what waits. If the database is unavailable it goes on waiting; a batch with a bug is dropped."""
        async with self._writing:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                try:
                    async with self._db.write() as tx:
                        await self._write(tx, [row for row, _ in batch])
                except asyncio.CancelledError:
                    self._waiting.extendleft(reversed(batch))
                    raise
                except Exception as error:  # requests go on, and so does the task
                    if is_unavailable(error):
                        self._waiting.extendleft(reversed(batch))
                        log.warning("rows wait: the database is unavailable", rows=self._name)
                        return
                    log.exception("bug: rows not stored", rows=self._name, count=len(batch))
                    self._dropped("bug", len(batch))
                self._size -= sum(size for _, size in batch)
