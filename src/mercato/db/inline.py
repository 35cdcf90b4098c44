"""SQLite's own connection under a block: whoever has the thread to himself waits for nothing else there."""

import sqlite3
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import Executable, create_engine, exc
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy
from sqlalchemy.pool import StaticPool

from mercato.db.awaited import Parameters
from mercato.db.prepared import Result, Text, find_text

T = TypeVar("T")

DIALECT: Final = SQLiteDialect_pysqlite()


class Inline:
    """SQLite's own connection under a transaction: what it awaits is there already."""

    __slots__ = ("_plain", "_sync")

    def __init__(self, plain: sqlite3.Connection) -> None:
        self._plain = plain
        self._sync = _over(plain)

    async def execute(self, statement: Executable, parameters: Parameters | None = None) -> Any:
        """Return the result; its rows have been read."""
        text = find_text(statement, DIALECT)
        if text is not None:
            return _run(self._plain, text, parameters)
        result = self._sync.execute(statement, parameters)
        if result.returns_rows:
            cursor: Any = result.cursor
            result.cursor_strategy = FullyBufferedCursorFetchStrategy(
                cursor, initial_buffer=cursor.fetchall()
            )
        return result


def _run(connection: sqlite3.Connection, text: Text, given: Parameters | None) -> Result:
    """Execute a prepared statement, once for each set of parameters. Raises what SQLAlchemy would."""
    try:
        if given is None or isinstance(given, Mapping):
            cursor = connection.execute(text.sql, text.values(given or {}))
        else:
            cursor = connection.executemany(text.sql, [text.values(one) for one in given])
        rows = [] if cursor.description is None else text.rows(cursor.fetchall())
    except sqlite3.Error as error:
        raise exc.DBAPIError.instance(
            text.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=DIALECT
        ) from error
    return Result(rows, cursor.rowcount)


def outcome(block: Coroutine[Any, Any, T]) -> T:
    """Run a block from its first line to its last: nothing that it awaits has to be waited for."""
    try:
        block.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    with suppress(RuntimeError):
        block.close()
    raise RuntimeError("a transaction's block waits for something else than its database")


def _over(plain: sqlite3.Connection) -> SyncConnection:
    """Return SQLAlchemy's connection over the driver's: once made, it begins and ends nothing by itself."""
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: plain,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",
        query_cache_size=2000,
        hide_parameters=True,
    )
    return engine.connect()
