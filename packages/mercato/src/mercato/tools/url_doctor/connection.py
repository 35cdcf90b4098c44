"""A test connection: DNS, TCP and TLS, each timed by itself, and guarded like every other connection."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver
from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct

from mercato.platform.outbound.addresses import AddressPolicy, Verdict
from mercato.platform.outbound.connections import MAX_ADDRESSES, AddressRefused, socket_factory
from mercato.platform.outbound.failures import CHECK_SERVER, connection_failure
from mercato.platform.outbound.results import Fault, RequestFailed, elapsed_ms
from mercato.platform.outbound.urls import ParsedUrl
from mercato.platform.texts import count_of

MAX_NAMES: Final = 4
"""Names of a certificate that are listed."""

_ERRORS: Final = (OSError, TimeoutError, asyncio.IncompleteReadError)

DESCRIPTIONS: Final = {
    Verdict.ALLOWED: "may be reached",
    Verdict.BENCHMARK: "a network for measurements",
    Verdict.BROADCAST: "the broadcast address",
    Verdict.DOCUMENTATION: "a network for examples in documents",
    Verdict.LINK_LOCAL: "an address of one network segment (link-local)",
    Verdict.LOOPBACK: "the machine itself (loopback)",
    Verdict.METADATA: "a cloud's metadata service",
    Verdict.MULTICAST: "a multicast address",
    Verdict.PRIVATE: "a private network",
    Verdict.RESERVED: "a reserved network",
    Verdict.SCOPED: "an address with a network zone",
    Verdict.SHARED: "a provider's internal network (CGNAT)",
    Verdict.TRANSITION: "a tunnel that hides another address",
    Verdict.UNREADABLE: "not an address",
    Verdict.UNSPECIFIED: "the unspecified address",
}


class ResolvedAddress(Struct, frozen=True):
    """An address of a name, and whether it may be connected to."""

    address: str
    verdict: Verdict
    family: int


@dataclass(slots=True, kw_only=True)
class ConnectionTest:
    """An attempt to connect to one address. `failure` is None if it succeeded; times are in milliseconds."""

    address: str
    failure: RequestFailed | None = None
    connect_ms: int = 0
    tls_ms: int | None = None
    tls_version: str | None = None
    certificate: x509.Certificate | None = None


async def resolve(
    url: ParsedUrl, resolver: AbstractResolver, policy: AddressPolicy
) -> tuple[list[ResolvedAddress], int]:
    """Return the addresses of the URL's host with their verdicts, and the milliseconds. Raises OSError."""
    if url.address is not None:
        family = socket.AF_INET6 if ":" in url.host else socket.AF_INET
        return [ResolvedAddress(url.host, policy.verdict(url.address), family)], 0
    started = monotonic()
    results = await resolver.resolve(url.host, url.port, socket.AF_UNSPEC)
    if not results:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    addresses = (
        ResolvedAddress(result["host"], policy.verdict(result["host"]), result["family"])
        for result in results
    )
    return list(dict.fromkeys(addresses))[:MAX_ADDRESSES], elapsed_ms(started)


async def connect(
    url: ParsedUrl,
    target: ResolvedAddress,
    policy: AddressPolicy,
    *,
    tls: ssl.SSLContext | None,
    seconds: float,
) -> ConnectionTest:
    """Connect to the address, with a TLS handshake for an https URL."""
    test = ConnectionTest(address=target.address)
    started = monotonic()
    try:
        async with asyncio.timeout(seconds):
            connected = await _connect(target, url.port, policy)
    except _ERRORS as error:
        test.failure = _failure(error, seconds, in_tls=False)
        return test
    finally:
        test.connect_ms = elapsed_ms(started)
    if url.scheme != "https":
        connected.close()
        return test
    started = monotonic()
    try:
        async with asyncio.timeout(seconds):
            context = tls or ssl.create_default_context()
            test.tls_version, test.certificate = await _handshake(connected, url.host, context)
        test.tls_ms = elapsed_ms(started)
    except _ERRORS as error:
        test.failure = _failure(error, seconds, in_tls=True)
        if isinstance(error, ssl.SSLCertVerificationError):
            # Once more, to describe the certificate. Nothing is sent over this connection.
            unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            unverified.check_hostname = False
            unverified.verify_mode = ssl.CERT_NONE
            presented = await connect(url, target, policy, tls=unverified, seconds=seconds)
            test.certificate = presented.certificate
    return test


async def _connect(target: ResolvedAddress, port: int, policy: AddressPolicy) -> socket.socket:
    """Return a connected socket. The guard makes it, and checks the address."""
    six = target.family == socket.AF_INET6
    address = (target.address, port, 0, 0) if six else (target.address, port)
    connection = socket_factory(policy)((target.family, socket.SOCK_STREAM, 0, "", address))
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


async def _handshake(
    connected: socket.socket, host: str, context: ssl.SSLContext
) -> tuple[str | None, x509.Certificate | None]:
    try:
        _, writer = await asyncio.open_connection(sock=connected, ssl=context, server_hostname=host)
    except BaseException:
        connected.close()
        raise
    try:
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return secured.version(), _certificate(secured.getpeercert(binary_form=True))
    finally:
        # Not `close`: some servers never answer a close_notify.
        writer.transport.abort()


def _certificate(der: bytes | None) -> x509.Certificate | None:
    try:
        return x509.load_der_x509_certificate(der) if der else None
    except ValueError:  # a certificate that OpenSSL accepts and a stricter parser does not
        return None


def describe(certificate: x509.Certificate, at: datetime) -> tuple[str, datetime]:
    """Return a description of the certificate (names, issuer, end of validity), and the instant of that end."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = [str(name.value) for name in extension.value]
    except x509.ExtensionNotFound:
        names = []
    attributes = certificate.issuer.get_attributes_for_oid
    issuers = attributes(NameOID.ORGANIZATION_NAME) or attributes(NameOID.COMMON_NAME)
    ends = certificate.not_valid_after_utc
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    issued = f", issued by {issuers[0].value!s}" if issuers else ""
    left = (ends - at).days
    remaining = f" ({count_of(left, 'day')})" if left >= 0 else ", which is over"
    listed = ", ".join(names[:MAX_NAMES]) or "no name"
    return f"for {listed}{more}{issued}, valid until {ends:%Y-%m-%d}{remaining}", ends


def _failure(error: Exception, seconds: float, *, in_tls: bool) -> RequestFailed:
    """Return the failure, with the message that a pull would give if there is one."""
    timed_out = isinstance(error, TimeoutError)
    if isinstance(error, AddressRefused | ssl.SSLError) or (timed_out and not in_tls):
        known = aiohttp.ServerTimeoutError() if timed_out else error
        return connection_failure(known, "URL", AddressPolicy(), connect_seconds=seconds)
    if in_tls:
        problem = f"gave no answer within {seconds:g} seconds" if timed_out else "hung up"
        advice = "Check that it speaks TLS 1.2 or later on that port."
        return RequestFailed(Fault.TLS, f"The server {problem} when asked for TLS. {advice}")
    refused = isinstance(error, ConnectionRefusedError)
    problem = "refused the connection" if refused else "could not be reached, or hung up"
    return RequestFailed(Fault.CONNECT, f"The server {problem}. {CHECK_SERVER}", retryable=True)
