"""Reads of rows by their key that nearly every request makes: over one connection that is kept for them.

To take a connection from a pool, and to give it back, costs several times as much as such a row.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import text

from mercato.db.awaited import Connection, Engine
from mercato.db.errors import DatabaseAway, connection_errors, is_unavailable
from mercato.db.inline import outcome

if TYPE_CHECKING:
    from mercato.db.engine import Executes, Read

T = TypeVar("T")


class PointReader:
    """Runs blocks that only read rows by their key, one after another.

    On PostgreSQL a block is a statement's round trip; on SQLite it runs in the event loop's own thread, where such a
    row takes some 10 µs and no other process makes a reader wait.
    """

    def __init__(self, engine: Engine, handle: "Callable[[Executes], Read]", *, inline: bool) -> None:
        """`engine` has one connection, `handle` makes of it what a block gets; `inline` is for SQLite."""
        self._engine = engine
        self._handle = handle
        self._inline = inline
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._executes: Executes | None = None

    async def read(self, block: "Callable[[Read], Coroutine[Any, Any, T]]") -> T:
        """Run a block; each of its statements sees what was committed before it began. Raises what the database raises.

        A connection that was lost meanwhile is replaced once: what only reads may be run again.
        """
        async with self._turn:
            kept = self._connection is not None
            try:
                return await self._run(block)
            except BaseException as error:
                await self._drop()
                if not kept or not is_unavailable(error):
                    raise
            return await self._run(block)

    async def _run(self, block: "Callable[[Read], Coroutine[Any, Any, T]]") -> T:
        if self._executes is None:
            await self._connect()
        assert self._executes is not None
        running = block(self._handle(self._executes))
        return outcome(running) if self._inline else await running

    async def _connect(self) -> None:
        try:
            self._connection = await self._engine.connect()
        except connection_errors() as error:
            raise DatabaseAway(f"no connection to the database: {error}") from error
        if self._inline:
            self._executes = self._connection.driver.inline
            # The loop never waits for a lock: a database that is busy even for readers says so at once.
            await self._executes.execute(text("PRAGMA busy_timeout = 0"))
        else:
            from mercato.db.direct import Direct

            self._executes = Direct(self._connection)

    async def _drop(self) -> None:
        connection, self._connection, self._executes = self._connection, None, None
        if connection is not None:
            if not self._inline:
                # It may be lost, or in the middle of a statement.
                connection.give_up()
            await connection.close()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        await self._engine.dispose()
