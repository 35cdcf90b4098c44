"""Which URLs the service may open, and which IP addresses it may connect to, decided from the text alone.

No name is resolved here. A partner chooses the URLs, so every address is refused unless it is known to be a public
unicast one. `ipaddress.is_global` is only the last of three checks: it calls NAT64, 6to4, Teredo's neighbours,
site-local and IPv4-compatible addresses global, and its results differ between Python versions. The tables below make
the verdict the same on all of them.

A checked URL is reassembled from its parsed parts, and the connection uses that text: two parsers that disagree about
the host of a URL are how such checks are bypassed.
"""

import re
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Struct
from yarl import URL

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class AddressVerdict(StrEnum):
    """Whether an address may be connected to; every value but `ALLOWED` says why it may not."""

    ALLOWED = "allowed"
    BENCHMARK = "benchmark"
    BROADCAST = "broadcast"
    DOCUMENTATION = "documentation"
    LINK_LOCAL = "link_local"
    LOOPBACK = "loopback"
    METADATA = "metadata"
    MULTICAST = "multicast"
    PRIVATE = "private"
    RESERVED = "reserved"
    SCOPED = "scoped"
    SHARED = "shared"
    TRANSITION = "transition"
    UNREADABLE = "unreadable"
    UNSPECIFIED = "unspecified"

    @property
    def allowed(self) -> bool:
        return self is AddressVerdict.ALLOWED


DEVELOPMENT = frozenset({AddressVerdict.LOOPBACK, AddressVerdict.PRIVATE, AddressVerdict.SHARED})
"""Verdicts that `allow_private` allows. Never metadata or link-local: nobody serves a document from there."""


def _table(*rows: tuple[AddressVerdict, str]) -> tuple[tuple[Network, AddressVerdict], ...]:
    return tuple((ip_network(network), verdict) for verdict, text in rows for network in text.split())


