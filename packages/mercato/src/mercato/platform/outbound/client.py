"""The only client of the service, which opens every connection to a partner's server, with its results and errors.

Cheap to import: aiohttp comes with the first request.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from mercato.platform.clock import Clock, now
from mercato.platform.outbound.addresses import AddressPolicy
from mercato.platform.outbound.document import Document, NewDocument

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from mercato.platform.outbound.session import Session

DNS_SECONDS = 10  # for which the checked addresses of a name are cached
MAX_REPLY = 1 << 20  # bytes of a reply that is parsed


class Fault(StrEnum):
    """The kind of a failure, for logs, metrics and tests. Only pulls have the last three."""

    REFUSED_ADDRESS = "refused_address"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    REPLY_TOO_LARGE = "reply_too_large"
    STATUS = "status"
    REDIRECT = "redirect"
    ENCODING = "encoding"


@dataclass(eq=False)
class RequestFailed(Exception):  # noqa: N818  # a result that is stored and shown
    """A request without a usable response. `message` is for the partner; `status` is set if a response arrived.

    `retryable`: a later attempt may succeed; `at_once`: even one after a moment.
    """

    fault: Fault
    message: str
    _: KW_ONLY
    retryable: bool = False
    at_once: bool = False
    status: int | None = None
    retry_after: float | None = None
    elapsed_ms: int = 0

    def __str__(self) -> str:
        return self.message


class PullLimits(Struct, frozen=True, kw_only=True):
    """The bounds of one pull: seconds, and bytes on the wire and after decompression. `subject` names its URL."""

    subject: str = "URL"
    connect: float = 5.0
    total: float = 30.0
    max_raw: int = 32 << 20
    max_decoded: int = 128 << 20
    redirects: int = 3
    waits: tuple[float, ...] = (0.5, 1.0, 2.0)  # before each further attempt


class PulledDocument(Struct, frozen=True, kw_only=True):
    """A downloaded document, decoded, which the caller closes; `raw_size` is its size in bytes on the wire."""

    document: Document
    etag: str | None
    content_type: str | None
    encoding: str
    final_url: str
    redirects: int
    raw_size: int
    elapsed_ms: int

    @property
    def body(self) -> bytes:
        """The bytes of a document in memory. Large ones are in files: read `document`."""
        return self.document.content()


class NotModified(Struct, frozen=True, kw_only=True):
    """The document still has the ETag that was sent."""

    final_url: str
    redirects: int
    elapsed_ms: int


class Reply(Struct, frozen=True, kw_only=True):
    """The endpoint's response; a redirect is a response, too, and isn't followed.

    `retry_after` is in seconds. `complete` is false if the body was truncated at the limit, broke off or could not be
    decompressed, which `truncate` allows.
    """

    status: int
    content_type: str | None
    retry_after: float | None
    body: bytes = b""
    complete: bool = False
    elapsed_ms: int = 0


def elapsed_ms(started: float) -> int:
    """Return the milliseconds since `started`, an instant of `time.monotonic`."""
    return round((monotonic() - started) * 1000)


@dataclass(eq=False)
class Outbound:
    """Guarded downloads and webhook calls, over two pools of connections: one for urgent calls, one for the rest.

    It connects lazily; `close` it in the event loop that used it, or use it in `async with`. It ignores the
    environment: no proxy, no netrc, no cookies. `resolver` returns addresses, which the policy checks; `tls` trusts
    other authorities than the system's; `sleep` waits between attempts; `new_document` makes the document that a pull
    writes, by default in memory.
    """

    policy: AddressPolicy
    _: KW_ONLY
    resolver: "AbstractResolver | None" = None
    tls: ssl.SSLContext | None = None
    clock: Clock = now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    dns_seconds: int = DNS_SECONDS
    new_document: NewDocument = Document
    _session: "Session | None" = field(default=None, init=False)

    async def pull(
        self, url: str, *, limits: PullLimits | None = None, etag: str | None = None
    ) -> PulledDocument | NotModified:
        """Return the document at `url`, or `NotModified` if it still has the `etag`. Raises RequestFailed."""
        session = await self._open()
        from mercato.platform.outbound.pull import Pull

        return await Pull(http=session.http, options=self, limits=limits or PullLimits(), etag=etag).run(url)

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float,  # noqa: ASYNC109  # it bounds several steps, and what has arrived by then can be a reply
        max_reply: int = MAX_REPLY,
        truncate: bool = False,
        urgent: bool = False,
    ) -> Reply:
        """Return the endpoint's reply, whatever its status. Raises RequestFailed.

        `timeout` seconds bound everything from the DNS lookup to the last byte. With `truncate` only the status
        matters: a body beyond `max_reply` bytes, late, broken or unreadable leaves `complete` false. `urgent`:
        somebody waits. Such calls have a connection pool of their own, without a bound per host: the caller bounds
        how many there are.
        """
        session = await self._open()
        from mercato.platform.outbound.call import Call

        call = Call(
            http=session.urgent if urgent else session.http,
            policy=self.policy,
            clock=self.clock,
            headers=headers,
            body=body,
            max_reply=max_reply,
            truncate=truncate,
        )
        return await call.run(url, seconds=timeout)

    async def _open(self) -> "Session":
        if self._session is None:
            # aiohttp is imported at the first use: it would make a start a fifth longer. In a thread, because the event
            # loop has requests to serve.
            await asyncio.to_thread(_import_aiohttp)
            from mercato.platform.outbound.session import open_session

            # Another task may have opened it during the import; nothing is awaited from here on.
            self._session = self._session or open_session(self)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _import_aiohttp() -> None:
    import mercato.platform.outbound.call
    import mercato.platform.outbound.pull
    import mercato.platform.outbound.session  # noqa: F401  # into sys.modules
