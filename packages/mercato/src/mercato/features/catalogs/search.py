"""The search data of a set: its words and its opening hours, so that no search reads a catalog."""

from collections.abc import Iterable
from typing import Final

import msgspec

from mercato.features.catalogs.model import DAY_SECONDS, Windows

WEEK: Final[Windows] = ((0, 7 * DAY_SECONDS),)


class SetSearch(msgspec.Struct, frozen=True, array_like=True):
    """`words` of sections and items, sections first; `spans` in which some catalog is available, merged."""

    words: tuple[str, ...]
    spans: Windows


_decode: Final = msgspec.msgpack.Decoder(SetSearch).decode


def unpack_search(packed: bytes) -> SetSearch:
    """Return the SetSearch of its packed form."""
    return _decode(packed)


def merge_windows(spans: Iterable[tuple[int, int]]) -> Windows:
    """Return the spans in order, with those that overlap or touch merged."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)
