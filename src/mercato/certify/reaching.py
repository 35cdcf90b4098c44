"""Connections to who is certified."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from mercato.certify.model import UnusableTargetError
from mercato.certify.shown import address
from mercato.outbound import USER_AGENT

CONNECT_SECONDS: Final = 5.0


async def reach(url: str) -> None:
    """Connect once. Raises UnusableTargetError when nobody is there."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError):
        raise UnusableTargetError(
            f"Nothing answers at {address(url)}. Is it running, and is that the address it listens on?"
        ) from None
    writer.close()


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    # A connection for each call: one that the other side has closed in the meantime would look like a fault.
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=64),
        headers={aiohttp.hdrs.USER_AGENT: USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as session:
        yield session
