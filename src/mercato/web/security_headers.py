"""Headers that tell browsers what a page may do, and caches what they may keep."""

import base64
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from mercato.settings import Settings

Headers = tuple[tuple[bytes, bytes], ...]

NOSNIFF: Final[Headers] = ((b"x-content-type-options", b"nosniff"),)
LASTS: Final[Headers] = (*NOSNIFF, (b"cache-control", b"public, max-age=86400"))
"""For what is the same for everybody, whatever Host they ask by."""

_NOT_CACHED: Final[Headers] = (*NOSNIFF, (b"cache-control", b"no-store"))
_LOCKED: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def naming_itself(settings: Settings) -> Headers:
    """Return the headers of a text that holds the service's own address.

    Without MERCATO_PUBLIC_URL that is the Host of the request: a shared cache would hand one client's to all others.
    """
    return LASTS if settings.public_url else _NOT_CACHED


def static_page(style: str) -> Headers:
    """Return the policy of a page that runs no script and has this one style sheet in it."""
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    return _policy(f"{_LOCKED}; style-src 'sha256-{digest}'")


def reference_page(settings: Settings) -> Headers:
    """Return the policy of the API reference: its own files, and calls to this service."""
    parts = urlsplit(settings.public_url or "")
    public = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return _policy(
        f"{_LOCKED}; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"connect-src 'self'{public}"
    )


def _policy(text: str) -> Headers:
    return (
        (b"content-security-policy", text.encode()),
        (b"referrer-policy", b"no-referrer"),
    )
