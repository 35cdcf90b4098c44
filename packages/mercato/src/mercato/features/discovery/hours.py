"""Opening hours for searches: spans of the local week in bytes, tested at one instant."""

import struct
from bisect import bisect_right
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from mercato.features.catalogs.model import Windows, second_of_week
from mercato.platform.clock import zone

INDEFINITELY: Final = 2**63 - 1
"""The end of a pause until further notice."""


def pack_spans(spans: Windows) -> bytes:
    """Return the spans as four bytes for each opening and closing."""
    edges = [edge for span in spans for edge in span]
    return struct.pack(f"<{len(edges)}I", *edges)


def key_of(timezone: str, spans: bytes) -> int:
    """Return the key of opening hours: equal hours have equal keys."""
    digest = blake2b(timezone.encode() + b"\0" + spans, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Openings:
    """Tests opening hours at one instant; each time zone's local time is computed once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._seconds: dict[str, int] = {}

    def is_open(self, timezone: str, spans: bytes) -> bool:
        """Return whether hours from `pack_spans` are open now in the time zone."""
        # Spans don't touch each other, so between an opening and its closing the number of edges passed is odd.
        return bisect_right(_edges(spans), self._second(timezone)) % 2 == 1

    def next_opening(self, timezone: str, spans: bytes) -> int | None:
        """Return the second of the local week at which closed hours open next, None if there are none."""
        openings = _edges(spans)[::2]
        second = self._second(timezone)
        return next((one for one in openings if one > second), openings[0] if openings else None)

    def _second(self, timezone: str) -> int:
        second = self._seconds.get(timezone)
        if second is None:
            second = self._seconds[timezone] = second_of_week(self._now.astimezone(zone(timezone)))
        return second


@lru_cache(maxsize=4096)
def _edges(spans: bytes) -> tuple[int, ...]:
    """Return every opening and closing; cached, because many stores share the same hours."""
    return struct.unpack(f"<{len(spans) // 4}I", spans)
