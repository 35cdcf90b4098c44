"""Whether a request says properly where it goes: its Host (RFC 9112, 3.2) and its query (RFC 3986, 3.4)."""

import re
from typing import Final

from mercato.errors import InvalidRequest
from mercato.web.head import Head

MOST_HOSTS: Final = 256
"""Hosts that are remembered as good: a service has a few names, and anybody can make up others."""

_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::\d*)?")
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
        if _HOST.fullmatch(host) is None:
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
