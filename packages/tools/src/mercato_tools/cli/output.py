"""What commands print: text that fits, findings and JSON on standard output, notes on standard error."""

import os
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UnsetType

from mercato_contract.wire import Wire, as_json, instant

W = TypeVar("W", bound=Wire)

MAX_WIDTH: Final = 100
"""Widest line of text: longer lines are hard to read."""


_CONTROLS: Final = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
    "\N{REPLACEMENT CHARACTER}",
)
"""Control characters, and those that change the direction of the text."""


# --- text -----------------------------------------------------------------------------------------


def width() -> int:
    """Return the width of text in columns."""
    return max(40, min(MAX_WIDTH, shutil.get_terminal_size((80, 24)).columns))


def sanitize(text: str) -> str:
    """Return the text without control characters."""
    return text.translate(_CONTROLS)


def cells(text: str) -> int:
    """Return the columns of the text; a Chinese character takes two."""
    from rich.cells import cell_len

    return cell_len(text)


def truncate(text: str, room: int) -> str:
    """Return the text, cut to `room` columns."""
    from rich.cells import set_cell_size

    return text if cells(text) <= room else set_cell_size(text, max(0, room - 1)).rstrip() + "…"


def wrap(text: str, *, indent: str = "", first: str | None = None) -> Iterator[str]:
    """Yield lines that fit. A word longer than a line stays whole, so that it can be copied."""
    line, empty = indent if first is None else first, True
    for word in sanitize(text).split():
        if not empty and cells(line) + 1 + cells(word) > width():
            yield line
            line, empty = indent, True
        line += word if empty else f" {word}"
        empty = False
    yield line


def finding(
    text: str, advice: str | UnsetType | None = None, *, indent: str = "", first: str | None = None
) -> list[str]:
    """Return the lines of a finding, followed by its advice."""
    lines = [*wrap(text, indent=indent, first=first)]
    for line in (advice or "").splitlines():
        lines += wrap(line, first=f"{indent}-> ", indent=f"{indent}   ")
    return lines


def say(*lines: str) -> None:
    """Print lines."""
    for line in lines:
        print(line)


def note(text: str) -> None:
    """Print a message to standard error, apart from the command's result."""
    print(text, file=sys.stderr)


# --- files ----------------------------------------------------------------------------------------


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file by one that is whole whenever it is read, also after the power failed. Raises OSError.

    Of one that can't be written nothing is left.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        # A device, such as /dev/stdout: written to, never replaced.
        path.write_bytes(content)
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


# --- JSON -----------------------------------------------------------------------------------------


def indented(value: Any) -> bytes:
    """Return the value as indented JSON with a newline."""
    return msgspec.json.format(as_json(value), indent=2) + b"\n"


def print_json(value: Any) -> None:
    """Print the value as indented JSON, alone on standard output."""
    # JSON is UTF-8, whatever the terminal uses.
    sys.stdout.flush()
    sys.stdout.buffer.write(indented(value))


def view(kind: type[W], source: object, **members: Any) -> W:
    """Return a wire struct of the source's attributes, instants as text; `members` override attributes."""
    values = {
        name: members[name] if name in members else getattr(source, name) for name in kind.__struct_fields__
    }
    return kind(
        **{name: instant(value) if isinstance(value, datetime) else value for name, value in values.items()}
    )
