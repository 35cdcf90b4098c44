"""A partner's HTTP client: a key, JSON in and out, every answer read to its end within bounds."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Self

import aiohttp
import msgspec
from msgspec import Struct
from multidict import CIMultiDictProxy

from mercato_contract import clock
from mercato_contract.wire import MAX_RETRY_AFTER, parse_retry_after

TIMEOUT: Final = aiohttp.ClientTimeout(total=30)

DOOR: Final = "/mcp"
"""Where AI agents call tools."""

POLL: Final = 0.1
"""Seconds between two polls of a resource."""

IDLE_SECONDS: Final = 5.0
"""How long a connection is kept without a request. A service closes an idle one after 10 s: a POST at that moment
fails, and nobody knows whether it arrived."""

MAX_ANSWER: Final = 16 << 20
"""Bytes of an answer, decompressed. The longest, a page of events, has a few MiB."""

MAX_CATALOG: Final = 128 << 20
"""Bytes of a CatalogSet, the one answer that may have more."""

_SHOWN: Final = 200
"""Characters that are shown of an answer that isn't a problem."""


class ServiceError(Exception):
    """The service doesn't do what it was asked to; the message says why, and what to do."""


class NoAnswerError(ServiceError):
    """No complete answer arrived."""


class RefusedError(ServiceError):
    """The service refused."""

    def __init__(self, what: str, answer: "Answer") -> None:
        advice = _ADVICE.get(answer.status)
        super().__init__(f"{what}: {answer.words()}" + (f" {advice}" if advice else ""))
        self.answer = answer


_UNREADABLE: Final = (ValueError, RecursionError)
"""Raised by a body that isn't JSON, has another form, or is nested too deep."""

_SUCCESS: Final = range(200, 300)
_REDIRECT: Final = range(300, 400)

_ADVICE: Final[Mapping[int, str]] = {
    **dict.fromkeys(_SUCCESS, "Is this the URL of a Mercato service?"),
    **dict.fromkeys(_REDIRECT, "Use the address that this one leads to: the key isn't sent to another."),
    HTTPStatus.UNAUTHORIZED: "Is the key right, and not revoked? mercato key list NAME; mercato key create NAME",
    HTTPStatus.FORBIDDEN: "A merchant needs a commerce key, a storefront a marketfront key.",
    HTTPStatus.METHOD_NOT_ALLOWED: "Is this the URL of a Mercato service?",
}


class _Error(Struct):
    code: str


class _Problem(Struct, rename="camel"):
    """What is read of a problem of any service."""

    title: str
    detail: str | None = None
    error_code: str | None = None
    errors: list[_Error] | None = None
    order_id: str | None = None
    onboarding_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the service; header names in any case."""

    status: int
    headers: CIMultiDictProxy[str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """Return the body's value, None for an empty body."""
        return json.loads(self.body) if self.body else None

    def problem(self) -> Mapping[str, Any]:
        """Return the problem in the body, an empty one if there is none."""
        try:
            msgspec.json.decode(self.body, type=_Problem)
            value: Mapping[str, Any] = self.json()
        except _UNREADABLE:
            return {}
        return value

    @property
    def retry_after(self) -> float | None:
        """Return the seconds to wait before a repeat: the problem's, or those of the header, which may be a date."""
        seconds = self.problem().get("retryAfter")
        if isinstance(seconds, int) and seconds > 0:
            return float(min(seconds, MAX_RETRY_AFTER))
        return parse_retry_after(self.headers.get("Retry-After"), clock.now())

    @property
    def code(self) -> str | None:
        """Return the errorCode of a problem."""
        return self.problem().get("errorCode")

    @property
    def is_retryable(self) -> bool:
        """Return whether a problem says that the same request may succeed later."""
        return self.problem().get("retryable") is True

    def words(self) -> str:
        """Return the status, and what a problem says."""
        problem = self.problem()
        if not problem:
            return f"{self.status} {self.body[: 4 * _SHOWN].decode('utf-8', 'replace')[:_SHOWN]}".strip()
        return f"{self.status} {problem.get('errorCode')}: {problem.get('detail') or problem['title']}"

    def expect(self, status: int, what: str, kind: Any = dict[str, Any]) -> Any:
        """Return the body's members, of an answer of this type of the contract.

        Raises RefusedError for another status or type; `what` says what was refused.
        """
        if self.status != status:
            raise RefusedError(what, self)
        if self.status == HTTPStatus.NO_CONTENT:
            return None
        try:
            msgspec.json.decode(self.body, type=kind)
            return self.json()
        except _UNREADABLE:
            raise RefusedError(what, self) from None


