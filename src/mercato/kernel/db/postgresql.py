"""PostgreSQL through asyncpg's own pools: sessions that only read, and sessions for transactions."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Executable, exc
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect
from sqlalchemy.engine import URL, make_url

from mercato.kernel.db.errors import DatabaseAway, UnusableUrl, connection_errors, database_error
from mercato.kernel.db.statements import Compiled, Parameters, Result, compiled

if TYPE_CHECKING:
    # Imported where there is a PostgreSQL: a start on SQLite needs none of it.
    import asyncpg

    from mercato.kernel.db.engine import BeginWrite, Write

T = TypeVar("T")

DIALECT: Final = asyncpg_dialect.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy's own alias

_MILLISECOND: Final = timedelta(milliseconds=1)

_SESSION: Final = {
    "application_name": "mercato",
    # Our statements are short; compiling one costs more than it ever saves.
    "jit": "off",
    # We ask by index. A plan that was made while a table was small, and kept, must not read it whole later.
    "enable_seqscan": "off",
    # A process that stalls inside a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60s",
    # Nor one that has gone without a word.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

_READ_ONLY: Final = {"default_transaction_read_only": "on"}

CONNECT_SECONDS: Final = 5.0
"""How long a connection may take to be made."""

CLOSE_SECONDS: Final = 2.0
"""How long the far ends of connections may take to say goodbye: there is nothing else to hear from them."""

CHECK_SECONDS: Final = 30.0
"""How often an idle connection that listens is asked whether it still is one."""

GRACE: Final = timedelta(seconds=2)
"""How much longer than the server a statement is waited for: then it is the network that is silent."""


def is_url(url: str) -> bool:
    return url.startswith(("postgresql:", "postgresql+asyncpg:", "postgres:"))


def sqlalchemy_url(url: str) -> URL:
    """Return the URL, read. Raises UnusableUrl, which repeats nothing of it: what is misread may be the password."""
    try:
        read = make_url(url.replace("postgres:", "postgresql:", 1))
    except (ValueError, exc.ArgumentError):
        raise UnusableUrl(
            "The address of the database cannot be read. Write it as postgresql://user:password@host:5432/name; "
            "in a password %40 stands for @, %3A for : and %2F for /."
        ) from None
    return read.set(drivername="postgresql+asyncpg")


def driver_url(url: str) -> str:
    """Return the URL as asyncpg reads it, whose options are those of libpq (`sslmode`, `sslrootcert`)."""
    read = sqlalchemy_url(url).set(drivername="postgresql")
    # As SQLAlchemy has it, with whom one option may be given more than once: hosts of which one is the primary.
    query = {
        "sslmode" if name == "ssl" else name: value if isinstance(value, str) else ",".join(value)
        for name, value in read.query.items()
    }
    return read.set(query=query).render_as_string(hide_password=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many connections a pool has, and how long it, a statement, and a statement's wait for a lock may take."""

    pool_size: int
    pool_timeout: timedelta
    statement_timeout: timedelta
    lock_timeout: timedelta

    def session(self) -> dict[str, str]:
        """Return the settings of a session."""
        return _SESSION | {
            "statement_timeout": f"{self.statement_timeout // _MILLISECOND}",
            "lock_timeout": f"{self.lock_timeout // _MILLISECOND}",
        }


_PARAMETER: Final = re.compile(r"\$(\d+)")

_ROWS: Final = re.compile(
    r"\s*(SELECT|WITH|VALUES|SHOW|EXPLAIN)\b|.*\bRETURNING\b", re.IGNORECASE | re.DOTALL
)
"""Plain texts that return rows."""


