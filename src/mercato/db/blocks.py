"""Short transactions on SQLite that are run together: those that wait for the writer share one commit.

A statement of a few rows takes SQLite some 10 µs; to hand it to another thread and to wake up for its result takes
ten times that. So a block's statements run where the block does, in the event loop's own thread: only to take the
write lock and to commit, which both may wait, is left to the connection's thread. Each block is a savepoint, so
that one that fails takes nothing of the others with it; none is told of its end before all are on the disk.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mercato.db.awaited import Engine
from mercato.db.errors import DatabaseAway, connection_errors
from mercato.db.inline import Inline, outcome
from mercato.db.sqlite_driver import Connection

if TYPE_CHECKING:
    from mercato.db.engine import Write

T = TypeVar("T")

MOST: Final = 32
"""Blocks of one commit: the loop is held up for some milliseconds by as many, and no longer."""

GATHERING: Final = 3
"""Rounds of the event loop before a transaction begins: what has just ended has its next block ready by then, and
a commit that it shares is one less."""


@dataclass(slots=True, eq=False)
class _Asked(Generic[T]):
    block: "Callable[[Write], Coroutine[Any, Any, T]]"
    future: asyncio.Future[T]
    # On whose behalf it runs: the task that runs it is another's.
    context: Context
    transaction: "Write | None" = None
    result: Any = None


class Blocks:
    """The blocks that wait for one file's writer."""

    def __init__(self, writer: Engine, begun: "Callable[[Any], Write]") -> None:
        """`begun` makes the handle that a block gets."""
        self._writer = writer
        self._begun = begun
        self._waiting: deque[_Asked[Any]] = deque()
        self._at_work: asyncio.Task[None] | None = None

    async def run(self, block: "Callable[[Write], Coroutine[Any, Any, T]]") -> T:
        """Return what the block returned, once that is committed; or raise what it raised, and nothing is."""
        return await self.submit(block)

    def submit(self, block: "Callable[[Write], Coroutine[Any, Any, T]]") -> asyncio.Future[T]:
        """Put the block in line at once. Asked by a block, it shares that one's commit, if that takes one more."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(block, future, copy_context()))
        # A task that is cancelled before its first step never runs its `finally`.
        if self._at_work is None or self._at_work.done():
            self._at_work = asyncio.create_task(self._work(), name="blocks")
        return future

    async def close(self) -> None:
        """Return when nothing is at work any more."""
        if self._at_work is not None:
            await asyncio.wait({self._at_work})

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._once()
        finally:
            self._at_work = None

    async def _once(self) -> None:
        """Run who waits as one transaction, and let the writer go: others wait for it in the same line."""
        done: list[_Asked[Any]] = []
        for _ in range(GATHERING):
            await asyncio.sleep(0)
        try:
            try:
                connection = await self._writer.connect()
            except connection_errors() as error:
                raise DatabaseAway(f"no connection to the database: {error}") from error
            try:
                await self._together(connection.driver, done)
            finally:
                await connection.close()
        except BaseException as error:
            # Those that have run are lost with the transaction, and who still waits would meet the same.
            for asked in (*done, *self._waiting):
                if not asked.future.done():
                    asked.future.set_exception(_told(error))
            self._waiting.clear()
            if not isinstance(error, Exception):
                raise
            return
        for asked in done:
            if not asked.future.done() or asked.future.cancelled():
                self._settle(asked)

    async def _together(self, driver: Connection, done: list[_Asked[Any]]) -> None:
        inline = driver.inline
        await driver.begin_now()
        try:
            while self._waiting and len(done) < MOST:
                asked = self._waiting.popleft()
                if asked.future.done():
                    continue  # nobody waits for it any more
                done.append(asked)
                self._ran(asked, inline, driver.plain)
        except BaseException:
            await driver.rollback()
            raise
        await driver.commit_now()

    def _ran(self, asked: _Asked[Any], inline: Inline, plain: sqlite3.Connection) -> None:
        """Run one block; it is told at once if it failed. Raises what has ended the whole transaction."""
        plain.execute("SAVEPOINT block")
        asked.transaction = self._begun(inline)
        try:
            asked.result = asked.context.run(outcome, asked.block(asked.transaction))
        except Exception as error:
            if not plain.in_transaction:
                # A full disk rolls back by itself, and everybody's work with it.
                asked.future.set_exception(error)
                raise
            plain.execute("ROLLBACK TO block")
            plain.execute("RELEASE block")
            asked.future.set_exception(error)
            return
        plain.execute("RELEASE block")

    @staticmethod
    def _settle(asked: _Asked[Any]) -> None:
        assert asked.transaction is not None
        try:
            asked.transaction.committed()
        except Exception as error:  # noqa: BLE001  # told to who asked, as it would be without us
            if not asked.future.done():
                asked.future.set_exception(error)
        if not asked.future.done():
            asked.future.set_result(asked.result)


def _told(error: BaseException) -> BaseException:
    return error if isinstance(error, Exception) else DatabaseAway("the database is being closed")
