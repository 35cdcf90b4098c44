"""What commands print: tables, facts, findings and JSON on standard output, notes on standard error.

Secrets are shown once: on the screen, as JSON, or in a file that only its owner can read.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, TypeVar

import msgspec
from cyclopts import Parameter
from msgspec import Struct, UnsetType
from msgspec.structs import asdict

from mercato.cli import UnusableError, command_name
from mercato.cli.options import MAX_LISTED
from mercato_contract.wire import Wire, as_json, instant

W = TypeVar("W", bound=Wire)

MAX_WIDTH: Final = 100
"""Widest line of text: longer lines are hard to read."""

PIPE_WIDTH: Final = 240
"""Columns of a table in a pipe, unless `COLUMNS` says how many."""

MIN_CUT: Final = 6
"""Columns that a cell keeps at least when it is cut."""

UNBOUNDED: Final = 10**6
"""Wider than any table, to measure one."""

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


def format_instant(at: datetime | str | None) -> str:
    """Return an instant to the second, in UTC."""
    text = instant(at) if isinstance(at, datetime) else at
    return (text or "")[:19].replace("T", " ")


def format_detail(detail: Mapping[str, Any]) -> str:
    """Return the members of a small object as text."""
    return ", ".join(
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in detail.items()
    )


def say(*lines: str) -> None:
    """Print lines."""
    for line in lines:
        print(line)


def note(text: str) -> None:
    """Print a message to standard error, apart from the command's result."""
    print(text, file=sys.stderr)


# --- tables and facts -----------------------------------------------------------------------------


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str, cut: Collection[str] = ()
) -> None:
    """Print a table; without rows print `empty`. Cells of the columns `cut` are shortened to make it fit.

    A table wider than the screen is printed as facts: a folded id can't be copied.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells_of = [[_cell(value) for value in row] for row in rows]
    if not cells_of:
        print(empty)
        return
    is_screen = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if is_screen else PIPE_WIDTH, highlight=False)
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in cells_of:
        # As Text: names may contain markup.
        table.add_row(*map(Text, row))
    excess = console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum - console.width
    if excess > 0:
        widths = _cut_widths(columns, cells_of, cut, excess)
        if widths is not None:
            print_table(columns, [[*map(truncate, row, widths)] for row in cells_of], empty=empty)
            return
    else:
        console.print(table)
        return
    for position, row in enumerate(cells_of):
        if position:
            print()
        print_facts(*((name, text) for name, text in zip(columns, row, strict=True) if text))


def _cut_widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], cut: Collection[str], excess: int
) -> list[int] | None:
    """Return the columns' widths without the excess, taken from the widest of `cut`; None if they are too narrow."""
    widths = [max(map(cells, column)) for column in zip(columns, *rows, strict=True)]
    for _ in range(excess):
        wide = [
            place
            for place, name in enumerate(columns)
            if name in cut and widths[place] > max(MIN_CUT, cells(name))
        ]
        if not wide:
            return None
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


Column = str | Callable[[Any], Any]
"""An attribute's name, or a function that returns the cell."""


def print_objects(
    columns: Mapping[str, Column], objects: Iterable[object], *, empty: str, cut: Collection[str] = ()
) -> None:
    """Print objects as a table."""
    rows = (
        [getattr(item, cell) if isinstance(cell, str) else cell(item) for cell in columns.values()]
        for item in objects
    )
    print_table(tuple(columns), rows, empty=empty, cut=cut)


def print_page(
    name: str,
    found: Sequence[Any],
    *,
    limit: int,
    as_json: bool,
    entry: Callable[[Any], object],
    show: Callable[[Sequence[Any]], None],
) -> None:
    """Print a page of a list that was read with one row more than `limit`, and the command of the next page."""
    page = found[:limit]
    last = page[-1].id if len(found) > limit else None
    if as_json:
        print_json({name: [entry(item) for item in page], "nextBefore": last})
        return
    show(page)
    if last is not None:
        note(f"There is more: mercato {command_name()} --before {last}")


def print_table_page(
    name: str,
    found: Sequence[Any],
    columns: Mapping[str, Column],
    *,
    limit: int,
    as_json: bool,
    entry: Callable[[Any], object],
    empty: str,
    cut: Collection[str] = (),
) -> None:
    """Print a page as `print_page` does, as a table."""
    show = partial(print_objects, columns, empty=empty, cut=cut)
    print_page(name, found, limit=limit, as_json=as_json, entry=entry, show=show)