class Connection:
    """One session, for one task at a time. Whatever leaves it in an unknown state ends it; the pool opens another."""

    def __init__(self, driver: "asyncpg.Connection", seconds: float) -> None:
        self._driver = driver
        self._seconds = seconds
        self._is_ended = False
        self._deferred: list[tuple[str, list[Any]]] = []

    async def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Return the result, its rows read. Raises SQLAlchemy's errors, and DatabaseAway for no answer in time."""
        if self._deferred:
            await self.flush()
        if parameters is None or isinstance(parameters, Mapping):
            given = parameters or {}
            made = compiled(statement, DIALECT, given)
            return await self._run(made, made.values(given))
        made = compiled(statement, DIALECT, parameters[0])
        values = [made.values(given) for given in parameters]
        await self._answered(made.sql, self._driver.executemany, made.sql, values)
        return Result([], -1)

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Keep a prepared statement until the next one, or the commit."""
        made = compiled(statement, DIALECT, parameters)
        assert made.is_short, "only prepared statements can be deferred"
        self._deferred.append((made.sql, made.values(parameters)))

    async def flush(self) -> None:
        """Run what was deferred in one round trip."""
        deferred, self._deferred = self._deferred, []
        if deferred:
            sql = _joined(tuple(sql for sql, _ in deferred))
            await self._answered(sql, self._driver.fetch, sql, *chain.from_iterable(v for _, v in deferred))

    async def _run(self, made: Compiled, values: list[Any]) -> Result:
        if made.returns_rows or _ROWS.match(made.sql):
            found = await self._answered(made.sql, self._driver.fetch, made.sql, *values)
            return Result(made.rows(found, lambda: list(found[0].keys()) if found else []), len(found))
        status = await self._answered(made.sql, self._driver.execute, made.sql, *values)
        return Result([], _row_count(status))

    async def command(self, sql: str) -> None:
        """Run a statement without values, such as BEGIN."""
        await self._answered(sql, self._driver.execute, sql)

    async def roll_back(self) -> None:
        """End the transaction, or the session if that can't be done."""
        if self._is_ended:
            return
        try:
            await self.command("ROLLBACK")
        except (DatabaseAway, exc.DBAPIError):
            self.terminate()

    async def _answered(self, sql: str, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        try:
            async with asyncio.timeout(self._seconds):
                return await method(*arguments)
        except TimeoutError:
            # The server's own time-out comes first: it is the network that is silent.
            self.terminate()
            raise DatabaseAway(f"the database did not answer within {self._seconds:g} s") from None
        except connection_errors() as error:
            raise database_error(error, sql) from error
        except BaseException:
            self.terminate()
            raise

    def terminate(self) -> None:
        """End the session at once, and with it whatever it was in the middle of."""
        if not self._is_ended:
            self._is_ended = True
            with suppress(*connection_errors()):  # the pool has noticed the loss and has let go of it
                self._driver.terminate()


@lru_cache(maxsize=200)
def _joined(texts: tuple[str, ...]) -> str:
    """Return one statement that runs all of these, its parameters theirs in order."""
    if len(texts) == 1:
        return texts[0]
    parts, before = [], 0
    for number, text in enumerate(texts):
        own = {int(found) for found in _PARAMETER.findall(text)}
        moved = _PARAMETER.sub(lambda found, before=before: f"${int(found[1]) + before}", text)  # type: ignore[misc]
        parts.append(f"deferred_{number} AS ({moved})")
        before += len(own)
    return f"WITH {', '.join(parts)} SELECT 1"


def _row_count(status: str) -> int:
    """Return the number at the end of a status such as `UPDATE 3`; -1 where there is none."""
    number = status.rpartition(" ")[2]
    return int(number) if number.isdecimal() else -1


class Sessions:
    """A pool of sessions with the same settings."""

    def __init__(self, url: str, bounds: Bounds, session: dict[str, str]) -> None:
        self._dsn = driver_url(url)
        self._bounds = bounds
        self._session = session
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Give a session; each statement on it is a transaction of its own. Raises DatabaseAway."""
        pool = self._pool or await self._open()
        try:
            driver = await pool.acquire(timeout=self._bounds.pool_timeout.total_seconds())
        except TimeoutError:
            raise DatabaseAway(
                f"no connection to the database was free within {self._bounds.pool_timeout.total_seconds():g} s"
            ) from None
        except ValueError as error:  # asyncpg.ClientConfigurationError: an option that it doesn't take
            raise UnusableUrl(f"The address of the database cannot be used: {error}.") from None
        except connection_errors() as error:
            # Whatever keeps us from a connection (no server, no room, a changed password) may pass.
            raise DatabaseAway(f"no connection to the database: {error}") from error
        connection = Connection(driver, (self._bounds.statement_timeout + GRACE).total_seconds())
        try:
            yield connection
        except asyncio.CancelledError:
            connection.terminate()
            raise
        finally:
            await pool.release(driver)

    @asynccontextmanager
    async def transaction(self, begin: "BeginWrite") -> "AsyncIterator[Write]":
        """Give the handle of a transaction that is committed when the block has ended. Raises DatabaseAway."""
        async with self.connection() as connection:
            await connection.command("BEGIN")
            handle = begin(connection)
            try:
                yield handle
            except Exception:
                await connection.roll_back()
                raise
            await connection.flush()
            await connection.command("COMMIT")
        handle.committed()

    async def _open(self) -> "asyncpg.Pool":
        import asyncpg

        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=self._bounds.pool_size,
                    # Our statements are few: each is prepared once in a session, for good.
                    statement_cache_size=500,
                    max_cached_statement_lifetime=0,
                    max_queries=2**31,
                    timeout=CONNECT_SECONDS,
                    server_settings=self._session,
                    reset=_reset,
                )
        return self._pool

    async def close(self) -> None:
        if self._pool is None:
            return
        # A process that is to end must not wait for ever for a network that swallows what is sent.
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


async def _reset(driver: "asyncpg.Connection") -> None:
    """Leave a session as it is: nothing here sets what the next user of it could meet."""
    if driver.is_in_transaction():
        driver.terminate()


class Backend:
    """One PostgreSQL database."""

    dialect: Final = "postgresql"

    def __init__(self, url: str, bounds: Bounds) -> None:
        # A session whose every transaction is READ ONLY shows what a READ COMMITTED transaction would, without the
        # round trips for BEGIN and COMMIT.
        self._readers = Sessions(url, bounds, bounds.session() | _READ_ONLY)
        self._writers = Sessions(url, bounds, bounds.session())
        self.reading = self._readers.connection
        self.writing = self._writers.transaction

    async def close(self) -> None:
        await self._readers.close()
        await self._writers.close()


def replica_sessions(url: str, bounds: Bounds, patience: timedelta) -> Sessions:
    """Return sessions of a replica, for whose connection and statements nobody waits longer than `patience`."""
    quick = replace(bounds, pool_timeout=patience, statement_timeout=patience)
    return Sessions(url, quick, quick.session() | _READ_ONLY)


async def listen(url: str, channel: str, heard: Callable[[str], None]) -> None:
    """Call `heard` with the payload of every notification on the channel, until the connection is lost."""
    import asyncpg

    lost = asyncio.Event()
    try:
        connection = await asyncpg.connect(
            driver_url(url), timeout=CONNECT_SECONDS, server_settings={"application_name": "mercato listen"}
        )
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DatabaseAway(f"no connection to listen on: {error}") from error
    try:
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(channel, lambda *notification: heard(notification[-1]))
        # What was sent before we listened was not heard: look once.
        heard("")
        while not lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await lost.wait()
            # A peer that has gone without a word is noticed by asking.
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.execute("SELECT 1")
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return
    finally:
        connection.terminate()
