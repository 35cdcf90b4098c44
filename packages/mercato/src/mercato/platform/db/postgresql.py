"""PostgreSQL through asyncpg's own pools: sessions that only read, and sessions for transactions."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct
from sqlalchemy import ColumnElement, Executable, Text, exc, literal_column
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect

from mercato.platform.db.errors import (
    DatabaseUnavailable,
    UnusableUrl,
    connection_errors,
    database_error,
    is_read_only,
    no_connection,
)
from mercato.platform.db.servers import CONNECT_SECONDS, Servers
from mercato.platform.db.statements import (
    CompiledStatement,
    Compiler,
    H,
    Parameters,
    R,
    Result,
    WritingConnection,
)
from mercato_contract.clock import MILLISECOND

if TYPE_CHECKING:
    # Imported when it is used: a start on SQLite doesn't load it.
    import asyncpg

T = TypeVar("T")
_compiler: Final = Compiler(asyncpg_dialect.dialect())  # type: ignore[no-untyped-call]  # SQLAlchemy's own alias
_SESSION: Final = {
    "application_name": "mercato",
    # Our statements are short; compiling one costs more than it saves.
    "jit": "off",
    # Nor do they gain by parallel workers, which return rows in no order.
    "max_parallel_workers_per_gather": "0",
    # Every query has an index. A plan cached while a table was small must not scan it once it is large.
    "enable_seqscan": "off",
    # A process that stalls within a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60s",
    # Nor must one whose machine or network is gone.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

# Nor may the joins of a transaction read whole tables, as these two kinds do: it changes a few rows, found by an index.
# A search may: one for what is open now takes up to 40 times as long without them.
_WRITING: Final = {"enable_hashjoin": "off", "enable_mergejoin": "off"}

CLOSE_SECONDS: Final = 2.0
"""How long the server may take to acknowledge that the connections close."""

CHECK_SECONDS: Final = 30.0
"""Seconds between checks of an idle connection that listens."""

GRACE: Final = timedelta(seconds=2)
"""How long a statement is waited for beyond the server's own timeout: after that the network is at fault."""


class Bounds(Struct, frozen=True, kw_only=True):
    """How many connections a pool has, and how long getting one, a statement, and its wait for a lock may take."""

    pool_size: int
    pool_timeout: timedelta
    statement_timeout: timedelta
    lock_timeout: timedelta


_PARAMETER: Final = re.compile(r"\$(\d+)")
_ROWS: Final = re.compile(r"(?is)\s*(SELECT|WITH|VALUES|SHOW|EXPLAIN)\b|.*\bRETURNING\b")
"""Matches a textual statement that returns rows."""


