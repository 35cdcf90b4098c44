"""What discovery needs of a set, so that no search ever opens a catalog: its words, and when it is available."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from mercato.catalog.model import DAY_SECONDS, Windows
from mercato.catalog.words import words_of

if TYPE_CHECKING:
    # Discovery reads what is packed here, and needs nothing of what validates.
    from mercato.catalog.validate import Valid

WEEK: Final[Windows] = ((0, 7 * DAY_SECONDS),)


class SetSearch(msgspec.Struct, frozen=True, array_like=True):
    """`words` of sections and items, sections first; `spans` in which some catalog is available, merged."""

    words: tuple[str, ...]
    spans: Windows


_decode: Final = msgspec.msgpack.Decoder(SetSearch).decode


def pack_search(valid: "Valid") -> bytes:
    """Return the packed SetSearch of a validated document."""
    source = valid.source
    words = words_of(source.sections.names() + source.items.names())
    spans: list[tuple[int, int]] = [] if source.catalogs else list(WEEK)
    for windows in valid.windows:
        spans += WEEK if windows is None else windows
    return msgspec.msgpack.encode(SetSearch(tuple(words), merged(spans)))


def unpack_search(packed: bytes) -> SetSearch:
    """Return what `pack_search` packed."""
    return _decode(packed)


def merged(spans: Iterable[tuple[int, int]]) -> Windows:
    """Return the same times in order, without overlaps and without seams."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)
