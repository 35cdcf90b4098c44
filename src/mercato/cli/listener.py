"""A receiver of webhooks for the terminal: reads within bounds, verifies, forwards, answers, and tells of each."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec
from aiohttp import hdrs, web

from mercato import clock
from mercato.outbound.client import Outbound
from mercato.outbound.results import Fault, RequestFailed
from mercato.testing.server import listening
from mercato.webhooks.explain import Secret, SignatureExplanation, Webhook, explain

MOST_BODY: Final = 1 << 20
MOST_REPLY: Final = 1 << 20
MOST_REMEMBERED: Final = 1_000
"""webhook-ids that are known to have come before."""

FORWARD_SECONDS: Final = 30.0

_NOT_FORWARDED: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of a connection, and not of what came over it."""


class _Named(msgspec.Struct):
    """What a body is asked for to be told of."""

    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """What came of passing it on: the status that was answered, or in words why there was none."""

    status: int | None
    ms: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """A webhook and what became of it. `told` is None when there was no secret to verify it with."""

    at: datetime
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    status: int
    times: int
    told: SignatureExplanation | None
    forwarded: Forwarded | None = None
    too_large: bool = False

    @property
    def webhook_id(self) -> str:
        """Return the id that a repeat of it has too; nothing when there is none."""
        return next((text for name, text in self.headers.items() if name.lower() == "webhook-id"), "")

    @property
    def type(self) -> str:
        """Return the event's type as the body says it."""
        try:
            return msgspec.json.decode(self.body, type=_Named).type
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ""


@dataclass(kw_only=True)
class Listener:
    """Receives webhooks. `tell` is called for each, once it is answered for; `answer` is the status of good ones."""

    secrets: Sequence[Secret] = field(repr=False)
    answer: int
    tell: Callable[[Came], None]
    forward: str | None = None
    outbound: Outbound | None = None
    _seen: OrderedDict[str, int] = field(default_factory=OrderedDict)

    async def receive(self, request: web.Request) -> web.Response:
        """Answer one request."""
        headers = _combined(request)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            self.tell(self._came(request, headers, b"", status=413, told=None, too_large=True))
            return _plain(413, f"A webhook has at most {MOST_BODY:,} bytes.")
        told = await self._verified(headers, body)
        if self.forward is not None:
            return await self._forwarded(request, headers, body, told)
        status = self.answer if told is None or told.valid else HTTPStatus.UNAUTHORIZED.value
        self.tell(self._came(request, headers, body, status=status, told=told))
        return web.Response(status=status, body=b"{}", content_type="application/json")

    async def _verified(self, headers: Mapping[str, str], body: bytes) -> SignatureExplanation | None:
        if not self.secrets:
            return None
        now = clock.now()
        webhook = Webhook(headers=headers, body=body, received_at=now)
        return await asyncio.to_thread(explain, webhook, secrets=self.secrets, now=now)

    async def _forwarded(
        self,
        request: web.Request,
        headers: Mapping[str, str],
        body: bytes,
        told: SignatureExplanation | None,
    ) -> web.Response:
        """Pass it on as it came, signed or not: who is tried out there has to refuse what is not."""
        assert self.forward is not None
        assert self.outbound is not None
        passed = {name: text for name, text in headers.items() if name.lower() not in _NOT_FORWARDED}
        url = below(self.forward, request.path_qs)
        try:
            reply = await self.outbound.post(
                url, headers=passed, body=body, timeout=FORWARD_SECONDS, max_reply=MOST_REPLY
            )
        except RequestFailed as failed:
            passing = Forwarded(status=failed.status, ms=failed.elapsed_ms, error=_why(failed, self.forward))
            self.tell(self._came(request, headers, body, status=502, told=told, forwarded=passing))
            return _plain(502, passing.error or "")
        passing = Forwarded(status=reply.status, ms=reply.elapsed_ms)
        self.tell(self._came(request, headers, body, status=reply.status, told=told, forwarded=passing))
        answer = web.Response(status=reply.status, body=reply.body)
        if reply.content_type is not None:
            answer.headers[hdrs.CONTENT_TYPE] = reply.content_type
        if reply.retry_after is not None:
            answer.headers[hdrs.RETRY_AFTER] = str(round(reply.retry_after))
        return answer

    def _came(
        self,
        request: web.Request,
        headers: Mapping[str, str],
        body: bytes,
        *,
        status: int,
        told: SignatureExplanation | None,
        forwarded: Forwarded | None = None,
        too_large: bool = False,
    ) -> Came:
        came = Came(
            at=clock.now(), path=request.path, headers=headers, body=body, status=status, times=1, told=told,
            forwarded=forwarded, too_large=too_large,
        )  # fmt: skip
        return _counted(came, self._seen)


def _counted(came: Came, seen: OrderedDict[str, int]) -> Came:
    """Return it with how many times its webhook-id has come, this one included."""
    if not came.webhook_id:
        return came
    times = seen.pop(came.webhook_id, 0) + 1
    seen[came.webhook_id] = times
    if len(seen) > MOST_REMEMBERED:
        seen.popitem(last=False)
    return replace(came, times=times)


async def refuse(request: web.Request) -> web.Response:
    """Answer what is no webhook."""
    return _plain(405, f"Webhooks come by POST, and this was {request.method}.", allow="POST")


def receiving(listener: Listener, *, host: str, port: int) -> AbstractAsyncContextManager[str]:
    """Listen while the block runs; yields the base URL. Raises OSError when the address cannot be had."""
    app = web.Application(client_max_size=MOST_BODY)
    app.router.add_post("/{path:.*}", listener.receive)
    app.router.add_route("*", "/{path:.*}", refuse)
    return listening(app, host=host, port=port, closing=5.0)


def below(base: str, path: str) -> str:
    """Return the URL of a path (with its query) below another: a webhookUrl is called with suffixes, too."""
    parts = urlsplit(base)
    rest, _, query = path.partition("?")
    joined = parts.path.rstrip("/") + (rest if rest != "/" else "") or "/"
    return urlunsplit((parts.scheme, parts.netloc, joined, "&".join(filter(None, (parts.query, query))), ""))


def _combined(request: web.Request) -> dict[str, str]:
    """Return the headers by name as it was sent; one that came twice is the list of its values (RFC 9110, 5.3)."""
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, text in request.headers.items():
        known = names.setdefault(name.lower(), name)
        found[known] = f"{found[known]}, {text}" if known in found else text
    return found


def _plain(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)


def _why(failed: RequestFailed, forward: str) -> str:
    match failed.fault:
        case Fault.CONNECT | Fault.DNS:
            return f"Nothing answers at {forward}. Is your program running, and on that port?"
        case Fault.TIMEOUT:
            return f"Your program at {forward} gave no full answer within {FORWARD_SECONDS:g} seconds."
        case _:
            return failed.message.replace("webhook URL", "address that it is forwarded to")
