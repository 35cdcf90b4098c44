"""Awaited clients, called in one way: the sync one in a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mercato_client import AsyncClient, Client, Pages, Retries

KINDS = (Client, AsyncClient)

AT_ONCE = Retries(first_wait=0)
"""Repeats without waiting, unless the server asks for it."""


class Awaited:
    """A client whose methods are awaited. A list is its first page; `entries` reads it to its end."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        async def awaited(*args: Any, **options: Any) -> Any:
            if isinstance(self.client, AsyncClient):
                return await method(*args, **options)
            result = await asyncio.to_thread(method, *args, **options)
            return result.page if isinstance(result, Pages) else result

        return awaited

    async def entries(self, name: str, *args: Any, **options: Any) -> list[Any]:
        """Return every entry of every page of a list."""
        method = getattr(self.client, name)
        if isinstance(self.client, AsyncClient):
            return [entry async for entry in method(*args, **options)]
        return await asyncio.to_thread(lambda: list(method(*args, **options)))


@asynccontextmanager
async def opened(
    kind: type[Client | AsyncClient], url: str, key: str = "k", **options: Any
) -> AsyncIterator[Awaited]:
    """Open a client of one kind; it repeats without waiting."""
    client = kind(url, key, **{"retries": AT_ONCE} | options)
    try:
        yield Awaited(client)
    finally:
        if isinstance(client, Client):
            client.close()
        else:
            await client.close()
