from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato_outbound.guard import AddressPolicy, AddressVerdict, UrlFault, UrlRefused, check_url

PUBLIC_ONLY = AddressPolicy()

ACCEPTED = {
    "https://example.com": "https://example.com/",
    "HTTPS://Example.COM/Menu": "https://example.com/Menu",
    "http://example.com:80/a": "http://example.com/a",
    "https://example.com:443/a": "https://example.com/a",
    "http://example.com:443/a": "http://example.com:443/a",
    "https://example.com:65535/": "https://example.com:65535/",
    "https://example.com:00443/": "https://example.com/",
    "https://example.com:/a": "https://example.com/a",
    "https://example.com./a": "https://example.com/a",
    "https://example.com/a#part": "https://example.com/a",
    "https://example.com?x=1": "https://example.com/?x=1",
    "https://example.com/a%2Fb/../c%7E?sig=%2F%2B+%3d": "https://example.com/a%2Fb/../c%7E?sig=%2F%2B+%3d",
    "https://example.com/menü?q=ñ": "https://example.com/men%C3%BC?q=%C3%B1",
    'https://example.com/a"<b>': "https://example.com/a%22%3Cb%3E",
    "https://bücher.example/": "https://xn--bcher-kva.example/",
    "https://\uff45xample.com/": "https://example.com/",
    "https://my_store.example.com/": "https://my_store.example.com/",
    "https://localhost.example.com/": "https://localhost.example.com/",
    "https://ip6-localhost/": "https://ip6-localhost/",  # a name: checked when it is resolved
    "https://8.8.8.8/": "https://8.8.8.8/",
    "https://8.8.8.8./": "https://8.8.8.8/",
    "https://[2606:4700:4700:0::1111]:8443/a": "https://[2606:4700:4700::1111]:8443/a",
    "https://1.example/": "https://1.example/",
    "https://example.com/@me": "https://example.com/@me",
}

REFUSED = {
    # schemes
    "file:///etc/passwd": "SCHEME",
    "gopher://example.com/_x": "SCHEME",
    "ftp://example.com/": "SCHEME",
    "ws://example.com/": "SCHEME",
    "data:application/json,{}": "SCHEME",
    "javascript:alert(1)": "SCHEME",
    "unix:///run/docker.sock": "SCHEME",
    "//example.com/a": "SCHEME",
    "example.com/a": "SCHEME",
    "/a": "SCHEME",
    "": "SCHEME",
    # no host
    "http://": "NO_HOST",
    "http:///a": "NO_HOST",
    "http:/example.com": "NO_HOST",
    "http:example.com": "NO_HOST",
    "https://:443/": "NO_HOST",
    # credentials
    "https://user:secret@example.com/": "USERINFO",
    "https://user@example.com/": "USERINFO",
    "https://@example.com/": "USERINFO",
    "https://example.com:443@127.0.0.1/": "USERINFO",
    # ports
    "https://example.com:0/": "PORT",
    "https://example.com:65536/": "PORT",
    "https://example.com:-1/": "PORT",
    "https://example.com:+80/": "PORT",
    "https://example.com:8o/": "PORT",
    "https://example.com:٨٠/": "PORT",
    "https://example.com:1000080/": "PORT",
    f"https://example.com:{'9' * 5000}/": "PORT",
    # characters
    "https://example.com/a b": "CHARACTERS",
    " https://example.com/": "CHARACTERS",
    "https://example.com/\n": "CHARACTERS",
    "https://example.com/\r\nHost: x": "CHARACTERS",
    "https://exa\tmple.com/": "CHARACTERS",
    "https://example.com/\x00": "CHARACTERS",
    "https://example.com/\x7f": "CHARACTERS",
    "https://exam\u200bple.com/": "CHARACTERS",
    "https://example.com/\u202e": "CHARACTERS",
    "https://example.com/\ud800": "CHARACTERS",
    "https://example.com\\@127.0.0.1/": "CHARACTERS",
    "https:\\\\example.com": "CHARACTERS",
    # obfuscated addresses
    "http://2130706433/": "NUMERIC_HOST",
    "http://017700000001/": "NUMERIC_HOST",
    "http://0x7f000001/": "NUMERIC_HOST",
    "http://0177.0.0.1/": "NUMERIC_HOST",
    "http://0x7f.1/": "NUMERIC_HOST",
    "http://0X7F.0.0.1/": "NUMERIC_HOST",
    "http://127.1/": "NUMERIC_HOST",
    "http://127.0.1/": "NUMERIC_HOST",
    "http://0/": "NUMERIC_HOST",
    "http://0x/": "NUMERIC_HOST",
    "http://127.0.0.01/": "NUMERIC_HOST",
    "http://127.0.0.256/": "NUMERIC_HOST",
    "http://1.2.3.4.5/": "NUMERIC_HOST",
    "http://8.8.8.8.8./": "NUMERIC_HOST",
    "http://example.1/": "NUMERIC_HOST",
    "http://\uff11\uff12\uff17.\uff11/": "NUMERIC_HOST",
    # invalid names
    "http://./": "HOST",
    "http://.example.com/": "HOST",
    "http://example..com/": "HOST",
    "http://example.com../": "HOST",
    "http://-a.example/": "HOST",
    "http://a%2eb/": "HOST",
    "http://127%2e0.0.1/": "NUMERIC_HOST",
    "http://exa$mple.com/": "HOST",
    "http://example.com:80:90/": "HOST",
    "http://::1/": "HOST",
    f"http://{'a' * 64}.com/": "HOST",
    f"http://{'a.' * 130}com/": "HOST",
    "http://[::1/": "HOST",
    "http://[example.com]/": "HOST",
    "http://[]/": "HOST",
    "http://[::1]x/": "HOST",
    "http://[fe80::1%25eth0]/": "ZONE",
    "http://[fe80::1%eth0]/": "ZONE",
    # names that are an address
    "https://localhost/": "ADDRESS",
    "https://LOCALHOST.:8443/a": "ADDRESS",
    "https://menu.localhost/": "ADDRESS",
    "https://\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54/": "ADDRESS",
    # literal addresses
    "http://127.0.0.1/": "ADDRESS",
    "http://127.0.0.1./": "ADDRESS",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/": "ADDRESS",
    "http://127\u30020\u30020\u30021/": "ADDRESS",
    "http://0.0.0.0/": "ADDRESS",
    "http://10.0.0.1:8080/": "ADDRESS",
    "http://169.254.169.254/latest/meta-data/": "ADDRESS",
    "http://[::1]/": "ADDRESS",
    "http://[::]/": "ADDRESS",
    "http://[::ffff:127.0.0.1]/": "ADDRESS",
    "http://[::ffff:7f00:1]/": "ADDRESS",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/": "ADDRESS",
    "http://[::127.0.0.1]/": "ADDRESS",
    "http://[64:ff9b::7f00:1]/": "ADDRESS",
    "http://[2002:7f00:1::]/": "ADDRESS",
    "http://[fd00:ec2::254]/": "ADDRESS",
    "https://example.com/" + "a" * 9000: "TOO_LONG",
}


