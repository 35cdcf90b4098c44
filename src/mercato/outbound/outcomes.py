"""What a pull and a call are asked for and come to. Apart from the client, so that types cost nobody its import."""

from msgspec import Struct

from mercato.outbound.document import Document
from mercato.outbound.faults import Failure, Fault

__all__ = ["CallFailed", "Fault", "NotModified", "PullFailed", "PullLimits", "Pulled", "Reply"]


class PullLimits(Struct, frozen=True, kw_only=True):
    """The bounds of one pull. Seconds, and bytes on the wire and after decompression."""

    connect: float = 5.0
    total: float = 30.0
    max_raw: int = 32 << 20
    max_decoded: int = 128 << 20
    redirects: int = 3
    waits: tuple[float, ...] = (0.5, 1.0, 2.0)  # before each further attempt


class Pulled(Struct, frozen=True, kw_only=True):
    """A downloaded document, decoded, which is the caller's to close; `raw_size` counts what was sent for it."""

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
        """The document's bytes. A service has large ones in files: it reads `document`."""
        return self.document.content()


class NotModified(Struct, frozen=True, kw_only=True):
    """The document is still the one whose ETag was sent."""

    final_url: str
    redirects: int
    elapsed_ms: int


class PullFailed(Exception):  # noqa: N818  # an outcome that is stored and shown
    """A pull that brought nothing. `message` can be shown to the partner as it is."""

    def __init__(self, failure: Failure, *, elapsed_ms: int) -> None:
        super().__init__(failure.message)
        self.message = failure.message
        self.fault = failure.fault
        self.retryable = failure.retryable
        self.status = failure.status
        self.retry_after = failure.retry_after
        self.elapsed_ms = elapsed_ms


class Reply(Struct, frozen=True, kw_only=True):
    """What the endpoint answered; a redirect is an answer too and is not followed.

    `retry_after` is in seconds. `complete` is false when the body was cut at the limit, broke off, or could not
    be unpacked, where the caller allowed that.
    """

    status: int
    content_type: str | None
    retry_after: float | None
    body: bytes
    complete: bool
    ms: int


class CallFailed(Exception):  # noqa: N818  # an outcome that is logged and shown
    """A call without a usable reply. `message` can be shown to the partner; `status` is set if one arrived."""

    def __init__(self, failure: Failure, *, ms: int) -> None:
        super().__init__(failure.message)
        self.reason = failure.fault
        self.message = failure.message
        self.status = failure.status
        self.ms = ms
