"""Cursors of the feeds: places in them, and what a reader is told whose place is gone."""

import base64
import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from mercato.platform.errors import InvalidCursor
from mercato_contract import problems
from mercato_contract.refusals import Problem


class CursorExpired(Problem):
    kind = problems.CURSOR_EXPIRED

    def __init__(self, entries: str, *, is_gone: bool = False) -> None:
        """`is_gone`: the cursor is of a past that is gone, because an older copy of the database was restored."""
        reason = "after this cursor are no longer kept."
        if is_gone:
            reason = "up to this cursor are gone: the service was set back to an earlier state."
        super().__init__(
            f"{entries} {reason} Read on without `after`: from the oldest that is kept. "
            "What happened between is lost to this list, so compare with the resources themselves."
        )


CURSORS: Final = "feed cursors"
"""What their keys are derived for."""

_POSITION: Final = 8
_MAC: Final = 10
"""Bytes of the code: a cursor grants nothing, so it is only guarded against being made up or mixed up."""


class Cursors:
    """Positions, signed together for the one list that gave them.

    Writes with the first key, and reads with any, so that keys can be rotated.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    def write(self, *positions: int, feed: str) -> str:
        """Return a cursor of this feed: base64url without padding."""
        place = b"".join(position.to_bytes(_POSITION) for position in positions)
        return _text(place + _code(self._keys[0], place, feed))

    def read(self, text: str, *, feed: str) -> tuple[int, ...]:
        """Return the positions. Raises InvalidCursor for a cursor that wasn't written for this feed.

        A later version may have added positions at the end: while versions run side by side, those that a reader
        doesn't know are skipped.
        """
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError:
            raise InvalidCursor from None
        place, code = raw[:-_MAC], raw[-_MAC:]
        is_ours = any(hmac.compare_digest(code, _code(key, place, feed)) for key in self._keys)
        # The last character may have bits that say nothing.
        if not is_ours or text != _text(raw):
            raise InvalidCursor
        return tuple(int.from_bytes(place[at : at + _POSITION]) for at in range(0, len(place), _POSITION))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _code(key: bytes, place: bytes, feed: str) -> bytes:
    return hmac.digest(key, place + feed.encode(), sha256)[:_MAC]
