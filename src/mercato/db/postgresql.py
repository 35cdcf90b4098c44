"""PostgreSQL through asyncpg: readers that are read-only sessions, and a pool for transactions."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import create_engine
from sqlalchemy.engine import URL, make_url

from mercato.db.awaited import Engine
from mercato.db.errors import DatabaseAway

_SESSION = {
    "application_name": "mercato",
    # Our statements are short; compiling one costs more than it ever saves.
    "jit": "off",
    # We ask by index. A plan that was made while a table was small, and kept, must not read it whole later.
    "enable_seqscan": "off",
    "statement_timeout": "30s",
    # A process that stalls inside a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60s",
}


def is_url(url: str) -> bool:
    return url.startswith(("postgresql:", "postgresql+asyncpg:", "postgres:"))


def sqlalchemy_url(url: str) -> URL:
    return make_url(url.replace("postgres:", "postgresql:", 1)).set(drivername="postgresql+asyncpg")


def engines(url: str, *, pool_size: int, pool_timeout: timedelta) -> tuple[Engine, Engine]:
    """Return the readers and the writers.

    A reader runs each statement by itself in a session whose every transaction is READ ONLY: what a READ
    COMMITTED transaction would show, without the round trips for BEGIN and COMMIT.
    """
    readers = _engine(
        url,
        pool_size=pool_size,
        pool_timeout=pool_timeout,
        isolation_level="AUTOCOMMIT",
        session={**_SESSION, "default_transaction_read_only": "on"},
    )
    writers = _engine(url, pool_size=pool_size, pool_timeout=pool_timeout, session=_SESSION)
    return readers, writers


def migrator(url: str) -> Engine:
    """Return the engine that changes the schema: no statement is cut short, none waits long for a lock."""
    # Who waits for a table's lock makes everybody else wait behind him: rather fail and be tried again.
    session = {"application_name": "mercato migrate", "statement_timeout": "0", "lock_timeout": "60s"}
    return _engine(url, pool_size=1, pool_timeout=timedelta(seconds=10), session=session)


async def listen(url: str, channel: str, heard: Callable[[str], None]) -> None:
    """Call `heard` with the payload of every notification on the channel, until the connection is lost."""
    import asyncpg

    lost = asyncio.Event()
    plain = sqlalchemy_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        connection = await asyncpg.connect(plain, timeout=10, server_settings={"application_name": "mercato"})
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
    url: str,
    *,
    pool_size: int,
    pool_timeout: timedelta,
    session: dict[str, str],
    isolation_level: str | None = None,
) -> Engine:
    options = {} if isolation_level is None else {"isolation_level": isolation_level}
    sync = create_engine(
        sqlalchemy_url(url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=pool_timeout.total_seconds(),
        # The connection used last is used next, so that a quiet service lets the server's idle ones go.
        pool_use_lifo=True,
        query_cache_size=2000,
        # An error's text goes into logs; the values of a row stay out of it.
        hide_parameters=True,
        connect_args={
            "timeout": 10,
            "prepared_statement_cache_size": 500,
            "server_settings": session,
        },
        **options,
    )
    return Engine(sync)
