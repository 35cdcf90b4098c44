"""The counts of a proof, and its violations."""

from typing import Final, Literal

import msgspec

Kind = Literal["lost", "doubled", "stuck", "differs"]

KINDS: Final[tuple[Kind, ...]] = ("lost", "doubled", "stuck", "differs")


class Violation(msgspec.Struct, frozen=True, order=True):
    """A violated invariant, and the ids concerned."""

    kind: Kind
    what: str
    ids: str


class Counts(msgspec.Struct, frozen=True):
    """Counts of one round, or of many."""

    rounds: int = 0
    kills: int = 0
    at_points: int = 0
    """Of the kills, those at a named point of the code."""
    operations: int = 0
    """Requests that were sent, repeats included."""
    orders: int = 0
    cancelled: int = 0
    """Of the orders, those that ended cancelled, for whatever reason."""
    cancellations: int = 0
    """Idempotency-Keys under which the storefront cancelled orders."""
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
