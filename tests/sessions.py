"""Sessions of PostgreSQL that stay open for the next test on their database.

Each session is a process of the server that reads the catalog and plans every statement anew, which costs more than
most tests. A service that runs for long keeps its pools, too.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from unittest.mock import patch

import asyncpg

from mercato.platform.db import postgresql
from mercato.platform.db.postgresql import Bounds, Sessions

MOST: Final = 2
"""Pools that are kept for a database: those of a service, and those of a test's own `Database`."""


class KeptBackend(postgresql.Backend):
    """A database whose pools are kept when it is closed, and taken by the next with the same settings."""

    def __init__(self, url: str, bounds: Bounds) -> None:
        self.bounds = bounds
        kept = _kept.get(url)
        # A command that a test runs in a thread has a loop of its own, and so its own sessions.
        self.kept = kept if kept is not None and kept.loop is _running_loop() else None
        same = [] if self.kept is None else [other for other in self.kept.pools if other.bounds == bounds]
        if self.kept is None or not same:
            super().__init__(url, bounds)
            return
        self.kept.pools.remove(same[0])
        vars(self).update(vars(same[0]))

    async def close(self) -> None:
        # A session that is in use is waited for.
        if self.kept is None or self.busy:
            await super().close()
            return
        if self not in self.kept.pools:
            self.kept.pools.append(self)
        if len(self.kept.pools) > MOST:
            await self.kept.pools.pop(0).end()

    async def end(self) -> None:
        await super().close()

    @property
    def pools(self) -> tuple[Sessions, Sessions]:
        return self.readers, self._writers

    @property
    def busy(self) -> bool:
        return any(pool.used for pool in self.pools)


class Kept:
    """What is kept for one database: pools, and the session that empties it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.loop = asyncio.get_running_loop()
        self._emptying: asyncpg.Connection | None = None
        self.pools: list[KeptBackend] = []

    async def emptying(self) -> asyncpg.Connection:
        """Return the session that empties the database."""
        if self._emptying is None or self._emptying.is_closed():
            self._emptying = await asyncpg.connect(self._url)
        return self._emptying

    @property
    def sessions(self) -> int:
        """How many sessions of the pools are open."""
        return sum(len(pool.used) + len(pool.idle) for backend in self.pools for pool in backend.pools)

    async def end(self) -> None:
        for backend in self.pools:
            await backend.end()
        self.pools.clear()
        if self._emptying is not None:
            await self._emptying.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_kept: dict[str, Kept] = {}


def keep(url: str, plain: str) -> Kept:
    """Keep the sessions of the database at the URL, which is `plain` to the driver, from now on."""
    if url not in _kept:
        _kept[url] = Kept(plain)
    return _kept[url]


async def forget(url: str) -> None:
    """End the database's sessions."""
    await _kept.pop(url).end()


@asynccontextmanager
async def keeping() -> AsyncIterator[None]:
    """Let databases keep their sessions while the block runs, in one event loop."""
    with patch.object(postgresql, "Backend", KeptBackend):
        yield
        for url in tuple(_kept):
            await forget(url)