class Connection:
    """One session, for one task at a time. An unknown state ends it, and the pool opens another."""

    def __init__(self, driver: "asyncpg.Connection") -> None:
        self._driver = driver
        self._is_ended = False
        self._deferred: list[tuple[str, list[Any]]] = []

    async def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Return the result, its rows read. Raises SQLAlchemy's errors, and DatabaseUnavailable at a timeout."""
        if self._deferred:
            await self.flush()
        if parameters is None or isinstance(parameters, Mapping):
            given = parameters or {}
            made = _compiler.prepared.get(statement) or _compiler.compile(statement, given)
            return await self._run(made, made.values(given))
        made = _compiler.compile(statement, parameters[0])
        await self._call(made.sql, self._driver.executemany, made.sql, map(made.values, parameters))
        return Result([], -1)

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Keep a prepared statement until the next statement or the commit."""
        made = _compiler.prepared.get(statement) or _compiler.compile(statement, parameters)
        assert made.is_short, "only prepared statements can be deferred"
        self._deferred.append((made.sql, made.values(parameters)))

    async def execute_with_deferred(self, statement: Executable, parameters: Parameters) -> Result:
        """Run a prepared statement and the deferred ones in one round trip."""
        self.defer(statement, parameters)
        return await self.flush()

    async def flush(self) -> Result:
        """Run the deferred statements in one round trip; return the result of the last."""
        deferred, self._deferred = self._deferred, []
        if not deferred:
            return Result([], -1)
        sql = _joined(tuple(sql for sql, _ in deferred))
        status = await self._call(
            sql, self._driver.execute, sql, *chain.from_iterable(v for _, v in deferred)
        )
        return Result([], _changed(status))

    async def _run(self, made: CompiledStatement, values: list[Any]) -> Result:
        if made.returns_rows or (made.is_textual and _ROWS.match(made.sql)):
            found = await self._call(made.sql, self._driver.fetch, made.sql, *values)
            return Result(made.rows(found, lambda: list(found[0].keys()) if found else []), len(found))
        return Result([], _changed(await self._call(made.sql, self._driver.execute, made.sql, *values)))

    async def command(self, sql: str) -> None:
        """Run a statement without values, such as BEGIN."""
        await self._call(sql, self._driver.execute, sql)

    async def roll_back(self) -> None:
        """End the transaction, or the session if that can't be done."""
        if self._is_ended:
            return
        try:
            await self.command("ROLLBACK")
        except (DatabaseUnavailable, exc.DBAPIError):
            self.terminate()

    async def _call(self, sql: str, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        try:
            return await method(*arguments)
        except TimeoutError:
            # The driver's own timer, `command_timeout`: `asyncio.timeout` would add a tenth to each statement.
            self.terminate()
            raise DatabaseUnavailable("the database did not answer in time") from None
        except connection_errors() as error:
            raise database_error(error, sql) from error
        except BaseException:
            self.terminate()
            raise

    def terminate(self) -> None:
        """End the session at once, and with it the statement it may be running."""
        if not self._is_ended:
            self._is_ended = True
            with suppress(*connection_errors()):  # the pool has already noticed the loss and dropped it
                self._driver.terminate()


def _changed(status: str) -> int:
    """Return how many rows a statement changed; -1 if that isn't known."""
    number = status.rpartition(" ")[2]  # as in `UPDATE 3`; other statements end with a word
    return int(number) if number.isdecimal() else -1


@lru_cache(maxsize=200)
def _joined(texts: tuple[str, ...]) -> str:
    """Return one statement that runs all of these; it takes their parameters in order, and its status is the last's."""
    *earlier, last = texts
    parts, before = [], 0
    for number, text in enumerate(earlier):
        parts.append(f"deferred_{number} AS ({_renumbered(text, after=before)})")
        before += len(set(_PARAMETER.findall(text)))
    return f"WITH {', '.join(parts)} {_renumbered(last, after=before)}" if parts else last


def _renumbered(sql: str, *, after: int) -> str:
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + after}", sql)


