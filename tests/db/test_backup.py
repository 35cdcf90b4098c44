"""Backups of the embedded database: consistent while others write, restored only while no process uses it."""

import asyncio
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from mercato.features.schema import SCHEMA
from mercato.platform.db import backup as mercato_backup
from mercato.platform.db.backup import BackupError, backup, restore
from mercato.platform.db.migrate import migrate

ROWS = 3_000


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "mercato.db"
    asyncio.run(migrate(f"sqlite:///{file}", SCHEMA))
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE credit (n INTEGER, pad TEXT); CREATE TABLE debit (n INTEGER);")
        connection.executemany("INSERT INTO credit VALUES (?, ?)", ((1, "x" * 4000) for _ in range(ROWS)))
        connection.executemany("INSERT INTO debit VALUES (?)", ((1,) for _ in range(ROWS)))
        connection.commit()
    return file


@pytest.fixture
def writer(database: Path) -> Iterator[Event]:
    """Write one row into each table per transaction, in a thread; the event is set after the first."""
    stop, began = Event(), Event()

    def write() -> None:
        with closing(sqlite3.connect(database, timeout=10)) as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO credit VALUES (1, 'y')")
                connection.execute("INSERT INTO debit VALUES (1)")
                connection.commit()
                began.set()

    thread = Thread(target=write)
    thread.start()
    try:
        yield began
    finally:
        stop.set()
        thread.join()


def books(file: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(file)) as connection:
        credit = connection.execute("SELECT sum(n) FROM credit").fetchone()[0]
        return credit, connection.execute("SELECT sum(n) FROM debit").fetchone()[0]


def test_a_backup_is_one_instant_of_a_database_that_is_written_to(
    database: Path, writer: Event, tmp_path: Path
):
    assert writer.wait(10)
    copy, reported = tmp_path / "copy.db", list[tuple[int, int]]()
    backup(database, copy, progress=lambda done, of: reported.append((done, of)))
    credit, debit = books(copy)
    assert credit == debit > ROWS
    assert reported[-1][0] == reported[-1][1] > 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == ["copy.db"]


def test_a_backup_does_not_replace_a_file(database: Path, tmp_path: Path):
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(BackupError, match="exists already"):
        backup(database, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_a_backup_is_restored_where_there_is_no_database(database: Path, tmp_path: Path):
    backup(database, tmp_path / "copy.db")
    restore(tmp_path / "copy.db", tmp_path / "new" / "mercato.db")
    assert books(tmp_path / "new" / "mercato.db") == (ROWS, ROWS)


def test_a_backup_replaces_a_database_only_with_the_option_and_if_no_process_has_it_open(
    database: Path, tmp_path: Path
):
    copy = tmp_path / "copy.db"
    backup(database, copy)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM debit")
        connection.commit()
        with pytest.raises(BackupError, match="add --replace"):
            restore(copy, database)
        with pytest.raises(BackupError, match="Stop the server"):
            restore(copy, database, replace=True)
    restore(copy, database, replace=True)
    assert books(database) == (ROWS, ROWS)


@pytest.mark.parametrize("size", [0, 100, 5_000], ids=["empty", "a beginning", "half"])
def test_a_damaged_backup_is_refused_and_replaces_nothing(database: Path, tmp_path: Path, size: int):
    copy = tmp_path / "copy.db"
    backup(database, copy)
    copy.write_bytes(copy.read_bytes()[:size])
    with pytest.raises(BackupError):
        restore(copy, database, replace=True)
    assert books(database) == (ROWS, ROWS)


def test_a_database_of_another_program_is_refused(database: Path, tmp_path: Path):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(BackupError, match="isn't a database of mercato"):
        restore(other, database, replace=True)
    with pytest.raises(BackupError, match="isn't a database of mercato"):
        backup(other, tmp_path / "copy.db")


def test_a_backup_into_a_missing_directory_names_the_directory(database: Path, tmp_path: Path):
    with pytest.raises(BackupError, match=r"There is no directory .*/none\. Create it"):
        backup(database, tmp_path / "none" / "copy.db")


def test_a_directory_is_not_a_backup_and_creates_no_data_directory(tmp_path: Path):
    with pytest.raises(BackupError, match=r"isn't a file\. Name a backup"):
        restore(tmp_path, tmp_path / "new" / "mercato.db")
    assert not (tmp_path / "new").exists()


def test_a_server_that_starts_during_a_restore_does_not_write_to_the_replaced_file(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copy = tmp_path / "copy.db"
    backup(database, copy)
    copied = mercato_backup._copy

    def meanwhile(*arguments: Any) -> None:
        copied(*arguments)
        with closing(sqlite3.connect(database, timeout=0)) as server:
            server.execute("INSERT INTO debit VALUES (1000)")
            server.commit()

    monkeypatch.setattr(mercato_backup, "_copy", meanwhile)
    # The first to get the lock has the database: no write is lost, and the other one is refused.
    with pytest.raises(BackupError, match="locked"):
        restore(copy, database, replace=True)
    assert books(database) == (ROWS, ROWS)


def test_a_database_that_was_created_during_a_restore_stays(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copy, place = tmp_path / "copy.db", tmp_path / "new" / "mercato.db"
    backup(database, copy)
    copied = mercato_backup._copy

    def meanwhile(*arguments: Any) -> None:
        copied(*arguments)
        place.write_bytes(b"a server's own")

    monkeypatch.setattr(mercato_backup, "_copy", meanwhile)
    with pytest.raises(BackupError, match="--replace"):
        restore(copy, place)
    assert place.read_bytes() == b"a server's own"
