"""Calls of partners while the service is being killed: to any server, repeated until there is a final answer."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

import aiohttp
from tests.prove.processes import Fleet

from mercato_client.testing.caller import Answer, Caller, NoAnswerError

LONGEST_WAIT: Final = 1.0
"""The most seconds between two tries, whatever Retry-After says: short waits cause more races."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that was answered, with the instants of both; status 0 for one without an answer."""

    operation: str
    status: int
    sent_at: float
    answered_at: float


@dataclass(slots=True)
class Calls:
    """The requests of a round, counted."""

    fleet: Fleet
    session: aiohttp.ClientSession
    sent: int = 0
    answered: int = 0
    odd: Counter[str] = field(default_factory=Counter)
    """Answers that the service must never give."""
    log: list[Answered] = field(default_factory=list)
    """Every request, in the order of their ends."""


@dataclass(frozen=True, slots=True)
class Partner:
    """Calls as one partner, with its own random generator."""

    calls: Calls
    key: str
    rng: random.Random

    async def once(self, method: str, path: str, body: Any = None, **headers: str) -> Answer | None:
        """Send a request to any server; None when no answer came."""
        base = await self.calls.fleet.base()
        self.calls.sent += 1
        operation, sent_at = f"{method} {path.partition('?')[0]}", monotonic()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            answer = await Caller(base, self.key, self.calls.session).call(method, path, body, headers=named)
        except NoAnswerError:
            self.calls.log.append(Answered(operation, 0, sent_at, monotonic()))
            return None
        self.calls.answered += 1
        self.calls.log.append(Answered(operation, answer.status, sent_at, monotonic()))
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self.calls.odd[f"{operation} answered 500"] += 1
        return answer

    async def until_final(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Repeat a request until its answer is final."""
        while True:
            answer = await self.once(method, path, body, **headers)
            if answer is not None and not answer.is_retryable:
                return answer
            await self.pause(answer)

    async def pause(self, answer: Answer | None) -> None:
        """Wait before the next try."""
        longest = LONGEST_WAIT if answer is not None else LONGEST_WAIT / 4
        await asyncio.sleep(self.rng.uniform(0.05, longest))

    async def get(self, path: str) -> Any:
        """Return the body of a path once it answers 200. Raises LookupError for any other final answer."""
        answer = await self.until_final("GET", path)
        if answer.status != HTTPStatus.OK:
            raise LookupError(f"GET {path}: {answer.status} {answer.code}")
        return answer.json()
