"""Who may run jobs: on PostgreSQL every worker, on SQLite the one process that holds a lock on a file.

The system drops the lock when its holder dies, however it dies. So whoever gets it knows that what is marked as
running is running nowhere, and need not wait for any lease to end.
"""

import fcntl
import os
from pathlib import Path

from mercato.kernel.db.engine import Database
from mercato.kernel.db.url import sqlite_path


class Ownership:
    """The right to run jobs of a database. `alone` says that nobody else can have it at the same time."""

    def __init__(self, database: Database) -> None:
        self.alone = database.dialect == "sqlite"
        self._path = Path(f"{sqlite_path(database.url)}.jobs.lock") if self.alone else None
        self._file: int | None = None

    @property
    def held(self) -> bool:
        return self._path is None or self._file is not None

    def acquire(self) -> bool:
        """Try to get the right; return whether it is ours now and was not before."""
        if self._path is None or self._file is not None:
            return False
        # Not inherited by children, which would keep the lock after our death.
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
    """Tell whether a process runs the jobs of an embedded database; nothing is made or taken by asking."""
    path = Path(f"{sqlite_path(database.url)}.jobs.lock")
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
