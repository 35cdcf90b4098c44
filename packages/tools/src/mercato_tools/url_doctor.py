"""Examines a URL as a pull would meet it: name, address, connection, TLS, reply, and the document.

The document is fetched by the pull of an ingest, without retries, and once more with its ETag.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from ipaddress import ip_network
from time import monotonic
from typing import Annotated, Any, Final
from urllib.parse import urljoin, urlsplit, urlunsplit

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from msgspec import Meta, Struct
from msgspec.structs import replace

from mercato_contract.clock import now
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire
from mercato_outbound.body import ACCEPT_ENCODING
from mercato_outbound.call import CHECK_SERVER, Pull, ResponseHead, connection_failure, elapsed_ms
from mercato_outbound.connections import (
    MAX_ADDRESSES,
    AddressRefused,
    SystemResolver,
    open_session,
    socket_factory,
)
from mercato_outbound.guard import (
    DEVELOPMENT,
    AddressPolicy,
    AddressVerdict,
    ParsedUrl,
    UrlRefused,
    check_url,
)
from mercato_outbound.results import (
    Fault,
    NotModified,
    Options,
    PulledDocument,
    PullLimits,
    RequestFailed,
)

MAX_NAMES: Final = 4
"""Names of a certificate that are listed."""

NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's flag by which an expired certificate can be read, too (X509_V_FLAG_NO_CHECK_TIME)."""

_ERRORS: Final = (OSError, TimeoutError, asyncio.IncompleteReadError)

DESCRIPTIONS: Final = {
    AddressVerdict.ALLOWED: "may be reached",
    AddressVerdict.BENCHMARK: "a network for measurements",
    AddressVerdict.BROADCAST: "the broadcast address",
    AddressVerdict.DOCUMENTATION: "a network for examples in documents",
    AddressVerdict.LINK_LOCAL: "an address of one network segment (link-local)",
    AddressVerdict.LOOPBACK: "the machine itself (loopback)",
    AddressVerdict.METADATA: "a cloud's metadata service",
    AddressVerdict.MULTICAST: "a multicast address",
    AddressVerdict.PRIVATE: "a private network",
    AddressVerdict.RESERVED: "a reserved network",
    AddressVerdict.SCOPED: "an address with a network zone",
    AddressVerdict.SHARED: "a provider's internal network (CGNAT)",
    AddressVerdict.TRANSITION: "a tunnel that hides another address",
    AddressVerdict.UNREADABLE: "not an address",
    AddressVerdict.UNSPECIFIED: "the unspecified address",
}


class ResolvedAddress(Struct, frozen=True):
    """An address of a name, and whether it may be connected to."""

    address: str
    verdict: AddressVerdict
    family: int


class Certificate(Struct, frozen=True):
    """What a certificate says: whom it is for, who issued it, and until when."""

    names: tuple[str, ...]
    issuer: str | None
    ends: datetime


@dataclass(slots=True, kw_only=True)
class ConnectionTest:
    """An attempt to connect to one address. `failure` is None if it succeeded; times are in milliseconds."""

    address: str
    failure: RequestFailed | None = None
    connect_ms: int = 0
    tls_ms: int | None = None
    tls_version: str | None = None
    certificate: Certificate | None = None


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
            peer = await _handshake(connected, url.host, tls or ssl.create_default_context())
            test.tls_version, test.certificate = peer.version, read_certificate(peer.certificate)
        test.tls_ms = elapsed_ms(started)
    except _ERRORS as error:
        test.failure = _failure(error, seconds, in_tls=True)
        if isinstance(error, ssl.SSLCertVerificationError):
            test.certificate = await _untrusted(url, target, policy, seconds=seconds)
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


class _Peer(Struct, frozen=True):
    """The other side of a handshake. `certificate` is as ssl reads it: only after it was verified."""

    version: str | None
    der: bytes | None
    certificate: dict[str, Any] | None


async def _handshake(connected: socket.socket, host: str, context: ssl.SSLContext) -> _Peer:
    try:
        _, writer = await asyncio.open_connection(sock=connected, ssl=context, server_hostname=host)
    except BaseException:
        connected.close()
        raise
    try:
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return _Peer(secured.version(), secured.getpeercert(binary_form=True), secured.getpeercert())
    finally:
        # Not `close`: some servers never answer a close_notify.
        writer.transport.abort()


