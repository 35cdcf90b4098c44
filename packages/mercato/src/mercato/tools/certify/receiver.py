"""A webhook receiver that is certified: signed requests to it, correct or wrong in one way, and what it answers."""

import asyncio
import contextlib
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
import msgspec

from mercato.features.certification.report import Exchange
from mercato.features.webhooks.model import envelope
from mercato.platform import clock
from mercato.platform.outbound.results import MAX_REPLY
from mercato.tools.certify.redaction import Redactor, without_credentials
from mercato.tools.certify.suite import Failed, NoAnswer, UnusableTargetError
from mercato_contract import USER_AGENT
from mercato_contract.signing import target, webhook_headers
from mercato_contract.wire import as_json

TRACE: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CONNECT_SECONDS: Final = 5.0

INTERRUPT_SECONDS: Final = 0.05
"""How long the server has to read what was sent before the connection is closed."""


Change = Callable[[Any], Any]
"""Changes the document of a webhook before it is signed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A receiver's response."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A webhook to send. `age` is how many seconds ago it was signed; a secret of None is the receiver's own.

    `headers` replace those that the service sends, None removes one. `signature` changes the webhook-signature, `sent`
    the body after it was signed.
    """

    suffix: str
    body: bytes = field(repr=False)
    webhook_id: str
    age: int = 0
    secrets: tuple[str | None, ...] = field(default=(None,), repr=False)
    headers: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    signature: Callable[[str], str] = str
    sent: Callable[[bytes], bytes] = bytes

    def but(self, **members: Any) -> "Message":
        """Return the same message with other members."""
        return replace(self, **members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Where webhooks go, and how they are signed. `seconds` limit a request."""

    url: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    session: aiohttp.ClientSession
    redactor: Redactor
    seconds: float = 15.0


class ReceiverContext(ABC):
    """What a check of a receiver works with. It records every exchange."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.exchanges: list[Exchange] = []

    @abstractmethod
    def sample(self) -> Message:
        """Return a message that is correct in every way."""

    @abstractmethod
    def accepted(self, reply: Reply) -> str:
        """Return how a message was accepted. Raises Failed when it wasn't."""

    def seconds_for(self, _suffix: str) -> float:
        """Return how long a response may take."""
        return self.receiver.seconds

    def message(
        self,
        suffix: str,
        kind: str,
        data: Any,
        *,
        webhook_id: UUID | None = None,
        change: Change | None = None,
    ) -> Message:
        """Return a message with the body that the service would send, or a change of it."""
        body = envelope(kind, occurred_at=clock.now(), data=data)
        if change is not None:
            body = as_json(change(msgspec.json.decode(body)))
        return Message(suffix=suffix, body=body, webhook_id=str(webhook_id or clock.new_id()))

    async def send(self, message: Message, *, method: str = "POST") -> Reply:
        """Send a webhook. Raises NoAnswer when no response arrives in time."""
        headers, body = self.headers(message), message.sent(message.body)
        seconds = self.seconds_for(message.suffix)
        return await self.request(method, self.url(message), headers, body, seconds=seconds)

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        seconds: float | None = None,
    ) -> Reply:
        """Send any request. Raises NoAnswer when no response arrives in time."""
        limit, began = seconds or self.receiver.seconds, monotonic()
        sent = self.receiver.redactor.message(f"{method} {without_credentials(url)}", headers or {}, body)
        try:
            async with (
                asyncio.timeout(limit),
                self.receiver.session.request(
                    method,
                    url,
                    data=body or None,
                    headers={"Accept-Encoding": "identity", **(headers or {})},
                    allow_redirects=False,
                ) as response,
            ):
                content = b""
                while len(content) <= MAX_REPLY and (more := await response.content.read(MAX_REPLY)):
                    content += more
                reply = Reply(response.status, dict(response.headers), content)
        except TimeoutError:
            words = f"No complete response arrived within {limit:g} s."
        except (aiohttp.ClientError, OSError) as error:
            words = self.receiver.redactor.text(f"No response arrived: {_reason(error)}")
        else:
            shown = self.receiver.redactor.message(str(reply.status), reply.headers, reply.body)
            self.record(sent, shown, began)
            return reply
        self.record(sent, words, began)
        raise NoAnswer(words)

    async def interrupt(self, message: Message, *, size: int | None = None) -> None:
        """Send the first `size` bytes of a webhook's body, or all of it, and close the connection."""
        url, body = self.url(message), message.body[:size]
        parts = urlsplit(url)
        headers = self.headers(message) | {"Host": parts.netloc.rpartition("@")[2], "Connection": "close"}
        headers["Content-Length"] = str(len(message.body))
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        began = monotonic()
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        writer = await _connect(url, tls)
        writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await writer.drain()
                await asyncio.sleep(INTERRUPT_SECONDS)
            writer.close()
            await writer.wait_closed()
        shown = self.receiver.redactor.message(
            f"POST {without_credentials(url)}", self.headers(message), body
        )
        point = "before a response arrived" if size is None else "in the middle of the body"
        self.record(shown, f"The connection was closed {point}.", began)

    def url(self, message: Message) -> str:
        return target(self.receiver.url, message.suffix) if message.suffix else self.receiver.url

    def headers(self, message: Message) -> dict[str, str]:
        """Return the headers of a message as the service sends them, with the message's changes."""
        headers = webhook_headers(
            webhook_id=message.webhook_id,
            timestamp=int(clock.now().timestamp()) - message.age,
            body=message.body,
            secrets=[secret or self.receiver.secret for secret in message.secrets],
            token=self.receiver.token,
            traceparent=TRACE,
        )
        headers["webhook-signature"] = message.signature(headers["webhook-signature"])
        changed = {name.lower() for name in message.headers}
        kept = {name: text for name, text in headers.items() if name.lower() not in changed}
        return kept | {name: text for name, text in message.headers.items() if text is not None}

    def record(self, sent: str, received: str, began: float) -> None:
        """Keep an exchange for the report."""
        ms = round((monotonic() - began) * 1000)
        self.exchanges.append(Exchange(sent=sent, received=received, ms=ms))


