"""What can go wrong on the way to a stranger's server, in words that the stranger understands.

No sentence here holds a resolved address, an internal host or a library's text: each is written for the partner
whose URL it is, says what happened, and what to do. "Subject" is that URL's name, such as "catalog URL".
"""

from enum import StrEnum
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.body import ACCEPT_ENCODING, BodyFault
from mercato.outbound.urls import UrlFault


class Fault(StrEnum):
    """The kind of a failure, for logs, metrics and tests. The last three happen to pulls alone."""

    REFUSED_ADDRESS = "refused_address"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    REPLY_TOO_LARGE = "reply_too_large"
    STATUS = "status"
    REDIRECT = "redirect"
    ENCODING = "encoding"


class Failure(Struct, frozen=True, kw_only=True):
    """One failed attempt. `retryable`: a later one may succeed; `at_once`: even one in a moment."""

    fault: Fault
    message: str
    retryable: bool = False
    at_once: bool = False
    status: int | None = None
    retry_after: float | None = None


_PUBLIC = "Use a host that can be reached from the public internet."


_DEVELOPMENT: Final = (
    "While you develop on this machine, start the service with mercato serve --dev, or with "
    "MERCATO_ALLOW_PRIVATE_NETWORKS=true."
)


def url_failure(fault: UrlFault, subject: str, policy: AddressPolicy, *, redirected: bool = False) -> Failure:
    """Return the failure of a URL that may not be opened, the partner's own or where it redirects."""
    start = f"The {subject} redirects to a URL that" if redirected else f"The {subject}"
    advice = f" {_PUBLIC}" if fault is UrlFault.ADDRESS else ""
    if policy.names_setting and fault in {UrlFault.ADDRESS, UrlFault.HTTPS_ONLY}:
        advice += f" {_DEVELOPMENT}"
    return Failure(fault=Fault.REFUSED_ADDRESS, message=f"{start} {fault.value}.{advice}")


def status_failure(
    status: int, subject: str, *, attempts: int = 1, retry_after: float | None = None
) -> Failure:
    """Return the failure of an answer whose status isn't the one hoped for."""
    again = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    times = f" ({attempts} attempts)" if attempts > 1 else ""
    message = f"The server of the {subject} answered {_named(status)}{times}. {_advice(status)}"
    return Failure(
        fault=Fault.STATUS,
        message=message,
        retryable=again,
        at_once=again,
        status=status,
        retry_after=retry_after,
    )


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _advice(status: int) -> str:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "It must be readable without logging in: put what grants access into the URL."
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "Allow more requests, or notify less often."
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Check the server's own log, then try again."
    if status >= HTTPStatus.BAD_REQUEST:
        return "Check that the URL is complete and the document is still there."
    return "It must answer 200 with the document."


def redirect_failure(what: str, subject: str) -> Failure:
    """Return the failure of a chain of redirects that leads nowhere we go."""
    return Failure(fault=Fault.REDIRECT, message=f"The {subject} {what}. Use the final URL instead.")


def _mebibytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def body_failure(fault: BodyFault, subject: str, *, max_raw: int, max_decoded: int) -> Failure:
    """Return the failure of a body that was not read to its end."""
    match fault:
        case BodyFault.TOO_MUCH_SENT:
            kind = Fault.REPLY_TOO_LARGE
            words = f"sent more than {_mebibytes(max_raw)}. Compress or shorten what it sends."
        case BodyFault.TOO_MUCH_DECODED:
            kind = Fault.REPLY_TOO_LARGE
            words = f"sent more than {_mebibytes(max_decoded)} once unpacked. Shorten what it sends."
        case BodyFault.UNKNOWN_CODING:
            kind = Fault.ENCODING
            words = f"used a Content-Encoding that is not read here. Use {ACCEPT_ENCODING} or none."
        case BodyFault.DAMAGED:
            kind = Fault.ENCODING
            words = (
                "sent compressed data that cannot be unpacked. "
                "Check that the body is compressed once, as Content-Encoding says."
            )
        case BodyFault.CUT_SHORT:
            kind = Fault.ENCODING
            words = "sent compressed data that stops before its end. Check that it sends the whole file."
    return Failure(fault=kind, message=f"The server of the {subject} {words}")
