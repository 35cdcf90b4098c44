"""Poolers between the service and PostgreSQL that give a session's server to others after each transaction.

Sessions matter here: prepared statements, LISTEN, read-only sessions and their time-outs belong to one. Through
PgBouncer in transaction mode they would fail one by one, some without a word, so it is refused at the start.
"""

from contextlib import AsyncExitStack
from typing import Any, Final

from mercato.kernel.db.errors import UnusableUrl
from mercato.kernel.db.postgresql import CONNECT_SECONDS, driver_url

REFUSAL: Final = (
    "The database of <setting> is behind a pooler in transaction mode, such as PgBouncer with pool_mode=transaction: "
    "it gives a session's server to others after each transaction. Mercato has pools of its own and needs whole "
    "sessions: let <setting> name PostgreSQL itself."
)


LOSES_SETTINGS: Final = (
    "The database of <setting> is behind a pooler that refuses or drops the settings of a session (PgBouncer does "
    "both): time-outs and read-only sessions would not hold. Let <setting> name PostgreSQL itself."
)
_SETTING = "enable_seqscan"


async def refuse_pooler(url: str, setting: str = "MERCATO_DATABASE_URL") -> None:
    """Return if sessions keep their server and settings, or nobody answers. Raises UnusableUrl, naming the setting."""
    import asyncpg

    try:
        async with AsyncExitStack() as stack:
            first = await _session(stack, url)
            pid = await _server(first)
            # What stands between has made up the number that it gave when the session began.
            if first.get_server_pid() == pid:
                return
            second = await _session(stack, url)
            if await _server(second) == pid:
                raise UnusableUrl(REFUSAL.replace("<setting>", setting))
            if not await _keeps_settings(stack, url):
                raise UnusableUrl(LOSES_SETTINGS.replace("<setting>", setting))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return  # whoever connects next says what is wrong


async def _keeps_settings(stack: AsyncExitStack, url: str) -> bool:
    import asyncpg

    try:
        session = await _session(stack, url, server_settings={_SETTING: "off"})
    except asyncpg.PostgresError:
        return False  # it took a session without settings a moment ago
    async with session.transaction():
        kept: str = await session.fetchval(f"SELECT current_setting('{_SETTING}')", timeout=CONNECT_SECONDS)
    return kept == "off"


async def _session(stack: AsyncExitStack, url: str, **options: Any) -> Any:
    import asyncpg

    # Without settings, which a pooler may refuse before it can be recognised.
    connection = await asyncpg.connect(
        driver_url(url), timeout=CONNECT_SECONDS, statement_cache_size=0, **options
    )
    stack.callback(connection.terminate)
    return connection


async def _server(connection: Any) -> int:
    """Return the process of the server that the session has now."""
    async with connection.transaction():
        pid: int = await connection.fetchval("SELECT pg_backend_pid()", timeout=CONNECT_SECONDS)
    return pid
