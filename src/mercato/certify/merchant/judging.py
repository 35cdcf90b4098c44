"""What a merchant's reply comes to: read as the service reads it, told in a few words."""

from mercato.certify.merchant.reply import read, read_placed
from mercato.certify.model import Failed
from mercato.certify.sending import Reply
from mercato.certify.shop import Draft
from mercato.certify.shown import listed
from mercato.orders.amounts import Sums
from mercato.orders.replies import Agreed, Fault, PlaceSaid, Refused


def agreed(draft: Draft, reply: Reply) -> Sums:
    """Return the amounts that the merchant agrees to. Raises Failed for a no, and for what is neither."""
    match read(draft, reply):
        case Agreed(sums=sums):
            return sums
        case Refused() as no:
            raise Failed(f"It said no to an order that is right: {codes(no)}.")
        case Fault(words=words):
            raise Failed(words)


def taken(reply: Reply) -> PlaceSaid:
    """Return what the merchant said when it took an order. Raises Failed for a no, and for what is neither."""
    match read_placed(reply):
        case PlaceSaid() as said:
            return said
        case Refused() as no:
            raise Failed(f"It said no to an order that is right: {codes(no)}.")
        case Fault(words=words):
            raise Failed(words)


def refused(said: Agreed | PlaceSaid | Refused | Fault, *, what: str) -> Refused:
    """Return the merchant's no. Raises Failed when it agreed, or gave no answer that can be used."""
    match said:
        case Refused():
            return said
        case Fault(words=words):
            raise Failed(words)
        case _:
            raise Failed(f"It took {what}.")


def yes_or_no(said: Agreed | PlaceSaid | Refused | Fault) -> str:
    """Return which of both it was. Raises Failed for what is neither."""
    match said:
        case Fault(words=words):
            raise Failed(words)
        case Refused():
            return f"no: {codes(said)}"
        case _:
            return "yes"


def codes(no: Refused) -> str:
    """Return the codes of a no."""
    return listed([error.code for error in no.errors])
