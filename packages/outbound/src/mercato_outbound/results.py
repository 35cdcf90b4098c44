"""Options, results and exceptions of calls to other servers. Cheap to import: without aiohttp."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from mercato_contract.clock import Clock, now
from mercato_outbound.document import Document, NewDocument
from mercato_outbound.guard import AddressPolicy

DNS_SECONDS = 10  # for which the checked addresses of a name are cached
MAX_REPLY = 1 << 20  # bytes of a reply that is parsed


class Options(Struct, frozen=True, kw_only=True):
    """How to call.

    `resolver`, an `AbstractResolver` of aiohttp, returns addresses, which the policy checks; `tls` trusts other
    authorities than the system's; `sleep` waits between attempts; `new_document` makes the document that a pull writes,
    by default in memory.
    """

    policy: AddressPolicy
    resolver: Any = None
    tls: ssl.SSLContext | None = None
    clock: Clock = now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    dns_seconds: int = DNS_SECONDS
    new_document: NewDocument = Document


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


class RequestFailed(Exception):  # noqa: N818  # a result that is stored and shown
    """A request without a usable response. `message` is for the partner; `status` is set if a response arrived.

    `retryable`: a later attempt may succeed; `at_once`: even one after a moment. `repeated` as in `EndpointResponse`.
    """

    def __init__(
        self,
        fault: Fault,
        message: str,
        *,
        retryable: bool = False,
        at_once: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        elapsed_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message
        self.retryable = retryable
        self.at_once = at_once
        self.status = status
        self.retry_after = retry_after
        self.elapsed_ms = elapsed_ms
        self.repeated = False


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


class EndpointResponse(Struct, frozen=True, kw_only=True):
    """The endpoint's response; a redirect is a response, too, and isn't followed.

    `retry_after` is in seconds. `complete` is false if the body was truncated at the limit, broke off or could not be
    decompressed, which `truncate` allows. `repeated`: the request was sent once before, on a kept connection that was
    closed without an answer.
    """

    status: int
    content_type: str | None
    retry_after: float | None
    body: bytes = b""
    complete: bool = False
    repeated: bool = False
    elapsed_ms: int = 0
