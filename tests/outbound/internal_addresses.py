"""Internal addresses, in every spelling that some parser of URLs, names or addresses accepts.

One table for all routes: each is tried as the URL itself, as the target of a redirect and, if it is an address, as
the address of a name. `PUBLIC` are neighbouring addresses that are public.
"""

from ipaddress import ip_address

HOSTS = {
    # loopback in the forms of inet_aton
    "dotted": "127.0.0.1",
    "dotted, elsewhere in the network": "127.255.255.254",
    "trailing dot": "127.0.0.1.",
    "decimal": "2130706433",
    "decimal, one too large": "4294967297",
    "octal": "017700000001",
    "octal parts": "0177.0.0.01",
    "octal with many zeros": "0000177.0.0.1",
    "hexadecimal": "0x7f000001",
    "hexadecimal parts": "0x7f.0x0.0x0.0x1",
    "hexadecimal in capitals": "0X7F.0.0.1",
    "mixed bases": "0x7f.0.0.01",
    "two parts": "127.1",
    "three parts": "127.0.1",
    "one part": "127",
    "zero": "0",
    "zeros in front": "127.000.000.001",
    "a part that overflows": "127.0.0.257",
    "five parts": "127.0.0.1.0",
    "decimal with a trailing dot": "2130706433.",
    # other scripts that normalise to digits and dots
    "fullwidth digits": "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
    "circled digits": "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460",
    "ideographic dots": "127\u30020\u30020\u30021",
    "halfwidth dots": "127\uff610\uff610\uff611",
    "fullwidth dots": "127\uff0e0\uff0e0\uff0e1",
    "mathematical digits": "\U0001d7cf\U0001d7d0\U0001d7d5.0.0.1",
    "percent-encoded digits": "%31%32%37.0.0.1",
    "percent-encoded dots": "127%2e0%2e0%2e1",
    # networks that are not public
    "unspecified": "0.0.0.0",  # noqa: S104  # refused, not bound
    "this network": "0.1.2.3",
    "private 10": "10.0.0.1",
    "private 172": "172.16.0.1",
    "private 172, the end": "172.31.255.255",
    "private 192": "192.168.1.1",
    "shared (CGNAT)": "100.64.0.1",
    "shared (CGNAT), the end": "100.127.255.255",
    "link-local": "169.254.1.1",
    "protocol assignments": "192.0.0.8",
    "documentation": "192.0.2.1",
    "documentation 2": "198.51.100.7",
    "documentation 3": "203.0.113.9",
    "6to4 relay": "192.88.99.1",
    "benchmark": "198.18.0.1",
    "benchmark, the end": "198.19.255.255",
    "multicast": "224.0.0.1",
    "multicast of an organisation": "239.255.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    # metadata services of clouds
    "metadata": "169.254.169.254",
    "metadata, decimal": "2852039166",
    "metadata, hexadecimal": "0xa9fea9fe",
    "metadata, octal parts": "0251.0376.0251.0376",
    "metadata of containers": "169.254.170.2",
    "metadata of pods": "169.254.170.23",
    "metadata of Alibaba": "100.100.100.200",
    "metadata of Azure's host": "168.63.129.16",
    "metadata of Oracle": "192.0.0.192",
    "metadata, IPv6": "[fd00:ec2::254]",
    "metadata, IPv6, Google": "[fd20:ce::254]",
    "metadata, mapped": "[::ffff:169.254.169.254]",
    # IPv6
    "IPv6 loopback": "[::1]",
    "IPv6 loopback in full": "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "IPv6 loopback, dotted": "[::0.0.0.1]",
    "IPv6 unspecified": "[::]",
    "mapped": "[::ffff:127.0.0.1]",
    "mapped, hexadecimal": "[::ffff:7f00:1]",
    "mapped, in full": "[0:0:0:0:0:ffff:127.0.0.1]",
    "mapped private": "[::ffff:10.0.0.1]",
    "mapped unspecified": "[::ffff:0.0.0.0]",
    "compatible": "[::127.0.0.1]",
    "compatible, of a public address": "[::8.8.8.8]",
    "translated": "[::ffff:0:127.0.0.1]",
    "NAT64 of loopback": "[64:ff9b::7f00:1]",
    "NAT64 of metadata": "[64:ff9b::a9fe:a9fe]",
    "NAT64 of a private address": "[64:ff9b::192.168.0.1]",
    "NAT64 of a local network": "[64:ff9b:1::808:808]",
    "6to4 of loopback": "[2002:7f00:1::]",
    "6to4 of a public address": "[2002:808:808::1]",
    "Teredo": "[2001:0:7f00:1::]",
    "ISATAP": "[2606:4700::5efe:7f00:1]",
    "ORCHID": "[2001:20::1]",
    "unique local": "[fc00::1]",
    "unique local, assigned": "[fd12:3456:789a::1]",
    "IPv6 link-local": "[fe80::1]",
    "site-local": "[fec0::1]",
    "IPv6 multicast": "[ff02::1]",
    "IPv6 global multicast": "[ff0e::1]",
    "IPv6 documentation": "[2001:db8::1]",
    "IPv6 documentation 2": "[3fff::1]",
    "IPv6 benchmark": "[2001:2::1]",
    "discard-only": "[100::1]",
    "segment routing": "[5f00::1]",
    "not given out": "[4000::1]",
    "a zone": "[fe80::1%25lo]",
    "a zone, not escaped": "[fe80::1%lo]",
    "a zone on a public address": "[2606:4700::1%251]",
    "a zone on loopback": "[::1%25lo]",
    "without brackets": "::1",
    "brackets within": "[::1].example.com",
    "brackets around a name": "[localhost]",
    "an address of the future": "[v1.fe80::a]",
    # ambiguous hosts
    "user": "menu.example@127.0.0.1",
    "user and password": "menu.example:80@127.0.0.1",
    "an empty user": "@127.0.0.1",
    "two at signs": "a@menu.example@127.0.0.1",
    "a backslash before": "menu.example\\@127.0.0.1",
    "a backslash after": "127.0.0.1\\.menu.example",
    "an invalid port": "127.0.0.1:80@menu.example",
    "two ports": "127.0.0.1:80:80",
    "port zero": "127.0.0.1:0",
    "a port of redis": "127.0.0.1:6379",
    "an escaped at sign": "menu.example%40127.0.0.1",
    "an escaped slash": "127.0.0.1%2fmenu.example",
    "an escaped NUL": "127.0.0.1%00.menu.example",
    "NUL": "127.0.0.1\x00.menu.example",
    "a line end": "127.0.0.1\r\nHost: menu.example",
    "a line feed": "127.0.0.1\nmenu.example",
    "a tab": "127.0.\t0.1",
    "a space": "127.0.0.1 menu.example",
    "an invisible space": "127.0.0.1\u200b",
    "a soft hyphen": "127.0.0\u00ad.1",
    "a fullwidth slash": "127.0.0.1\uff0fmenu.example",
    "a fullwidth at sign": "menu.example\uff20127.0.0.1",
    "a lone surrogate": "127.0.0.1\ud800",
    "no host": "",
    "a dot": ".",
    "two dots": "127.0.0.1..",
}
"""Hosts in URLs. None may be connected to, and none resolved."""

