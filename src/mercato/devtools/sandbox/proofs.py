"""What a story claims and what was measured for it: a claim without a measurement cannot be written down."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 10.0
"""Seconds that anything in a story may take before its proof counts as failed."""

POLL: Final = 0.05
"""Seconds between two reads of a resource that is watched."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim, what was seen, and whether that bears it out."""

    claim: str
    seen: str
    holds: bool


class ProofFailed(Exception):  # noqa: N818  # an outcome that is shown
    """What was seen does not bear the claim out: the story ends here."""

    def __init__(self, proof: Proof) -> None:
        super().__init__(f"{proof.claim}: {proof.seen}")
        self.proof = proof


class Proofs(list[Proof]):
    """The proofs of one story, in its order."""

    def add(self, claim: str, seen: str, *, holds: bool) -> None:
        """Write a proof down. Raises ProofFailed if it does not hold."""
        self.append(Proof(claim, seen, holds))
        if not holds:
            raise ProofFailed(self[-1])

    async def until(
        self, claim: str, look: Callable[[], Awaitable[T]], done: Callable[[T], bool], *, poll: float = POLL
    ) -> T:
        """Look again and again until it is done; return what was seen then. Raises ProofFailed when it takes long."""
        last: object = "nothing"
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    last = seen = await look()
                    if done(seen):
                        return seen
                    await asyncio.sleep(poll)
        except TimeoutError:
            self.add(claim, f"not within {PATIENCE:g} s; the last seen was {last}", holds=False)
            raise
