"""Architecture: a process that stops leaves nothing running, not even a connection that was being opened."""

import asyncio
import sqlite3
from pathlib import Path
from threading import Event

import pytest

from mercato.db.sqlite_driver import Connection


class Slow(Connection):
    """A connection that opens when it is let."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, begin="BEGIN", busy_ms=1000, pragmas=(), waits_for_end=True)
        self.opening, self.let = Event(), Event()
        connect = self._connector

        def slowly() -> sqlite3.Connection:
            self.opening.set()
            self.let.wait(10)
            return connect()

        self._connector = slowly


async def test_whoever_is_cancelled_while_a_connection_opens_waits_for_its_thread_to_end(tmp_path: Path):
    connection = Slow(tmp_path / "a.db")
    task = asyncio.create_task(connection.open())
    await asyncio.to_thread(connection.opening.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    connection.let.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not connection._thread.is_alive()
