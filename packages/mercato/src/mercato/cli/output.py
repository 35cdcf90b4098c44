"""What the operators' commands print: tables, pages of lists, facts, and secrets.

Secrets are shown once: on the screen, as JSON, or in a file that only its owner can read.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import asdict

from mercato.cli.options import MAX_LISTED
from mercato_contract.wire import Wire, instant
from mercato_tools.cli import UnusableError
from mercato_tools.cli.main import command_name
from mercato_tools.cli.output import cells, indented, note, print_json, sanitize, truncate

PIPE_WIDTH: Final = 240
"""Columns of a table in a pipe, unless `COLUMNS` says how many."""

MIN_CUT: Final = 6
"""Columns that a cell keeps at least when it is cut."""

UNBOUNDED: Final = 10**6
"""Wider than any table, to measure one."""


# --- text -----------------------------------------------------------------------------------------


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


def members_of(source: Struct, *, without: Collection[str] = (), **others: Any) -> dict[str, Any]:
    """Return a struct as a JSON object: names in camel case, instants as text; `others` add to it and override."""
    values = {name: value for name, value in (asdict(source) | others).items() if name not in without}
    return {_camel(name): instant(at) if isinstance(at, datetime) else at for name, at in values.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


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
