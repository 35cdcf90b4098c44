"""`Client` and `AsyncClient`: every operation, typed, bounded in time, and repeated where that is safe."""

import asyncio
import os
import time
from typing import Self, TypeVar

import httpx

from mercato_client.both import EitherKey
from mercato_client.commerce import Commerce
from mercato_client.core import TIMEOUT, Core, Retries, core_of
from mercato_client.errors import MercatoError
from mercato_client.exchange import Done, Pause, Response, Send, Steps, advance
from mercato_client.marketfront import Marketfront
from mercato_client.operation import Runs, RunsAsync
from mercato_client.transport import AsyncTransport, Transport
from mercato_client.waiting import CommerceWaits, MarketfrontWaits

R = TypeVar("R")


class Surfaces(Commerce, CommerceWaits, Marketfront, MarketfrontWaits, EitherKey):
    """Both surfaces; a key opens one of them."""

    core: Core

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.core.url!r})"


class Client(Surfaces, Runs):
    """A partner's client. Threads may share one; `close` it, or use it in a `with`.

    Without `url` and `key` it takes `MERCATO_URL` and `MERCATO_KEY`. `timeout` is in seconds, for each attempt.
    `http_client` is one of your own, with proxies or certificates for example; it stays open when this one is closed.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT,
        retries: Retries | None = None,
        http_client: httpx.Client | None = None,
    ) -> None:
        self.core = core_of(url, key, timeout=timeout, retries=retries, environment=os.environ)
        self._transport = Transport(self.core.url, timeout=timeout, http_client=http_client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        self._transport.close()

    def run(self, steps: Steps[R]) -> R:
        """Perform the steps; return their result."""
        result: Response | MercatoError | None = None
        while True:
            match advance(steps, result):
                case Done(value):
                    return value
                case Pause(seconds):
                    time.sleep(seconds)
                    result = None
                case Send(prepared, within):
                    try:
                        result = self._transport.send(prepared, within)
                    except MercatoError as fault:
                        result = fault


class AsyncClient(Surfaces, RunsAsync):
    """The same for asyncio: `async with AsyncClient() as client: await client.get_store(…)`."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT,
        retries: Retries | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self.core = core_of(url, key, timeout=timeout, retries=retries, environment=os.environ)
        self._transport = AsyncTransport(self.core.url, timeout=timeout, http_client=http_client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept."""
        await self._transport.close()

    async def run(self, steps: Steps[R]) -> R:
        """Perform the steps; return their result."""
        result: Response | MercatoError | None = None
        while True:
            match advance(steps, result):
                case Done(value):
                    return value
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                    result = None
                case Send(prepared, within):
                    try:
                        result = await self._transport.send(prepared, within)
                    except MercatoError as fault:
                        result = fault
