"""Copies all rows of a database to an empty one, of either kind, while no server runs on them.

Each batch commits together with the key of its last row, so a copy that is killed goes on where it was. Until the end
the target says that it is at a revision that no version knows: no server starts on it.
"""
# ruff: noqa: S608  # names in the SQL are those of our own tables

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from hashlib import blake2b
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from sqlalchemy import Boolean, Column, LargeBinary, Table, Text, Uuid
from sqlalchemy.types import TypeEngine

from mercato.platform.db import sqlite
from mercato.platform.db.errors import is_locked, no_connection
from mercato.platform.db.migrate import HOME, LOCK, UNFINISHED, check_home, migrate
from mercato.platform.db.schema import Schema
from mercato.platform.db.servers import Servers, refuse_pooler
from mercato.platform.db.tables import metadata
from mercato.platform.db.url import driver_url, is_postgresql, sqlite_path

Row = Sequence[Any]
Statement = tuple[str, Row]
"""SQL with `?` for each value, and the values."""

ROWS: Final = 5_000
"""Rows of a batch, which is read, written and committed at once."""

BYTES: Final = 16 * 2**20
"""Bytes of text and binary values of a batch, unless a single row has more."""

_LOCK_TIMEOUT: Final = timedelta(seconds=1)
_PROGRESS: Final = "mercato_copy"
_COMPARED: Final = "compared"


class CopyError(Exception):
    """A copy that cannot be made; the message says why and what to do."""


class Content(Struct, frozen=True, kw_only=True):
    """What a table has: its number of rows, and a checksum that doesn't depend on their order."""

    table: str
    rows: int
    checksum: str


Progress = Callable[[str, int], None]
"""Called after each batch with the table, and the number of its rows that this run has copied."""

Finish = Callable[[], Awaitable[None]]
"""Makes in the target what isn't in the metadata's tables. May run again after it was interrupted."""


async def copy(
    source_url: str, target_url: str, schema: Schema, *, finish: Finish, progress: Progress | None = None
) -> list[Content]:
    """Copy every table, compare both databases, and return what each table has.

    The target has no rows, or an unfinished copy, which is finished. Raises CopyError, UnusableUrl and what the
    databases raise.
    """
    if _place(source_url) == _place(target_url):
        raise CopyError("Both addresses are the same database. Name another one with --to.")
    if not is_postgresql(source_url) and not sqlite_path(source_url).exists():
        raise CopyError(f"There is no database {sqlite_path(source_url)}. Name another one with --from.")
    async with _opened(source_url) as source:
        _check_revision(await source.find_revision(), schema)
        await _prepare(target_url, schema)
        async with _opened(target_url) as target:
            if not await target.is_compared():
                for table in metadata.sorted_tables:
                    await _copy_table(source, target, table, progress)
            contents = await _compare(source, target)
    await finish()
    async with _opened(target_url) as target:
        await target.complete(schema.head)
    return contents


async def _copy_table(source: "_Side", target: "_Side", table: Table, progress: Progress | None) -> None:
    after = await target.find_progress(table)
    copied = 0
    async for rows in source.stream(table, after):
        await target.insert(table, rows)
        copied += len(rows)
        if progress is not None:
            progress(table.name, copied)
    serial = table.autoincrement_column
    if serial is not None and (last := await source.find_last_number(table, serial.name)) is not None:
        await target.set_last_number(table, serial.name, last)


async def _compare(source: "_Side", target: "_Side") -> list[Content]:
    """Return what every table has. If they differ, empty the target and raise CopyError."""
    contents = [await _content(source, table) for table in metadata.sorted_tables]
    if await target.is_compared():
        return contents
    copies = [await _content(target, table) for table in metadata.sorted_tables]
    if copies != contents:
        different = [
            content.table for content, copied in zip(contents, copies, strict=True) if content != copied
        ]
        await target.empty()
        raise CopyError(
            f"The databases differ in {', '.join(different)}: the source was changed after the copy had begun. "
            "The target is empty again. Run the command again, while no server runs."
        )
    await target.set_compared()
    return contents