@pytest.mark.parametrize(("url", "text"), ACCEPTED.items())
def test_an_allowed_url_is_kept_as_it_was_written(url: str, text: str) -> None:
    parsed = check_url(url, PUBLIC_ONLY, https_only=False)
    assert parsed.text == text
    assert str(parsed.url) == text


@pytest.mark.parametrize(("url", "text"), ACCEPTED.items())
def test_the_connection_is_made_to_the_host_that_was_checked(url: str, text: str) -> None:
    parsed = check_url(url, PUBLIC_ONLY, https_only=False)
    assert (parsed.url.raw_host, parsed.url.port) == (parsed.host, parsed.port)
    assert parsed.url.raw_path_qs == parsed.path_query
    assert check_url(text, PUBLIC_ONLY, https_only=False) == parsed


@pytest.mark.parametrize(("url", "fault"), REFUSED.items())
def test_a_url_that_could_reach_an_internal_address_is_refused_with_the_reason(url: str, fault: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        check_url(url, PUBLIC_ONLY, https_only=False)
    assert refused.value.fault is UrlFault[fault]


def test_http_is_refused_where_only_https_will_do() -> None:
    with pytest.raises(UrlRefused) as refused:
        check_url("http://example.com/", PUBLIC_ONLY, https_only=True)
    assert refused.value.fault is UrlFault.HTTPS_ONLY
    assert check_url("https://example.com/", PUBLIC_ONLY, https_only=True).scheme == "https"


def test_a_refused_literal_address_has_its_verdict() -> None:
    with pytest.raises(UrlRefused) as refused:
        check_url("http://[::ffff:169.254.169.254]/", PUBLIC_ONLY, https_only=False)
    assert refused.value.verdict is AddressVerdict.METADATA


def test_a_literal_address_is_checked_by_the_policy() -> None:
    lenient = AddressPolicy(extra_public=frozenset({ip_network("127.0.0.0/8")}))
    parsed = check_url("http://127.0.0.1:8000/", lenient, https_only=False)
    assert parsed.address == ip_address("127.0.0.1")
    assert check_url("http://[::1]/", AddressPolicy(allow_private=True), https_only=False).host == "::1"


@given(st.text(max_size=40), st.sampled_from(["http://", "https://", "http://[", "http://a:", ""]))
def test_any_text_is_refused_or_parsed_again_to_the_same_url(text: str, prefix: str) -> None:
    try:
        parsed = check_url(prefix + text, PUBLIC_ONLY, https_only=False)
    except UrlRefused:
        return
    assert parsed.url.raw_host == parsed.host
    assert parsed.url.port == parsed.port
    assert parsed.url.user is None
    assert check_url(parsed.text, PUBLIC_ONLY, https_only=False) == parsed
