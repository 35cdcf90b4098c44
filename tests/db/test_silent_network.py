"""A network that drops packets never blocks permanently."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from tests.databases import only_postgresql
from tests.waiting import loop_timeout

from mercato.platform.db import postgresql
from mercato.platform.db.engine import Database


class Network:
    """A proxy between a database and its client; once `silent`, it forwards nothing and closes nothing."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self.silent = False

    @asynccontextmanager
    async def opened(self, directory: Path) -> AsyncIterator[str]:
        """Yield the URL of the database behind this proxy."""
        server = await asyncio.start_unix_server(self._join, directory / ".s.PGSQL.5432")
        try:
            url = self._url.set(host=None, port=None, query={"host": str(directory)})
            yield url.render_as_string(hide_password=False)
        finally:
            server.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await self._connect()
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        writer.close()
        far_writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        directory = self._url.query.get("host")
        if directory is None:
            return await asyncio.open_connection(self._url.host, self._url.port or 5432)
        return await asyncio.open_unix_connection(f"{directory}/.s.PGSQL.5432")

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.silent:
                writer.write(data)
                await writer.drain()
        writer.close()


@only_postgresql
async def test_a_database_closes_while_the_network_drops_packets(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "CLOSE_SECONDS", 0.2)
    network = Network(database_url)
    async with network.opened(tmp_path) as url:
        db = Database.open(url)
        async with db.read() as one, db.read() as other, db.write() as tx:
            for connection in (one, other, tx):
                await connection.scalar(text("SELECT 1"))
        network.silent = True
        async with loop_timeout(5):
            await db.close()


@only_postgresql
async def test_a_connection_that_listens_ends_if_the_network_drops_its_first_statement(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_schema = postgresql._name_schema

    async def silenced(driver: asyncpg.Connection) -> None:
        network.silent = True
        await name_schema(driver)

    monkeypatch.setattr(postgresql, "_name_schema", silenced)
    monkeypatch.setattr(postgresql, "CONNECT_SECONDS", 0.2)
    network = Network(database_url)
    async with network.opened(tmp_path) as url, loop_timeout(5):
        await postgresql.listen(url, "anything", lambda _: None)
