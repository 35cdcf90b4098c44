"""Text for terminals of any kind: 80 columns, no colour, nothing that another's words could do to the screen."""

import shutil
import sys
from collections.abc import Iterator
from typing import Final

MOST_WIDE: Final = 100
"""Columns beyond which lines are hard to read."""

_HARMFUL: Final = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
    "\N{REPLACEMENT CHARACTER}",
)
"""Control characters, and what turns the direction of the text behind it."""


def width() -> int:
    """Return the columns to use: the terminal's, 80 in a pipe."""
    return max(40, min(MOST_WIDE, shutil.get_terminal_size((80, 24)).columns))


def harmless(text: str) -> str:
    """Return the text without what a terminal would obey."""
    return text.translate(_HARMFUL)


def cells(text: str) -> int:
    """Return the columns that the text takes: a Chinese letter has two."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, room: int) -> str:
    """Return the text, or what of it there is room for."""
    from rich.cells import set_cell_size

    return text if cells(text) <= room else set_cell_size(text, max(0, room - 1)).rstrip() + "…"


def folded(text: str, *, indent: str = "", first: str | None = None) -> Iterator[str]:
    """Yield the text in lines that fit; a word that is too long for any has one to itself, whole."""
    line, empty = indent if first is None else first, True
    for word in harmless(text).split():
        if not empty and cells(line) + 1 + cells(word) > width():
            yield line
            line, empty = indent, True
        line += word if empty else f" {word}"
        empty = False
    yield line


def say(*lines: str) -> None:
    """Print lines; what the output cannot write is written as question marks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        print(line.encode(encoding, "replace").decode(encoding))
