"""Connections of PostgreSQL whose prepared statements go straight to asyncpg.

SQLAlchemy takes more time to build a statement and to wrap its result than PostgreSQL to carry it out. The
connection and its transaction stay SQLAlchemy's, and so does every statement that is not prepared.
"""

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import Executable, exc

from mercato.db.awaited import Connection, Parameters
from mercato.db.prepared import Result, Text, find_text


class Direct:
    """A connection of PostgreSQL, in a transaction or for reading."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, statement: Executable, parameters: Parameters | None = None) -> Any:
        """Return the result; its rows have been read."""
        text = find_text(statement, self._connection.dialect)
        if text is None:
            return await self._connection.execute(statement, parameters)
        return await self._connection.directly(self._run, text, parameters)

    async def _run(self, text: Text, given: Parameters | None) -> Result:
        """Execute a prepared statement, once for each set of parameters. Raises what SQLAlchemy would."""
        adapted = self._connection.adapted
        # SQLAlchemy's own cursor, which begins the transaction, prepares once and translates errors; past its
        # public face stands what may be awaited without a greenlet.
        cursor = adapted.cursor()
        try:
            if given is None or isinstance(given, Mapping):
                await cursor._prepare_and_execute(text.sql, text.values(given or {}))  # noqa: SLF001  # see above
            else:
                await cursor._executemany(text.sql, [text.values(one) for one in given])  # noqa: SLF001
        except adapted.dbapi.Error as error:
            raise self._told(text, error) from error
        except BaseException as error:
            # As SQLAlchemy does: cut off in its BEGIN, asyncpg believes ever after that it is in a transaction, and
            # what others commit on it is none.
            if not isinstance(error, Exception):
                self._connection.give_up()
            raise
        return Result(text.rows(cursor._rows), cursor.rowcount)  # noqa: SLF001

    def _told(self, text: Text, error: Exception) -> BaseException:
        adapted = self._connection.adapted
        dialect = self._connection.dialect
        return exc.DBAPIError.instance(
            text.sql,
            None,
            error,
            adapted.dbapi.Error,
            hide_parameters=True,
            connection_invalidated=dialect.is_disconnect(cast("Any", error), adapted, None),
            dialect=dialect,
        )