async def _untrusted(
    url: ParsedUrl, target: ResolvedAddress, policy: AddressPolicy, *, seconds: float
) -> Certificate | None:
    """Return the certificate that wasn't trusted, None if it can't be read. Nothing is sent over these connections.

    ssl reads only what it has verified. So the certificate is taken once without, and then it is what is trusted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    try:
        async with asyncio.timeout(seconds):
            context.verify_mode = ssl.CERT_NONE
            der = (await _handshake(await _connect(target, url.port, policy), url.host, context)).der
            if der is None:
                return None
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(NO_CHECK_TIME)
            context.load_verify_locations(cadata=der)
            peer = await _handshake(await _connect(target, url.port, policy), url.host, context)
    except _ERRORS:
        return None
    return read_certificate(peer.certificate)


def read_certificate(certificate: dict[str, Any] | None) -> Certificate | None:
    """Return what a certificate says, as `getpeercert` returns it; None for none."""
    if not certificate:
        return None
    issuer = {name: value for part in certificate.get("issuer", ()) for name, value in part}
    return Certificate(
        # A name of a directory is no text.
        names=tuple(value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)),
        issuer=issuer.get("organizationName") or issuer.get("commonName"),
        ends=datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC),
    )


def describe(certificate: Certificate, at: datetime) -> str:
    """Return a description of the certificate: names, issuer, end of validity."""
    names, ends = certificate.names, certificate.ends
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    issued = f", issued by {certificate.issuer}" if certificate.issuer else ""
    left = (ends - at).days
    remaining = f" ({count_of(left, 'day')})" if left >= 0 else ", which is over"
    listed = ", ".join(names[:MAX_NAMES]) or "no name"
    return f"for {listed}{more}{issued}, valid until {ends:%Y-%m-%d}{remaining}"


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


MAX_HOSTS: Final = 5
"""Hosts along redirects that are examined: a pull follows no more redirects."""

EXPIRES_SOON: Final = timedelta(days=21)
"""A certificate that ends sooner gets a warning: it should have been renewed by then."""

COMPRESS_FROM: Final = 64 * 1024
SLOW: Final = 1 / 3
"""Share of a pull's timeout from which it counts as slow."""

_MEBI: Final = 1 << 20


