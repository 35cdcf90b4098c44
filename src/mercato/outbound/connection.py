"""What an error of the HTTP client means, in the words of `faults`."""

import socket
import ssl
from typing import TypeVar

import aiohttp

from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.faults import Failure, Fault, url_failure
from mercato.outbound.guard import AddressRefused, UrlFault

RUNNING = "Check that the server is running and reachable from the internet on that port."


def connection_failure(
    error: Exception, subject: str, policy: AddressPolicy, *, connect_seconds: float
) -> Failure:
    """Return what an error of the HTTP client means."""
    if _cause(error, AddressRefused):
        return url_failure(UrlFault.ADDRESS, subject, policy)
    if _cause(error, socket.gaierror) or isinstance(error, aiohttp.ClientConnectorDNSError):
        message = (
            f"The host name of the {subject} could not be found. Check its spelling and its DNS records."
        )
        return Failure(fault=Fault.DNS, message=message, retryable=True, at_once=True)
    # The client's own error for a bad certificate is an SSLError too, but one without OpenSSL's code.
    if tls := _cause(error.__cause__ or error, ssl.SSLError):
        return Failure(fault=Fault.TLS, message=_tls_message(tls, subject))
    if isinstance(error, aiohttp.ServerTimeoutError):
        message = f"The server of the {subject} accepted no connection within {connect_seconds:g} seconds. "
        return Failure(fault=Fault.CONNECT, message=message + RUNNING, retryable=True, at_once=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        verb = "refused the connection" if _cause(error, ConnectionRefusedError) else "could not be reached"
        message = f"The server of the {subject} {verb}. {RUNNING}"
        return Failure(fault=Fault.CONNECT, message=message, retryable=True, at_once=True)
    return _exchange_failure(error, subject)


def _exchange_failure(error: Exception, subject: str) -> Failure:
    """Return what went wrong on a connection that had been made."""
    if isinstance(error, aiohttp.ClientPayloadError):
        what, at_once = "closed the connection or sent broken chunks before the body was complete", False
    elif isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError):
        what, at_once = "closed the connection without answering", True
    else:
        what, at_once = "sent an answer that is not valid HTTP", False
    message = f"The server of the {subject} {what}. Check the server's own log."
    return Failure(fault=Fault.PROTOCOL, message=message, retryable=True, at_once=at_once)


_Error = TypeVar("_Error", bound=BaseException)


def _cause(error: BaseException, kind: type[_Error]) -> _Error | None:
    """Return the error of `kind` that is, or led to, `error`."""
    found: BaseException | None = error
    for _ in range(8):
        if isinstance(found, kind):
            return found
        found = found.__cause__ if found is not None else None
    return None


_CERTIFICATE = {  # OpenSSL's verify codes
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
    what = _CERTIFICATE.get(getattr(error, "verify_code", 0), "could not be verified")
    return (
        f"The TLS certificate of the {subject} {what}. "
        "Install one that a public authority issued for this host, with its intermediate certificates."
    )
