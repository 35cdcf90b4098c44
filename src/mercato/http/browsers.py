"""What browsers may do: pages that call the Marketfront surface (CORS, of the Fetch standard), and our own pages."""

import base64
from collections.abc import Callable
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from mercato.http.head import Head
from mercato.http.operations import Access, Operation
from mercato.http.routing import Found
from mercato.kernel.errors import Problem
from mercato.kernel.settings import Settings

Headers = list[tuple[bytes, bytes]]
PageHeaders = tuple[tuple[bytes, bytes], ...]

SENT: Final = b"Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Request-Id, traceparent"
"""Headers that a page may send."""

SHOWN: Final = (
    b"ETag, Idempotent-Replayed, Location, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, "
    b"X-RateLimit-Reset, X-Request-Id"
)
"""Headers of answers that a page may read."""

SECONDS: Final = b"600"
"""How long a browser may remember that it may."""

_VARY: Final = (b"vary", b"Origin")


class Cors:
    """The origins that may call. Credentials of the browser, such as cookies, are never asked for."""

    def __init__(self, origins: str) -> None:
        """`origins` is a comma-separated list, as the setting has it."""
        self._origins = frozenset(origin.strip().encode() for origin in origins.split(","))

    def preflight(self, head: Head, find: Callable[[str, str], Found]) -> Headers | None:
        """Return the headers that answer a preflight; None if it's none, or nothing that it asks for may be done."""
        origin, method = self._origin(head), head.headers.get(b"access-control-request-method")
        if origin is None or method is None:
            return None
        try:
            operation = find(method.decode("latin-1"), head.path).operation
        except Problem:
            return None
        if operation.access is not Access.MARKETFRONT:
            return None
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", operation.method.encode()),
            (b"access-control-allow-headers", SENT),
            (b"access-control-max-age", SECONDS),
            _VARY,
        ]

    def headers(self, head: Head, operation: Operation) -> Headers:
        """Return the headers that go with an answer of the operation, a refusal included."""
        if operation.access is not Access.MARKETFRONT:
            return []
        origin = self._origin(head)
        if origin is None:
            return [_VARY]
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", SHOWN),
            _VARY,
        ]

    def _origin(self, head: Head) -> bytes | None:
        origin = head.headers.get(b"origin")
        return origin if origin in self._origins else None


# --- pages ------------------------------------------------------------------------------------------

NOSNIFF: Final[PageHeaders] = ((b"x-content-type-options", b"nosniff"),)
LASTS: Final[PageHeaders] = (*NOSNIFF, (b"cache-control", b"public, max-age=86400"))
"""For what is the same for everybody, whatever Host they ask by."""

_NOT_CACHED: Final[PageHeaders] = (*NOSNIFF, (b"cache-control", b"no-store"))
_LOCKED: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def naming_itself(settings: Settings) -> PageHeaders:
    """Return the headers of a text that holds the service's own address.

    Without MERCATO_PUBLIC_URL that is the Host of the request: a shared cache would hand one client's to all others.
    """
    return LASTS if settings.public_url else _NOT_CACHED


def static_page(style: str) -> PageHeaders:
    """Return the policy of a page that runs no script and has this one style sheet in it."""
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    return _policy(f"{_LOCKED}; style-src 'sha256-{digest}'")


def reference_page(settings: Settings) -> PageHeaders:
    """Return the policy of the API reference: its own files, and calls to this service."""
    parts = urlsplit(settings.public_url or "")
    public = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return _policy(
        f"{_LOCKED}; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"connect-src 'self'{public}"
    )


def _policy(text: str) -> PageHeaders:
    return (
        (b"content-security-policy", text.encode()),
        (b"referrer-policy", b"no-referrer"),
    )
