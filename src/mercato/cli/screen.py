"""What the demo shows: chapters, progress bars, a table of proofs. Readable without colour and at 80 columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from mercato.sandbox.proofs import Proof
from mercato.sandbox.scene import Watch


class Screen:
    """A terminal, or a pipe that gets the same as plain text."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def chapter(self, title: str) -> None:
        """Begin a part."""
        self._console.print()
        self._console.print(Text(title, style="bold"))

    def say(self, line: str) -> None:
        """Tell what happened: another's words, so nothing in them is markup."""
        self._console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))

    def note(self, line: str) -> None:
        """Say something at the end."""
        self._console.print(Text(line))

    @contextmanager
    def watching(self, names: Sequence[str], steps: Mapping[str, int]) -> Iterator[Watch]:
        """Show a bar for each name while the block runs; a pipe gets their last state alone."""
        first, last = next(iter(steps)), max(steps.values())
        columns = (
            TextColumn("  {task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[status]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            bars = {name: progress.add_task(name, total=last, status=first) for name in names}

            def watch(name: str, status: str) -> None:
                progress.update(bars[name], completed=steps[status], status=status)

            yield watch

    def table(self, proofs: Iterable[Proof]) -> None:
        """Show what was proved, each with what was measured for it."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("")
        table.add_column("What was claimed")
        table.add_column("What was measured")
        for proof in proofs:
            verdict = Text("ok", style="green") if proof.holds else Text("FAIL", style="bold red")
            table.add_row(verdict, Text(proof.claim), Text(proof.seen, overflow="fold"))
        self._console.print()
        self._console.print(table)

    def explore(self, lines: Iterable[str]) -> None:
        """Show what to type in another terminal; nothing is wrapped, so that it can be copied."""
        self._console.print()
        self._console.print(Text("Still running. Ctrl-C ends it. In another terminal:", style="bold"))
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)
