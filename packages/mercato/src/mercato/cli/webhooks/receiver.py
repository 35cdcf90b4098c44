"""The HTTP server of `mercato listen`: verifies, forwards, answers and reports each webhook."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import hdrs, web

from mercato.platform import clock
from mercato.platform.outbound.client import Outbound
from mercato.platform.outbound.results import Fault, RequestFailed
from mercato_client.testing.server import listening
from mercato_contract.debugger.explain import Secret, SignatureExplanation, Webhook, explain

MAX_BODY: Final = 1 << 20
MAX_REPLY: Final = 1 << 20
MAX_REMEMBERED: Final = 1_000
"""webhook-ids remembered, to recognise repeats."""

FORWARD_SECONDS: Final = 30.0

_NOT_FORWARDED: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of the connection, not of the message."""


class _Typed(msgspec.Struct):
    """The part of a body that names its type."""

    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedWebhook:
    """A webhook and its result. `explanation` is None without a secret to verify it."""

    at: datetime
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    webhook_id: str
    times: int
    """How many times its webhook-id was received, this one included."""
    status: int
    explanation: SignatureExplanation | None = None
    too_large: bool = False
    forward_error: str | None = None
    ms: int | None = None
    """Milliseconds until the program that it was forwarded to responded."""

    @property
    def type(self) -> str:
        """Return the event's type from the body."""
        try:
            return msgspec.json.decode(self.body, type=_Typed).type
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ""

    @property
    def is_valid(self) -> bool | None:
        """Return whether its signature is valid; None if it wasn't verified."""
        return None if self.explanation is None else self.explanation.valid


@dataclass(kw_only=True)
class Listener:
    """Receives webhooks. `report` is called with each result; `answer` is the status for valid ones."""

    secrets: Sequence[Secret] = field(repr=False)
    answer: int
    report: Callable[[ReceivedWebhook], None]
    forward: str | None = None
    outbound: Outbound | None = None
    _seen: OrderedDict[str, int] = field(default_factory=OrderedDict)

    async def receive(self, request: web.Request) -> web.Response:
        """Answer one request."""
        headers = _combined(request)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            self._report(request, headers, b"", status=413, too_large=True)
            return _text(413, f"A webhook has at most {MAX_BODY:,} bytes.")
        explanation = await self._verify(headers, body)
        if self.forward is not None:
            return await self._forward(self.forward, request, headers, body, explanation)
        status = self.answer if explanation is None or explanation.valid else HTTPStatus.UNAUTHORIZED.value
        self._report(request, headers, body, status=status, explanation=explanation)
        return web.Response(status=status, body=b"{}", content_type="application/json")

    async def _verify(self, headers: Mapping[str, str], body: bytes) -> SignatureExplanation | None:
        if not self.secrets:
            return None
        now = clock.now()
        webhook = Webhook(headers=headers, body=body, received_at=now)
        return await asyncio.to_thread(explain, webhook, secrets=self.secrets, now=now)

    async def _forward(
        self,
        base: str,
        request: web.Request,
        headers: Mapping[str, str],
        body: bytes,
        explanation: SignatureExplanation | None,
    ) -> web.Response:
        """Forward it unchanged, valid or not: the program under test must refuse it itself."""
        assert self.outbound is not None
        passed = {name: text for name, text in headers.items() if name.lower() not in _NOT_FORWARDED}
        url = below(base, request.path_qs)
        try:
            reply = await self.outbound.post(
                url, headers=passed, body=body, timeout=FORWARD_SECONDS, max_reply=MAX_REPLY
            )
        except RequestFailed as failed:
            why = _why(failed, base)
            results: dict[str, Any] = {
                "explanation": explanation,
                "ms": failed.elapsed_ms,
                "forward_error": why,
            }
            self._report(request, headers, body, status=502, **results)
            return _text(502, why)
        self._report(
            request, headers, body, status=reply.status, explanation=explanation, ms=reply.elapsed_ms
        )
        answer = web.Response(status=reply.status, body=reply.body)
        if reply.content_type is not None:
            answer.headers[hdrs.CONTENT_TYPE] = reply.content_type
        if reply.retry_after is not None:
            answer.headers[hdrs.RETRY_AFTER] = str(round(reply.retry_after))
        return answer

    def _report(self, request: web.Request, headers: Mapping[str, str], body: bytes, **results: Any) -> None:
        webhook_id = next((text for name, text in headers.items() if name.lower() == "webhook-id"), "")
        times = self._count(webhook_id) if webhook_id else 1
        self.report(
            ReceivedWebhook(
                at=clock.now(),
                path=request.path,
                headers=headers,
                body=body,
                webhook_id=webhook_id,
                times=times,
                **results,
            )
        )

    def _count(self, webhook_id: str) -> int:
        times = self._seen[webhook_id] = self._seen.pop(webhook_id, 0) + 1
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)
        return times


async def _refuse(request: web.Request) -> web.Response:
    return _text(405, f"Webhooks are sent by POST; this was {request.method}.", allow="POST")


def receiving(listener: Listener, *, host: str, port: int) -> AbstractAsyncContextManager[str]:
    """Listen while the block runs; yields the base URL. Raises OSError if the address can't be bound."""
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/{path:.*}", listener.receive)
    app.router.add_route("*", "/{path:.*}", _refuse)
    return listening(app, host=host, port=port, closing=5.0)


def below(base: str, path: str) -> str:
    """Return the URL with a path and its query appended: a webhookUrl is also called with suffixes."""
    parts = urlsplit(base)
    rest, _, query = path.partition("?")
    joined = parts.path.rstrip("/") + (rest if rest != "/" else "") or "/"
    queries = "&".join(filter(None, (parts.query, query)))
    return parts._replace(path=joined, query=queries, fragment="").geturl()


def _combined(request: web.Request) -> dict[str, str]:
    """Return the headers by name as sent; repeated ones are joined by commas (RFC 9110, 5.3)."""
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, text in request.headers.items():
        known = names.setdefault(name.lower(), name)
        found[known] = f"{found[known]}, {text}" if known in found else text
    return found


def _text(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)


def _why(failed: RequestFailed, forward: str) -> str:
    match failed.fault:
        case Fault.CONNECT | Fault.DNS:
            return f"Nothing answers at {forward}. Is your program running, and on that port?"
        case Fault.TIMEOUT:
            return f"Your program at {forward} gave no full answer within {FORWARD_SECONDS:g} seconds."
        case _:
            return failed.message.replace("webhook URL", "address that it is forwarded to")
