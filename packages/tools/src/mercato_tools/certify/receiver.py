"""The webhook receiver under certification: signed requests to it, correct or with one fault, and its answers."""

import asyncio
import contextlib
import json
import os
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

from mercato_contract import USER_AGENT, clock
from mercato_contract.certification import Exchange
from mercato_contract.events import envelope
from mercato_contract.replies import REFUSALS
from mercato_contract.signing import new_secret, target, webhook_headers
from mercato_contract.wire import as_json
from mercato_outbound.guard import is_loopback
from mercato_outbound.results import MAX_REPLY
from mercato_tools.certify.suite import (
    Failed,
    NoAnswer,
    Redactor,
    Run,
    Skipped,
    UnusableTargetError,
    without_credentials,
)

TRACE: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CONNECT_SECONDS: Final = 5.0

_OF_A_PATH: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
"""What servers answer at a path that they don't know, whatever the signature."""

INTERRUPT_SECONDS: Final = 0.05
"""How long the server has to read what was sent before the connection is closed."""


Change = Callable[[Any], Any]
"""Changes the document of a webhook before it is signed."""


@dataclass(frozen=True, slots=True)
class ReceiverReply:
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
    def accepted(self, reply: ReceiverReply) -> str:
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

    async def send(self, message: Message, *, method: str = "POST") -> ReceiverReply:
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
    ) -> ReceiverReply:
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
                reply = ReceiverReply(response.status, dict(response.headers), content)
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

    async def is_gone(self) -> bool:
        """Return whether nothing listens at the receiver's address."""
        try:
            writer = await _connect(self.receiver.url)
        except NoAnswer:
            return True
        writer.close()
        return False

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


def rejected(reply: ReceiverReply) -> str:
    """Return how a forged webhook was rejected. Raises Failed when it wasn't, or not with a 4xx."""
    if reply.is_success:
        raise Failed(f"It accepted the forged webhook, with {reply.status}.")
    return client_error(reply)


def client_error(reply: ReceiverReply) -> str:
    if not HTTPStatus.BAD_REQUEST <= reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Failed(f"It answered {reply.status}; a 4xx is expected.")
    return f"answered {reply.status}"


def acknowledged(reply: ReceiverReply) -> str:
    """Return the status that acknowledges an event: a 2xx, or 410, which unsubscribes."""
    if not reply.is_success and reply.status != HTTPStatus.GONE:
        raise Failed(f"It answered {reply.status}: the service would send the event again, for days.")
    return f"answered {reply.status}"


def no_server_error(reply: ReceiverReply) -> str:
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


WRONG_SECRET: Final = new_secret(os.urandom)
OTHER_WRONG_SECRET: Final = new_secret(os.urandom)
OTHER_ID: Final = str(clock.new_id())

HOUR: Final = 3600
"""Seconds: far outside the tolerance of any Standard Webhooks library."""


def sample(
    expect: Callable[[ReceiverReply], str] | None = None,
    *,
    rewrite: Callable[[bytes], bytes] = bytes,
    **changes: Any,
) -> Run[ReceiverContext]:
    """Return a check that sends the sample with one change and judges the reply; by default it must be accepted.

    `rewrite` changes the body before it is signed.
    """

    async def run(context: ReceiverContext) -> str:
        message = context.sample()
        reply = await context.send(message.but(body=rewrite(message.body), **changes))
        return (expect or context.accepted)(reply)

    return run


def probe(method: str) -> Run[ReceiverContext]:
    """Return a check that sends a request which isn't a webhook."""

    async def run(context: ReceiverContext) -> str:
        return no_server_error(await context.request(method, context.url(context.sample())))

    return run


def _signature_accepted(reply: ReceiverReply) -> str:
    is_client_error = HTTPStatus.BAD_REQUEST <= reply.status < HTTPStatus.INTERNAL_SERVER_ERROR
    if reply.status in _OF_A_PATH:
        raise Failed(
            f"It answered {reply.status} to a signed webhook, as a server does at a path that it doesn't know. Is the "
            "address right? What is sent goes to paths below it, such as /validate and /place."
        )
    if is_client_error and reply.status not in REFUSALS:
        # A 4xx that isn't an answer to an order is about the request itself.
        raise Failed(f"It answered {reply.status} to a webhook that is signed with the secret you gave.")
    return no_server_error(reply)


async def _altered_timestamp(context: ReceiverContext) -> str:
    now = context.headers(context.sample())["webhook-timestamp"]
    return rejected(await context.send(context.sample().but(age=60, headers={"webhook-timestamp": now})))


def _altered(body: bytes) -> bytes:
    return as_json(json.loads(body) | {"timestamp": "2030-01-01T00:00:00.000Z"})


def _reformatted(body: bytes) -> bytes:
    document = json.loads(body) | {"x-note": "Ad\u00e9le / \U0001f355"}
    return json.dumps(document, indent=3, sort_keys=True).replace("/", "\\/").encode()


async def _https(context: ReceiverContext) -> str:
    parts = urlsplit(context.receiver.url)
    if is_loopback(parts.hostname):
        raise Skipped("On this machine http is as good. Register an https URL for the network.")
    if parts.scheme != "https":
        raise Failed("The URL is http.")
    return "https"


async def _upper_case_headers(context: ReceiverContext) -> str:
    message = context.sample()
    headers = {name.upper(): text for name, text in context.headers(message).items()}
    return context.accepted(await context.send(message.but(headers=headers)))


SIGNATURE: Final[Mapping[str, Run[ReceiverContext]]] = {
    "accepted": sample(_signature_accepted),
    "missing-refused": sample(rejected, headers={"webhook-signature": None}),
    "wrong-key-refused": sample(rejected, secrets=(WRONG_SECRET,)),
    "altered-body-refused": sample(rejected, sent=_altered),
    "altered-id-refused": sample(rejected, headers={"webhook-id": OTHER_ID, "Idempotency-Key": OTHER_ID}),
    "altered-timestamp-refused": _altered_timestamp,
    "stale-refused": sample(rejected, age=HOUR),
    "future-refused": sample(rejected, age=-HOUR),
    "no-timestamp-refused": sample(rejected, headers={"webhook-timestamp": None}),
    "other-version-refused": sample(rejected, signature=lambda correct: correct.replace("v1,", "v9,")),
    "bare-refused": sample(rejected, signature=lambda correct: correct.removeprefix("v1,")),
    "shortened-refused": sample(rejected, signature=lambda correct: correct[:11]),
    "empty-refused": sample(rejected, signature=lambda _: "v1,"),
    "several-wrong-refused": sample(rejected, secrets=(WRONG_SECRET, OTHER_WRONG_SECRET)),
    "rotation-first": sample(secrets=(None, WRONG_SECRET)),
    "rotation-second": sample(secrets=(WRONG_SECRET, None)),
    "unknown-version-ignored": sample(signature=lambda correct: f"v9,AAAA {correct}"),
    "bytes-as-sent": sample(rewrite=_reformatted),
}
"""What is sent in place of the sample, and what must come back."""

TRANSPORT: Final[Mapping[str, Run[ReceiverContext]]] = {
    "https": _https,
    "charset": sample(headers={"Content-Type": "application/json; charset=utf-8"}),
    "header-case": _upper_case_headers,
    "no-json": sample(client_error, rewrite=lambda body: body[: len(body) // 2]),
    "other-json": sample(client_error, rewrite=lambda _: b"[1, null]"),
    "empty-body": sample(client_error, rewrite=lambda _: b""),
    "get": probe("GET"),
    "head": probe("HEAD"),
}
