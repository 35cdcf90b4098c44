"""Cookies of the console.

Browsers accept a `__Host-` cookie over https, and Chromium and Firefox over http to a loopback address, too. Over plain
http to another address it can't be kept; a service for development then uses a name without the prefix.
"""

import ipaddress
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from mercato.http.head import Head
from mercato.settings import Settings

SESSION: Final = "mercato-session"
MESSAGE: Final = "mercato-message"
"""What was done, for the page after it."""

SIGN_ON: Final = "mercato-sign-on"
"""What the way back from an OpenID Connect provider is checked against."""

TIMEZONE: Final = "mercato-timezone"
"""The time zone that this browser is shown times in."""

TIMEZONE_SECONDS: Final = 365 * 24 * 3600

MESSAGE_SECONDS: Final = 60
MAX_MESSAGE: Final = 1000
"""Bytes of a message. Escaped, each may take three, and browsers refuse a cookie of more than 4,096."""

MAX_AGE: Final = 7 * 24 * 3600

Header = tuple[bytes, bytes]


class Cookies:
    """The cookies of one request, and those of its answer."""

    def __init__(self, head: Head, settings: Settings) -> None:
        self._plain = settings.allow_private_networks and _is_plain(head.base_url)
        # Not http.cookies: it takes quadratic time for backslashes, and one odd cookie of others makes it read none.
        pairs = (
            part.partition("=") for part in head.headers.get(b"cookie", b"").decode("latin-1").split(";")
        )
        self._sent = {name.strip(): value.strip() for name, _, value in pairs}

    def read(self, name: str) -> str | None:
        """Return a cookie's value, if it was sent."""
        value = self._sent.get(self._name(name))
        return None if value is None else unquote(value)

    def write(self, name: str, value: str, *, seconds: int, same_site: str = "Strict") -> Header:
        """Return the header that keeps a cookie; with 0 seconds, the one that removes it."""
        secure = "" if self._plain else " Secure;"
        text = (
            f"{self._name(name)}={quote(value)};{secure} HttpOnly; SameSite={same_site}; Path=/; "
            f"Max-Age={seconds}"
        )
        return b"set-cookie", text.encode()

    def _name(self, name: str) -> str:
        return name if self._plain else f"__Host-{name}"


def _is_plain(base_url: str) -> bool:
    parts = urlsplit(base_url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
