from ipaddress import IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato_outbound.guard import AddressPolicy, AddressVerdict, is_loopback

PUBLIC_ONLY = AddressPolicy()
DEVELOPMENT = AddressPolicy(allow_private=True)

VERDICTS = {
    # public, at the edges of internal networks
    "8.8.8.8": "allowed",
    "1.1.1.1": "allowed",
    "9.255.255.255": "allowed",
    "11.0.0.0": "allowed",
    "100.63.255.255": "allowed",
    "100.128.0.0": "allowed",
    "126.255.255.255": "allowed",
    "128.0.0.0": "allowed",
    "169.253.255.255": "allowed",
    "169.255.0.0": "allowed",
    "172.15.255.255": "allowed",
    "172.32.0.0": "allowed",
    "192.0.1.0": "allowed",
    "192.167.255.255": "allowed",
    "192.169.0.0": "allowed",
    "198.17.255.255": "allowed",
    "198.20.0.0": "allowed",
    "223.255.255.255": "allowed",
    "2606:4700:4700::1111": "allowed",
    "2a00:1450:4001:80e::200e": "allowed",
    "2001:200::1": "allowed",
    # loopback, and addresses that the system treats as such
    "127.0.0.1": "loopback",
    "127.1.2.3": "loopback",
    "127.255.255.255": "loopback",
    "::1": "loopback",
    "0.0.0.0": "unspecified",  # noqa: S104  # judged, not bound
    "0.1.2.3": "unspecified",
    "::": "unspecified",
    # private and shared
    "10.0.0.0": "private",
    "10.255.255.255": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.0.1": "private",
    "fc00::1": "private",
    "fdff:ffff::1": "private",
    "100.64.0.0": "shared",
    "100.127.255.255": "shared",
    # link-local and metadata services
    "169.254.0.1": "link_local",
    "169.254.255.255": "link_local",
    "fe80::1": "link_local",
    "febf::1": "link_local",
    "169.254.169.254": "metadata",
    "169.254.170.2": "metadata",
    "169.254.170.23": "metadata",
    "168.63.129.16": "metadata",
    "100.100.100.200": "metadata",
    "192.0.0.192": "metadata",
    "fd00:ec2::254": "metadata",
    "fd00:ec2::23": "metadata",
    "fd20:ce::254": "metadata",
    "fd00:c1::a9fe:a9fe": "metadata",
    "fe80::a9fe:a9fe": "metadata",
    # reserved
    "192.0.0.1": "reserved",
    "192.0.0.170": "reserved",
    "192.0.0.9": "reserved",
    "240.0.0.1": "reserved",
    "255.255.255.254": "reserved",
    "255.255.255.255": "broadcast",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "ff02::1": "multicast",
    "ff0e::1": "multicast",
    "192.0.2.1": "documentation",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "2001:db8::1": "documentation",
    "3fff::1": "documentation",
    "198.18.0.1": "benchmark",
    "198.19.255.255": "benchmark",
    "2001:2::1": "benchmark",
    "2001:10::1": "reserved",
    "2001:20::1": "reserved",
    "100::1": "reserved",
    "100:0:0:1::1": "reserved",
    "5f00::1": "reserved",
    "fec0::1": "reserved",
    "feff::1": "reserved",
    "200::1": "reserved",
    "4000::1": "reserved",
    "e000::1": "reserved",
    # IPv4 inside IPv6
    "::ffff:127.0.0.1": "loopback",
    "::ffff:7f00:1": "loopback",
    "::ffff:0.0.0.0": "unspecified",
    "::ffff:10.0.0.1": "private",
    "::ffff:169.254.169.254": "metadata",
    "::ffff:8.8.8.8": "allowed",
    "64:ff9b::127.0.0.1": "loopback",
    "64:ff9b::a9fe:a9fe": "metadata",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b::8.8.8.8": "allowed",
    "64:ff9b:1::7f00:1": "transition",
    "64:ff9b:1::8.8.8.8": "transition",
    "::127.0.0.1": "transition",
    "::8.8.8.8": "transition",
    "::2": "transition",
    "::ffff:0:127.0.0.1": "transition",
    "2002:7f00:1::": "transition",
    "2002:808:808::1": "transition",
    "2001::1": "transition",
    "2001:0:7f00:1::": "transition",
    "2606:4700::5efe:7f00:1": "transition",
    "2606:4700::200:5efe:a00:1": "transition",
    "192.88.99.1": "transition",
    # not addresses
    "fe80::1%eth0": "scoped",
    "2606:4700::1%1": "scoped",
    "::1%lo": "scoped",
    "2130706433": "unreadable",
    "127.1": "unreadable",
    "0177.0.0.1": "unreadable",
    "example.com": "unreadable",
    "": "unreadable",
}


@pytest.mark.parametrize(("text", "verdict"), VERDICTS.items())
def test_only_public_addresses_are_allowed(text: str, verdict: str) -> None:
    assert PUBLIC_ONLY.verdict(text) == verdict


@pytest.mark.parametrize(("text", "verdict"), VERDICTS.items())
def test_development_opens_loopback_private_and_shared_networks_and_nothing_else(
    text: str, verdict: str
) -> None:
    expected = "allowed" if verdict in {"loopback", "private", "shared"} else verdict
    assert DEVELOPMENT.verdict(text) == expected


def test_a_test_policy_can_call_one_loopback_address_public() -> None:
    policy = AddressPolicy(extra_public=frozenset({ip_network("127.0.0.1/32")}))
    assert policy.verdict("127.0.0.1").allowed
    assert policy.verdict("::ffff:127.0.0.1").allowed
    assert policy.verdict("127.0.0.2") is AddressVerdict.LOOPBACK
    assert policy.verdict("::1") is AddressVerdict.LOOPBACK


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_has_the_same_verdict_when_it_is_mapped_into_ipv6(address: object) -> None:
    assert PUBLIC_ONLY.verdict(f"::ffff:{address}") is PUBLIC_ONLY.verdict(str(address))
    assert PUBLIC_ONLY.verdict(f"64:ff9b::{address}") is PUBLIC_ONLY.verdict(str(address))


@given(st.ip_addresses())
def test_an_address_that_python_does_not_call_global_is_never_allowed(address: object) -> None:
    ip = ip_address(str(address))
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    if mapped is None and (not ip.is_global or ip.is_multicast or ip.is_link_local):
        assert not PUBLIC_ONLY.verdict(ip).allowed


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "shop.localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"],
)
def test_a_host_of_this_machine_alone_is_loopback(host: str):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "localhost.example",
        "notlocalhost",
        "0.0.0.0",  # noqa: S104  # judged, not bound
        "::",
        "10.0.0.1",
        "2130706433",
        "::ffff:10.0.0.1",
    ],
)
def test_any_other_host_is_not_loopback(host: str | None):
    assert not is_loopback(host)
