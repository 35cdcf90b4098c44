"""The address of a client behind proxies: what a header says counts only if a trusted proxy has sent it."""

import ipaddress
import re
from typing import Final

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
