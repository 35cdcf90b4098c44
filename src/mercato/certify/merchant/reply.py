"""A merchant's reply, and what the service reads in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mercato.certify.shop import Draft
from mercato.orders.replies import Agreed, Fault, PlaceSaid, Refused, agree, read_place, read_validate


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def is_good(self) -> bool:
        """Tell whether it is a 2xx."""
        return 200 <= self.status < 300  # noqa: PLR2004  # what 2xx means


def read(draft: Draft, reply: Reply) -> Agreed | Refused | Fault:
    """Return what a reply to validate says, as the service reads it."""
    said = read_validate(reply.status, reply.body)
    return said if isinstance(said, Refused | Fault) else agree(draft.sums, said)


def read_placed(reply: Reply) -> PlaceSaid | Refused | Fault:
    """Return what a reply to place says, as the service reads it."""
    return read_place(reply.status, reply.body)