# The first match wins, so metadata services come before the ranges that contain them.
_REFUSED = _table(
    # EC2, GCE, Azure and most others; ECS; EKS; Scaleway; Tencent. All are link-local; listed for a better message.
    (AddressVerdict.METADATA, "169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 169.254.42.42"),
    (AddressVerdict.METADATA, "169.254.0.23"),
    # Azure's host agent, a public address that only answers inside of Azure; Alibaba; Oracle's first generation.
    (AddressVerdict.METADATA, "168.63.129.16 100.100.100.200 192.0.0.192"),
    (AddressVerdict.UNSPECIFIED, "0.0.0.0/8"),  # Linux connects 0.0.0.0 to loopback
    (AddressVerdict.LOOPBACK, "127.0.0.0/8"),
    (AddressVerdict.PRIVATE, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16"),
    (AddressVerdict.SHARED, "100.64.0.0/10"),
    (AddressVerdict.LINK_LOCAL, "169.254.0.0/16"),
    (AddressVerdict.RESERVED, "192.0.0.0/24"),
    (AddressVerdict.DOCUMENTATION, "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24"),
    (AddressVerdict.TRANSITION, "192.88.99.0/24"),  # 6to4 relays
    (AddressVerdict.BENCHMARK, "198.18.0.0/15"),
    (AddressVerdict.MULTICAST, "224.0.0.0/4"),
    (AddressVerdict.BROADCAST, "255.255.255.255"),
    (AddressVerdict.RESERVED, "240.0.0.0/4"),
    (AddressVerdict.METADATA, "fd00:ec2::/32 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42"),
    (AddressVerdict.METADATA, "fe80::a9fe:a9fe"),
    (AddressVerdict.UNSPECIFIED, "::"),
    (AddressVerdict.LOOPBACK, "::1"),
    (AddressVerdict.TRANSITION, "::/96"),  # IPv4-compatible
    (AddressVerdict.TRANSITION, "::ffff:0:0:0/96"),  # SIIT, "IPv4-translated"
    # NAT64 of a local network: which bits hold the IPv4 address is not known.
    (AddressVerdict.TRANSITION, "64:ff9b:1::/48"),
    (AddressVerdict.TRANSITION, "2001::/32 2002::/16"),  # Teredo, 6to4
    (AddressVerdict.BENCHMARK, "2001:2::/48"),
    (AddressVerdict.RESERVED, "2001::/23"),  # for protocols: ORCHID, AMT, PCP…
    (AddressVerdict.DOCUMENTATION, "2001:db8::/32 3fff::/20"),
    (AddressVerdict.RESERVED, "100::/63"),  # discard-only and dummy
    (AddressVerdict.RESERVED, "5f00::/16"),  # segment routing
    (AddressVerdict.PRIVATE, "fc00::/7"),
    (AddressVerdict.LINK_LOCAL, "fe80::/10"),
    (AddressVerdict.RESERVED, "fec0::/10"),  # site-local, withdrawn
    (AddressVerdict.MULTICAST, "ff00::/8"),
)

_UNICAST = (IPv4Network("0.0.0.0/0"), IPv6Network("2000::/3"))  # all that has been assigned
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # upper half of an interface id that ends in an IPv4 address


class AddressPolicy(Struct, frozen=True, kw_only=True):
    """Which addresses may be reached.

    `allow_private` allows loopback, private and shared networks (development). `extra_public` is for tests: networks
    that count as public whatever the tables say. `names_setting` makes a refusal name the setting that would allow it,
    for a service that only its own machine can reach.
    """

    allow_private: bool = False
    extra_public: frozenset[Network] = frozenset()
    names_setting: bool = False

    def verdict(self, ip: Address | str) -> AddressVerdict:
        """Return whether `ip` may be connected to; a text that isn't an address is `UNREADABLE`."""
        try:
            address = ip_address(ip) if isinstance(ip, str) else ip
        except ValueError:
            return AddressVerdict.UNREADABLE
        verdict = self._check(address)
        return AddressVerdict.ALLOWED if self.allow_private and verdict in DEVELOPMENT else verdict

    def _check(self, address: Address) -> AddressVerdict:
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            return AddressVerdict.SCOPED
        if any(address in network for network in self.extra_public):
            return AddressVerdict.ALLOWED
        if isinstance(address, IPv6Address) and (inner := _embedded(address)) is not None:
            return self._check(inner)
        for network, verdict in _REFUSED:
            if address in network:
                return verdict
        if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
            return AddressVerdict.TRANSITION
        public = address.is_global and any(address in network for network in _UNICAST)
        return AddressVerdict.ALLOWED if public else AddressVerdict.RESERVED


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to `address` are sent to.

    The operating system treats a mapped address as IPv4. The DNS of an IPv6-only network returns the well-known NAT64
    prefix for every IPv4 host, so such a network could call nobody if the prefix were refused.
    """
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped


def is_loopback(host: str | None) -> bool:
    """Return whether a URL's host, or an address to listen on, is this machine alone. No name is resolved."""
    name = (host or "").lower()
    if _is_localhost(name):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_localhost(name: str) -> bool:
    """Return whether a name is loopback without a look-up: localhost and all names below it (RFC 6761, 6.3)."""
    return name.rsplit(".", maxsplit=1)[-1] == "localhost"


MAX_URL = 8_192  # characters; servers refuse longer request lines
MAX_HOST = 253
MAX_PORT = 65_535

ANY_ADDRESS = AddressPolicy(allow_private=True)
"""For a URL whose form alone is checked here: the code that opens it checks whether it may be opened."""

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = IPv4Address("127.0.0.1")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Characters that stay unescaped; with `%`, so that an escape reaches the server as the partner wrote it.
_UNESCAPED = "%!$&'()*+,-./:;=?@_~[]{}|^"


class UrlFault(StrEnum):
    """What is wrong with a URL; the value completes the sentence "The … URL …"."""

    TOO_LONG = f"is longer than {MAX_URL} characters"
    CHARACTERS = "contains a space, a backslash or an invisible character: escape it as %XX"
    SCHEME = "must begin with http:// or https://"
    HTTPS_ONLY = "must begin with https://"
    USERINFO = "must not contain a user name or password"
    NO_HOST = "names no host"
    HOST = "names a host that is not a valid name or address"
    NUMERIC_HOST = "writes its address as a number or in a shortened form: write a host name"
    ZONE = "names an address with a network zone"
    PORT = "must have a port between 1 and 65535"
    ADDRESS = "leads to an address that is not public"


class UrlRefused(ValueError):  # noqa: N818  # a verdict, not an error
    """A URL that may not be opened: `fault` says why; `verdict` is set if its host itself says the address."""

    def __init__(self, fault: UrlFault, verdict: AddressVerdict | None = None) -> None:
        super().__init__(f"The URL {fault.value}.")
        self.fault = fault
        self.verdict = verdict


class ParsedUrl(Struct, frozen=True, kw_only=True):
    """A URL whose text allows to open it; `address` is set if the host is a literal one."""

    scheme: str
    host: str
    port: int
    path_query: str
    address: Address | None

    @property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path_query}"

    @property
    def origin(self) -> str:
        """Return scheme, host and port (RFC 6454), to which credentials belong."""
        return self.text.removesuffix(self.path_query)

    @property
    def url(self) -> URL:
        """Return the URL for the HTTP client, which neither decodes nor rewrites it."""
        return URL(self.text, encoded=True)


