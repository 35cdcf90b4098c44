"""When stores are open, as a search needs it: spans of the local week in bytes, asked for one instant."""

import struct
from bisect import bisect_right
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from mercato.catalog.model import Windows, second_of_week
from mercato.clock import zone

INDEFINITELY: Final = 2**63 - 1
"""The end of a pause until further notice."""


def pack_spans(spans: Windows) -> bytes:
    """Return the spans as four bytes for each edge."""
    edges = [edge for span in spans for edge in span]
    return struct.pack(f"<{len(edges)}I", *edges)


def key_of(timezone: str, spans: bytes) -> int:
    """Return the number under which these opening hours are kept: the same hours have the same."""
    digest = blake2b(timezone.encode() + b"\0" + spans, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Openings:
    """Which opening hours are open at one instant; what a time zone's clock shows is worked out once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._seconds: dict[str, int] = {}

    def is_open(self, timezone: str, spans: bytes) -> bool:
        """Tell whether hours from `pack_spans` are open there now."""
        second = self._seconds.get(timezone)
        if second is None:
            second = self._seconds[timezone] = second_of_week(self._now.astimezone(zone(timezone)))
        # Spans don't touch each other, so between an opening and its closing the number of edges passed is odd.
        return bisect_right(_edges(spans), second) % 2 == 1


@lru_cache(maxsize=4096)
def _edges(spans: bytes) -> tuple[int, ...]:
    """Return every opening and closing: most stores of a place have the hours of many others."""
    return struct.unpack(f"<{len(spans) // 4}I", spans)
