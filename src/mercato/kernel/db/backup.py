"""Copies of an embedded database: taken while it is in use, and put back while it is not."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

PAGES: Final = 1000
"""Pages copied at a time: 4 MB, after which others get the database again."""

WAIT_MS: Final = 10_000

Progress = Callable[[int, int], None]
"""Is told how many pages are copied, and of how many."""


class BackupError(Exception):
    """A copy that cannot be made or put back; the message says why and what to do."""


def backup(database: Path, copy: Path, *, progress: Progress | None = None) -> None:
    """Copy a database, as it is at one instant, to a new file that only its owner can read.

    Servers go on reading and writing meanwhile. The file appears under its name only once it is whole.
    Raises BackupError.
    """
    if not database.exists():
        raise BackupError(f"There is no database {database}.")
    if copy.exists():
        raise BackupError(f"{copy} exists already. Name a file that does not.")
    if not copy.parent.is_dir():
        raise BackupError(f"There is no directory {copy.parent}. Make it, or name a file in another.")
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
    """Put a copy in the place of a database that nobody has open; with `replace` also over one that is there.

    Raises BackupError: for a copy that is damaged or is none, a database that is in use, or one that exists.
    """
    if not copy.exists():
        raise BackupError(f"There is no file {copy}. Name one that mercato backup has made.")
    if not copy.is_file():
        raise BackupError(f"{copy} is no file. Name one that mercato backup has made.")
    if database.exists():
        if not replace:
            raise BackupError(f"{database} exists already. To put the copy in its place, add --replace.")
        _check_unused(database)
    try:
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = f"The data directory {database.parent} cannot be made: {error.strerror}."
        raise BackupError(f"{why} Name another with --data-dir.") from error
    unfinished = database.with_name(f".{database.name}.{os.getpid()}.part")
    _create_private(unfinished)
    try:
        with _kept_from_others(database):
            with closing(_open(copy)) as source, closing(sqlite3.connect(unfinished)) as target:
                _check(source, copy)
                _copy(source, target, None)
            if database.exists() and not replace:
                raise BackupError(
                    f"{database} was made meanwhile. To put the copy in its place, add --replace."
                )
            _finish(unfinished, database)
    except sqlite3.Error as error:
        raise BackupError(f"{copy} is no database that can be read: {error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True, timeout=WAIT_MS / 1000)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, progress: Progress | None) -> None:
    """Copy all pages. One transaction holds the instant: without it every write would begin the copy anew."""
    source.execute("BEGIN")
    source.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def told(_status: int, left: int, total: int) -> None:
        if progress is not None:
            progress(total - left, total)

    source.backup(target, pages=PAGES, progress=told)
    # A copy is one file: no log beside it that could be forgotten.
    target.execute("PRAGMA journal_mode=DELETE")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise BackupError unless the file is whole, and a database of the service."""
    said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if said != "ok":
        raise BackupError(f"{path} is damaged: {said}.")
    found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    if not found[0]:
        raise BackupError(f"{path} is no database of mercato.")


def _check_unused(database: Path) -> None:
    """Raise BackupError if anybody has the database open: only then can its log be folded into it."""
    try:
        with closing(sqlite3.connect(database, timeout=1.0)) as connection:
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}:
            raise BackupError(f"{database} cannot be written: {error}.") from error
        raise BackupError(f"{database} is in use. Stop the server first.") from error
    except sqlite3.DatabaseError:
        return  # damaged: that is what a copy is put back for
    if mode != "delete":
        raise BackupError(f"{database} is in use. Stop the server first.")


@contextmanager
def _kept_from_others(database: Path) -> Iterator[None]:
    """Hold the lock of a database while it is replaced, if it is there.

    A server that starts meanwhile waits for it, and then is told by SQLite that its file was moved; without the lock
    it would write to a file that no longer has a name.
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
            pass  # damaged: nobody can use it
        yield


def _create_private(path: Path) -> None:
    """Make an empty file that only its owner can read. Raises BackupError."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise BackupError(f"No file can be made in {path.parent.absolute()}: {error.strerror}.") from error


def _finish(unfinished: Path, path: Path) -> None:
    """Give a whole file its name, and hold it through a power cut."""
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
