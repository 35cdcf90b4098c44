"""Which IP addresses the service may connect to, decided from the address alone.

A partner chooses the URLs that the service opens, so every address is refused unless it is known to be a
public unicast one. `ipaddress.is_global` is only the last of three checks: it calls NAT64, 6to4, Teredo's
neighbours, site-local and IPv4-compatible addresses global, and its results differ between Python versions.
The tables below make the verdict the same on all of them.
"""

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec import Struct

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Verdict(StrEnum):
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
        return self is Verdict.ALLOWED


DEVELOPMENT = frozenset({Verdict.LOOPBACK, Verdict.PRIVATE, Verdict.SHARED})
"""Verdicts that `allow_private` allows. Never metadata or link-local: nobody serves a document from there."""


def _table(*rows: tuple[Verdict, str]) -> tuple[tuple[Network, Verdict], ...]:
    return tuple((ip_network(network), verdict) for verdict, text in rows for network in text.split())


# The first match wins, so metadata services come before the ranges that contain them.
_REFUSED = _table(
    # EC2, GCE, Azure and most others; ECS; EKS; Scaleway; Tencent. All are link-local; listed for a better message.
    (Verdict.METADATA, "169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 169.254.42.42"),
    (Verdict.METADATA, "169.254.0.23"),
    # Azure's host agent, a public address that only answers inside of Azure; Alibaba; Oracle's first generation.
    (Verdict.METADATA, "168.63.129.16 100.100.100.200 192.0.0.192"),
    (Verdict.UNSPECIFIED, "0.0.0.0/8"),  # Linux connects 0.0.0.0 to loopback
    (Verdict.LOOPBACK, "127.0.0.0/8"),
    (Verdict.PRIVATE, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16"),
    (Verdict.SHARED, "100.64.0.0/10"),
    (Verdict.LINK_LOCAL, "169.254.0.0/16"),
    (Verdict.RESERVED, "192.0.0.0/24"),
    (Verdict.DOCUMENTATION, "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24"),
    (Verdict.TRANSITION, "192.88.99.0/24"),  # 6to4 relays
    (Verdict.BENCHMARK, "198.18.0.0/15"),
    (Verdict.MULTICAST, "224.0.0.0/4"),
    (Verdict.BROADCAST, "255.255.255.255"),
    (Verdict.RESERVED, "240.0.0.0/4"),
    (Verdict.METADATA, "fd00:ec2::/32 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42"),
    (Verdict.METADATA, "fe80::a9fe:a9fe"),
    (Verdict.UNSPECIFIED, "::"),
    (Verdict.LOOPBACK, "::1"),
    (Verdict.TRANSITION, "::/96"),  # IPv4-compatible
    (Verdict.TRANSITION, "::ffff:0:0:0/96"),  # SIIT, "IPv4-translated"
    # NAT64 of a local network: which bits hold the IPv4 address is not known.
    (Verdict.TRANSITION, "64:ff9b:1::/48"),
    (Verdict.TRANSITION, "2001::/32 2002::/16"),  # Teredo, 6to4
    (Verdict.BENCHMARK, "2001:2::/48"),
    (Verdict.RESERVED, "2001::/23"),  # for protocols: ORCHID, AMT, PCP…
    (Verdict.DOCUMENTATION, "2001:db8::/32 3fff::/20"),
    (Verdict.RESERVED, "100::/63"),  # discard-only and dummy
    (Verdict.RESERVED, "5f00::/16"),  # segment routing
    (Verdict.PRIVATE, "fc00::/7"),
    (Verdict.LINK_LOCAL, "fe80::/10"),
    (Verdict.RESERVED, "fec0::/10"),  # site-local, withdrawn
    (Verdict.MULTICAST, "ff00::/8"),
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

    def verdict(self, ip: Address | str) -> Verdict:
        """Return whether `ip` may be connected to; a text that isn't an address is `UNREADABLE`."""
        try:
            address = ip_address(ip) if isinstance(ip, str) else ip
        except ValueError:
            return Verdict.UNREADABLE
        verdict = self._check(address)
        return Verdict.ALLOWED if self.allow_private and verdict in DEVELOPMENT else verdict

    def _check(self, address: Address) -> Verdict:
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            return Verdict.SCOPED
        if any(address in network for network in self.extra_public):
            return Verdict.ALLOWED
        if isinstance(address, IPv6Address) and (inner := _embedded(address)) is not None:
            return self._check(inner)
        for network, verdict in _REFUSED:
            if address in network:
                return verdict
        if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
            return Verdict.TRANSITION
        public = address.is_global and any(address in network for network in _UNICAST)
        return Verdict.ALLOWED if public else Verdict.RESERVED


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to `address` are sent to.

    The operating system treats a mapped address as IPv4. The DNS of an IPv6-only network returns the well-known NAT64
    prefix for every IPv4 host, so such a network could call nobody if the prefix were refused.
    """
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped
