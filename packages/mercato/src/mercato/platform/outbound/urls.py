"""Which URLs the service may open, decided from the text alone: no name is resolved here.

The checked URL is reassembled from its parsed parts, and the connection uses that text: two parsers that disagree about
the host of a URL are how such checks are bypassed.
"""

import re
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Struct
from yarl import URL

from mercato.platform.outbound.addresses import Address, AddressPolicy, Verdict

MAX_URL = 8_192  # characters; servers refuse longer request lines
MAX_HOST = 253
MAX_PORT = 65_535

_ANY_ADDRESS = AddressPolicy(allow_private=True)
_PORTS = {"http": 80, "https": 443}
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
    """A URL that may not be opened: `fault` says why; `verdict` is set if its literal address was checked."""

    def __init__(self, fault: UrlFault, verdict: Verdict | None = None) -> None:
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
    if address is not None and not (verdict := policy.verdict(address)).allowed:
        raise UrlRefused(UrlFault.ADDRESS, verdict)
    return ParsedUrl(
        scheme=scheme,
        host=name,
        port=_PORTS[scheme] if port is None else port,
        path_query=_path_query(parts),
        address=address,
    )


@lru_cache(maxsize=4_096)
def origin_of(url: str) -> str | None:
    """Return the origin of the URL; None for a URL that is never called."""
    try:
        return check_url(url, _ANY_ADDRESS, https_only=False).origin
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
