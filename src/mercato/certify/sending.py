"""Signed calls of a webhook receiver, right or wrong in one way; what was sent and received is kept."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import aiohttp

from mercato import clock
from mercato.certify.model import Exchange, NoAnswer
from mercato.certify.shown import Shower, address
from mercato.outbound.client import MAX_ORDER_REPLY
from mercato.outbound.signing import target, webhook_headers

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

Change = Mapping[str, str | None]
"""Headers that are sent otherwise; None leaves one out."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def is_good(self) -> bool:
        """Tell whether it is a 2xx."""
        return 200 <= self.status < 300  # noqa: PLR2004  # what 2xx means


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A webhook before it is sent. `late` is by how many seconds its timestamp is in the past.

    `sent` is the body that goes out in place of the one that is signed, `secrets` who signs it.
    """

    suffix: str
    body: bytes = field(repr=False)
    webhook_id: str
    late: int = 0
    secrets: tuple[str, ...] | None = field(default=None, repr=False)
    change: Change = field(default_factory=dict)
    sent: bytes | None = field(default=None, repr=False)

    def but(self, **members: Any) -> "Message":
        """Return the same message with other members."""
        return replace(self, **members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Where webhooks go, and how they are signed. `seconds` bound a call."""

    url: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    session: aiohttp.ClientSession
    shower: Shower
    seconds: float = 15.0


class Sender(ABC):
    """Sends for one check."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.exchanges: list[Exchange] = []

    @abstractmethod
    def sample(self) -> Message:
        """Return a message that is right in every way."""

    @abstractmethod
    def believed(self, reply: Reply) -> str:
        """Return in words how a message was taken. Raises Failed when it was not believed."""

    def seconds_for(self, _suffix: str) -> float:
        """Return how long an answer may take."""
        return self.receiver.seconds

    async def send(self, message: Message) -> Reply:
        """Send a webhook and return the reply. Raises NoAnswer when there is none in time."""
        body = message.body if message.sent is None else message.sent
        return await self.call("POST", message.suffix, self.headers(message), body)

    async def call(self, method: str, suffix: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """Send any request and return the reply. Raises NoAnswer."""
        return await self._called(method, self.url_of(suffix), headers, body, self.seconds_for(suffix))

    async def look(self, url: str) -> Reply:
        """GET any address and return the reply. Raises NoAnswer."""
        return await self._called("GET", url, {}, None, self.receiver.seconds)

    async def _called(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Reply:
        began = monotonic()
        sent = self.receiver.shower.request(f"{method} {address(url)}", headers, body or b"")
        try:
            async with asyncio.timeout(seconds):
                reply = await self._exchange(method, url, headers, body)
        except TimeoutError:
            words = f"There was no whole answer within {seconds:g} s."
        except (aiohttp.ClientError, OSError) as error:
            words = self.receiver.shower.text(f"There was no answer: {_why(error)}")
        else:
            self.say(sent, self.receiver.shower.reply(reply.status, reply.headers, reply.body), began)
            return reply
        self.say(sent, words, began)
        raise NoAnswer(words)

    def url_of(self, suffix: str) -> str:
        """Return where a message goes."""
        return target(self.receiver.url, suffix) if suffix else self.receiver.url

    def headers(self, message: Message) -> dict[str, str]:
        """Return the headers of a message as the service sends them, but for what is changed."""
        headers = webhook_headers(
            webhook_id=message.webhook_id,
            timestamp=int(clock.now().timestamp()) - message.late,
            body=message.body,
            secrets=message.secrets or (self.receiver.secret,),
            token=self.receiver.token,
            traceparent=TRACE,
        )
        changed = {name.lower() for name in message.change}
        kept = {name: text for name, text in headers.items() if name.lower() not in changed}
        return kept | {name: text for name, text in message.change.items() if text is not None}

    def say(self, sent: str, received: str, began: float) -> None:
        """Keep an exchange."""
        ms = round((monotonic() - began) * 1000)
        self.exchanges.append(Exchange(sent=sent, received=received, ms=ms))

    async def _exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        async with self.receiver.session.request(
            method,
            url,
            data=body,
            headers={"Accept-Encoding": "identity", **headers},
            allow_redirects=False,
        ) as response:
            content = b""
            while len(content) <= MAX_ORDER_REPLY and (more := await response.content.read(MAX_ORDER_REPLY)):
                content += more
            return Reply(response.status, dict(response.headers), content)


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its certificate is not to be trusted."
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name is not known."
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.os_error.strerror or 'it cannot be reached'}."
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before any answer."
    return "the connection broke off, or what came is not HTTP."
