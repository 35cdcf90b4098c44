"""Backups of an embedded database: made while it is in use, restored while it is not."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

PAGES: Final = 1000
"""Pages copied at a time: 4 MB, after which writers can use the database."""

WAIT_MS: Final = 10_000

Progress = Callable[[int, int], None]
"""Called with the number of pages copied and of all pages."""


class BackupError(Exception):
    """A backup that cannot be made or restored; the message says why and what to do."""


def backup(database: Path, copy: Path, *, progress: Progress | None = None) -> None:
    """Copy a database, as it is at one instant, to a new file that only its owner can read.

    Servers read and write meanwhile. The file appears under its name only once it is complete.
    Raises BackupError.
    """
    if not database.exists():
        raise BackupError(f"There is no database {database}.")
    if copy.exists():
        raise BackupError(f"{copy} exists already. Name a file that doesn't exist.")
    if not copy.parent.is_dir():
        raise BackupError(f"There is no directory {copy.parent}. Create it, or name a file in another one.")
    unfinished = copy.with_name(f".{copy.name}.{os.getpid()}.part")
    _create_private(unfinished)
    try:
        with closing(_open(database)) as source, closing(sqlite3.connect(unfinished)) as target:
            _copy(source, target, progress)
            _check(target, unfinished)
        _finish(unfinished, copy)
    except sqlite3.Error as error:
        raise BackupError(f"The database could not be copied: {error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def restore(copy: Path, database: Path, *, replace: bool = False) -> None:
    """Restore a backup as a database that no process has open; `replace` allows to replace an existing one.

    Raises BackupError if the file isn't a backup or is damaged, or if the database is in use or exists.
    """
    if not copy.exists():
        raise BackupError(f"There is no file {copy}. Name a backup made by mercato backup.")
    if not copy.is_file():
        raise BackupError(f"{copy} isn't a file. Name a backup made by mercato backup.")
    if database.exists():
        if not replace:
            raise BackupError(f"{database} exists already. To replace it with the backup, add --replace.")
        _check_unused(database)
    try:
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"The data directory {database.parent} can't be created: {error.strerror}."
        raise BackupError(f"{message} Name another with --data-dir.") from error
    unfinished = database.with_name(f".{database.name}.{os.getpid()}.part")
    _create_private(unfinished)
    try:
        with _locked(database):
            with closing(_open(copy)) as source, closing(sqlite3.connect(unfinished)) as target:
                _check(source, copy)
                _copy(source, target, None)
            if database.exists() and not replace:
                raise BackupError(
                    f"{database} was created in the meantime. To replace it with the backup, add --replace."
                )
            _finish(unfinished, database)
    except sqlite3.Error as error:
        raise BackupError(
            f"{copy} isn't a database that can be read: {error}. Name a backup made by mercato backup."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True, timeout=WAIT_MS / 1000)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, progress: Progress | None) -> None:
    """Copy all pages in one transaction: without it every write would restart the copy."""
    source.execute("BEGIN")
    source.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def report(_status: int, left: int, total: int) -> None:
        if progress is not None:
            progress(total - left, total)

    source.backup(target, pages=PAGES, progress=report)
    # A backup is one file, without a log beside it.
    target.execute("PRAGMA journal_mode=DELETE")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise BackupError unless the file is undamaged and a database of the service."""
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise BackupError(f"{path} is damaged: {verdict}.")
    found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    if not found[0]:
        raise BackupError(f"{path} isn't a database of mercato.")


def _check_unused(database: Path) -> None:
    """Raise BackupError if another process has the database open: its log could not be merged into it."""
    try:
        with closing(sqlite3.connect(database, timeout=1.0)) as connection:
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}:
            raise BackupError(f"{database} cannot be written: {error}.") from error
        raise BackupError(f"{database} is in use. Stop the server first.") from error
    except sqlite3.DatabaseError:
        return  # damaged, which is a reason to restore a backup
    if mode != "delete":
        raise BackupError(f"{database} is in use. Stop the server first.")


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    """Hold the lock of a database, if it exists, while it is replaced.

    A server that starts meanwhile waits for the lock, and then gets SQLite's error for a moved file; without the lock
    it would write to a deleted file.
    """
    if not database.exists():
        yield
        return
    with closing(sqlite3.connect(database, timeout=1.0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise BackupError(f"{database} is in use. Stop the server first.") from error
        except sqlite3.DatabaseError:
            pass  # damaged: no process can use it
        yield


def _create_private(path: Path) -> None:
    """Create an empty file with mode 0600. Raises BackupError."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise BackupError(f"A file cannot be made in {path.parent.absolute()}: {error.strerror}.") from error


def _finish(unfinished: Path, path: Path) -> None:
    """Give the complete file its name, so that it survives a power cut."""
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    unfinished.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
