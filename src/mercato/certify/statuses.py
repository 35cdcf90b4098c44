"""What the status of a receiver's answer comes to."""

from http import HTTPStatus

from mercato.certify.model import Failed
from mercato.certify.sending import Reply


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
