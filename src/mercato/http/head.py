"""A request's head, scanned once: everything the edge looks at before the body.

The Host is checked by RFC 9112 (3.2), the query by RFC 3986 (3.4). Behind proxies a trusted one says what the
client's address is.
"""

import ipaddress
import re
from random import getrandbits
from typing import Any, Final
from urllib.parse import unquote

from mercato.kernel.clock import new_id
from mercato.kernel.errors import InvalidRequest
from mercato.kernel.wire.problem import Context

_SANE_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_TRACEPARENT: Final = re.compile(
    rb"(?!ff|00.{53}-)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?"
)
"""Of W3C Trace Context: no id of zeros, no version ff, and version 00 has nothing after its flags."""

_HOST: Final = re.compile(rb"[A-Za-z0-9.-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?")
_PERCENT: Final = ord("%")

_FOR: Final = re.compile(r'(?:^|[;,])\s*for\s*=\s*("[^"]*"|[^;,\s]*)', re.IGNORECASE)
"""RFC 7239: `Forwarded: for=192.0.2.43, for="[2001:db8::1]:4711";proto=https`."""

_PORT: Final = re.compile(r"(?:\[([^\]]*)\]|([0-9.]+))(?::\d+)?")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """The proxies that a service stands behind: addresses and networks."""

    def __init__(self, text: str) -> None:
        """`text` is a comma-separated list, as the setting has it. Raises ValueError."""
        self._networks = [ipaddress.ip_network(part.strip()) for part in text.split(",")]

    def client_of(self, peer: str, forwarded: bytes | None, x_forwarded_for: bytes | None) -> str:
        """Return the address of the client: the rightmost one that is no trusted proxy's.

        What stands further left was said by the client itself. If the two headers disagree, one of them comes from the
        client, because a proxy writes one and passes the other on: then it's the proxy's own address.
        """
        if not self._trusts(_parsed(peer)):
            return peer
        said = [_for(header) for header in (forwarded,) if header is not None]
        said += [header.decode("latin-1").split(",") for header in (x_forwarded_for,) if header is not None]
        clients = {self._rightmost(peer, chain) for chain in said}
        return clients.pop() if len(clients) == 1 else peer

    def _rightmost(self, peer: str, chain: list[str]) -> str:
        client = peer
        for text in reversed(chain):
            address = _parsed(text)
            if address is None:
                break  # `unknown` or a made-up name: whoever said it is the last that is known
            client = str(address)
            if not self._trusts(address):
                break
        return client

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _for(header: bytes) -> list[str]:
    return [match[1].strip('"') for match in _FOR.finditer(header.decode("latin-1"))]


def _parsed(text: str) -> Address | None:
    """Return the address in the text, without its port; an IPv4 address in IPv6 clothes is the former."""
    text = text.strip()
    port = _PORT.fullmatch(text)
    if port is not None:
        text = port[1] or port[2] or ""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


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


# --- checks -------------------------------------------------------------------------------------------

MOST_HOSTS: Final = 256
"""Hosts that are remembered as good: a service has a few names, and anybody can make up others."""

_AUTHORITY: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::\d*)?")
_FORBIDDEN: Final = re.compile(rb"[^!$&-;=?-Z_a-z~%]")
"""What is neither a character of a query nor part of an escape."""


class Hosts:
    """The values of Host that were found to be one."""

    def __init__(self) -> None:
        self.good: set[bytes] = set()

    def check(self, head: Head, version: str) -> None:
        """Raise InvalidRequest for a request of HTTP/1.1 without a Host, with two, or with one that can't be one."""
        host = head.headers.get(b"host")
        if not host:  # the server puts an empty one where there is none
            if version == "1.1":
                raise InvalidRequest(
                    "The header Host is missing or empty. HTTP/1.1 asks for exactly one host."
                )
            return
        if _AUTHORITY.fullmatch(host) is None:
            raise InvalidRequest(
                "The header Host is sent twice, or is no host. HTTP/1.1 asks for exactly one."
            )
        if len(self.good) < MOST_HOSTS:
            self.good.add(host)


def check_query(query: bytes) -> None:
    """Raise InvalidRequest for a query with a character that a URI can only hold escaped."""
    found = _FORBIDDEN.search(query)
    if found is not None:
        raise InvalidRequest(
            f"The query holds the byte 0x{found[0].hex()} as it is, which a URI may only hold escaped: "
            f"send %{found[0].hex().upper()}."
        )