async def _content(side: "_Side", table: Table) -> Content:
    count = total = 0
    async for rows in side.stream(table, None):
        count += len(rows)
        for row in rows:
            digest = blake2b(msgspec.msgpack.encode(row), digest_size=8).digest()
            total += int.from_bytes(digest)
    return Content(table=str(table.name), rows=count, checksum=f"{total % 2**64:016x}")


async def _prepare(url: str, schema: Schema) -> None:
    """Create the target's tables if it has none, and mark it as an unfinished copy. Raises CopyError."""
    async with _opened(url) as target:
        revision = await target.find_revision()
    if revision is None:
        await migrate(url, schema)
        revision = schema.head
    if revision == UNFINISHED + schema.head:
        return
    _check_revision(revision, schema)
    async with _opened(url) as target:
        for table in metadata.sorted_tables:
            if await target.fetch(f"SELECT 1 FROM {_quoted(table)} LIMIT 1"):
                raise CopyError(
                    f"The target isn't empty: there are rows in {table.name}. Name an empty database with --to."
                )
        await target.begin(UNFINISHED + schema.head)


def _check_revision(revision: str | None, schema: Schema) -> None:
    if revision is None:
        raise CopyError("The source has no tables of mercato. Name the database of your servers with --from.")
    if revision.startswith(UNFINISHED):
        raise CopyError(
            "A database is an unfinished copy of another version's. Name an empty one, and copy from the original."
        )
    if revision != schema.head:
        raise CopyError(
            f"A database is at revision {revision}, and this version's is {schema.head}. "
            "Run mercato migrate on it with this version, then copy it."
        )


def _place(url: str) -> str | Path:
    return driver_url(url) if is_postgresql(url) else sqlite_path(url).absolute()


@asynccontextmanager
async def _opened(url: str) -> "AsyncIterator[_Side]":
    """Open a database that no server uses, and keep servers out. Raises CopyError."""
    async with _open_postgresql(url) if is_postgresql(url) else _open_sqlite(url) as side:
        yield side


