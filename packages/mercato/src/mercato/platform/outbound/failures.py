"""Failures of calls to other servers, with messages for the partner whose URL was called.

No message contains a resolved address, an internal host or a library's text. "Subject" is the name of the URL, such as
"webhook URL".
"""

import socket
import ssl
from http import HTTPStatus
from http.client import responses
from typing import Final, TypeVar

import aiohttp

from mercato.platform.outbound.body import BodyFault
from mercato.platform.outbound.connections import AddressRefused
from mercato.platform.outbound.guard import AddressPolicy, UrlFault
from mercato.platform.outbound.results import Fault, RequestFailed

CHECK_SERVER: Final = "Check that the server is running and reachable from the internet on that port."

_DEVELOPMENT: Final = (
    "While you develop on this machine, start the service with mercato serve --dev, or with "
    "MERCATO_ALLOW_PRIVATE_NETWORKS=true."
)


def url_failure(
    fault: UrlFault, subject: str, policy: AddressPolicy, *, redirected: bool = False
) -> RequestFailed:
    """Return the failure of a URL that may not be opened: the partner's own, or the target of its redirect."""
    start = f"The {subject} redirects to a URL that" if redirected else f"The {subject}"
    advice = ""
    if fault is UrlFault.ADDRESS:
        advice = " Use a host that can be reached from the public internet."
    if policy.names_setting and fault in {UrlFault.ADDRESS, UrlFault.HTTPS_ONLY}:
        advice += f" {_DEVELOPMENT}"
    return RequestFailed(Fault.REFUSED_ADDRESS, f"{start} {fault.value}.{advice}")


def redirect_failure(problem: str, subject: str) -> RequestFailed:
    """Return the failure of redirects that are not followed."""
    return RequestFailed(Fault.REDIRECT, f"The {subject} {problem}. Use the final URL instead.")


def status_failure(status: int, subject: str, *, attempts: int, retry_after: float | None) -> RequestFailed:
    """Return the failure of a response whose status isn't 200."""
    retryable = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    count = f" ({attempts} attempts)" if attempts > 1 else ""
    named = f"{status} {responses.get(status, '')}".rstrip()
    message = f"The server of the {subject} answered {named}{count}. {_status_advice(status)}"
    return RequestFailed(
        Fault.STATUS, message, retryable=retryable, at_once=retryable, status=status, retry_after=retry_after
    )


def _status_advice(status: int) -> str:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "It must be readable without logging in: put what grants access into the URL."
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "Allow more requests, or notify less often."
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Check the server's own log, then try again."
    if status >= HTTPStatus.BAD_REQUEST:
        return "Check that the URL is complete and the document is still there."
    return "It must answer 200 with the document."


def body_failure(fault: BodyFault, subject: str, *, max_raw: int, max_decoded: int) -> RequestFailed:
    """Return the failure of a body that was refused."""
    too_large = fault in {BodyFault.TOO_MUCH_SENT, BodyFault.TOO_MUCH_DECODED}
    what = fault.value.format(max_raw=_mebibytes(max_raw), max_decoded=_mebibytes(max_decoded))
    kind = Fault.REPLY_TOO_LARGE if too_large else Fault.ENCODING
    return RequestFailed(kind, f"The server of the {subject} {what}")


def _mebibytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def connection_failure(
    error: Exception, subject: str, policy: AddressPolicy, *, connect_seconds: float
) -> RequestFailed:
    """Return the failure that an error of the HTTP client means."""
    if _cause(error, AddressRefused):
        return url_failure(UrlFault.ADDRESS, subject, policy)
    if _cause(error, socket.gaierror) or isinstance(error, aiohttp.ClientConnectorDNSError):
        message = (
            f"The host name of the {subject} could not be found. Check its spelling and its DNS records."
        )
        return RequestFailed(Fault.DNS, message, retryable=True, at_once=True)
    # The client's own error for a bad certificate is an SSLError too, but without OpenSSL's code.
    if tls := _cause(error.__cause__ or error, ssl.SSLError):
        return RequestFailed(Fault.TLS, _tls_message(tls, subject))
    fault, advice, at_once = Fault.PROTOCOL, "Check the server's own log.", False
    match error:
        case aiohttp.ServerTimeoutError():
            fault, advice, at_once = Fault.CONNECT, CHECK_SERVER, True
            what = f"accepted no connection within {connect_seconds:g} seconds"
        case aiohttp.ClientConnectorError():
            fault, advice, at_once = Fault.CONNECT, CHECK_SERVER, True
            refused = _cause(error, ConnectionRefusedError)
            what = "refused the connection" if refused else "could not be reached"
        case aiohttp.ClientPayloadError():
            what = "closed the connection or sent broken chunks before the body was complete"
        case aiohttp.ClientOSError() | aiohttp.ServerDisconnectedError():
            what, at_once = "closed the connection without answering", True
        case _:
            what = "sent an answer that is not valid HTTP"
    message = f"The server of the {subject} {what}. {advice}"
    return RequestFailed(fault, message, retryable=True, at_once=at_once)


_Error = TypeVar("_Error", bound=BaseException)


def _cause(error: BaseException, kind: type[_Error]) -> _Error | None:
    """Return the error of `kind` among `error` and its causes."""
    cause: BaseException | None = error
    for _ in range(8):
        if isinstance(cause, kind):
            return cause
        cause = cause.__cause__ if cause is not None else None
    return None


_CERTIFICATE_FAULTS: Final = {  # by OpenSSL's verify codes
    9: "is not valid yet",
    10: "has expired",
    18: "is self-signed",
    19: "is self-signed",
    20: "is not followed by the certificates that lead to a known authority",
    21: "is not followed by the certificates that lead to a known authority",
    62: "is for another host name",
    64: "is for another address",
}


def _tls_message(error: ssl.SSLError, subject: str) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"No TLS connection to the server of the {subject} could be made. "
            "Check that it speaks TLS 1.2 or later on that port."
        )
    what = _CERTIFICATE_FAULTS.get(getattr(error, "verify_code", 0), "could not be verified")
    return (
        f"The TLS certificate of the {subject} {what}. "
        "Install one that a public authority issued for this host, with its intermediate certificates."
    )
