"""What browsers need: CORS for pages of storefronts, and the policies, links and forms of our own pages."""

import base64
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from mercato.http.head import Head
from mercato.http.operations import Operation
from mercato.http.routing import Match
from mercato.platform.errors import Forbidden, MethodNotAllowed, NotFound, UnsupportedMediaType
from mercato.settings import Settings
from mercato_contract.refusals import Problem
from mercato_outbound.guard import is_loopback

Headers = list[tuple[bytes, bytes]]
PageHeaders = tuple[tuple[bytes, bytes], ...]

REQUEST_HEADERS: Final = (
    b"Authorization, Content-Type, Idempotency-Key, If-Match, If-Modified-Since, If-None-Match, If-Unmodified-Since, "
    b"MCP-Protocol-Version, Mcp-Method, Mcp-Name, X-Request-Id, traceparent"
)
"""Request headers that a page may send."""

EXPOSED_HEADERS: Final = (
    b"ETag, Idempotent-Replayed, Last-Modified, Location, Retry-After, WWW-Authenticate, X-RateLimit-Limit, "
    b"X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id, X-Unknown-Members"
)
"""Response headers that a page may read."""

SECONDS: Final = b"600"
"""How long a browser may cache the answer to a preflight."""

_VARY: Final = (b"vary", b"Origin")


class Cors:
    """The origins that may call. The browser's credentials, such as cookies, aren't allowed."""

    def __init__(self, origins: str) -> None:
        """`origins` is a comma-separated list, as the setting has it."""
        self._origins = frozenset(origin.strip().encode() for origin in origins.split(","))

    def preflight(self, head: Head, find: Callable[[str, str], Match[Operation]]) -> Headers | None:
        """Return the headers that answer a preflight; None if it isn't one, or if the call isn't allowed.

        A call of a path that doesn't exist is allowed, so that the page can read its 404.
        """
        origin, method = self._origin(head), head.headers.get(b"access-control-request-method")
        if origin is None or method is None:
            return None
        try:
            is_allowed = find(method.decode("latin-1"), head.path).endpoint.from_pages
        except NotFound:
            is_allowed = True
        except Problem:
            return None
        if not is_allowed:
            return None
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", method),
            (b"access-control-allow-headers", REQUEST_HEADERS),
            (b"access-control-max-age", SECONDS),
            _VARY,
        ]

    def headers(self, head: Head, operation: Operation | None) -> Headers:
        """Return the headers of an operation's answers and refusals; None: those of the 404 of an unknown path."""
        if operation is not None and not operation.from_pages:
            return []
        origin = self._origin(head)
        if origin is None:
            return [_VARY]
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", EXPOSED_HEADERS),
            _VARY,
        ]

    def _origin(self, head: Head) -> bytes | None:
        origin = head.headers.get(b"origin")
        return origin if origin in self._origins else None


_NOT_ALLOWED: Final = (
    "A browser sent it before the call of a page. Pages may call only the operations of the Marketfront surface and "
    "the agents' door, and only if the operator lists their origin in MERCATO_CORS_ORIGINS."
)


def explain_preflight(problem: Problem, method: str, head: Head) -> Problem:
    """Return the refusal of a preflight with its reason; any other problem as it is."""
    is_preflight = (
        method == "OPTIONS" and b"origin" in head.headers and b"access-control-request-method" in head.headers
    )
    if is_preflight and isinstance(problem, MethodNotAllowed):
        return MethodNotAllowed(method, problem.allow.split(", "), reason=_NOT_ALLOWED)
    return problem


# --- links below a path ------------------------------------------------------------------------------------------

_LINK: Final = re.compile(rb'(\s(?:href|src|action|formaction|hx-get)=")(?=/(?!/))')


def prefix_links(page: bytes, prefix: str) -> bytes:
    """Return a page with the prefix before the path of every link to this service.

    In a page's text and values quotes are escaped, so only attributes match.
    """
    before = prefix.encode()
    return _LINK.sub(lambda match: match[1] + before, page) if prefix else page


def prefix_location(headers: Headers, prefix: bytes) -> Headers:
    """Return the headers with the prefix before the path in Location. A URL stays as it is."""
    return [
        (name, prefix + value if name == b"location" and value.startswith(b"/") else value)
        for name, value in headers
    ]


# --- pages ------------------------------------------------------------------------------------------

NOSNIFF: Final[PageHeaders] = ((b"x-content-type-options", b"nosniff"),)
CACHED: Final[PageHeaders] = (*NOSNIFF, (b"cache-control", b"public, max-age=86400"))
"""Headers of content that doesn't depend on the Host of the request."""

_NOT_CACHED: Final[PageHeaders] = (*NOSNIFF, (b"cache-control", b"no-store"))
_LOCKED: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def own_address_headers(settings: Settings) -> PageHeaders:
    """Return the headers of a text that contains the service's own address.

    Without MERCATO_PUBLIC_URL the address is the Host of the request, which a shared cache would give to all clients.
    """
    return CACHED if settings.public_url else _NOT_CACHED


def static_page_policy(style: str) -> PageHeaders:
    """Return the policy of a page without scripts and with this inline style sheet."""
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    return _policy(f"{_LOCKED}; style-src 'sha256-{digest}'")


def reference_page_policy(settings: Settings) -> PageHeaders:
    """Return the policy of the API reference, which loads its own files and calls this service."""
    parts = urlsplit(settings.public_url or "")
    public = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return _policy(
        f"{_LOCKED}; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"connect-src 'self'{public}"
    )


def _policy(text: str) -> PageHeaders:
    return ((b"content-security-policy", text.encode()), (b"referrer-policy", b"no-referrer"))


# --- forms ------------------------------------------------------------------------------------------

FORM: Final = b"application/x-www-form-urlencoded"
MULTIPART: Final = b"multipart/form-data"


def check_form(head: Head) -> None:
    """Raise Forbidden for a form that another site's page sends, UnsupportedMediaType for a body that isn't a form.

    `Sec-Fetch-Site` decides where a browser sends it. Else `Origin` must be ours; pages without a referrer send `null`
    to plain http, which isn't. A client that sends neither isn't a browser, so no other site can make it act.
    """
    site = head.headers.get(b"sec-fetch-site")
    if site is not None:
        is_own = site in {b"same-origin", b"none"}
    else:
        origin = head.headers.get(b"origin")
        is_own = origin is None or origin in {_origin(head.base_url), _origin_of_host(head)}
    if not is_own:
        raise Forbidden(
            "This form was sent by a page of another site, so nothing was done. Open the console in a separate tab."
        )
    kind = head.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if head.content_length != 0 and kind not in {b"", FORM, MULTIPART}:
        raise UnsupportedMediaType(f"Send the form as {FORM.decode()}, as the console's pages do.")


def is_allowed_origin(origin: bytes, head: Head, settings: Settings) -> bool:
    """Return whether a page of this origin may call the agents' door: our own, or one of MERCATO_CORS_ORIGINS.

    Without MERCATO_PUBLIC_URL our own is one on loopback: another Host may be a name that somebody else's page points
    at this machine.
    """
    allowed = (text.strip().encode() for text in (settings.cors_origins or "").split(","))
    if origin and origin in allowed:
        return True
    if settings.public_url:
        return origin == _origin(settings.public_url)
    return is_loopback(urlsplit(head.base_url).hostname) and origin == _origin(head.base_url)


def _origin(url: str) -> bytes:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".encode()


def _origin_of_host(head: Head) -> bytes:
    return b"https://" + head.headers.get(b"host", b"")