class Sessions:
    """A pool of sessions with the same settings."""

    def __init__(self, servers: Servers, bounds: Bounds, *, read_only: bool) -> None:
        self._servers = servers
        self._bounds = bounds
        self._session = _SESSION | {
            "statement_timeout": f"{bounds.statement_timeout // MILLISECOND}",
            "lock_timeout": f"{bounds.lock_timeout // MILLISECOND}",
        }
        # That a transaction may write is the server's default, which an operator may change.
        self._session |= {"default_transaction_read_only": "on"} if read_only else _WRITING
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield a session; each statement on it is a transaction of its own. Raises DatabaseUnavailable."""
        pool = self._pool or await self._open()
        wait = self._bounds.pool_timeout.total_seconds()
        try:
            driver = await pool.acquire(timeout=wait)
        except TimeoutError:
            raise DatabaseUnavailable(f"no connection to the database was free within {wait:g} s") from None
        except ValueError as error:  # asyncpg.ClientConfigurationError: an option that it doesn't know
            raise UnusableUrl(f"The address of the database cannot be used: {error}.") from None
        except connection_errors() as error:
            raise no_connection(error) from error  # whatever the reason, it may pass
        connection = Connection(driver)
        try:
            yield connection
        except asyncio.CancelledError:
            connection.terminate()
            raise
        finally:
            await pool.release(driver)

    @asynccontextmanager
    async def reading(self, begin: Callable[[Connection], R]) -> AsyncIterator[R]:
        """Yield what `begin` makes of a session. Raises DatabaseUnavailable."""
        async with self.connection() as connection:
            yield begin(connection)

    @asynccontextmanager
    async def transaction(self, begin: Callable[[WritingConnection], H]) -> AsyncIterator[H]:
        """Yield the handle of a transaction that is committed at the end of the block. Raises DatabaseUnavailable."""
        async with self.connection() as connection:
            await connection.command("BEGIN")
            handle = begin(connection)
            try:
                yield handle
                await connection.flush()
            except Exception as error:
                if is_read_only(error):
                    # A server that isn't the primary any more: another connection leads to the one that is.
                    connection.terminate()
                    raise DatabaseUnavailable(
                        "the database is read-only: its server isn't the primary"
                    ) from error
                await connection.roll_back()
                raise
            await connection.command("COMMIT")
        handle.committed()

    async def _open(self) -> "asyncpg.Pool":
        import asyncpg

        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    connect=self._servers.connect,
                    min_size=0,
                    max_size=self._bounds.pool_size,
                    # Our statements are few: each is prepared once per session.
                    statement_cache_size=500,
                    max_cached_statement_lifetime=0,
                    max_queries=2**31,
                    command_timeout=(self._bounds.statement_timeout + GRACE).total_seconds(),
                    server_settings=self._session,
                    init=_name_schema,
                    reset=_reset,
                )
        return self._pool

    async def close(self) -> None:
        if self._pool is None:
            return
        # A process that stops must not wait for a network that drops packets.
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


async def _name_schema(driver: "asyncpg.Connection") -> None:
    """Add the schema to the session's name, by which others see which network of a database is in use."""
    await driver.execute(
        "SELECT set_config('application_name', current_setting('application_name') || ' ' || current_schema(), false)"
    )


async def _reset(driver: "asyncpg.Connection") -> None:
    """Leave a session as it is: no statement of ours changes its settings."""
    if driver.is_in_transaction():
        driver.terminate()


class Backend:
    """One PostgreSQL database."""

    dialect: Final = "postgresql"

    def __init__(self, url: str, bounds: Bounds) -> None:
        # In a session that only reads, a statement sees what it would in a transaction, without BEGIN and COMMIT.
        servers = Servers(url)
        self.readers = Sessions(servers, bounds, read_only=True)
        self._writers = Sessions(servers, bounds, read_only=False)
        self.reading = self.readers.reading
        self.writing = self._writers.transaction

    async def close(self) -> None:
        await self.readers.close()
        await self._writers.close()


def channel_of(name: str) -> ColumnElement[str]:
    """Return the SQL of this schema's channel of the name: a channel itself belongs to a whole database."""
    # As a name it has at most 63 bytes. Schemas whose names differ only after that wake each other, and no more.
    return literal_column(f"CAST(CAST('{name}_' || current_schema() AS name) AS text)", Text)


async def listen(url: str, name: str, callback: Callable[[str], None]) -> None:
    """Call back with the payload of every notification on the schema's channel, until the connection is lost.

    Calls back once with an empty payload at the beginning: earlier notifications were missed.
    Raises DatabaseUnavailable if there is no connection.
    """
    lost, session = asyncio.Event(), {"application_name": "mercato listen"}
    try:
        connection = await Servers(url).connect(server_settings=session)
    except connection_errors() as error:
        raise DatabaseUnavailable(f"no connection to listen on: {error}") from error
    try:
        connection.add_termination_listener(lambda _: lost.set())
        await _name_schema(connection)
        channel = await connection.fetchval(f"SELECT {channel_of(name)}")
        await connection.add_listener(channel, lambda *notification: callback(notification[-1]))
        callback("")
        while not lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await lost.wait()
            # Only a statement reveals a server that is gone without closing the connection.
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.execute("SELECT 1")
    except connection_errors():
        return
    finally:
        connection.terminate()
