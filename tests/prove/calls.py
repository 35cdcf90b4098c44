"""How partners call the service while it dies under them: any server, again until there is a final answer."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import msgspec
from tests.prove.processes import Fleet

TIMEOUT: Final = aiohttp.ClientTimeout(total=20)

LONGEST_WAIT: Final = 1.0
"""Seconds between two tries at most, whatever the service asks for: impatience makes more races."""


class Answer(msgspec.Struct, frozen=True):
    """What the service said."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Return the body's value, None for an empty body."""
        return msgspec.json.decode(self.body) if self.body else None

    @property
    def code(self) -> str | None:
        """Return the errorCode of a problem."""
        said = self.json() if self.status >= HTTPStatus.BAD_REQUEST else None
        return said.get("errorCode") if isinstance(said, dict) else None

    @property
    def retryable(self) -> bool:
        """Tell whether the service says that the same request may end otherwise."""
        said = self.json() if self.status >= HTTPStatus.BAD_REQUEST else None
        return isinstance(said, dict) and bool(said.get("retryable"))


@dataclass(slots=True)
class Calls:
    """The requests of a round, counted."""

    fleet: Fleet
    session: aiohttp.ClientSession
    sent: int = 0
    answered: int = 0
    odd: Counter[str] = field(default_factory=Counter)
    """Answers that the service should never give."""


@dataclass(frozen=True, slots=True)
class Partner:
    """Calls as one partner, with chance of its own."""

    calls: Calls
    key: str
    chance: random.Random

    async def once(self, method: str, path: str, body: Any = None, **headers: str) -> Answer | None:
        """Send a request to any server; None when no answer came."""
        base = await self.calls.fleet.base()
        self.calls.sent += 1
        named = {"Authorization": f"Bearer {self.key}"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            async with self.calls.session.request(
                method, base + path, json=body, headers=named, timeout=TIMEOUT
            ) as reply:
                answer = Answer(reply.status, await reply.read())
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        self.calls.answered += 1
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self.calls.odd[f"{method} {path.partition('?')[0]} answered 500"] += 1
        return answer

    async def until_final(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request until it is answered with something that a repeat would not change."""
        while True:
            answer = await self.once(method, path, body, **headers)
            if answer is not None and not answer.retryable:
                return answer
            await self.pause(answer)

    async def pause(self, answer: Answer | None) -> None:
        """Wait a moment before the next try."""
        longest = LONGEST_WAIT if answer is not None else LONGEST_WAIT / 4
        await asyncio.sleep(self.chance.uniform(0.05, longest))

    async def get(self, path: str) -> Any:
        """Return what a path says, once it is answered with 200. Raises LookupError for any other final answer."""
        answer = await self.until_final("GET", path)
        if answer.status != HTTPStatus.OK:
            raise LookupError(f"GET {path}: {answer.status} {answer.code}")
        return answer.json()