# --- what a status means -----------------------------------------------------------------------


def rejected(reply: Reply) -> str:
    """Return how a forged webhook was rejected. Raises Failed when it wasn't, or not with a 4xx."""
    if reply.is_success:
        raise Failed(f"It accepted the forged webhook, with {reply.status}.")
    return client_error(reply)


def client_error(reply: Reply) -> str:
    if not HTTPStatus.BAD_REQUEST <= reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Failed(f"It answered {reply.status}; a 4xx is expected.")
    return f"answered {reply.status}"


def acknowledged(reply: Reply) -> str:
    """Return the status that acknowledges an event: a 2xx, or 410, which unsubscribes."""
    if not reply.is_success and reply.status != HTTPStatus.GONE:
        raise Failed(f"It answered {reply.status}: the service would send the event again, for days.")
    return f"answered {reply.status}"


def no_server_error(reply: Reply) -> str:
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Failed(f"It answered {reply.status}.")
    return f"answered {reply.status}"


# --- connections ---------------------------------------------------------------------------------


async def check_reachable(url: str) -> None:
    """Connect once. Raises UnusableTargetError when nothing listens there."""
    try:
        writer = await _connect(url)
    except NoAnswer:
        raise UnusableTargetError(
            f"Nothing answers at {without_credentials(url)}. Is it running, and is that the address it listens on?"
        ) from None
    writer.close()


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    # One connection per request: one that the other side closed in the meantime would look like a failure.
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=64),
        headers={aiohttp.hdrs.USER_AGENT: USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as session:
        yield session


async def _connect(url: str, tls: ssl.SSLContext | None = None) -> asyncio.StreamWriter:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    except (OSError, TimeoutError) as error:
        raise NoAnswer(f"No connection could be opened: {error}") from None
    return writer


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its certificate isn't trusted."
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host name isn't known."
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.os_error.strerror or 'it cannot be reached'}."
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection first."
    return "the connection broke, or the response isn't HTTP."