def check_url(url: str, policy: AddressPolicy, *, https_only: bool) -> ParsedUrl:
    """Return the URL in its checked parts, without its fragment. Raises UrlRefused."""
    parts = _split(url)
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise UrlRefused(UrlFault.SCHEME)
    if https_only and scheme != "https":
        raise UrlRefused(UrlFault.HTTPS_ONLY)
    if "@" in parts.netloc:
        raise UrlRefused(UrlFault.USERINFO)
    host, port = _host_and_port(parts.netloc)
    name, address = _v6(host) if host.startswith("[") else _name_or_v4(host)
    known = _LOOPBACK if _is_localhost(name) else address
    if known is not None and not (verdict := policy.verdict(known)).allowed:
        raise UrlRefused(UrlFault.ADDRESS, verdict)
    return ParsedUrl(
        scheme=scheme,
        host=name,
        port=_PORTS[scheme] if port is None else port,
        path_query=_path_query(parts),
        address=address,
    )


def check_call(url: str, policy: AddressPolicy) -> ParsedUrl:
    """Return the checked parts of a URL that is called with a webhook: https, unless private networks are allowed.

    Raises UrlRefused.
    """
    return check_url(url, policy, https_only=not policy.allow_private)


def call_fault(url: str, name: str, policy: AddressPolicy) -> str | None:
    """Return why `check_call` refuses the URL in a member called `name`, and what to do; None if it doesn't."""
    try:
        check_call(url, policy)
    except UrlRefused as refused:
        return explain(refused.fault, name, policy)
    return None


_DEVELOPMENT = (
    "While you develop on this machine, start the service with mercato serve --dev, or with "
    "MERCATO_ALLOW_PRIVATE_NETWORKS=true."
)


def explain(fault: UrlFault, subject: str, policy: AddressPolicy) -> str:
    """Return what is wrong with the subject's URL and what its owner can do."""
    advice = ""
    if fault is UrlFault.ADDRESS:
        advice = " Use a host that can be reached from the public internet."
    if policy.names_setting and fault in {UrlFault.ADDRESS, UrlFault.HTTPS_ONLY}:
        advice += f" {_DEVELOPMENT}"
    return f"{subject} {fault.value}.{advice}"


@lru_cache(maxsize=4_096)
def origin_of(url: str) -> str | None:
    """Return the origin of the URL; None for a URL that is never called."""
    try:
        return check_url(url, ANY_ADDRESS, https_only=False).origin
    except UrlRefused:
        return None


def _split(url: str) -> SplitResult:
    if len(url) > MAX_URL:
        raise UrlRefused(UrlFault.TOO_LONG)
    # `isprintable` is false for controls, line ends, lone surrogates and zero-width marks alike.
    if not url.isprintable() or " " in url or "\\" in url:
        raise UrlRefused(UrlFault.CHARACTERS)
    try:
        return urlsplit(url)
    except ValueError as error:  # unbalanced brackets, characters that normalise to separators
        raise UrlRefused(UrlFault.HOST) from error


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    host, colon, digits = netloc.rpartition(":")
    if not colon or netloc.endswith("]"):
        host, digits = netloc, ""
    if not host:
        raise UrlRefused(UrlFault.NO_HOST)
    if host.startswith("[") and not host.endswith("]"):
        raise UrlRefused(UrlFault.HOST)
    if not digits:
        return host, None
    significant = digits.lstrip("0")  # at most five: `int` raises its own error for thousands of digits
    if not (digits.isascii() and digits.isdigit()) or not 1 <= int(significant[:6] or "0") <= MAX_PORT:
        raise UrlRefused(UrlFault.PORT)
    return host, int(significant)


def _v6(host: str) -> tuple[str, Address]:
    inner = host[1:-1]
    if "%" in inner:
        raise UrlRefused(UrlFault.ZONE)
    try:
        address = IPv6Address(inner)
    except ValueError as error:
        raise UrlRefused(UrlFault.HOST) from error
    return address.compressed, address


def _name_or_v4(host: str) -> tuple[str, Address | None]:
    name = _ascii(host).removesuffix(".")
    labels = name.split(".")
    # As WHATWG defines it, a host whose last label is a number is an address. The system's resolver would read
    # 2130706433, 0177.1 and 0x7f.1 as 127.0.0.1, so only the dotted decimal form is accepted.
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        try:
            return name, IPv4Address(name)
        except ValueError as error:
            raise UrlRefused(UrlFault.NUMERIC_HOST) from error
    if len(name) > MAX_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlRefused(UrlFault.HOST)
    return name, None


def _ascii(host: str) -> str:
    """Return the name as DNS knows it: lower case, other scripts as `xn--`."""
    try:
        encoded = URL.build(scheme="http", host=host).raw_host
    except ValueError as error:  # among them UnicodeError and IDNA's own errors
        raise UrlRefused(UrlFault.HOST) from error
    return (encoded or "").lower()


def _path_query(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_UNESCAPED)
    return f"{path}?{quote(parts.query, safe=_UNESCAPED)}" if parts.query else path
