"""Opening hours as bytes, for searches of many stores: whether they are open, and until when."""

import struct
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from mercato_catalog.hours import HoursChange, edges_of, is_within, next_change
from mercato_catalog.model import Windows, second_of_week
from mercato_contract.clock import from_ms, to_ms, zone

INDEFINITELY: Final = 2**63 - 1
"""The end of a pause until further notice."""


def pack_spans(spans: Windows) -> bytes:
    """Return the spans as four bytes for each opening and closing."""
    edges = edges_of(spans)
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
        self._changes: dict[tuple[str, bytes], HoursChange] = {}

    def is_open(self, timezone: str, spans: bytes) -> bool:
        """Return whether hours from `pack_spans` are open now in the time zone."""
        return is_within(_edges(spans), self._second(timezone))

    def next_change(self, timezone: str, spans: bytes, *, paused_until: int) -> HoursChange:
        """Return the next change; `paused_until` in milliseconds, in the past for a store that isn't paused."""
        if paused_until > to_ms(self._now):
            since = None if paused_until == INDEFINITELY else from_ms(paused_until)
            return next_change(self._now, zone(timezone), _edges(spans), since=since)
        key = timezone, spans
        change = self._changes.get(key)
        if change is None:
            change = next_change(self._now, zone(timezone), _edges(spans), since=self._now)
            self._changes[key] = change
        return change

    def next_opening(self, timezone: str, spans: bytes) -> int | None:
        """Return the second of the local week at which closed hours open next, None if there are none."""
        openings = _edges(spans)[::2]
        second = self._second(timezone)
        return next((opening for opening in openings if opening > second), openings[0] if openings else None)

    def _second(self, timezone: str) -> int:
        second = self._seconds.get(timezone)
        if second is None:
            second = self._seconds[timezone] = second_of_week(self._now.astimezone(zone(timezone)))
        return second


@lru_cache(maxsize=4096)
def _edges(spans: bytes) -> tuple[int, ...]:
    """Return every opening and closing; cached, because many stores share the same hours."""
    return struct.unpack(f"<{len(spans) // 4}I", spans)
