"""PostgreSQL through asyncpg: sessions that only read, and sessions for transactions."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from msgspec import Struct
from sqlalchemy import ColumnElement, Executable, Text, exc, literal_column
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect

from mercato.platform.db.errors import (
    DatabaseUnavailable,
    UnusableUrl,
    acquire,
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

IDLE_SECONDS: Final = 300.0
"""How long a session may be idle: those that only a burst needed are closed."""

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


class _Deferred(NamedTuple):
    """A statement that waits for the next one. If it has to change or find a row, `otherwise` is raised if not."""

    sql: str
    values: list[Any]
    otherwise: Exception | None


class Connection:
    """One session, for one task at a time. An unknown state ends it, and the pool opens another.

    It is taken from the pool for the first round trip: until then a block needs none. A transaction begins with the
    first statement whose result its block needs. If there is none, what was deferred is one statement, which is a
    transaction of its own: one round trip instead of three.
    """

    def __init__(self, sessions: "Sessions", *, is_transaction: bool = False) -> None:
        self._sessions = sessions
        self._driver: asyncpg.Connection | None = None
        self._is_ended = False
        self._has_to_begin = is_transaction
        self._is_begun = False
        self._deferred: list[_Deferred] = []

    async def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Return the result, its rows read. Raises SQLAlchemy's errors, and DatabaseUnavailable at a timeout."""
        if self._has_to_begin:
            self._has_to_begin = False
            await self.command("BEGIN")
            self._is_begun = True
        if self._deferred:
            await self.flush()
        if parameters is None or isinstance(parameters, Mapping):
            given = parameters or {}
            made = _compiler.compile(statement, given)
            return await self._run(made, made.values(given))
        made = _compiler.compile(statement, parameters[0])
        rows = map(made.values, parameters)
        await self._call(made.sql, lambda driver: driver.executemany(made.sql, rows))
        return Result([], -1)

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Keep a prepared statement until the next statement or the commit."""
        self._defer(statement, parameters, None)

    def require(self, statement: Executable, parameters: Parameters, *, otherwise: Exception) -> None:
        """Keep a prepared statement that has to change or find a row."""
        self._defer(statement, parameters, otherwise)

    def _defer(self, statement: Executable, parameters: Parameters, otherwise: Exception | None) -> None:
        made = _compiler.compile(statement, parameters)
        assert made.is_short, "only prepared statements can be deferred"
        self._deferred.append(_Deferred(made.sql, made.values(parameters), otherwise))

    async def flush(self) -> None:
        """Run the deferred statements in one round trip. Raises what was to be raised if one has no row."""
        deferred, self._deferred = self._deferred, []
        if not deferred:
            return
        required = tuple(number for number, one in enumerate(deferred) if one.otherwise is not None)
        sql = _joined(tuple(one.sql for one in deferred), required)
        values = chain.from_iterable(one.values for one in deferred)
        try:
            await self._call(sql, lambda driver: driver.execute(sql, *values))
        except exc.DataError as error:
            for number in required:
                otherwise = deferred[number].otherwise
                if otherwise is not None and _no_change(number) in str(error.orig):
                    raise otherwise from None
            raise

    async def _run(self, made: CompiledStatement, values: list[Any]) -> Result:
        if made.returns_rows or (made.is_textual and _ROWS.match(made.sql)):
            found = await self._call(made.sql, lambda driver: driver.fetch(made.sql, *values))
            return Result(made.rows(found, lambda: list(found[0].keys()) if found else []), len(found))
        return Result(
            [], _changed(await self._call(made.sql, lambda driver: driver.execute(made.sql, *values)))
        )

    async def command(self, sql: str) -> str:
        """Run a statement without values, such as BEGIN. Return what the server has done."""
        return await self._call(sql, lambda driver: driver.execute(sql))

    async def roll_back(self) -> None:
        """End the transaction, or the session if that can't be done."""
        if self._is_ended or not self._is_begun:
            return
        try:
            await self.command("ROLLBACK")
        except (DatabaseUnavailable, exc.DBAPIError):
            self.terminate()

    async def commit(self) -> None:
        """Commit what was begun. What was deferred alone has committed itself."""
        if self._is_begun and await self.command("COMMIT") == "ROLLBACK":
            raise exc.InvalidRequestError(
                "the block went on after an error, which rolls its transaction back"
            )

    async def _call(self, sql: str, run: "Callable[[asyncpg.Connection], Awaitable[T]]") -> T:
        if self._driver is None:
            self._driver = await self._sessions.take()
        try:
            return await run(self._driver)
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
        if not self._is_ended and self._driver is not None:
            self._is_ended = True
            self._driver.terminate()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, asyncio.CancelledError):
            self.terminate()
        if self._driver is not None:
            self._sessions.put(self._driver)


def _changed(status: str) -> int:
    """Return how many rows a statement changed; -1 if that isn't known."""
    number = status.rpartition(" ")[2]  # as in `UPDATE 3`; other statements end with a word
    return int(number) if number.isdecimal() else -1


@lru_cache(maxsize=200)
def _joined(texts: tuple[str, ...], required: tuple[int, ...]) -> str:
    """Return one statement that runs all of these, with their parameters in order.

    The server undoes it if one of the `required` changes or finds no row: there is no other way to say so in a
    statement than an expression that fails, with a text that tells which one it was.
    """
    parts, before = [], 0
    for number, text in enumerate(texts):
        sql = _renumbered(text, after=before)
        has_to_return = number in required and not _ROWS.match(text)
        parts.append(f"{sql} RETURNING 1" if has_to_return else sql)
        before += len(set(_PARAMETER.findall(text)))
    if required:
        parts.append("SELECT " + ", ".join(map(_check_of, required)))
    *earlier, last = parts
    named = ", ".join(f"deferred_{number} AS ({part})" for number, part in enumerate(earlier))
    return f"WITH {named} {last}" if named else last


