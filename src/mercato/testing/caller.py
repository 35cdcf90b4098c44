"""A partner's HTTP client: a key, JSON in and out, every answer read to its end."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import aiohttp

TIMEOUT: Final = aiohttp.ClientTimeout(total=30)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the service; header names in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body's value, None for an empty body."""
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the service as one partner."""

    base: str
    key: str
    session: aiohttp.ClientSession

    def with_key(self, key: str) -> Self:
        """Return a caller of the same service with another key."""
        return replace(self, key=key)

    async def get(self, path: str, **headers: str) -> Answer:
        """GET a path of the service; a header's name is written with underscores."""
        return await self._call("GET", path, None, headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """POST a JSON body, or none; a header's name is written with underscores."""
        return await self._call("POST", path, body, headers)

    async def _call(self, method: str, path: str, body: Any, named: Mapping[str, str]) -> Answer:
        headers = {"Authorization": f"Bearer {self.key}"}
        headers |= {name.replace("_", "-"): text for name, text in named.items()}
        url = self.base + path
        async with self.session.request(method, url, json=body, headers=headers, timeout=TIMEOUT) as reply:
            return Answer(reply.status, reply.headers, await reply.read())