class _Side(ABC):
    """One of the two databases. Rows have the same values on both kinds: UUIDs are 32 digits, booleans are `bool`."""

    table_named: str
    """The SQL that finds a table by its name."""

    widths: tuple[str, str]
    """The SQL of the bytes of a text, and of those of a binary value."""

    @abstractmethod
    async def fetch(self, sql: str, *values: Any) -> Sequence[Row]: ...

    @abstractmethod
    async def execute(self, *statements: Statement) -> None:
        """Run the statements in one transaction."""

    @abstractmethod
    def stream(self, table: Table, after: Row | None) -> AsyncIterator[Sequence[Row]]:
        """Yield the rows beyond a primary key, in its order, in batches."""

    @abstractmethod
    async def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert a batch, and keep the primary key of its last row, in one transaction."""

    @abstractmethod
    async def find_last_number(self, table: Table, serial: str) -> int | None:
        """Return the last number that the database has given to a row."""

    @abstractmethod
    async def set_last_number(self, table: Table, serial: str, last: int, /) -> None: ...

    @abstractmethod
    async def empty(self) -> None:
        """Delete all rows, and what is kept of the copy."""

    async def begin(self, revision: str) -> None:
        await self.execute(
            (f"CREATE TABLE {_PROGRESS} (name TEXT PRIMARY KEY, after TEXT NOT NULL)", ()), _at(revision)
        )

    async def complete(self, revision: str) -> None:
        await self.execute((f"DROP TABLE {_PROGRESS}", ()), _at(revision))

    async def find_revision(self) -> str | None:
        if not await self.fetch(self.table_named, "alembic_version"):
            return None
        ((revision,),) = await self.fetch("SELECT version_num FROM alembic_version")
        return str(revision)

    async def find_progress(self, table: Table) -> Row | None:
        found = await self.fetch(f"SELECT after FROM {_PROGRESS} WHERE name = ?", table.name)
        if not found:
            return None
        after: Row = msgspec.json.decode(found[0][0])
        return after

    async def is_compared(self) -> bool:
        return bool(await self.fetch(f"SELECT 1 FROM {_PROGRESS} WHERE name = ?", _COMPARED))

    async def set_compared(self) -> None:
        await self.execute(_kept(_COMPARED, []))

    async def batch(self, table: Table) -> int:
        """Return a number of rows that have no more bytes than a batch, if more than one."""
        text, binary = self.widths
        widths = [
            (binary if isinstance(column.type, LargeBinary) else text).format(_name(column))
            for column in table.columns
            if isinstance(column.type, Text | LargeBinary)
        ]
        if not widths:
            return ROWS
        summed = " + ".join(f"coalesce({width}, 0)" for width in widths)
        ((most,),) = await self.fetch(f"SELECT max({summed}) FROM {_quoted(table)}")
        return max(1, min(ROWS, BYTES // max(1, most or 0)))


class _Sqlite(_Side):
    table_named = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    widths = ("length(CAST({} AS BLOB))", "length({})")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *values: Any) -> Sequence[Row]:
        found: list[Row] = self._connection.execute(sql, values).fetchall()
        return found

    async def execute(self, *statements: Statement) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            for sql, values in statements:
                self._connection.execute(sql, values)

    async def stream(self, table: Table, after: Row | None) -> AsyncIterator[Sequence[Row]]:
        batch = await self.batch(table)
        with closing(self._connection.execute(_select(table, after), after or ())) as cursor:
            while rows := cursor.fetchmany(batch):
                yield _with(rows, table, Boolean, bool)

    async def insert(self, table: Table, rows: Sequence[Row]) -> None:
        names, marks = ", ".join(map(_name, table.columns)), ", ".join("?" * len(table.columns))
        self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            self._connection.executemany(
                f"INSERT INTO {_quoted(table)} ({names}) VALUES ({marks})",
                rows,
            )
            self._connection.execute(*_kept(table.name, _last_key(table, rows)))

    async def find_last_number(self, table: Table, serial: str) -> int | None:
        ((last,),) = await self.fetch(
            "SELECT max(last) FROM (SELECT seq AS last FROM sqlite_sequence WHERE name = ? "
            f'UNION ALL SELECT max("{serial}") FROM {_quoted(table)})',
            table.name,
        )
        number: int | None = last
        return number

    async def set_last_number(self, table: Table, _serial: str, last: int) -> None:
        if table.dialect_options["sqlite"]["autoincrement"]:
            await self.execute(
                ("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,)),
                ("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, last)),
            )

    async def empty(self) -> None:
        tables = [f"DELETE FROM {_quoted(table)}" for table in reversed(metadata.sorted_tables)]
        await self.execute(*((sql, ()) for sql in (*tables, f"DELETE FROM {_PROGRESS}")))

    async def complete(self, revision: str) -> None:
        # Batches may be lost in a power cut, with what is kept of them. The last commit waits for all of them.
        self._connection.execute("PRAGMA synchronous=FULL")
        await super().complete(revision)


@asynccontextmanager
async def _open_sqlite(url: str) -> AsyncIterator[_Side]:
    path = sqlite_path(url)
    if not path.parent.is_dir():
        raise CopyError(
            f"There is no directory {path.absolute().parent} for the database. Create it, or name another."
        )
    sqlite.create_private(path)
    # Locked until it is closed: no other process can open it.
    with closing(
        sqlite.connect(path, "synchronous=NORMAL", "locking_mode=EXCLUSIVE", lock_timeout=_LOCK_TIMEOUT)
    ) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if is_locked(error):
                raise CopyError(f"{path} is in use. Stop its servers and workers first.") from error
            raise
        connection.execute("COMMIT")
        yield _Sqlite(connection)


class _Postgresql(_Side):
    table_named = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?"
    widths = ("octet_length({})", "octet_length({})")

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *values: Any) -> Sequence[Row]:
        found: Sequence[Row] = await self._connection.fetch(_numbered(sql), *values)
        return found

    async def execute(self, *statements: Statement) -> None:
        async with self._connection.transaction():
            for sql, values in statements:
                await self._connection.execute(_numbered(sql), *values)

    async def stream(self, table: Table, after: Row | None) -> AsyncIterator[Sequence[Row]]:
        batch = await self.batch(table)
        async with self._connection.transaction():
            cursor = await self._connection.cursor(_numbered(_select(table, after)), *(after or ()))
            while rows := await cursor.fetch(batch):
                yield _with(rows, table, Uuid, _HEX)

    async def insert(self, table: Table, rows: Sequence[Row]) -> None:
        async with self._connection.transaction():
            await self._connection.copy_records_to_table(
                table.name, records=rows, columns=table.columns.keys()
            )
            sql, values = _kept(table.name, _last_key(table, rows))
            await self._connection.execute(_numbered(sql), *values)

    async def find_last_number(self, table: Table, serial: str) -> int | None:
        ((sequence,),) = await self.fetch("SELECT pg_get_serial_sequence(?, ?)", _quoted(table), serial)
        found = await self.fetch(f"SELECT last_value FROM {sequence} WHERE is_called")
        return found[0][0] if found else None

    async def set_last_number(self, table: Table, serial: str, last: int) -> None:
        await self.fetch("SELECT setval(pg_get_serial_sequence(?, ?), ?)", _quoted(table), serial, last)

    async def empty(self) -> None:
        tables = ", ".join(map(_quoted, metadata.sorted_tables))
        await self.execute((f"TRUNCATE {tables}, {_PROGRESS}", ()))

    async def complete(self, revision: str) -> None:
        # The server's plans need to know how large the tables are. Other networks may be in other schemas.
        tables = ", ".join(map(_quoted, metadata.sorted_tables))
        await self.execute((f"ANALYZE {tables}", ()))
        # Batches may be lost in a power cut, with what is kept of them. The last commit waits for all of them.
        await self.execute(("SET SESSION synchronous_commit = on", ()))
        await super().complete(revision)


@asynccontextmanager
async def _open_postgresql(url: str) -> AsyncIterator[_Side]:
    import asyncpg

    servers = Servers(url)
    await refuse_pooler(servers, "the address")
    settings = {"application_name": "mercato db copy", "statement_timeout": "0", "synchronous_commit": "off"}
    try:
        connection = await servers.connect(server_settings=settings)
    except (OSError, asyncpg.InternalClientError) as error:
        raise no_connection(error) from error
    try:
        check_home(await connection.fetchrow(HOME))
        # Held until the session ends: servers that start wait for it, and then give up.
        locked = await connection.fetchval(f"SELECT pg_try_advisory_lock({LOCK})")
        if not locked or await connection.fetchval(_USED):
            where = await connection.fetchval("SELECT current_database() || '.' || current_schema()")
            raise CopyError(f"The database {where} is in use. Stop its servers and workers first.")
        yield _Postgresql(connection)
    finally:
        await connection.close()


_USED: Final = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name IN (
    CAST('mercato ' || current_schema() AS name), CAST('mercato listen ' || current_schema() AS name),
    'mercato', 'mercato listen'
) LIMIT 1
"""
"""Finds a session in this schema, or one that hasn't named its schema yet."""


