"""A connection made to look at it: name, address and TLS, each by itself and timed. Guarded like every other."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from mercato.outbound.connection import RUNNING, connection_failure
from mercato.outbound.faults import Failure, Fault
from mercato.outbound.guard import MAX_ADDRESSES, AddressPolicy, AddressRefused, Verdict, socket_factory
from mercato.outbound.urls import ParsedUrl

_SUBJECT: Final = "URL"


@dataclass(frozen=True, slots=True)
class Found:
    """An address of a name, and whether it may be connected to."""

    address: str
    verdict: Verdict
    family: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a server shows: whose names it is for, who issued it, and until when."""

    names: tuple[str, ...]
    issuer: str
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """A try to connect to one address. `failure` is None when it succeeded; times in milliseconds."""

    address: str
    failure: Failure | None
    connect_ms: int
    tls_ms: int | None = None
    tls_version: str | None = None
    certificate: Certificate | None = None


async def look_up(
    url: ParsedUrl, resolver: AbstractResolver, policy: AddressPolicy
) -> tuple[list[Found], int]:
    """Return the addresses of the URL's host with their verdicts, and the milliseconds. Raises OSError."""
    if url.address is not None:
        return [Found(url.host, policy.verdict(url.address), _family(url.host))], 0
    started = _now()
    answers: Sequence[ResolveResult] = await resolver.resolve(url.host, url.port, socket.AF_UNSPEC)
    ms = _ms(started)
    if not answers:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    found = (Found(one["host"], policy.verdict(one["host"]), one["family"]) for one in answers)
    return list(dict.fromkeys(found))[:MAX_ADDRESSES], ms


async def connect(
    url: ParsedUrl, found: Found, policy: AddressPolicy, *, tls: ssl.SSLContext | None, seconds: float
) -> Connected:
    """Return what came of connecting to the address, and of TLS where the URL asks for it."""
    started = _now()
    try:
        async with asyncio.timeout(seconds):
            plug = await _plugged(found, url.port, policy)
    except (OSError, TimeoutError) as error:
        return Connected(address=found.address, failure=_why(error, seconds), connect_ms=_ms(started))
    connect_ms = _ms(started)
    if url.scheme != "https":
        plug.close()
        return Connected(address=found.address, failure=None, connect_ms=connect_ms)
    return await _secured(url, found, policy, plug, tls=tls, seconds=seconds, connect_ms=connect_ms)


async def _secured(
    url: ParsedUrl,
    found: Found,
    policy: AddressPolicy,
    plug: socket.socket,
    *,
    tls: ssl.SSLContext | None,
    seconds: float,
    connect_ms: int,
) -> Connected:
    started = _now()
    try:
        async with asyncio.timeout(seconds):
            version, certificate = await _handshake(plug, url.host, tls or ssl.create_default_context())
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        unbelieved = isinstance(error, ssl.SSLCertVerificationError)
        return Connected(
            address=found.address,
            failure=_why_not_secured(error, seconds),
            connect_ms=connect_ms,
            certificate=await _shown(url, found, policy, seconds) if unbelieved else None,
        )
    return Connected(
        address=found.address,
        failure=None,
        connect_ms=connect_ms,
        tls_ms=_ms(started),
        tls_version=version,
        certificate=certificate,
    )


async def _plugged(found: Found, port: int, policy: AddressPolicy) -> socket.socket:
    """Return a socket that is connected: made by the guard, which has the last word on the address."""
    six = found.family == socket.AF_INET6
    target = (found.address, port, 0, 0) if six else (found.address, port)
    plug = socket_factory(policy)((found.family, socket.SOCK_STREAM, 0, "", target))
    try:
        plug.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plug, target)
    except BaseException:
        plug.close()
        raise
    return plug


async def _handshake(
    plug: socket.socket, host: str, context: ssl.SSLContext
) -> tuple[str | None, Certificate | None]:
    try:
        _, writer = await asyncio.open_connection(sock=plug, ssl=context, server_hostname=host)
    except BaseException:
        plug.close()
        raise
    try:
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return secured.version(), _certificate(secured.getpeercert(binary_form=True))
    finally:
        # At once: nobody waits for a server's farewell, some never say it.
        writer.transport.abort()


async def _shown(url: ParsedUrl, found: Found, policy: AddressPolicy, seconds: float) -> Certificate | None:
    """Return the certificate that was not believed, to say what it holds. Nothing is sent over such a connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(seconds):
            plug = await _plugged(found, url.port, policy)
            return (await _handshake(plug, url.host, context))[1]
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return None


def _certificate(der: bytes | None) -> Certificate | None:
    if not der:
        return None
    try:
        read = x509.load_der_x509_certificate(der)
        issuer = read.issuer.get_attributes_for_oid(
            NameOID.ORGANIZATION_NAME
        ) or read.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
        return Certificate(
            names=_names(read),
            issuer=str(issuer[0].value) if issuer else "",
            not_before=read.not_valid_before_utc,
            not_after=read.not_valid_after_utc,
        )
    except ValueError:  # a certificate that OpenSSL reads and a stricter reader does not
        return None


def _names(read: x509.Certificate) -> tuple[str, ...]:
    try:
        names = read.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    except x509.ExtensionNotFound:
        return ()
    assert isinstance(names, x509.SubjectAlternativeName)
    return tuple(str(one.value) for one in names)


def _why(error: Exception, seconds: float) -> Failure:
    """Return what went wrong, in the words of a pull where it has any."""
    match error:
        case TimeoutError():
            error = aiohttp.ServerTimeoutError()
        case AddressRefused() | ssl.SSLError():
            pass
        case _:
            refused = isinstance(error, ConnectionRefusedError)
            verb = "refused the connection" if refused else "could not be reached, or hung up"
            return Failure(fault=Fault.CONNECT, message=f"The server {verb}. {RUNNING}", retryable=True)
    return connection_failure(error, _SUBJECT, AddressPolicy(), connect_seconds=seconds)


def _why_not_secured(error: Exception, seconds: float) -> Failure:
    if isinstance(error, ssl.SSLError):
        return connection_failure(error, _SUBJECT, AddressPolicy(), connect_seconds=seconds)
    how = f"gave no answer within {seconds:g} seconds" if isinstance(error, TimeoutError) else "hung up"
    message = f"The server {how} when asked for TLS. Check that it speaks TLS 1.2 or later on that port."
    return Failure(fault=Fault.TLS, message=message)


def _family(host: str) -> int:
    return int(socket.AF_INET6 if ":" in host else socket.AF_INET)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _ms(started: float) -> int:
    return round((_now() - started) * 1000)
