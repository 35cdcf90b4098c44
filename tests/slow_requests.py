"""Requests whose bodies take their time."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from tests.service import Client
from tests.waiting import PATIENCE


@dataclass
class SlowRequest:
    """A request of which all but the rest of its body was sent, by a caller whom the service has let in."""

    rest: bytes = field(repr=False)
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def of(cls, client: Client, method: str, path: str, body: object) -> Self:
        """Begin a request of a partner's key."""
        sent = {"Authorization": f"Bearer {client.key}", "Content-Type": "application/json"}
        return await cls.begin(client.base, method, path, sent, json.dumps(body).encode())

    @classmethod
    async def begin(cls, base: str, method: str, path: str, headers: dict[str, str], body: bytes) -> Self:
        parts = urlsplit(base)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        own = {"Host": parts.netloc, "Content-Length": str(len(body)), "Connection": "close"}
        own |= {"Expect": "100-continue"}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in (own | headers).items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        # The service answers so once it reads the body, for which it knows who sends it.
        async with asyncio.timeout(PATIENCE):
            interim = await reader.readuntil(b"\r\n\r\n")
        assert interim.startswith(b"HTTP/1.1 100 "), interim
        writer.write(body[:1])
        await writer.drain()
        return cls(body[1:], reader, writer)

    async def end(self) -> int:
        """Send the rest, and return the status."""
        self.writer.write(self.rest)
        answer = await self.reader.read()
        self.writer.close()
        return int(answer.split(b" ", 2)[1])
