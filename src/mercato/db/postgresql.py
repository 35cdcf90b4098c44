"""PostgreSQL through asyncpg: readers that are read-only sessions, and a pool for transactions."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import create_engine, event, exc
from sqlalchemy.engine import URL, make_url

from mercato.db.awaited import Engine, Pool
from mercato.db.errors import DatabaseAway, UnusableUrl

_MILLISECOND: Final = timedelta(milliseconds=1)

_SESSION: Final = {
    "application_name": "mercato",
    # Our statements are short; compiling one costs more than it ever saves.
    "jit": "off",
    # We ask by index. A plan that was made while a table was small, and kept, must not read it whole later.
    "enable_seqscan": "off",
    # A process that stalls inside a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60s",
    # Nor one that has gone without a word: the server's side of what `asyncpg_driver.keep_alive` does on ours.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

CONNECT_SECONDS: Final = 5.0
"""How long a connection may take to be made."""

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


def engines(url: str, bounds: Bounds) -> tuple[Engine, Engine]:
    """Return the readers and the writers.

    A reader runs each statement by itself in a session whose every transaction is READ ONLY: what a READ
    COMMITTED transaction would show, without the round trips for BEGIN and COMMIT.
    """
    return readers(url, bounds), _engine(url, bounds, session=bounds.session())


def readers(url: str, bounds: Bounds) -> Engine:
    """Return the readers alone."""
    session = bounds.session() | {"default_transaction_read_only": "on"}
    return _engine(url, bounds, session=session, isolation_level="AUTOCOMMIT")


def migrator(url: str) -> Engine:
    """Return the engine that changes the schema: no statement is cut short, none waits long for a lock."""
    # Who waits for a table's lock makes everybody else wait behind him: rather fail and be tried again.
    session = {"application_name": "mercato migrate", "statement_timeout": "0", "lock_timeout": "60s"}
    bounds = Bounds(
        pool_size=1,
        pool_timeout=timedelta(seconds=10),
        statement_timeout=timedelta(hours=1),
        lock_timeout=timedelta(minutes=1),
    )
    return _engine(url, bounds, session=session)


async def listen(url: str, channel: str, heard: Callable[[str], None]) -> None:
    """Call `heard` with the payload of every notification on the channel, until the connection is lost."""
    import asyncpg

    from mercato.db.asyncpg_driver import keep_alive

    lost = asyncio.Event()
    try:
        connection = await asyncpg.connect(
            driver_url(url), timeout=CONNECT_SECONDS, server_settings={"application_name": "mercato listen"}
        )
        keep_alive(connection)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DatabaseAway(f"no connection to listen on: {error}") from error
    try:
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(channel, lambda *notification: heard(notification[-1]))
        # What was said before we listened was not heard: look once.
        heard("")
        await lost.wait()
    finally:
        connection.terminate()


def _engine(
    url: str, bounds: Bounds, *, session: dict[str, str], isolation_level: str | None = None
) -> Engine:
    options = {} if isolation_level is None else {"isolation_level": isolation_level}
    patience = (bounds.statement_timeout + GRACE).total_seconds()
    sync = create_engine(
        # Without options: they are the driver's, not SQLAlchemy's.
        sqlalchemy_url(url).set(query={}),
        poolclass=Pool,
        pool_size=bounds.pool_size,
        max_overflow=0,
        pool_timeout=bounds.pool_timeout.total_seconds(),
        # The connection used last is used next, so that a quiet service lets the server's idle ones go.
        pool_use_lifo=True,
        query_cache_size=2000,
        # An error's text goes into logs; the values of a row stay out of it.
        hide_parameters=True,
        connect_args={
            "async_creator_fn": partial(_connect, patience),
            "dsn": driver_url(url),
            "timeout": CONNECT_SECONDS,
            "prepared_statement_cache_size": 500,
            "server_settings": session,
        },
        **options,
    )

    @event.listens_for(sync, "checkout")
    def _alive(connection: Any, _record: object, _proxy: object) -> None:
        # What the driver knows already costs no question; the pool takes another then.
        if not connection.driver_connection.is_usable():
            raise exc.DisconnectionError

    return Engine(sync, patience=patience)


async def _connect(patience: float, **options: Any) -> Any:
    from mercato.db.asyncpg_driver import connect

    return await connect(patience=patience, **options)
