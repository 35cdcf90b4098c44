"""What a merchant's reply comes to: read as the service reads it, told in a few words."""

from http import HTTPStatus

from mercato.certify.merchant.reply import Reply, read, read_placed
from mercato.certify.model import Failed
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


def not_believed(reply: Reply) -> str:
    """Return how a forged webhook was refused. Raises Failed when it was not, or not in that way."""
    if reply.is_good:
        raise Failed(f"It was believed: answered with {reply.status}.")
    return client_error(reply)


def client_error(reply: Reply) -> str:
    """Return the 4xx that a request was refused with. Raises Failed for any other status."""
    if not HTTPStatus.BAD_REQUEST <= reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Failed(f"It answered {reply.status}, where a 4xx is expected.")
    return f"answered with {reply.status}"


def acknowledged(reply: Reply) -> str:
    """Return the 2xx that an event was acknowledged with, or the 410 that says that none is wanted."""
    if not reply.is_good and reply.status != HTTPStatus.GONE:
        raise Failed(f"It answered {reply.status}: the event would come again, for days.")
    return f"answered with {reply.status}"


def no_crash(reply: Reply) -> str:
    """Return the status. Raises Failed for a 5xx."""
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Failed(f"It answered {reply.status}.")
    return f"answered with {reply.status}"


def codes(no: Refused) -> str:
    """Return the codes of a no."""
    return listed([error.code for error in no.errors])
