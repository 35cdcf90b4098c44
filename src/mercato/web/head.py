"""A request's head, scanned once: everything the edge looks at before the body."""

import re
from random import getrandbits
from typing import Any, Final
from urllib.parse import unquote

from mercato.clock import new_id
from mercato.web.proxies import TrustedProxies
from mercato.wire.problem import Context

_SANE_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_TRACEPARENT: Final = re.compile(
    rb"(?!ff|00.{53}-)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?"
)
"""Of W3C Trace Context: no id of zeros, no version ff, and version 00 has nothing after its flags."""

_HOST: Final = re.compile(rb"[A-Za-z0-9.-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?")
_PERCENT: Final = ord("%")


class Head:
    """The parts of a request's head that operations and refusals need.

    No struct: most requests ask for neither trace nor address, so these are worked out for who does.
    """

    __slots__ = ("_proxies", "_public_url", "_scope", "_trace", "headers", "path", "query", "request_id")

    def __init__(self, scope: Any, public_url: str | None, proxies: TrustedProxies | None = None) -> None:
        """Scan an ASGI scope. A header that is sent twice counts as the list of its values."""
        sent = scope["headers"]
        headers: dict[bytes, bytes] = dict(sent)
        if len(headers) != len(sent):
            headers = _combined(sent)
        self.headers = headers
        raw = scope.get("raw_path")
        # One byte is found at once. Looking for two, Python first tries them as a number and makes an error of that,
        # which takes half a microsecond.
        self.path: str = _path(raw) if raw and _PERCENT in raw and b"%2" in raw else scope["path"]
        self.query: bytes = scope.get("query_string", b"")
        self.request_id = _request_id(headers.get(b"x-request-id"))
        self._scope = scope
        self._public_url = public_url
        self._proxies = proxies
        self._trace: tuple[str, str] | None = None

    @property
    def trace_id(self) -> str:
        """The id of the trace that the request belongs to, or of one that begins with it."""
        return self._traced()[0]

    @property
    def base_url(self) -> str:
        """The service's address as this client sees it."""
        if self._public_url:
            return self._public_url.rstrip("/")
        return _base(self._scope, self.headers.get(b"host", b""))

    @property
    def address(self) -> str:
        """The client's address: the peer's, unless that is a proxy that is trusted to say whose it is."""
        peer: str = (self._scope.get("client") or ("",))[0]
        if self._proxies is None:
            return peer
        return self._proxies.client_of(
            peer, self.headers.get(b"forwarded"), self.headers.get(b"x-forwarded-for")
        )

    @property
    def context(self) -> Context:
        """What this request's refusals are told with."""
        return Context(self.base_url, self.request_id, self.trace_id, self.accept)

    def child(self) -> str:
        """Return the `traceparent` of what this request causes: the same trace, a new parent."""
        trace_id, flags = self._traced()
        return f"00-{trace_id}-{getrandbits(64):016x}-{flags}"

    def _traced(self) -> tuple[str, str]:
        if self._trace is None:
            self._trace = _trace(self.headers.get(b"traceparent"))
        return self._trace

    @property
    def has_body(self) -> bool:
        """Whether there is one at all, of whatever length: the server lets through no other way to send one."""
        return b"content-length" in self.headers or b"transfer-encoding" in self.headers

    @property
    def authorization(self) -> bytes:
        return self.headers.get(b"authorization", b"")

    @property
    def accept(self) -> bytes:
        return self.headers.get(b"accept", b"")

    @property
    def content_type(self) -> bytes:
        return self.headers.get(b"content-type", b"")

    @property
    def content_encoding(self) -> bytes:
        return self.headers.get(b"content-encoding", b"").strip().lower()

    @property
    def content_length(self) -> int | None:
        """The declared size, if it is one; the server has refused what is none."""
        declared = self.headers.get(b"content-length", b"")
        return int(declared) if declared.isdigit() and len(declared) < 20 else None  # noqa: PLR2004  # of 64 bits


def _path(raw: bytes) -> str:
    """Return the path, decoded but for escaped slashes: those are part of a name and divide nothing.

    Who stands in front and lets some paths through compares the same segments that we do.
    """
    return unquote(re.sub("%2[fF]", "%252F", raw.decode(errors="replace")))


def _combined(sent: Any) -> dict[bytes, bytes]:
    """Return headers of which some are repeated, as RFC 9110 (5.3) reads them.

    Whoever stands in front may have looked at the first of two and we at the last: put together, two keys, hosts
    or types are none, while a list stays a list.
    """
    headers: dict[bytes, bytes] = {}
    for name, value in sent:
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def _request_id(sent: bytes | None) -> str:
    if sent is not None and _SANE_ID.fullmatch(sent):
        return sent.decode()
    return str(new_id())


def _trace(sent: bytes | None) -> tuple[str, str]:
    match = _TRACEPARENT.fullmatch(sent) if sent else None
    if match:
        return match[1].decode(), match[2].decode()
    return f"{getrandbits(128):032x}", "00"


def _base(scope: Any, host: bytes) -> str:
    """Return the service's address as this client sees it; a made-up Host is not repeated."""
    name = host.decode() if _HOST.fullmatch(host) else "localhost"
    return f"{scope.get('scheme', 'http')}://{name}"
