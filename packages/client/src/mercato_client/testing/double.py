"""What both doubles share: a web server on loopback that verifies webhooks, answers them, and keeps a journal.

It runs in the current event loop (`async with`) or in a thread of its own (`with`).
"""

import asyncio
import hmac
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar, Final, Self, TypeVar

from aiohttp import web

from mercato_client.testing import acts
from mercato_client.testing.acts import Act, Script
from mercato_client.testing.journal import VALID, Journal, Seen, add_pages
from mercato_client.testing.server import HOST, MAX_BODY, Inbox, Received, listening

T = TypeVar("T")

BROKEN: Final = b'{"isValid": true, "accepted": true, "amounts": {"taxes": '
"""A body that ends before its JSON does."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `value` is sent as JSON, bytes unchanged, None as an empty body."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Double(ABC):
    """A simulated partner. Each step is a small method: a subclass that overrides one of them has one bug."""

    operations: ClassVar[Mapping[str, tuple[str, ...]]]
    """The operations, and the acts that a script may name at each."""

    title: ClassVar[str]

    def __init__(
        self,
        *,
        secret: str | Iterable[str] = (),
        token: str | None = None,
        behaviour: Script | Iterable[str] = (),
        seed: int = 0,
        host: str = HOST,
        port: int = 0,
    ) -> None:
        self.url = ""
        self.journal = Journal()
        self.inbox = Inbox()
        self.inbox.trust(*((secret,) if isinstance(secret, str) else secret))
        self.behaviour = (
            behaviour if isinstance(behaviour, Script) else Script(self.operations, seed).read(behaviour)
        )
        self.seed = seed
        self._token = token
        self._address = (host, port)
        self._open = AsyncExitStack()
        self._thread: _Thread | None = None

    @property
    def seen(self) -> list[Seen]:
        """Return the newest calls, oldest first."""
        return self.journal.of()

    @property
    def requested_address(self) -> tuple[str, int]:
        """Return the requested host and port; `url` has the actual ones."""
        return self._address

    def trust(self, *secrets: str) -> None:
        """Accept webhooks that are signed with one of these secrets, and no others."""
        self.inbox.trust(*secrets)

    @property
    def endpoint_url(self) -> str:
        """Return the URL for a webhook endpoint that the double makes itself."""
        return f"{self.url}/endpoint"

    async def heard(self, operation: str | None = None, *, count: int = 1) -> list[Seen]:
        """Wait for that many calls and return them. Raises TimeoutError."""
        return await self.journal.heard(operation, count=count)

    def wait(self, operation: str | None = None, *, count: int = 1) -> list[Seen]:
        """Do the same without asyncio. Raises TimeoutError."""
        return self.journal.wait(operation, count=count)

    # --- the steps of handling a webhook; each may be overridden ---

    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return why a webhook is rejected, None if it is genuine. Header names are lower-case."""
        return self.token_fault(headers) or self.inbox.fault_of(headers, body)

    def token_fault(self, headers: Mapping[str, str]) -> str | None:
        """Return what is wrong with the bearer token, None if nothing is or none is expected."""
        given = headers.get("authorization", "").encode()
        if self._token is None or hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return None
        return "the bearer token is wrong"

    def draw(self, operation: str, webhook: Received) -> Act:  # noqa: ARG002  # for overrides
        """Return the act that the script has for this webhook."""
        return self.behaviour.next(operation)

    @abstractmethod
    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        """Return the answer to a genuine webhook."""

    def noted(self, operation: str, webhook: Received) -> None:  # noqa: B027  # a hook
        """Called with every webhook once its answer is decided."""

    def refuse(self, webhook: Received) -> Reply:
        """Return the answer to a webhook that isn't genuine."""
        return Reply(HTTPStatus.UNAUTHORIZED, {"detail": webhook.fault})

    def misread(self, error: Exception) -> Reply:
        """Return the answer to a genuine webhook whose body can't be read."""
        detail = f"The body can't be read: {type(error).__name__}: {error}"
        return Reply(HTTPStatus.BAD_REQUEST, {"detail": detail})

    @abstractmethod
    def addresses(self) -> list[tuple[str, str]]:
        """Return its URLs, each with its name in a registration."""

    @abstractmethod
    def facts(self) -> list[tuple[str, int]]:
        """Return counts for the page, by name."""

    # --- the server ---

    @abstractmethod
    def routes(self, app: web.Application) -> None:
        """Add the routes of its own."""

    async def start(self) -> None:
        """Start to listen. Raises OSError if the address isn't free."""
        app = web.Application(client_max_size=MAX_BODY)
        add_pages(app, self)
        app.router.add_post("/endpoint", self.take)
        self.routes(app)
        host, port = self._address
        self.url = await self._open.enter_async_context(listening(app, host=host, port=port))

    async def stop(self) -> None:
        """Stop listening."""
        await self._open.aclose()

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Handle a webhook: verify it, do what it asks or what the script says, record it, answer it."""
        operation = request.match_info.get("operation", "event")
        webhook = await self.inbox.read(request, verify=self.fault_of)
        act = acts.HONEST
        if webhook.fault is not None:
            reply = self.refuse(webhook)
        else:
            act = self.draw(operation, webhook)
            try:
                reply = self.failure(act) or self.answer(operation, webhook, act)
            except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
                reply = self.misread(error)
        self.noted(operation, webhook)
        verdict = VALID if webhook.fault is None else webhook.fault
        return await self.send(request, reply, act, operation=operation, body=webhook.body, verdict=verdict)

    async def send(
        self,
        request: web.Request,
        reply: Reply,
        act: Act,
        *,
        operation: str,
        body: bytes = b"",
        verdict: str | None = None,
    ) -> web.StreamResponse:
        """Record the call and its answer, then send the answer as the act says."""
        silent = act.is_silent
        self.journal.add(
            Seen(
                operation=operation,
                method=request.method,
                path=request.path_qs,
                headers=request.headers,
                body=body.decode("utf-8", "replace"),
                verdict=verdict,
                act=str(act),
                status=0 if silent else reply.status,
                answer=None if silent else _shown(reply.value),
            )
        )
        await asyncio.sleep(act.seconds)
        if silent or act.name == acts.DROP:
            return await _dropped(request, _response(reply), after=None if silent else act.count)
        return _response(Reply(reply.status, BROKEN, reply.headers) if act.name == acts.BAD_JSON else reply)

    def failure(self, act: Act) -> Reply | None:
        """Return the answer of an act that only fails, None for any other act."""
        return Reply(int(act.argument)) if act.name == acts.STATUS else None

    # --- with and without asyncio ---

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self._thread = _Thread(type(self).__name__)
        try:
            self._thread.do(self.start())
        except BaseException:
            self._thread.end()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._thread is not None
        try:
            self._thread.do(self.stop())
        finally:
            self._thread.end()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the double's own thread; for `with`, not `async with`."""
        assert self._thread is not None, "only within `with`"
        return self._thread.do(work)


class _Thread:
    """A thread that runs an event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self) -> None:
        self.do(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _shown(value: Any) -> Any:
    return f"{len(value):,} bytes" if isinstance(value, bytes) else value


def _response(reply: Reply) -> web.Response:
    body = reply.value
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body, ensure_ascii=False).encode()
    kind = None if body is None else "application/json"
    return web.Response(body=body, status=reply.status, headers=reply.headers, content_type=kind)


async def _dropped(request: web.Request, whole: web.Response, *, after: int | None) -> web.StreamResponse:
    """Close the connection after that many bytes of the body; None sends not even a status."""
    if request.transport is None:
        return whole
    if after is None:
        request.transport.abort()
        return whole
    body = whole.body if isinstance(whole.body, bytes) else b""
    part = web.StreamResponse(status=whole.status, headers=whole.headers)
    part.content_length = max(len(body), after + 1)
    await part.prepare(request)
    await part.write(body[:after])
    request.transport.close()
    return part
