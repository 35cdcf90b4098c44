"""Runs each scenario once: on a port of its own, or one after the other on the port that was given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Final, Self

import aiohttp
from aiohttp import web

from mercato.devtools.certify.storefront.drivers import Driver
from mercato.devtools.certify.storefront.proxy import Fault, FaultProxy
from mercato.devtools.certify.storefront.scenarios import SCENARIOS, Scenario, ScenarioResult
from mercato.devtools.certify.storefront.service import running_service
from mercato.devtools.certify.suite import Skipped, UnusableTargetError
from mercato.testing.server import app_of, listening

MAX_BODY: Final = 4 << 20


class ScenarioRunner:
    """Runs a scenario when its result is first asked for."""

    def __init__(self, driver: Driver | None, *, key: str, slow_seconds: float) -> None:
        self._driver = driver
        self._key = key
        self._slow_seconds = slow_seconds
        self._slots = asyncio.Semaphore(driver.concurrency if driver is not None else 1)
        self._tasks: dict[str, asyncio.Task[ScenarioResult]] = {}
        self._stack = AsyncExitStack()
        self._base = ""
        self._current: FaultProxy | None = None

    async def __aenter__(self) -> Self:
        """Listen, if there is one port for all scenarios. Raises UnusableTargetError."""
        if self._driver is not None and self._driver.port is not None:
            app, port = app_of(self._handle, max_body=MAX_BODY), self._driver.port
            try:
                self._base = await self._stack.enter_async_context(listening(app, port=port))
            except OSError as error:
                raise UnusableTargetError(
                    f"The certifier can't listen on port {port}: {error.strerror}. Take another one with --listen."
                ) from None
        return self

    async def result(self, name: str) -> ScenarioResult:
        """Return the result of a scenario. Raises Skipped when there is no storefront."""
        if self._driver is None:
            raise Skipped("Say how to drive the storefront: --command, or --listen.")
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._run(SCENARIOS[name], self._driver))
        return await asyncio.shield(self._tasks[name])

    async def __aexit__(self, *_error: object) -> None:
        """Stop the scenarios that are still running."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._stack.aclose()

    async def _run(self, scenario: Scenario, driver: Driver) -> ScenarioResult:
        script = {"place": (Fault(seconds=self._slow_seconds),)} if scenario.is_slow else scenario.script
        async with (
            self._slots,
            running_service(scenario.offers()) as service,
            aiohttp.ClientSession() as session,
        ):
            proxy = FaultProxy(service, session, key=self._key, script=script)
            store_id = str(service.stores[0].store.id) if scenario.names_store else ""
            async with self._published(proxy):
                for number in range(scenario.times):
                    again = ", once more" if number else ""
                    end = await driver.buy(proxy, store_id, scenario.situation + again)
        return ScenarioResult(
            calls=proxy.calls,
            end=end,
            stores=service.stores,
            key=self._key,
            is_one_storefront=driver.is_one_storefront,
        )

    @asynccontextmanager
    async def _published(self, proxy: FaultProxy) -> AsyncIterator[None]:
        """Make a proxy reachable, on the one port if there is one."""
        if not self._base:
            async with listening(app_of(proxy.handle, max_body=MAX_BODY)) as proxy.base:
                yield
            return
        proxy.base, self._current = self._base, proxy
        try:
            yield
        finally:
            self._current = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Handle a request to the one port. Between two scenarios the client is asked to try again."""
        if self._current is None:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})
        return await self._current.handle(request)