class Level(StrEnum):
    """`warn`: a pull works, but could work better; `fail`: it does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


_ANY_ADDRESS: Final = AddressPolicy(extra_public=frozenset({ip_network("0.0.0.0/0"), ip_network("::/0")}))
"""For the text of a URL: `resolve` checks a literal address like those of names, so the finding has the verdict."""


class UrlFinding(Wire):
    """One thing that was examined. `advice` is empty if there is nothing to do."""

    name: Annotated[str, Meta(description="What was examined, for programs: dns, tls, etag…")]
    level: Level
    message: str = msgspec.field(name="said")
    advice: str = ""
    ms: int | None = None


@dataclass(kw_only=True)
class UrlDoctor:
    """Examines one URL. `resolver` and `tls` as in `Outbound`; `findings` are in the order of a pull."""

    policy: AddressPolicy
    limits: PullLimits
    resolver: AbstractResolver | None = None
    tls: ssl.SSLContext | None = None
    findings: list[UrlFinding] = field(default_factory=list, init=False)

    async def examine(self, url: str) -> PulledDocument | None:
        """Add the findings, as far as a pull would get; return the document if it could be read."""
        resolver = self.resolver or SystemResolver()
        options = Options(policy=self.policy, resolver=resolver, tls=self.tls, dns_seconds=0)
        session = open_session(options)
        limits = replace(self.limits, waits=())
        pull = partial(Pull, http=session.http, options=options, limits=limits)
        try:
            if not await self._examine_host(url, resolver):
                return None
            first = pull(etag=None)
            result = await _run(first, url)
            await self._examine_redirects(url, first.responses, resolver)
            if isinstance(result, RequestFailed):
                self.findings.append(_fail("document", result.message, "", result.elapsed_ms))
                return None
            assert isinstance(result, PulledDocument)
            again = None if result.etag is None else await _run(pull(etag=result.etag), url)
        finally:
            await session.close()
        self.findings += [
            _ok("status", "200", first.responses[-1].ms),
            _time(result, limits),
            _size(result, limits),
            _encoding(result),
            _content_type(result),
            _etag(result, again),
        ]
        return result

    async def _examine_host(self, url: str, resolver: AbstractResolver, *, redirected: bool = False) -> bool:
        """Add the findings about the URL's host. Return whether a pull would get as far as sending its request."""
        printable = without_query(url)
        try:
            parsed = check_url(url, _ANY_ADDRESS, https_only=False)
        except UrlRefused as refused:
            summary = f"{printable}: The URL {refused.fault.value}."
            self.findings.append(_fail("url", summary, "Write the URL as a browser shows it."))
            return False
        if parsed.scheme == "https":
            self.findings.append(_ok("url", f"{printable}{' (redirected there)' if redirected else ''}"))
        else:
            advice = "Serve it by https: without it anybody on the network path can read and change it."
            self.findings.append(_warn("url", f"{printable} is not encrypted.", advice))
        try:
            addresses, ms = await resolve(parsed, resolver, self.policy)
        except OSError:
            summary = f"The name {parsed.host} has no address."
            self.findings.append(_fail("dns", summary, "Check its spelling, and its A and AAAA records."))
            return False
        for resolved in addresses:
            literal = parsed.address is not None
            address = resolved.address if literal else f"{parsed.host} is at {resolved.address}"
            summary = f"{address}: {DESCRIPTIONS[resolved.verdict]}"
            if resolved.verdict.allowed:
                self.findings.append(_ok("dns", summary, None if literal else ms))
            else:
                advice = self._address_advice(resolved.verdict, others=len(addresses) > 1)
                self.findings.append(_fail("dns", summary, advice))
        if not all(resolved.verdict.allowed for resolved in addresses):
            return False
        tests = [
            await connect(parsed, resolved, self.policy, tls=self.tls, seconds=self.limits.connect)
            for resolved in addresses
        ]
        reachable = any(test.failure is None for test in tests)
        for test in tests:
            self.findings += _connection(test, https=parsed.scheme == "https", others=reachable, at=now())
        return reachable

    def _address_advice(self, verdict: AddressVerdict, *, others: bool) -> str:
        advice = "The guard refuses it: use a host that can be reached from the public internet."
        if not self.policy.allow_private and verdict in DEVELOPMENT:
            advice += " For development set MERCATO_ALLOW_PRIVATE_NETWORKS=true."
        if others:
            advice += " One such address among others is enough for a refusal."
        return advice

    async def _examine_redirects(
        self, url: str, responses: list[ResponseHead], resolver: AbstractResolver
    ) -> None:
        """Examine the other hosts along the redirects, also one that the pull would refuse."""
        known, redirects = {check_url(url, _ANY_ADDRESS, https_only=False).origin}, []
        for response in responses:
            if response.location is None:
                continue
            if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
                source, target = without_query(response.url.text), without_query(response.location)
                summary = f"{response.status}: {source} leads to {target}"
                advice = "Give the final URL: each redirect costs a connection, and at most 3 are followed."
                redirects.append(_warn("redirect", summary, advice, response.ms))
            try:
                target = urljoin(response.url.text, response.location)
                origin = check_url(target, _ANY_ADDRESS, https_only=False).origin
            except ValueError:  # UrlRefused is one: the pull has reported it
                continue
            if origin not in known and len(known) < MAX_HOSTS:
                known.add(origin)
                await self._examine_host(target, resolver, redirected=True)
        self.findings += redirects


async def _run(pull: Pull, url: str) -> PulledDocument | NotModified | RequestFailed:
    try:
        return await pull.run(url)
    except RequestFailed as failed:
        return failed


def _connection(test: ConnectionTest, *, https: bool, others: bool, at: datetime) -> Iterator[UrlFinding]:
    failure, certificate = test.failure, test.certificate
    described, ends = (describe(certificate, at), certificate.ends) if certificate else ("", None)
    accepts = _ok("connect", f"{test.address} accepts", test.connect_ms)
    if failure is not None:
        name = "connect"
        if failure.fault is Fault.TLS:
            name = "tls"
            yield accepts
        summary, _, advice = failure.message.partition(". ")
        certified = f" It is {described}." if described else ""
        yield (_warn if others else _fail)(name, f"{test.address}: {summary}.{certified}", advice)
        return
    yield accepts
    summary = f"{test.tls_version or 'TLS'}, a certificate {described}" if described else "TLS"
    if ends is not None and ends - at < EXPIRES_SOON:
        advice = "Renew the certificate, or check why it was not renewed automatically."
        yield _warn("tls", summary, advice, test.tls_ms)
    elif https:
        yield _ok("tls", summary, test.tls_ms)


def _time(pulled: PulledDocument, limits: PullLimits) -> UrlFinding:
    summary = f"read in {pulled.elapsed_ms / 1000:.1f} s; {limits.total:g} s are allowed"
    if pulled.elapsed_ms <= limits.total * 1000 * SLOW:
        return _ok("time", summary)
    advice = "Serve a file that is generated beforehand, compressed, and behind a CDN."
    return _warn("time", summary, advice, pulled.elapsed_ms)


def _size(pulled: PulledDocument, limits: PullLimits) -> UrlFinding:
    sent, whole = pulled.raw_size, len(pulled.body)
    sizes = (sent, limits.max_raw, whole, limits.max_decoded)
    summary = "{} sent of {}, {} unpacked of {}".format(*map(_size_of, sizes))
    if sent * 2 <= limits.max_raw and whole * 2 <= limits.max_decoded:
        return _ok("size", summary)
    return _warn("size", summary, "It is close to the limit: compress it, or shorten it.")


def _encoding(pulled: PulledDocument) -> UrlFinding:
    if pulled.encoding != "identity":
        return _ok("encoding", f"compressed with {pulled.encoding}")
    if pulled.raw_size <= COMPRESS_FROM:
        return _ok("encoding", "not compressed, but small enough")
    advice = f"Let the server compress it ({ACCEPT_ENCODING}): JSON shrinks to a tenth."
    return _warn("encoding", "not compressed", advice)


def _content_type(pulled: PulledDocument) -> UrlFinding:
    media_type = (pulled.content_type or "").partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return _ok("content type", pulled.content_type or media_type)
    summary = f"{pulled.content_type or 'no Content-Type'}; it is read as JSON all the same"
    return _warn("content type", summary, "Send Content-Type: application/json.")


def _etag(pulled: PulledDocument, again: PulledDocument | NotModified | RequestFailed | None) -> UrlFinding:
    if isinstance(again, NotModified):
        return _ok("etag", f"{pulled.etag}, and 304 on a second request", again.elapsed_ms)
    if pulled.etag is None:
        summary = "no ETag, or an invalid one"
    elif isinstance(again, PulledDocument):
        same = again.etag == pulled.etag
        document = "the whole document" if same else "another ETag and the whole document"
        summary = f"{pulled.etag}, but {document} on a second request"
    else:
        summary = f"{pulled.etag}, but on a second request: {again.message if again else 'none was made'}"
    advice = (
        "Send an ETag, and 304 to If-None-Match: an unchanged document is not downloaded and checked again."
    )
    return _warn("etag", summary, advice)


def without_query(url: str) -> str:
    """Return the URL with what may grant access redacted: its query, and a user name with a password."""
    try:
        parts = urlsplit(_USER.sub("//***@", url))
    except ValueError:
        return _USER.sub("//***@", url).partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "***" if parts.query else "", ""))


_USER: Final = re.compile(r"//[^/?#]*@")


def _size_of(count: int) -> str:
    return f"{count / _MEBI:.1f} MiB" if count >= _MEBI else f"{count:,} bytes"


def _ok(name: str, summary: str, ms: int | None = None) -> UrlFinding:
    return UrlFinding(name=name, level=Level.OK, message=summary, ms=ms)


def _warn(name: str, summary: str, advice: str, ms: int | None = None) -> UrlFinding:
    return UrlFinding(name=name, level=Level.WARN, message=summary, advice=advice, ms=ms)


def _fail(name: str, summary: str, advice: str, ms: int | None = None) -> UrlFinding:
    return UrlFinding(name=name, level=Level.FAIL, message=summary, advice=advice, ms=ms)
