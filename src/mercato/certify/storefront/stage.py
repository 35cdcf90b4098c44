"""Where the plays are played: on a port of its own each, or one after the other on the port that was given."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import aiohttp
from aiohttp import web

from mercato.certify.model import Skipped, UnusableTargetError
from mercato.certify.storefront.drivers import Driver
from mercato.certify.storefront.network import Network, Turn
from mercato.certify.storefront.plays import PLAYS, Play, Played
from mercato.certify.storefront.service import selling

HOST: Final = "127.0.0.1"

_BETWEEN: Final = web.HTTPServiceUnavailable.status_code


class Stage:
    """Plays each play once, when it is first asked for."""

    def __init__(self, driver: Driver | None, *, key: str, slow_seconds: float) -> None:
        self._driver = driver
        self._key = key
        self._slow = slow_seconds
        self._places = asyncio.Semaphore(driver.at_once if driver is not None else 1)
        self._tasks: dict[str, asyncio.Task[Played]] = {}
        self._stack = AsyncExitStack()
        self._base = ""
        self._now: Network | None = None

    async def open(self) -> None:
        """Listen, if there is one port for all plays. Raises UnusableTargetError."""
        if self._driver is not None and self._driver.port is not None:
            self._base = await self._stack.enter_async_context(_serving(self._handle, self._driver.port))

    async def played(self, name: str) -> Played:
        """Return what came of a play. Raises Skipped when nobody can play it."""
        if self._driver is None:
            raise Skipped("Say how to drive the storefront: --command, or --listen.")
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._play(PLAYS[name], self._driver))
        return await asyncio.shield(self._tasks[name])

    async def close(self) -> None:
        """Stop what is still played."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._stack.aclose()

    async def _play(self, play: Play, driver: Driver) -> Played:
        async with self._places:
            script = {"place": (Turn(seconds=self._slow),)} if play.is_slow else play.script
            async with selling(play.offers()) as service, aiohttp.ClientSession() as session:
                network = Network(service, session, key=self._key, script=script, is_later=play.is_later)
                store_id = str(service.shops[0].store.id) if play.names_store else ""
                async with self._put_on(network):
                    for number in range(play.times):
                        words = play.words if not number else f"{play.words}, once more"
                        ended = await driver.buy(network, self._key, store_id, words)
            return Played(
                calls=network.calls, ended=ended, shops=service.shops, key=self._key, is_kept=driver.keeps
            )

    @asynccontextmanager
    async def _put_on(self, network: Network) -> AsyncIterator[None]:
        if self._base:
            network.base, self._now = self._base, network
            try:
                yield
            finally:
                self._now = None
            return
        async with _serving(network.handle, 0) as base:
            network.base = base
            yield

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Answer what comes to the one port: what comes between two plays is to come again."""
        if self._now is None:
            return web.Response(status=_BETWEEN, headers={"Retry-After": "1"})
        return await self._now.handle(request)


@asynccontextmanager
async def _serving(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], port: int
) -> AsyncIterator[str]:
    """Serve on loopback while the block runs; yield where."""
    app = web.Application(client_max_size=4 << 20)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, HOST, port).start()
        except OSError as error:
            raise UnusableTargetError(
                f"Port {port} cannot be listened on: {error.strerror}. Take another one with --listen."
            ) from None
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
