"""What a proof counts, and what it says when two books disagree."""

from typing import Final, Literal

import msgspec

Kind = Literal["lost", "doubled", "stuck", "differs"]

KINDS: Final[tuple[Kind, ...]] = ("lost", "doubled", "stuck", "differs")


class Violation(msgspec.Struct, frozen=True, order=True):
    """A promise that was not kept: which, and to whom."""

    kind: Kind
    what: str
    ids: str


class Counts(msgspec.Struct, frozen=True):
    """What happened in one round, or in many."""

    rounds: int = 0
    kills: int = 0
    at_points: int = 0
    """Of the kills, those at a named point of the code."""
    operations: int = 0
    """Requests that were sent, repeats included."""
    orders: int = 0
    cancelled: int = 0
    """Of the orders, those that ended cancelled, for whatever reason."""
    webhooks: int = 0
    """Webhooks that arrived, repeats included."""
    runs: int = 0
    seconds: float = 0.0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sum of both."""
        return Counts(
            *(
                a + b
                for a, b in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
            )
        )