_HEX: Final = attrgetter("hex")


def _with(
    rows: Sequence[Row], table: Table, kind: type[TypeEngine[Any]], read: Callable[[Any], Any]
) -> Sequence[Row]:
    """Return the rows, with the values of one type read as those of the other kind of database."""
    places = [number for number, column in enumerate(table.columns) if isinstance(column.type, kind)]
    changed = [list(row) for row in rows]
    for row in changed:
        for place in places:
            if row[place] is not None:
                row[place] = read(row[place])
    return changed


def _numbered(sql: str) -> str:
    """Return the SQL with PostgreSQL's parameters."""
    numbers = count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", sql)


def _select(table: Table, after: Row | None) -> str:
    keys = ", ".join(map(_name, table.primary_key))
    beyond = f" WHERE ({keys}) > ({', '.join('?' * len(after))})" if after is not None else ""
    return f"SELECT {', '.join(map(_name, table.columns))} FROM {_quoted(table)}{beyond} ORDER BY {keys}"


def _kept(name: str, after: Row) -> Statement:
    """Return the statement that keeps how far a table is copied."""
    sql = f"INSERT INTO {_PROGRESS} VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET after = excluded.after"
    return sql, (name, msgspec.json.encode(after).decode())


def _at(revision: str) -> Statement:
    return "UPDATE alembic_version SET version_num = ?", (revision,)


def _last_key(table: Table, rows: Sequence[Row]) -> Row:
    names = table.columns.keys()
    return [rows[-1][names.index(key.name)] for key in table.primary_key]


def _quoted(table: Table) -> str:
    return f'"{table.name}"'


def _name(column: Column[Any]) -> str:
    return f'"{column.name}"'