NAMES = {
    "localhost": "localhost",
    "localhost with a trailing dot": "localhost.",
    "localhost in capitals": "LOCALHOST",
    "localhost in fullwidth letters": "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
    "below localhost": "menu.localhost",
    "the machine's domain": "localhost.localdomain",
    "IPv6's name": "ip6-localhost",
    "metadata by name": "metadata.google.internal",
    "an address in a name": "127.0.0.1.nip.example",
    "arabic digits, which are letters to DNS": "\u0661\u0662\u0667.\u0660.\u0660.\u0661",
    "a name in another script": "b\u00fccher.example",
}
"""Names that resolve to internal addresses: refused because of these, whatever the names look like."""


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


ADDRESSES = {name: host.strip("[]") for name, host in HOSTS.items() if _is_address(host.strip("[]"))} | {
    "no address at all": "inside",
    "a shortened address": "127.1",
}
"""Addresses that a resolver may return."""

PUBLIC = {
    "IPv4": "93.184.215.14",
    "next to private": "11.0.0.1",
    "next to shared": "100.128.0.1",
    "next to benchmark": "198.20.0.1",
    "IPv6": "2606:4700:4700::1111",
    "mapped": "::ffff:93.184.215.14",
    "NAT64": "64:ff9b::5db8:d70e",
}
"""Public addresses, in forms that must be reached."""
