"""A pooler that shares servers between transactions is refused at the start, with the reason."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.databases import only_postgresql

from mercato.features.schema import SCHEMA
from mercato.platform.db.errors import UnusableUrl
from mercato.platform.db.migrate import migrate
from mercato.platform.db.servers import Servers, refuse_pooled_replica, refuse_pooler
from mercato.platform.db.url import driver_url
from mercato.settings import Settings
from mercato_contract.texts import Secret

pytestmark = only_postgresql


class Pooled:
    """A client's session of PgBouncer: it has a server of the pool for a transaction, or permanently."""

    def __init__(self, pool: list[Any], *, session: bool) -> None:
        self._pool = pool
        self._kept = pool.pop() if session else None
        self._server: Any = self._kept

    def get_server_pid(self) -> int:
        return 1

    def terminate(self) -> None:
        pass

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        self._server = self._kept or self._pool.pop()
        async with self._server.transaction():
            yield
        if self._kept is None:
            self._pool.append(self._server)

    async def fetchval(self, *arguments: Any, **options: Any) -> Any:
        return await self._server.fetchval(*arguments, **options)


@asynccontextmanager
async def pooled(url: str, monkeypatch: pytest.MonkeyPatch, *, session: bool) -> AsyncIterator[None]:
    import asyncpg

    servers = [await asyncpg.connect(driver_url(url)) for _ in range(3)]
    pool = list(servers)

    async def connect(*_: Any, **__: Any) -> Pooled:
        return Pooled(pool, session=session)

    with monkeypatch.context() as patched:
        patched.setattr(asyncpg, "connect", connect)
        yield
    await asyncio.gather(*(server.close() for server in servers))


async def test_a_pooler_in_transaction_mode_is_refused_before_anything_is_changed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    async with pooled(database_url, monkeypatch, session=False):
        with pytest.raises(UnusableUrl, match="pool_mode=transaction"):
            await migrate(database_url, SCHEMA)


async def test_a_pooler_before_the_replica_is_refused_with_the_name_of_its_setting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    settings = Settings(database_url=Secret(database_url), database_replica_url=Secret(database_url))
    await refuse_pooled_replica(settings)
    async with pooled(database_url, monkeypatch, session=False):
        with pytest.raises(UnusableUrl, match="of MERCATO_DATABASE_REPLICA_URL is behind a pooler"):
            await refuse_pooled_replica(settings)


async def test_a_pooler_that_drops_the_settings_of_a_session_is_refused_too(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    async with pooled(database_url, monkeypatch, session=True):
        with pytest.raises(UnusableUrl, match="settings of a session"):
            await refuse_pooler(Servers(database_url))


async def test_neither_postgresql_itself_nor_a_missing_server_is_refused(database_url: str):
    await refuse_pooler(Servers(database_url))
    await refuse_pooler(Servers("postgresql://nobody@127.0.0.1:1/none"))
