"""`mercato db copy` of a million rows, in both directions: seconds, and the memory of the process.

The floor is SQLite's own copy of the same tables, `INSERT … SELECT` into a second file, without a comparison.
"""

import asyncio
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, LargeBinary, Table, Text, Uuid

from benchmarks.postgres import postgres
from mercato.features.schema import SCHEMA
from mercato.platform.db.copy import copy
from mercato.platform.db.migrate import migrate
from mercato.platform.db.tables import metadata
from mercato_contract.clock import new_id

SHARES = {
    "orders": 100_000,
    "order_history": 300_000,
    "deliveries": 200_000,
    "delivery_attempts": 200_000,
    "audit": 200_000,
}
"""Rows of the tables that grow with orders: a million in all."""

BODY = b"{" + b"x" * 500 + b"}"
BATCH = 10_000


def rows(table: Table, number: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows of the values that SQLite stores, unique in every column. Ids are in the order of time."""
    for row in range(number):
        yield tuple(
            new_id().hex
            if isinstance(column.type, Uuid)
            else f"{column.name} {row}"
            if isinstance(column.type, Text)
            else BODY
            if isinstance(column.type, LargeBinary)
            else row % 2
            if isinstance(column.type, Boolean)
            else row
            for column in table.columns
        )


def fill(path: Path) -> None:
    asyncio.run(migrate(f"sqlite:///{path}", SCHEMA))
    with closing(sqlite3.connect(path)) as connection:
        for name, number in SHARES.items():
            table = metadata.tables[name]
            sql = f"INSERT INTO {name} VALUES ({', '.join('?' * len(table.columns))})"  # noqa: S608
            made = rows(table, number)
            while batch := list(islice(made, BATCH)):
                connection.executemany(sql, batch)
        connection.commit()


def floor(source: Path, target: Path) -> float:
    asyncio.run(migrate(f"sqlite:///{target}", SCHEMA))
    began = time.perf_counter()
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("ATTACH ? AS source", (str(source),))
        for name in SHARES:
            connection.execute(f"INSERT INTO main.{name} SELECT * FROM source.{name}")  # noqa: S608
        connection.commit()
    return time.perf_counter() - began


def measured(source: str, target: str) -> tuple[float, float]:
    """Return the seconds of a copy in a process of its own, and the megabytes that it has at most."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.db_copy", source, target],
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - began, int(done.stdout) / 1024


def copy_once(source: str, target: str) -> None:
    async def nothing() -> None: ...

    asyncio.run(copy(source, target, SCHEMA, finish=nothing))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    total = sum(SHARES.values())
    with tempfile.TemporaryDirectory() as directory, postgres() as server:
        home = Path(directory)
        source, back = (f"sqlite:///{home / name}.db" for name in ("source", "back"))
        fill(home / "source.db")
        size = (home / "source.db").stat().st_size / 2**20
        least = floor(home / "source.db", home / "floor.db")
        print(f"{total:,} rows, {size:,.0f} MiB; floor (INSERT … SELECT): {least:.1f} s")
        for name, come, go in (
            ("SQLite → PostgreSQL", source, server.url),
            ("PostgreSQL → SQLite", server.url, back),
        ):
            seconds, megabytes = measured(come, go)
            print(
                f"{name}: {seconds:.1f} s, {seconds / least:.1f} of the floor, "
                f"{total / seconds:,.0f} rows/s, {megabytes:.0f} MB"
            )


if __name__ == "__main__":
    if sys.argv[1:]:
        copy_once(*sys.argv[1:])
    else:
        main()
