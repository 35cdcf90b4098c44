"""Failures are limited by address, which only a trusted proxy may state."""

import pytest

from mercato.http.head import TrustedProxies
from mercato.settings import load
from mercato_tools.settings import SettingsError

PROXIES = TrustedProxies("10.0.0.0/8, 2001:db8::1")


@pytest.mark.parametrize(
    ("peer", "forwarded", "x_forwarded_for", "client"),
    [
        # not a trusted proxy: its header is ignored
        ("192.0.2.9", None, "198.51.100.1", "192.0.2.9"),
        ("192.0.2.9", "for=198.51.100.1", None, "192.0.2.9"),
        # from a trusted proxy
        ("10.0.0.1", None, "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "for=198.51.100.1;proto=https", None, "198.51.100.1"),
        ("10.0.0.1", 'proto=https;For="[2001:db8:cafe::17]:4711"', None, "2001:db8:cafe::17"),
        ("2001:db8::1", None, "198.51.100.1:5678", "198.51.100.1"),
        ("::ffff:10.0.0.1", None, "::ffff:198.51.100.1", "198.51.100.1"),
        # the rightmost address that isn't a proxy: the client may have made up those before it
        ("10.0.0.1", None, "1.1.1.1, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", None, "1.1.1.1, 198.51.100.1, 10.0.0.7", "198.51.100.1"),
        ("10.0.0.1", "for=1.1.1.1, for=198.51.100.1, for=10.0.0.7", None, "198.51.100.1"),
        # only proxies, and text that isn't an address
        ("10.0.0.1", None, "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", None, "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", None, "198.51.100.1, nonsense, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "for=_hidden", None, "10.0.0.1"),
        ("10.0.0.1", None, "", "10.0.0.1"),
        ("10.0.0.1", None, None, "10.0.0.1"),
        # one of two headers is the client's
        ("10.0.0.1", "for=1.1.1.1", "198.51.100.1", "10.0.0.1"),
        ("10.0.0.1", "for=198.51.100.1", "198.51.100.1", "198.51.100.1"),
    ],
)
def test_the_client_is_the_rightmost_address_that_is_not_a_trusted_proxy(
    peer: str, forwarded: str | None, x_forwarded_for: str | None, client: str
):
    headers = [None if text is None else text.encode() for text in (forwarded, x_forwarded_for)]
    assert PROXIES.client_of(peer, *headers) == client


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "10.0.0.0/8,", "*"])
def test_proxies_that_are_not_networks_are_refused_at_start(text: str):
    with pytest.raises(SettingsError, match="MERCATO_TRUSTED_PROXIES"):
        load({"MERCATO_TRUSTED_PROXIES": text})


@pytest.mark.parametrize(
    "text", ["*", "shop.example.com", "https://shop.example.com/", "https://*.example.com"]
)
def test_invalid_origins_are_refused_at_start(text: str):
    with pytest.raises(SettingsError, match="MERCATO_CORS_ORIGINS"):
        load({"MERCATO_CORS_ORIGINS": text})


def test_every_bad_entry_of_a_list_is_named():
    with pytest.raises(SettingsError) as refused:
        load({"MERCATO_TRUSTED_PROXIES": "proxy.example, 10.0.0.0/8, 10.0.0.1/8"})
    assert "'proxy.example' is neither" in str(refused.value)
    assert "'10.0.0.1/8' is neither" in str(refused.value)
