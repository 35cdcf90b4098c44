"""Which browsers' pages may call the Marketfront surface: Cross-Origin Resource Sharing, of the Fetch standard."""

from collections.abc import Callable
from typing import Final

from mercato.errors import Problem
from mercato.web.head import Head
from mercato.web.operations import Access, Found, Operation

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

Headers = list[tuple[bytes, bytes]]


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