def _check_of(number: int) -> str:
    """Return an expression that fails if this statement has changed or found no row."""
    changed = f"EXISTS (SELECT FROM deferred_{number})"
    return f"CAST(CASE WHEN {changed} THEN '1' ELSE '{_no_change(number)}' END AS integer)"


def _no_change(number: int) -> str:
    """Return the text in the server's error, in whatever language that is."""
    return f"deferred_{number} changed no row"


def _renumbered(sql: str, *, after: int) -> str:
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + after}", sql)


class Sessions:
    """A pool of sessions with the same settings: the one that was used last is used next.

    The driver's own takes several times as long for a session: a task, three timers and a proxy.
    """

    def __init__(self, servers: Servers, bounds: Bounds, *, read_only: bool) -> None:
        self._servers = servers
        self._bounds = bounds
        self._session = _SESSION | {
            "statement_timeout": f"{bounds.statement_timeout // MILLISECOND}",
            "lock_timeout": f"{bounds.lock_timeout // MILLISECOND}",
        }
        # That a transaction may write is the server's default, which an operator may change.
        self._session |= {"default_transaction_read_only": "on"} if read_only else _WRITING
        self._seconds = bounds.pool_timeout.total_seconds()
        self._room = asyncio.Semaphore(bounds.pool_size)
        self.used: set[asyncpg.Connection] = set()
        # Each with the instant since when it is idle, on a monotonic clock.
        self.idle: list[tuple[float, asyncpg.Connection]] = []
        self._is_closed = False

    def connection(self, *, is_transaction: bool = False) -> Connection:
        """Open a session; without a transaction each statement on it is one of its own. Raises DatabaseUnavailable."""
        return Connection(self, is_transaction=is_transaction)

    async def take(self) -> "asyncpg.Connection":
        """Return a session, to be put back. Raises DatabaseUnavailable."""
        if self._is_closed:
            raise DatabaseUnavailable("the database has been closed")
        await acquire(self._room, self._seconds)
        try:
            driver = self._find_idle() or await self._connect()
        except BaseException:
            self._room.release()
            raise
        self.used.add(driver)
        return driver

    def put(self, driver: "asyncpg.Connection") -> None:
        """Take a session back."""
        self.used.discard(driver)
        self._keep(driver)
        self._room.release()

    def _find_idle(self) -> "asyncpg.Connection | None":
        while self.idle:
            _, driver = self.idle.pop()
            if not driver.is_closed():
                return driver
        return None

    async def _connect(self) -> "asyncpg.Connection":
        try:
            async with asyncio.timeout(self._seconds):
                driver = await self._servers.connect(
                    # Our statements are few: each is prepared once per session.
                    statement_cache_size=500,
                    max_cached_statement_lifetime=0,
                    command_timeout=(self._bounds.statement_timeout + GRACE).total_seconds(),
                    server_settings=self._session,
                )
                try:
                    await _name_schema(driver)
                except BaseException:
                    driver.terminate()
                    raise
        except ValueError as error:  # asyncpg.ClientConfigurationError: an option that it doesn't know
            raise UnusableUrl(f"The address of the database cannot be used: {error}.") from None
        except connection_errors() as error:
            raise no_connection(error) from error  # whatever the reason, it may pass
        return driver

    def _keep(self, driver: "asyncpg.Connection") -> None:
        """Keep a session for the next block, as it is: no statement of ours changes its settings."""
        now = time.monotonic()
        if not driver.is_closed():
            if self._is_closed or driver.is_in_transaction():
                driver.terminate()
            else:
                self.idle.append((now, driver))
        if self.idle and now - self.idle[0][0] > IDLE_SECONDS:
            self.idle.pop(0)[1].terminate()

    @asynccontextmanager
    async def reading(self, begin: Callable[[Connection], R]) -> AsyncIterator[R]:
        """Yield what `begin` makes of a session. Raises DatabaseUnavailable."""
        async with self.connection() as connection:
            yield begin(connection)

    @asynccontextmanager
    async def transaction(self, begin: Callable[[WritingConnection], H]) -> AsyncIterator[H]:
        """Yield the handle of a transaction that is committed at the end of the block. Raises DatabaseUnavailable."""
        async with self.connection(is_transaction=True) as connection:
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
            await connection.commit()
        handle.committed()

    async def close(self) -> None:
        """Close the sessions, once those in use are idle. Blocks that have none yet raise DatabaseUnavailable."""
        self._is_closed = True
        drivers = [driver for _, driver in self.idle]
        self.idle.clear()
        # A process that stops must not wait for a network that drops packets.
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                for _ in range(self._bounds.pool_size):
                    await self._room.acquire()
                await asyncio.gather(*(driver.close() for driver in drivers), return_exceptions=True)
        except TimeoutError:
            for driver in (*drivers, *self.used):
                driver.terminate()


async def _name_schema(driver: "asyncpg.Connection") -> None:
    """Add the schema to the session's name, by which others see which network of a database is in use."""
    await driver.execute(
        "SELECT set_config('application_name', current_setting('application_name') || ' ' || current_schema(), false)"
    )


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
        connection = await Servers(url).connect(server_settings=session, command_timeout=CONNECT_SECONDS)
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
            await connection.execute("SELECT 1")
    except connection_errors():
        return
    finally:
        connection.terminate()
