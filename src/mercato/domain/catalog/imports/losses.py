"""What an import could not carry over, by pointer into the document that was read."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from mercato.domain.catalog.validation.findings import clean
from mercato.kernel.wire import Wire

MAX_LISTED: Final = 10_000
"""Losses that are listed; all are counted."""


class Kind(StrEnum):
    """`dropped`: it is not in the result; `approximated`: it is, as near as it can be said."""

    DROPPED = "dropped"
    APPROXIMATED = "approximated"


class Loss(Wire):
    """One thing that the result does not say as the source did."""

    path: Annotated[str, Meta(description="RFC 6901 pointer into the source.")]
    kind: Kind
    message: str


class Losses:
    """Collects while a document is read. Messages are the same for what is alike, so that they can be grouped."""

    def __init__(self) -> None:
        self._found: list[Loss] = []
        self.count = 0

    def dropped(self, path: str, message: str) -> None:
        """Note what is not in the result."""
        self._add(path, Kind.DROPPED, message)

    def approximated(self, path: str, message: str) -> None:
        """Note what the result says in another way."""
        self._add(path, Kind.APPROXIMATED, message)

    def _add(self, path: str, kind: Kind, message: str) -> None:
        self.count += 1
        if len(self._found) < MAX_LISTED:
            self._found.append(Loss(path=clean(path), kind=kind, message=clean(message)))

    def listed(self) -> Sequence[Loss]:
        """Return them in the order found, at most MAX_LISTED."""
        return self._found
