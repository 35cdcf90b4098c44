"""Lines and columns, for whoever mends the document in an editor."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from mercato.catalog.scan import scan

_BOM = b"\xef\xbb\xbf"


class Position(NamedTuple):
    """Counted from 1; columns count characters."""

    line: int
    column: int


def locate(document: bytes, pointers: Collection[str]) -> dict[str, Position]:
    """Return where each pointer stands: one that leads nowhere gets the nearest object that is there.

    When the document is broken, the whole of it (the pointer "") stands where it breaks.
    """
    found = scan(document, pointers)
    places = {pointer: found.places.get(pointer, found.broken_at) for pointer in pointers}
    if found.broken is not None and "" in places:
        places[""] = found.broken_at
    at = positions(document, places.values())
    return {pointer: at[offset] for pointer, offset in places.items()}


def positions(document: bytes, offsets: Iterable[int]) -> dict[int, Position]:
    """Return the positions of byte offsets in one pass over the document."""
    found: dict[int, Position] = {}
    line, column, before = 1, 1, len(_BOM) if document.startswith(_BOM) else 0
    for offset in sorted(set(offsets)):
        part = document[before:offset]
        newline = part.rfind(b"\n")
        if newline >= 0:
            line, column = line + part.count(b"\n"), 1
        column += len(part[newline + 1 :].decode("utf-8", "replace"))
        found[offset] = Position(line, column)
        before = max(before, offset)
    return found