def print_from_first(
    name: str,
    found: Sequence[Any],
    columns: Mapping[str, Column],
    *,
    as_json: bool,
    entry: Callable[[Any], object],
    empty: str,
    cut: Collection[str] = (),
) -> None:
    """Print a list that begins with the oldest, and the command that goes on after MAX_LISTED entries."""
    if as_json:
        print_json({name: [entry(item) for item in found]})
    else:
        print_objects(columns, found, empty=empty, cut=cut)
    if len(found) == MAX_LISTED:
        note(f"There may be more: mercato {command_name()} --after {found[-1].id}")


def print_facts(*facts: tuple[str, Any]) -> None:
    """Print names and values in two columns; nothing is wrapped or cut, so that values can be copied."""
    shown = [(name, value) for name, value in facts if value is not None]
    wide = max(len(name) for name, _ in shown)
    for name, value in shown:
        print(f"{name:<{wide}}  {_cell(value)}")


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return format_instant(value)
    return "" if value is None else sanitize(str(value))


# --- JSON -----------------------------------------------------------------------------------------


def indented(value: Any) -> bytes:
    """Return the value as indented JSON with a newline."""
    return msgspec.json.format(as_json(value), indent=2) + b"\n"


def print_json(value: Any) -> None:
    """Print the value as indented JSON, alone on standard output."""
    # JSON is UTF-8, whatever the terminal uses.
    sys.stdout.flush()
    sys.stdout.buffer.write(indented(value))


def members_of(source: Struct, *, without: Collection[str] = (), **others: Any) -> dict[str, Any]:
    """Return a struct as a JSON object: names in camel case, instants as text; `others` add to it and override."""
    values = {name: value for name, value in (asdict(source) | others).items() if name not in without}
    return {_camel(name): instant(at) if isinstance(at, datetime) else at for name, at in values.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def view(kind: type[W], source: object, **members: Any) -> W:
    """Return a wire struct of the source's attributes, instants as text; `members` override attributes."""
    values = {
        name: members[name] if name in members else getattr(source, name) for name in kind.__struct_fields__
    }
    return kind(
        **{name: instant(value) if isinstance(value, datetime) else value for name, value in values.items()}
    )


OutFile = Annotated[
    Path | None,
    Parameter(name="--out", help="Write the JSON to this new file, which only you can read and git ignores."),
]

_GIT_PATTERN: Final = re.compile(r"([\\*?\[\]!# ])")
"""Characters that are part of a pattern in git's exclude file."""


class SecretFile:
    """Writes a new secret to a file, to standard output as JSON, or to the screen."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file

    def show(self, value: Wire, *facts: tuple[str, Any], json: bool, warning: str = "") -> None:
        """Write or print the secret; `facts` and `warning` are for the screen."""
        if self._file is not None:
            self._file.write(indented(value))
        elif json:
            print_json(value)
        else:
            print_facts(*facts)
            if warning:
                note(warning)


@contextmanager
def secret_file(path: Path | None) -> Iterator[SecretFile]:
    """Create the file before the secret, readable by its owner alone and ignored by git.

    The file is removed if the block raises. Raises UnusableError if it exists or can't be created.
    """
    if path is None:
        yield SecretFile()
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UnusableError(
            f"{path} exists already, and may hold keys that are shown nowhere else. Name another file."
        ) from None
    except OSError as error:
        raise UnusableError(f"{path} cannot be written: {error.strerror}.") from None
    with os.fdopen(handle, "wb") as file:
        try:
            yield SecretFile(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    ignored = _exclude_from_git(path.absolute())
    note(f"Written to {path}: only you can read it{', and git ignores it' if ignored else ''}.")


def _exclude_from_git(path: Path) -> bool:
    """Add the file to this clone's exclude file; return whether git ignores it now."""
    root = next((parent for parent in path.parents if (parent / ".git").is_dir()), None)
    if root is None:
        return False
    exclude = root / ".git/info/exclude"
    line = "/" + _GIT_PATTERN.sub(r"\\\1", path.relative_to(root).as_posix())
    try:
        exclude.parent.mkdir(exist_ok=True)
        known = exclude.read_text() if exclude.exists() else ""
        if line not in known.splitlines():
            with exclude.open("a") as file:
                file.write(f"{'' if known.endswith(chr(10)) or not known else chr(10)}{line}\n")
    except OSError:
        return False
    return True
