"""Addresses of databases: which one the settings name, how the drivers read it, and what may not stand before it.

A pooler in transaction mode gives a session's server to others after each transaction. Prepared statements, LISTEN,
read-only sessions and their timeouts belong to a session: through such a pooler they would fail one by one, some
silently. So it is refused at the start.
"""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import URL, exc, make_url

from mercato.platform.db.errors import UnusableUrl
from mercato.platform.texts import Secret

FILE: Final = "mercato.db"
"""The embedded database in the data directory."""

CONNECT_SECONDS: Final = 5.0
"""How long a connection to PostgreSQL may take to be made."""

REFUSAL: Final = (
    "The database of <setting> is behind a pooler in transaction mode, such as PgBouncer with pool_mode=transaction: "
    "it gives a session's server to others after each transaction. Mercato has pools of its own and needs whole "
    "sessions: let <setting> name PostgreSQL itself."
)
LOSES_SETTINGS: Final = (
    "The database of <setting> is behind a pooler that refuses or drops the settings of a session (PgBouncer does "
    "both): timeouts and read-only sessions would not hold. Let <setting> name PostgreSQL itself."
)


class DatabaseSettings(Protocol):
    """What the settings say about the database. Durations are in seconds."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def database_url(self) -> Secret | None: ...
    @property
    def database_replica_url(self) -> Secret | None: ...
    @property
    def database_pool(self) -> int: ...
    @property
    def database_pool_seconds(self) -> float: ...
    @property
    def database_lock_seconds(self) -> float: ...
    @property
    def database_statement_seconds(self) -> float: ...


def database_url(settings: DatabaseSettings) -> str:
    """Return the URL for `Database.open` and `migrate`: the setting, else SQLite in the data directory."""
    if settings.database_url is not None:
        return settings.database_url.reveal()
    return f"sqlite:///{settings.data_dir.absolute() / FILE}"


def is_postgresql(url: str) -> bool:
    return url.startswith(("postgresql:", "postgresql+asyncpg:", "postgres:"))


def sqlite_path(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute` or a plain path. Raises UnusableUrl."""
    scheme, found, rest = url.partition("://")
    if found and not (scheme in {"sqlite", "sqlite+aiosqlite"} and rest.startswith("/")):
        raise UnusableUrl(f"MERCATO_DATABASE_URL starts with sqlite:/// or postgresql://, not {scheme}://.")
    return Path(rest[1:] if found else url)


def sqlalchemy_url(url: str) -> URL:
    """Return the URL, parsed. Raises UnusableUrl, which doesn't repeat it: a misread part may be the password."""
    try:
        parsed = make_url(url)
    except (ValueError, exc.ArgumentError):
        raise UnusableUrl(
            "The address of the database cannot be read. Write it as postgresql://user:password@host:5432/name; "
            "in a password %40 stands for @, %3A for : and %2F for /."
        ) from None
    return parsed.set(drivername="postgresql+asyncpg")


def driver_url(url: str) -> str:
    """Return the URL as asyncpg reads it, whose options are those of libpq (`sslmode`, `sslrootcert`)."""
    parsed = sqlalchemy_url(url).set(drivername="postgresql")
    # SQLAlchemy lets an option be given more than once: several hosts, one of which is the primary.
    query = {
        "sslmode" if name == "ssl" else name: value if isinstance(value, str) else ",".join(value)
        for name, value in parsed.query.items()
    }
    return parsed.set(query=query).render_as_string(hide_password=False)


async def refuse_pooled_replica(settings: DatabaseSettings) -> None:
    """Return if no pooler is in front of the replica, or there is no replica. Raises UnusableUrl."""
    if settings.database_replica_url is not None and is_postgresql(database_url(settings)):
        await refuse_pooler(settings.database_replica_url.reveal(), "MERCATO_DATABASE_REPLICA_URL")


async def refuse_pooler(url: str, setting: str = "MERCATO_DATABASE_URL") -> None:
    """Return if sessions keep their server and settings, or nothing answers. Raises UnusableUrl, naming the setting."""
    import asyncpg

    try:
        async with AsyncExitStack() as stack:
            first = await _session(stack, url)
            pid = await _server_pid(first)
            # A pooler makes up the number that it gives when the session begins.
            if first.get_server_pid() == pid:
                return
            second = await _session(stack, url)
            if await _server_pid(second) == pid:
                raise UnusableUrl(REFUSAL.replace("<setting>", setting))
            if not await _keeps_settings(stack, url):
                raise UnusableUrl(LOSES_SETTINGS.replace("<setting>", setting))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return  # the next connection reports what is wrong


async def _keeps_settings(stack: AsyncExitStack, url: str) -> bool:
    import asyncpg

    try:
        session = await _session(stack, url, server_settings={"enable_seqscan": "off"})
    except asyncpg.PostgresError:
        return False  # it accepted a session without settings a moment ago
    async with session.transaction():
        value: str = await session.fetchval(
            "SELECT current_setting('enable_seqscan')", timeout=CONNECT_SECONDS
        )
    return value == "off"


async def _session(stack: AsyncExitStack, url: str, **options: Any) -> Any:
    import asyncpg

    # Without settings, which a pooler may refuse before it can be recognised.
    connection = await asyncpg.connect(
        driver_url(url), timeout=CONNECT_SECONDS, statement_cache_size=0, **options
    )
    stack.callback(connection.terminate)
    return connection


async def _server_pid(connection: Any) -> int:
    """Return the process id of the server that the session has now."""
    async with connection.transaction():
        pid: int = await connection.fetchval("SELECT pg_backend_pid()", timeout=CONNECT_SECONDS)
    return pid
