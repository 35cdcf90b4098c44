"""`Client` and `AsyncClient`: every operation, typed, bounded in time, and repeated where that is safe."""

import asyncio
import os
import time
from types import TracebackType
from typing import Self, TypeVar

from mercato.client.aio import AsyncTransport
from mercato.client.commerce import Commerce
from mercato.client.core import TIMEOUT, Retries, core_of
from mercato.client.errors import MercatoError
from mercato.client.exchange import Reply, Script, Send
from mercato.client.marketfront import Clinic, Marketfront
from mercato.client.operation import Runs, RunsAsync
from mercato.client.transport import Transport
from mercato.client.waiting import CommerceWaits, MarketfrontWaits

R = TypeVar("R")


class Surfaces(Commerce, CommerceWaits, Marketfront, MarketfrontWaits, Clinic):
    """Both surfaces; a key opens one of them."""


class Client(Surfaces, Runs):
    """A partner's client. Threads may share one; `close` it, or use it in a `with`.

    Without `url` and `key` it takes `MERCATO_URL` and `MERCATO_KEY`. `timeout` is in seconds, for each attempt.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT,
        retries: Retries | None = None,
    ) -> None:
        self.core = core_of(url, key, timeout=timeout, retries=retries, environment=os.environ)
        self._transport = Transport(self.core.url, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.core.url!r})"

    def close(self) -> None:
        """Close the connections that are kept."""
        self._transport.close()

    def run(self, script: Script[R]) -> R:
        """Do what the script asks for; return its result."""
        reply: Reply | None = None
        fault: MercatoError | None = None
        while True:
            try:
                step = script.send(reply) if fault is None else script.throw(fault)
            except StopIteration as end:
                result: R = end.value
                return result
            reply = fault = None
            if not isinstance(step, Send):
                time.sleep(step.seconds)
                continue
            try:
                reply = self._transport.send(step.prepared, step.within)
            except MercatoError as error:
                fault = error


class AsyncClient(Surfaces, RunsAsync):
    """The same for asyncio: `async with AsyncClient() as client: await client.get_store(…)`."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT,  # of each attempt; the whole call may take several
        retries: Retries | None = None,
    ) -> None:
        self.core = core_of(url, key, timeout=timeout, retries=retries, environment=os.environ)
        self._transport = AsyncTransport(self.core.url, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.core.url!r})"

    async def close(self) -> None:
        """Close the connections that are kept."""
        await self._transport.close()

    async def run(self, script: Script[R]) -> R:
        """Do what the script asks for; return its result."""
        reply: Reply | None = None
        fault: MercatoError | None = None
        while True:
            try:
                step = script.send(reply) if fault is None else script.throw(fault)
            except StopIteration as end:
                result: R = end.value
                return result
            reply = fault = None
            if not isinstance(step, Send):
                await asyncio.sleep(step.seconds)
                continue
            try:
                reply = await self._transport.send(step.prepared, step.within)
            except MercatoError as error:
                fault = error
