"""Partners and their callers: who is asking, through which surface, and how often they may."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import msgspec


class Surface(StrEnum):
    """The two sides of the network. A key belongs to one of them."""

    COMMERCE = "commerce"
    MARKETFRONT = "marketfront"


class PartnerKind(StrEnum):
    """What an organisation does here."""

    COMMERCE = "commerce"
    MARKETFRONT = "marketfront"
    BOTH = "both"

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """Return the surfaces whose keys an organisation of this kind may have."""
        return tuple(Surface) if self is PartnerKind.BOTH else (Surface(self.value),)


class Limits(msgspec.Struct, frozen=True):
    """A partner's own requests a minute; None takes the deployment's."""

    reads: int | None = None
    writes: int | None = None
    discovery: int | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: every query that a partner can reach takes one."""

    partner_id: UUID
    key_id: UUID
    surface: Surface
    limits: Limits