def facts_of(answer: Any) -> Any:
    """Return the facts in an answer of the agents' door: the result of a tool, or its refusal; {} if it has none."""
    result = answer.get("result") if isinstance(answer, dict) else None
    return (result.get("structuredContent") if isinstance(result, dict) else None) or {}


def open_session(*, idle_seconds: float = IDLE_SECONDS, **options: Any) -> aiohttp.ClientSession:
    """Return a session for calls to a service, within an event loop; options are aiohttp's."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(keepalive_timeout=idle_seconds), **options)


@dataclass(slots=True)
class Caller:
    """Calls the service as one partner, or without a key. Raises NoAnswerError without an answer."""

    base: str
    key: str | None = field(repr=False)
    session: aiohttp.ClientSession = field(repr=False)

    def with_key(self, key: str) -> Self:
        """Return a caller of the same service with another key."""
        return replace(self, key=key)

    async def get(self, path: str, **headers: str) -> Answer:
        """GET a path of the service; a header's name is written with underscores."""
        return await self.call("GET", path, headers=_named(headers))

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """POST a JSON body, or none; a header's name is written with underscores."""
        return await self.call("POST", path, body, headers=_named(headers))

    async def put(self, path: str, body: Any, **headers: str) -> Answer:
        """PUT a JSON body; a header's name is written with underscores."""
        return await self.call("PUT", path, body, headers=_named(headers))

    async def until(
        self, path: str, done: Callable[[Any], bool], what: str, kind: Any, *, poll: float = POLL
    ) -> Any:
        """Poll a resource of this type until it is done, and return it; the caller sets a timeout.

        `what` is for refusals.
        """
        while True:
            value = (await self.get(path)).expect(HTTPStatus.OK, what, kind)
            if done(value):
                return value
            await asyncio.sleep(poll)

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send a request with the key; options are `send`'s. Raises NoAnswerError, and ServiceError as `send` does."""
        try:
            return await self.send(method, path, body, **{"timeout": TIMEOUT} | options)
        except aiohttp.ClientConnectorError:
            reason = f"Nothing answers at {self.base}. Is it running? Start one with: mercato serve"
        except aiohttp.InvalidURL:
            reason = f"{self.base} isn't the URL of a service. Write it like http://127.0.0.1:8000"
        except TimeoutError:
            reason = f"{self.base} did not answer within {TIMEOUT.total:g} s."
        except (aiohttp.ClientError, OSError) as error:
            reason = f"The connection to {self.base} broke: {type(error).__name__}."
        raise NoAnswerError(reason)

    async def send(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send a request with the key: bytes as they are, any other body as JSON. Options and errors are aiohttp's.

        No redirect is followed. Raises ServiceError for an answer of more than `max_bytes`; its rest isn't read.
        """
        max_bytes: int = options.pop("max_bytes", MAX_ANSWER)
        options.setdefault("allow_redirects", False)
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        headers |= options.pop("headers", {})
        if isinstance(body, bytes):
            headers.setdefault("Content-Type", "application/json")
            options["data"] = body
        elif body is not None:
            options["json"] = body
        url = self.base.rstrip("/") + path
        async with self.session.request(method, url, headers=headers, **options) as reply:
            read = bytearray()
            async for part in reply.content.iter_any():
                read += part
                if len(read) > max_bytes:
                    raise ServiceError(
                        f"The answer of {self.base} has more than {max_bytes:,} bytes, so no Mercato service wrote it. "
                        "Is this its URL?"
                    )
            return Answer(reply.status, reply.headers, bytes(read))


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}
