"""A database full of stores to search, made directly and at once: rows first, indices after."""

import asyncio
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import asyncpg
from msgspec.structs import astuple
from sqlalchemy import Index
from sqlalchemy.dialects import postgresql as dialect
from sqlalchemy.schema import CreateIndex

from mercato.features.discovery.index import Hours, columns_of, hours_of
from mercato.features.discovery.tables import WORDS_DDL, store_search
from mercato.features.discovery.text import Listing, document_of
from mercato.features.schema import SCHEMA
from mercato.platform.db.migrate import migrate

COLUMNS = (
    "number", "store_id", "name_key", "cell", "x", "y", "z", "pickup", "delivery", "hours_key", "paused_until",
)  # fmt: skip
BATCH = 5_000


class _Tally:
    """Opening hours and how many stores have them."""

    def __init__(self) -> None:
        self._hours: dict[int, Hours] = {}
        self._counts: dict[str, Counter[int]] = {name: Counter() for name in ("stores", "pickup", "delivery")}

    def add(self, entry: Listing) -> None:
        hours = hours_of(entry)
        key = hours.key
        self._hours[key] = hours
        self._counts["stores"][key] += 1
        for name in ("pickup", "delivery"):
            self._counts[name][key] += bool(getattr(entry, name))

    def rows(self) -> list[tuple[Any, ...]]:
        return [
            (*hours, *(counts[key] for counts in self._counts.values())) for key, hours in self._hours.items()
        ]


def _row(number: int, entry: Listing, store_id: Any) -> tuple[Any, ...]:
    return (number, store_id, *astuple(columns_of(entry)))


def _batches(entries: Iterable[Listing]) -> Iterator[list[tuple[int, Listing]]]:
    numbered = iter(enumerate(entries, 1))
    while batch := list(islice(numbered, BATCH)):
        yield batch


def sqlite(path: Path, entries: Iterable[Listing]) -> None:
    """Fill a new SQLite file."""
    asyncio.run(migrate(f"sqlite:///{path}", SCHEMA))
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA cache_size=-200000")
    tally = _Tally()
    marks = ",".join("?" * len(COLUMNS))
    for batch in _batches(entries):
        db.execute("BEGIN")
        rows = [_row(number, entry, entry.store_id.hex) for number, entry in batch]
        db.executemany(f"INSERT INTO store_search ({','.join(COLUMNS)}) VALUES ({marks})", rows)  # noqa: S608
        db.executemany(
            "INSERT INTO store_cards (number, store_id, card) VALUES (?, ?, ?)",
            [(number, entry.store_id.hex, entry.card) for number, entry in batch],
        )
        db.executemany(
            "INSERT INTO store_words (rowid, words) VALUES (?, ?)",
            [(number, " ".join(document_of(entry, "sqlite"))) for number, entry in batch],
        )
        for _, entry in batch:
            tally.add(entry)
        db.execute("COMMIT")
    db.executemany("INSERT INTO opening_hours VALUES (?, ?, ?, ?, ?, ?)", tally.rows())
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


async def postgresql(url: str, entries: Iterable[Listing]) -> None:
    """Fill a new PostgreSQL database."""
    await migrate(url, SCHEMA)
    db = await asyncpg.connect(url)
    names = [str(index.name) for index in store_search.indexes] + [
        "ix_store_search_words",
        "ix_store_search_words_first",
    ]
    for name in names:
        await db.execute(f"DROP INDEX {name}")
    tally = _Tally()
    for batch in _batches(entries):
        await db.copy_records_to_table(
            "store_cards",
            records=[(number, entry.store_id, entry.card) for number, entry in batch],
            columns=["number", "store_id", "card"],
        )
        await db.copy_to_table(
            "store_search",
            source=_Lines(batch),
            columns=[*COLUMNS, "words"],
            format="text",
        )
        for _, entry in batch:
            tally.add(entry)
    await db.copy_records_to_table("opening_hours", records=tally.rows())
    await db.execute("SET maintenance_work_mem = '1GB'")
    for index in store_search.indexes:
        await db.execute(_ddl(index))
    for statement in WORDS_DDL["postgresql"][-2:]:
        await db.execute(statement)
    await db.execute("SELECT setval('store_search_number_seq', (SELECT max(number) FROM store_search))")
    await db.execute("VACUUM ANALYZE")
    await db.close()


def _ddl(index: Index) -> str:
    return str(CreateIndex(index).compile(dialect=dialect.dialect()))  # type: ignore[no-untyped-call]


class _Lines:
    """Rows in COPY's text format, as the asynchronous iterable that the driver asks for."""

    def __init__(self, batch: list[tuple[int, Listing]]) -> None:
        self._lines = (self._line(number, entry) for number, entry in batch)

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> bytes:
        for line in self._lines:
            return line
        raise StopAsyncIteration

    @staticmethod
    def _line(number: int, entry: Listing) -> bytes:
        fields = [str(value) for value in _row(number, entry, entry.store_id)]
        words = " ".join(f"'{word}'" for word in document_of(entry, "postgresql"))
        return ("\t".join([*fields, words]) + "\n").encode()


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Run a PostgreSQL of the tests' kind, with the memory that a small machine of its own would give it."""
    import os

    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "postgresql"
        home.mkdir()
        Path(directory).chmod(0o755)
        script = Path(__file__).parent.parent / "tests" / "postgres_server.py"
        options = ["shared_buffers=1GB", "max_wal_size=8GB", "work_mem=32MB"]
        command = [sys.executable, str(script), str(home), str(os.getpid()), *options]
        with subprocess.Popen(command) as server:
            try:
                while not (home / "ready").exists():
                    if server.poll() is not None:
                        raise RuntimeError((home / "log").read_text())
                yield f"postgresql://postgres@/postgres?host={home}"
            finally:
                server.terminate()
                server.wait(30)
