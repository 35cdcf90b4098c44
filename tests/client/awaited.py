"""Awaited clients, called in one way: the sync one in a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mercato_client import AsyncClient, Client, Retries

KINDS = (Client, AsyncClient)

AT_ONCE = Retries(first_wait=0)
"""Repeats without waiting, unless the server asks for it."""


class Awaited:
    """A client whose methods are awaited, and whose lists are read to their end."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        async def awaited(*args: Any, **options: Any) -> Any:
            if isinstance(self.client, Client):
                return await asyncio.to_thread(_read, method, *args, **options)
            if name.startswith("each_"):
                return [entry async for entry in method(*args, **options)]
            return await method(*args, **options)

        return awaited


def _read(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    result = method(*args, **options)
    return list(result) if hasattr(result, "__next__") else result


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
