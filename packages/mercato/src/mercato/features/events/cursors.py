"""Cursors of the feeds: a position, signed for the one list that gave it. No I/O."""

import base64
import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from mercato.platform.errors import InvalidCursor

PURPOSE: Final = "feed cursors"

_POSITION: Final = 8
_MAC: Final = 10
"""Bytes of the code: a cursor grants nothing, so it is only guarded against being made up or mixed up."""


class Cursors:
    """Writes with the first key, and reads with any, so that keys can be rotated."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    def write(self, position: int, *, feed: str) -> str:
        """Return the cursor after a position of this feed: base64url without padding."""
        place = position.to_bytes(_POSITION)
        return base64.urlsafe_b64encode(place + _code(self._keys[0], place, feed)).decode()

    def read(self, text: str, *, feed: str) -> int:
        """Return the position. Raises InvalidCursor for one that wasn't written for this feed."""
        try:
            raw = base64.b64decode(text, altchars=b"-_", validate=True)
        except ValueError:
            raise InvalidCursor from None
        place, code = raw[:_POSITION], raw[_POSITION:]
        if not any(hmac.compare_digest(code, _code(key, place, feed)) for key in self._keys):
            raise InvalidCursor
        return int.from_bytes(place)


def _code(key: bytes, place: bytes, feed: str) -> bytes:
    return hmac.digest(key, place + feed.encode(), sha256)[:_MAC]
