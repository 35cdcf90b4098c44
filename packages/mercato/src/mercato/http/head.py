"""A request's head, scanned once: everything that the edge reads before the body.

The Host is checked by RFC 9112 (3.2), the query by RFC 3986 (3.4). Trusted proxies say what the client's address is.
"""

import ipaddress
import re
from random import getrandbits
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mercato.platform.errors import Unauthenticated
from mercato.platform.problem_details import Context, Origin
from mercato_contract.clock import new_id_text
from mercato_contract.refusals import InvalidRequest

_SANE_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_TRACEPARENT: Final = re.compile(
    rb"(?!ff|00.{53}-)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?"
)
"""W3C Trace Context: no id of zeros, no version ff, and nothing after the flags of version 00."""

_HOST: Final = re.compile(rb"[A-Za-z0-9._-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?")
_PERCENT: Final = ord("%")

_FOR: Final = re.compile(r'(?:^|[;,])\s*for\s*=\s*("[^"]*"|[^;,\s]*)', re.IGNORECASE)
"""RFC 7239: `Forwarded: for=192.0.2.43, for="[2001:db8::1]:4711";proto=https`."""

_PORT: Final = re.compile(r"(?:\[([^\]]*)\]|([0-9.]+))(?::\d+)?")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """The addresses and networks of the proxies in front of the service."""

    def __init__(self, text: str) -> None:
        """`text` is a comma-separated list, as the setting has it. Raises ValueError."""
        self._networks = [ipaddress.ip_network(part.strip()) for part in text.split(",")]

    def client_of(self, peer: str, forwarded: bytes | None, x_forwarded_for: bytes | None) -> str:
        """Return the address of the client: the rightmost one that isn't a trusted proxy's.

        Addresses further left come from the client itself. If the two headers disagree, one of them comes from the
        client, because a proxy writes one and forwards the other: the result is the proxy's own address.
        """
        if not self._trusts(_parsed(peer)):
            return peer
        chains = [_for(header) for header in (forwarded,) if header is not None]
        chains += [header.decode("latin-1").split(",") for header in (x_forwarded_for,) if header is not None]
        clients = {self._rightmost(peer, chain) for chain in chains}
        return clients.pop() if len(clients) == 1 else peer

    def _rightmost(self, peer: str, chain: list[str]) -> str:
        client = peer
        for text in reversed(chain):
            address = _parsed(text)
            if address is None:
                break  # `unknown` or a made-up name: the proxy that sent it is the last known address
            client = str(address)
            if not self._trusts(address):
                break
        return client

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _for(header: bytes) -> list[str]:
    return [match[1].strip('"') for match in _FOR.finditer(header.decode("latin-1"))]


def _parsed(text: str) -> Address | None:
    """Return the address in the text without its port, an IPv4-mapped IPv6 address as IPv4."""
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

    Trace and address are computed on access, because most requests need neither.
    """

    __slots__ = ("_proxies", "_public_url", "_scope", "_trace", "headers", "path", "query", "request_id")

    def __init__(self, scope: Any, public_url: str | None, proxies: TrustedProxies | None = None) -> None:
        """Scan an ASGI scope. A header that is sent twice has the list of its values."""
        sent = scope["headers"]
        headers: dict[bytes, bytes] = dict(sent)
        if len(headers) != len(sent):
            headers = _combined(sent)
        self.headers = headers
        raw = scope.get("raw_path")
        # Searching an integer is fast. A search for two bytes first tries them as an integer and discards the error,
        # which takes half a microsecond.
        self.path: str = _path(raw) if raw and _PERCENT in raw and b"%2" in raw else scope["path"]
        self.query: bytes = scope.get("query_string", b"")
        self.request_id = _request_id(headers.get(b"x-request-id"))
        self._scope = scope
        self._public_url = public_url
        self._proxies = proxies
        self._trace: tuple[str, str] | None = None

    @property
    def method(self) -> str:
        method: str = self._scope["method"]
        return method

    @property
    def trace_id(self) -> str:
        """The id of the request's trace: the client's, or a new one."""
        return (self._trace or self._find_trace())[0]

    @property
    def base_url(self) -> str:
        """The service's address as this client sees it."""
        if self._public_url:
            return self._public_url.rstrip("/")
        return _base(self._scope, self.headers.get(b"host", b""))

    @property
    def path_prefix(self) -> str:
        """The path of MERCATO_PUBLIC_URL, without a slash at its end: it precedes the paths that clients see."""
        return path_prefix(self._public_url or "")

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
        """What this request's refusals are rendered with."""
        return Context(self.base_url, self.request_id, self.trace_id, self.headers.get(b"accept", b""))

    def origin(self) -> Origin:
        """Return what a refusal repeats of this request. Most requests aren't refused."""
        return self.context.origin

    def child(self) -> str:
        """Return the `traceparent` of what this request causes: the same trace, a new parent."""
        trace_id, flags = self._trace or self._find_trace()
        return f"00-{trace_id}-{getrandbits(64):016x}-{flags}"

    def _find_trace(self) -> tuple[str, str]:
        """Return the id and the flags of the client's trace, or of a new one."""
        sent = self.headers.get(b"traceparent")
        match = _TRACEPARENT.fullmatch(sent) if sent else None
        if match:
            self._trace = match[1].decode(), match[2].decode()
        else:
            self._trace = f"{getrandbits(128):032x}", "00"
        return self._trace

    @property
    def has_body(self) -> bool:
        """Whether there is a body of any length. The server refuses other ways to send one."""
        return b"content-length" in self.headers or b"transfer-encoding" in self.headers

    @property
    def content_length(self) -> int | None:
        """The declared size. The server refuses a length that isn't a number."""
        declared = self.headers.get(b"content-length", b"")
        return int(declared) if declared.isdigit() and len(declared) < 20 else None  # noqa: PLR2004  # of 64 bits


