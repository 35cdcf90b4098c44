"""Which process runs jobs: on PostgreSQL every worker, on SQLite the one that holds a file lock.

The operating system releases the lock however its holder dies. So a new holder knows that jobs marked as running aren't
running anywhere, and needn't wait for their leases to end.
"""

import fcntl
import os
from pathlib import Path

from mercato.platform.db.engine import Database
from mercato.platform.db.url import sqlite_path


def _lock_path(database: Database) -> Path:
    return Path(f"{sqlite_path(database.url)}.jobs.lock")


class Ownership:
    """The right to run a database's jobs. `is_exclusive` says that no other process can have it at the same time."""

    def __init__(self, database: Database) -> None:
        self.is_exclusive = database.dialect == "sqlite"
        self._path = _lock_path(database) if self.is_exclusive else None
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
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_owned(database: Database) -> bool:
    """Return whether a process runs the jobs of a SQLite database. Creates no file and takes no lock."""
    path = _lock_path(database)
    if not path.exists():
        return False
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
