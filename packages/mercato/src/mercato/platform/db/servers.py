"""The PostgreSQL servers of a URL: chooses the one to connect to, and refuses poolers in front of it.

A pooler in transaction mode gives a session's server to others after each transaction. Prepared statements, LISTEN,
read-only sessions and their timeouts belong to a session: through such a pooler they would fail one by one, some
silently. So it is refused at the start.
"""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from mercato.platform.db.errors import UnusableUrl, connection_errors
from mercato.platform.db.url import DatabaseSettings, database_url, is_postgresql, server_urls

if TYPE_CHECKING:
    # Imported when it is used: a start on SQLite doesn't load it.
    import asyncpg

CONNECT_SECONDS: Final = 5.0
"""How long a connection to PostgreSQL may take to be made, over all servers of a URL."""

PRIMARY: Final = "primary"
ANY: Final = "any"
"""Which of several servers is meant if the URL doesn't say it by `target_session_attrs`."""

REFUSAL: Final = (
    "The database of <setting> is behind a pooler in transaction mode, such as PgBouncer with pool_mode=transaction: "
    "it gives a session's server to others after each transaction. Mercato has pools of its own and needs whole "
    "sessions: let <setting> name PostgreSQL itself."
)
LOSES_SETTINGS: Final = (
    "The database of <setting> is behind a pooler that refuses or drops the settings of a session (PgBouncer does "
    "both): timeouts and read-only sessions would not hold. Let <setting> name PostgreSQL itself."
)


class Servers:
    """The servers of a URL, the one that was connected to last before the others."""

    def __init__(self, url: str, *, target: str = PRIMARY) -> None:
        self._urls = server_urls(url, target)

    async def connect(self, *_: str, **options: Any) -> "asyncpg.Connection":
        """Connect to the first server that is meant. Raises what the driver raises.

        The driver's own search gives all its time to a server that doesn't answer, and never comes to the next one.
        """
        import asyncpg

        seconds = CONNECT_SECONDS / len(self._urls)
        failures: list[Exception] = []
        for url in tuple(self._urls):
            try:
                connection = await asyncpg.connect(url, **options | {"timeout": seconds})
            except connection_errors() as error:
                failures.append(error)
            else:
                self._urls.sort(key=lambda other: other != url)
                return connection
        # What a server says is worth more than that another one is down.
        raise next(
            (failure for failure in failures if isinstance(failure, asyncpg.PostgresError)), failures[-1]
        )


async def refuse_pooled_replica(settings: DatabaseSettings) -> None:
    """Return if no pooler is in front of the replica, or there is no replica. Raises UnusableUrl."""
    if settings.database_replica_url is not None and is_postgresql(database_url(settings)):
        replicas = Servers(settings.database_replica_url.reveal(), target=ANY)
        await refuse_pooler(replicas, "MERCATO_DATABASE_REPLICA_URL")


async def refuse_pooler(servers: Servers, setting: str = "MERCATO_DATABASE_URL") -> None:
    """Return if sessions keep their server and settings, or nothing answers. Raises UnusableUrl, naming the setting."""
    try:
        async with AsyncExitStack() as stack:
            first = await _session(stack, servers)
            pid = await _server_pid(first)
            # A pooler makes up the number that it gives when the session begins.
            if first.get_server_pid() == pid:
                return
            second = await _session(stack, servers)
            if await _server_pid(second) == pid:
                raise UnusableUrl(REFUSAL.replace("<setting>", setting))
            if not await _keeps_settings(stack, servers):
                raise UnusableUrl(LOSES_SETTINGS.replace("<setting>", setting))
    except connection_errors():
        return  # the next connection reports what is wrong


async def _keeps_settings(stack: AsyncExitStack, servers: Servers) -> bool:
    import asyncpg

    try:
        session = await _session(stack, servers, server_settings={"enable_seqscan": "off"})
    except asyncpg.PostgresError:
        return False  # it accepted a session without settings a moment ago
    async with session.transaction():
        value: str = await session.fetchval(
            "SELECT current_setting('enable_seqscan')", timeout=CONNECT_SECONDS
        )
    return value == "off"


async def _session(stack: AsyncExitStack, servers: Servers, **options: Any) -> Any:
    # Without settings, which a pooler may refuse before it can be recognised.
    connection = await servers.connect(statement_cache_size=0, **options)
    stack.callback(connection.terminate)
    return connection


async def _server_pid(connection: Any) -> int:
    """Return the process id of the server that the session has now."""
    async with connection.transaction():
        pid: int = await connection.fetchval("SELECT pg_backend_pid()", timeout=CONNECT_SECONDS)
    return pid