def path_prefix(base_url: str) -> str:
    """Return the path of the service's address, without a slash at its end."""
    return urlsplit(base_url).path.rstrip("/")


def _path(raw: bytes) -> str:
    """Return the path, decoded except for escaped slashes, which are part of a segment.

    So a proxy that allows some paths compares the same segments as this service.
    """
    return unquote(re.sub("%2[fF]", "%252F", raw.decode(errors="replace")))


def _combined(sent: Any) -> dict[bytes, bytes]:
    """Return the headers with the values of repeated ones joined, as RFC 9110 (5.3) says.

    A proxy may use the first of two values and we the last. Joined, two keys, hosts or types are invalid, and lists
    stay lists.
    """
    headers: dict[bytes, bytes] = {}
    for name, value in sent:
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def _request_id(sent: bytes | None) -> str:
    if sent is not None and _SANE_ID.fullmatch(sent):
        return sent.decode()
    return new_id_text()


def _base(scope: Any, host: bytes) -> str:
    """Return the service's address as this client sees it. An invalid Host isn't repeated."""
    name = host.decode() if _HOST.fullmatch(host) else "localhost"
    return f"{scope.get('scheme', 'http')}://{name}"


# --- checks -------------------------------------------------------------------------------------------

MOST_HOSTS: Final = 256
"""Valid Hosts that are remembered. A service has a few names, and clients can make up any number."""

_AUTHORITY: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::\d*)?")
_FORBIDDEN: Final = re.compile(rb"[^!$&-;=?-Z_a-z~%]")
"""A byte that is neither a character of a query nor part of an escape."""


class Hosts:
    """The values of Host that were checked and are valid."""

    def __init__(self) -> None:
        self.valid: set[bytes] = set()

    def check(self, head: Head, version: str) -> None:
        """Raise InvalidRequest for an HTTP/1.1 request with no Host, two, or an invalid one."""
        host = head.headers.get(b"host")
        if not host:  # the server adds an empty one if there is none
            if version == "1.1":
                raise InvalidRequest(
                    "The header Host is missing or empty. HTTP/1.1 requires exactly one host."
                )
            return
        if _AUTHORITY.fullmatch(host) is None:
            raise InvalidRequest(
                "The header Host is sent twice, or isn't a host. HTTP/1.1 requires exactly one."
            )
        if len(self.valid) < MOST_HOSTS:
            self.valid.add(host)


def check_query(query: bytes) -> None:
    """Raise InvalidRequest for a query with a character that a URI must escape."""
    found = _FORBIDDEN.search(query)
    if found is not None:
        raise InvalidRequest(
            f"The query contains the byte 0x{found[0].hex()}, which a URI must escape: "
            f"send %{found[0].hex().upper()}."
        )


def bearer_token(head: Head) -> bytes:
    """Return the key or access token that was sent. Raises Unauthenticated."""
    value = head.headers.get(b"authorization")
    if not value:
        raise Unauthenticated("Send the header Authorization: Bearer <your key>.", sent=False)
    scheme, _, token = value.partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise Unauthenticated("The Authorization header must be: Bearer <your key>.", sent=True)
    return token
