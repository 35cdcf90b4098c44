"""Requests, replies, and the steps of a call, without a network.

A call is `Steps`: a generator that yields steps (`Send`, `Pause`) and receives the replies. The sync and the async
client differ only in how they perform the steps.
"""

import re
import zlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

import msgspec

from mercato_client.errors import ConfigurationError, MercatoError, UnreadableError, problem_of
from mercato_contract.wire import as_json, parse_retry_after, rfc3339

R = TypeVar("R")

Id: TypeAlias = UUID | str

MAX_BYTES: Final = 128 * 1024 * 1024
"""Bytes of the largest answer, a CatalogSet."""

_PARAMETER: Final = re.compile(r"\{\w+\}")
_OK: Final = range(200, 300)
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The parts of a request: ids in the order of the path, query, body."""

    ids: tuple[Id, ...] = ()
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = field(default=None, repr=False)
    idempotency_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Request(Sent, Generic[R]):
    """One call of an operation. `repeats` says whether it is safe to send twice."""

    method: str
    path: str
    repeats: bool
    returns: type[R]

    def target(self) -> str:
        """Return path and query of the request line."""
        ids = iter(self.ids)
        path = _PARAMETER.sub(lambda _: quote(_checked(next(ids)), safe=""), self.path)
        query = {name: _text(value) for name, value in self.query.items() if value is not None}
        return f"{path}?{urlencode(query)}" if query else path

    def content(self) -> bytes | None:
        """Return the bytes of the body, None when there is none."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return as_json(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request as it goes over the wire."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, read to its end; names of headers are lower-case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def retry_after(self) -> float | None:
        """The seconds of `Retry-After`, which may also be a date."""
        return parse_retry_after(self.headers.get("retry-after"), utc_now())


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request and return its reply; raise NoAnswerError without one.

    `within` is in seconds, if it is shorter than the client's timeout.
    """

    prepared: Prepared
    within: float | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for this number of seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """The steps have ended with this."""

    value: R


Steps: TypeAlias = Generator[Send | Pause, Response | None, R]


def advance(steps: Steps[R], result: Response | MercatoError | None) -> Send | Pause | Done[R]:
    """Give the result of the last step; return the next one."""
    try:
        return steps.throw(result) if isinstance(result, MercatoError) else steps.send(result)
    except StopIteration as end:
        return Done(end.value)


def send(prepared: Prepared, within: float | None = None) -> Steps[Response]:
    """Send a request."""
    reply = yield Send(prepared, within)
    assert reply is not None
    return reply


def pause(seconds: float) -> Steps[None]:
    """Wait."""
    yield Pause(seconds)


def read(request: Request[R], reply: Response) -> R:
    """Return the decoded reply. Raises ProblemError, UnreadableError."""
    body = _decompress(reply)
    if reply.status not in _OK:
        raise problem_of(
            reply.status, body, retry_after=reply.retry_after, request_id=reply.headers.get("x-request-id")
        )
    returns: Any = request.returns
    if returns is NoneType:
        return None  # type: ignore[return-value]  # R is None
    try:
        value: R = _decoder(returns).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise UnreadableError(
            f"The answer to {request.method} {request.target()} isn't from a Mercato service ({fault}). "
            "Is the URL right?"
        ) from None
    return value


def given_or_new(idempotency_key: str | None) -> str:
    """Return the caller's key, even one that will be refused: another would make the repeat a second order."""
    return str(uuid4() if idempotency_key is None else idempotency_key)


def _checked(given: Id) -> str:
    """Return the text of an id. Refuses what would make another path: nothing, and the dots that a URL resolves."""
    text = str(given) if isinstance(given, UUID | str) else ""
    if text in {"", ".", ".."} or not text.isprintable():
        raise ConfigurationError(f"{given!r:.100} isn't an id. Give the UUID, or its text.")
    return text


def utc_now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _decompress(reply: Response) -> bytes:
    """Return the body decompressed, up to the limit; only gzip is requested."""
    if reply.headers.get("content-encoding", "").strip().lower() != "gzip":
        return reply.body
    try:
        unpacker = zlib.decompressobj(_GZIP)
        body = unpacker.decompress(reply.body, MAX_BYTES)
    except zlib.error:
        raise UnreadableError("The answer can't be decompressed.") from None
    if not unpacker.eof:
        raise UnreadableError("The answer is cut off, or too long.")
    return body


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
        case datetime():
            return rfc3339(value)
        case _:
            return str(value)
