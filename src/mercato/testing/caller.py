"""A partner's HTTP client: a key, JSON in and out, every answer read to its end."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Self

import aiohttp

TIMEOUT: Final = aiohttp.ClientTimeout(total=30)

_SHOWN: Final = 200
"""Characters of an answer without a problem that are shown."""


class ServiceError(Exception):
    """The service does not do what it was asked for; the message says why, and what to do."""


class NoAnswerError(ServiceError):
    """Nothing answers, or not to the end."""


class RefusedError(ServiceError):
    """The service said no."""

    def __init__(self, what: str, answer: "Answer") -> None:
        advice = _ADVICE.get(answer.status)
        super().__init__(f"{what}: {answer.words()}" + (f" {advice}" if advice else ""))
        self.answer = answer


_ADVICE: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "Is the key right, and not revoked? mercato key list NAME; mercato key create NAME",
    HTTPStatus.FORBIDDEN: "A merchant needs a commerce key, a storefront a marketfront key.",
    HTTPStatus.METHOD_NOT_ALLOWED: "Is that a Mercato?",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the service; header names in any case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """Return the body's value, None for an empty body."""
        return json.loads(self.body) if self.body else None

    def problem(self) -> Mapping[str, Any]:
        """Return the problem in the body, an empty one if there is none."""
        try:
            said = self.json()
        except ValueError:
            return {}
        return said if isinstance(said, dict) and "title" in said else {}

    def words(self) -> str:
        """Return the status, and what a problem says."""
        problem = self.problem()
        if not problem:
            return f"{self.status} {self.body.decode('utf-8', 'replace')[:_SHOWN]}".strip()
        return f"{self.status} {problem.get('errorCode')}: {problem.get('detail') or problem['title']}"

    def expect(self, status: int, what: str) -> Any:
        """Return the body's value. Raises RefusedError for another status, which says what was refused."""
        if self.status != status:
            raise RefusedError(what, self)
        try:
            return self.json()
        except ValueError:
            raise RefusedError(what, self) from None


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the service as one partner. Raises NoAnswerError when nothing answers."""

    base: str
    key: str = field(repr=False)
    session: aiohttp.ClientSession = field(repr=False)

    def with_key(self, key: str) -> Self:
        """Return a caller of the same service with another key."""
        return replace(self, key=key)

    async def get(self, path: str, **headers: str) -> Answer:
        """GET a path of the service; a header's name is written with underscores."""
        return await self.call("GET", path, None, _written(headers))

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """POST a JSON body, or none; a header's name is written with underscores."""
        return await self.call("POST", path, body, _written(headers))

    async def put(self, path: str, body: Any, **headers: str) -> Answer:
        """PUT a JSON body; a header's name is written with underscores."""
        return await self.call("PUT", path, body, _written(headers))

    async def call(self, method: str, path: str, body: Any, named: Mapping[str, str]) -> Answer:
        """Send a request with these headers and the key."""
        headers = {"Authorization": f"Bearer {self.key}", **named}
        url = self.base.rstrip("/") + path
        try:
            async with self.session.request(
                method, url, json=body, headers=headers, timeout=TIMEOUT
            ) as reply:
                return Answer(reply.status, reply.headers, await reply.read())
        except aiohttp.ClientConnectorError:
            raise NoAnswerError(
                f"Nothing answers at {self.base}. Is it running? Start one with: mercato serve"
            ) from None
        except aiohttp.InvalidURL:
            raise NoAnswerError(
                f"{self.base} is no URL of a service. Write it as http://127.0.0.1:8000"
            ) from None
        except TimeoutError:
            raise NoAnswerError(f"{self.base} did not answer within {TIMEOUT.total:g} s.") from None
        except aiohttp.ClientError as error:
            raise NoAnswerError(f"{self.base} broke off: {type(error).__name__}.") from None


def _written(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}
