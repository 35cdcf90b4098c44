"""The results of a proof so far, in a file so that it can continue later."""

import os
from pathlib import Path

import msgspec
from tests.prove.model import KINDS, Counts, Violation


class Broken(msgspec.Struct, frozen=True):
    """A violation and its round: the same seed repeats the same round."""

    seed: int
    violation: Violation


class Tally(msgspec.Struct):
    """The sum of all rounds on one database."""

    counts: Counts = msgspec.field(default_factory=Counts)
    broken: list[Broken] = msgspec.field(default_factory=list)

    def add(self, seed: int, counts: Counts, violations: list[Violation]) -> None:
        """Count a round."""
        self.counts = self.counts.plus(counts)
        self.broken += [Broken(seed, violation) for violation in violations]


class State(msgspec.Struct):
    """The whole state: the seed of the next round, and a tally for each database."""

    next_seed: int
    tallies: dict[str, Tally] = msgspec.field(default_factory=dict)

    def tally(self, database: str) -> Tally:
        """Return the tally of a database."""
        return self.tallies.setdefault(database, Tally())


def load(path: Path | None, *, seed: int) -> State:
    """Return the state in the file; a new one that begins with the seed if there is no file."""
    if path is None or not path.exists():
        return State(seed)
    return msgspec.json.decode(path.read_bytes(), type=State)


def save(path: Path | None, state: State) -> None:
    """Write the state, so that a crash leaves either the old file or the new one."""
    if path is None:
        return
    unfinished = path.with_name(path.name + ".new")
    with unfinished.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(state)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def table(state: State) -> str:
    """Return the table of a proof, in Markdown."""
    head = ("database", "rounds", "kills", "at named points", "operations", "webhooks", "runs", "orders")
    rows = [(*head, "cancelled", "cancellations", *KINDS), ("---",) * (len(head) + 2 + len(KINDS))]
    for database, tally in state.tallies.items():
        said = tally.counts
        numbers = (said.rounds, said.kills, said.at_points, said.operations, said.webhooks, said.runs)
        seen = [sum(one.violation.kind == kind for one in tally.broken) for kind in KINDS]
        shown = (
            f"{number:,}" for number in (*numbers, said.orders, said.cancelled, said.cancellations, *seen)
        )
        rows.append((database, *shown))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    )
