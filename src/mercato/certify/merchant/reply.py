"""What the service reads in a merchant's reply."""

from mercato.certify.sending import Reply
from mercato.certify.shop import Draft
from mercato.orders.replies import Agreed, Fault, PlaceSaid, Refused, agree, read_place, read_validate


def read(draft: Draft, reply: Reply) -> Agreed | Refused | Fault:
    """Return what a reply to validate says, as the service reads it."""
    said = read_validate(reply.status, reply.body)
    return said if isinstance(said, Refused | Fault) else agree(draft.sums, said)


def read_placed(reply: Reply) -> PlaceSaid | Refused | Fault:
    """Return what a reply to place says, as the service reads it."""
    return read_place(reply.status, reply.body)
