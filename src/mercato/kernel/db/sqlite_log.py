"""SQLite's write-ahead log, which holds earlier versions of rows until it is copied into the file."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from mercato.kernel.db.errors import is_locked

_WAIT: Final = 0.1
"""Seconds that one attempt waits for readers and writers."""

_PAUSE: Final = 0.1
"""Seconds between two attempts, in which others write."""


async def empty_log(path: Path, *, seconds: float) -> bool:
    """Copy the write-ahead log into the file and truncate it; False if readers or writers prevent that for so long.

    Each attempt is short: SQLite holds the write lock while it waits for readers.
    """
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(_truncate, path):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_PAUSE)
    return True


def _truncate(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=_WAIT, isolation_level=None)) as connection:
        try:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise
            return False
    return not busy
