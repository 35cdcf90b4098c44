"""What the commands print: JSON for programs, tables for people."""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from mercato.wire import Wire, instant

WIDE: Final = 240
"""Columns of a table that goes into a pipe, unless `COLUMNS` says how many."""

UNBOUNDED: Final = 10**6
"""Columns that no table needs: to ask how wide one is."""


def print_json(value: Wire) -> None:
    """Print the value as indented JSON: the only thing on standard output."""
    # In UTF-8 whatever the terminal has: that is what JSON is.
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Print a table; without rows say `empty`.

    Where the screen is too narrow for it, each row is printed as `print_facts` does: an id that is folded cannot be
    copied.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = list(rows)
    if not shown:
        print(empty)
        return
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in shown:
        # Text, because names may hold what would be markup.
        table.add_row(*(Text(_cell(value)) for value in row))
    asked_for = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if asked_for else WIDE, highlight=False)
    if console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum <= console.width:
        console.print(table)
        return
    for position, row in enumerate(shown):
        if position:
            print()
        print_facts(*((name, value) for name, value in zip(columns, row, strict=True) if _cell(value)))


def print_facts(*facts: tuple[str, Any]) -> None:
    """Print names and values in two columns, for people who copy the values: nothing is wrapped or cut."""
    shown = [(name, value) for name, value in facts if value is not None]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        print(f"{name:<{width}}  {_cell(value)}")


def note(text: str) -> None:
    """Say something to the person, apart from what is printed for use."""
    print(text, file=sys.stderr)


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return (instant(value) or "")[:19].replace("T", " ")
    return "" if value is None else str(value)
