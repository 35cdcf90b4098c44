"""The URL doctor: everything that a pull would meet at a URL, step by step, and what to do about it.

The document is fetched by the very pull that an ingest makes, once, without its retries, and once more with its ETag.
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from ipaddress import ip_network
from typing import Annotated, Final
from urllib.parse import urljoin, urlsplit, urlunsplit

from aiohttp.abc import AbstractResolver
from msgspec import Meta
from msgspec.structs import replace

from mercato.kernel.clock import now
from mercato.kernel.outbound.addresses import DEVELOPMENT, AddressPolicy, Verdict
from mercato.kernel.outbound.body import ACCEPT_ENCODING
from mercato.kernel.outbound.client import Outbound
from mercato.kernel.outbound.guard import SystemResolver
from mercato.kernel.outbound.handshake import ConnectionTest, connect, describe, look_up
from mercato.kernel.outbound.pull import Answer, Pull
from mercato.kernel.outbound.results import Fault, NotModified, Pulled, PullLimits, RequestFailed
from mercato.kernel.outbound.session import open_session
from mercato.kernel.outbound.urls import UrlRefused, check_url
from mercato.kernel.wire import Wire

MAX_HOSTS: Final = 5
"""Hosts along redirects that are looked at: a pull goes no further."""

EXPIRES_SOON: Final = timedelta(days=21)
"""A certificate that ends sooner is worth a warning: it should have been renewed by then."""

COMPRESS_FROM: Final = 64 * 1024
SLOW: Final = 1 / 3
"""Share of the time that a pull may take."""

_MEBI: Final = 1 << 20

_DESCRIPTIONS: Final = {
    Verdict.ALLOWED: "may be reached",
    Verdict.BENCHMARK: "a network for measurements",
    Verdict.BROADCAST: "the broadcast address",
    Verdict.DOCUMENTATION: "a network for examples in documents",
    Verdict.LINK_LOCAL: "an address of one cable (link-local)",
    Verdict.LOOPBACK: "the machine itself (loopback)",
    Verdict.METADATA: "a cloud's metadata service",
    Verdict.MULTICAST: "a multicast address",
    Verdict.PRIVATE: "a private network",
    Verdict.RESERVED: "a reserved network",
    Verdict.SCOPED: "an address with a network zone",
    Verdict.SHARED: "a provider's inner network (CGNAT)",
    Verdict.TRANSITION: "a tunnel that hides another address",
    Verdict.UNREADABLE: "no address",
    Verdict.UNSPECIFIED: "no particular address",
}


class Level(StrEnum):
    """`warn`: a pull works, but could work better; `fail`: it does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


_JUDGED_LATER: Final = AddressPolicy(extra_public=frozenset({ip_network("0.0.0.0/0"), ip_network("::/0")}))
"""For the text: `look_up` judges an address in a URL like those of names, so that the finding names the verdict."""


class UrlFinding(Wire):
    """One thing that was looked at. `advice` is empty where there is nothing to do."""

    name: Annotated[str, Meta(description="What was looked at, for programs: dns, tls, etag…")]
    level: Level
    said: str
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

    async def examine(self, url: str) -> Pulled | None:
        """Note the findings, no further than a pull would go; return the document if it could be read."""
        resolver = self.resolver or SystemResolver()
        options = Outbound(self.policy, resolver=resolver, tls=self.tls, dns_seconds=0)
        session = open_session(options)
        limits = replace(self.limits, waits=())
        pull = partial(Pull, http=session.http, options=options, limits=limits)
        try:
            if not await self._examine_host(url, resolver):
                return None
            first = pull(etag=None)
            result = await _run(first, url)
            await self._examine_redirects(url, first.answers, resolver)
            if isinstance(result, RequestFailed):
                self.findings.append(_fail("document", result.message, "", result.elapsed_ms))
                return None
            assert isinstance(result, Pulled)
            again = None if result.etag is None else await _run(pull(etag=result.etag), url)
        finally:
            await session.close()
        self.findings += [
            _ok("status", "200", first.answers[-1].ms),
            _time(result, limits),
            _size(result, limits),
            _encoding(result),
            _content_type(result),
            _etag(result, again),
        ]
        return result

    async def _examine_host(self, url: str, resolver: AbstractResolver, *, redirected: bool = False) -> bool:
        """Note what is found about the URL's host. Tell whether a pull would get as far as sending its request."""
        shown_url = shown(url)
        try:
            parsed = check_url(url, _JUDGED_LATER, https_only=False)
        except UrlRefused as refused:
            what = f"{shown_url}: The URL {refused.fault.value}."
            self.findings.append(_fail("url", what, "Write the URL as a browser shows it."))
            return False
        if parsed.scheme == "https":
            self.findings.append(_ok("url", f"{shown_url}{' (redirected there)' if redirected else ''}"))
        else:
            advice = "Serve it by https: whoever is on the way can read and change it."
            self.findings.append(_warn("url", f"{shown_url} is not encrypted.", advice))
        try:
            addresses, ms = await look_up(parsed, resolver, self.policy)
        except OSError:
            what = f"The name {parsed.host} has no address."
            self.findings.append(_fail("dns", what, "Check its spelling, and its A and AAAA records."))
            return False
        for judged in addresses:
            literal = parsed.address is not None
            address = judged.address if literal else f"{parsed.host} is at {judged.address}"
            what = f"{address}: {_DESCRIPTIONS[judged.verdict]}"
            if judged.verdict.allowed:
                self.findings.append(_ok("dns", what, None if literal else ms))
            else:
                advice = self._address_advice(judged.verdict, others=len(addresses) > 1)
                self.findings.append(_fail("dns", what, advice))
        if not all(judged.verdict.allowed for judged in addresses):
            return False
        tests = [
            await connect(parsed, judged, self.policy, tls=self.tls, seconds=self.limits.connect)
            for judged in addresses
        ]
        reachable = any(test.failure is None for test in tests)
        for test in tests:
            self.findings += _connection(test, https=parsed.scheme == "https", others=reachable, at=now())
        return reachable

    def _address_advice(self, verdict: Verdict, *, others: bool) -> str:
        advice = "The guard refuses it: use a host that can be reached from the public internet."
        if not self.policy.allow_private and verdict in DEVELOPMENT:
            advice += " For development set MERCATO_ALLOW_PRIVATE_NETWORKS=true."
        if others:
            advice += " One such address among others is enough for a refusal."
        return advice

    async def _examine_redirects(self, url: str, answers: list[Answer], resolver: AbstractResolver) -> None:
        """Look at each other host on the way: also at one that the pull would not go on to."""
        known, redirects = {check_url(url, _JUDGED_LATER, https_only=False).origin}, []
        for answer in answers:
            if answer.location is None:
                continue
            if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
                what = f"{answer.status}: {shown(answer.url.text)} leads to {shown(answer.location)}"
                advice = "Give the final URL: each redirect costs a connection, and at most 3 are followed."
                redirects.append(_warn("redirect", what, advice, answer.ms))
            try:
                target = urljoin(answer.url.text, answer.location)
                origin = check_url(target, _JUDGED_LATER, https_only=False).origin
            except ValueError:  # UrlRefused is one: the pull has reported it
                continue
            if origin not in known and len(known) < MAX_HOSTS:
                known.add(origin)
                await self._examine_host(target, resolver, redirected=True)
        self.findings += redirects


async def _run(pull: Pull, url: str) -> Pulled | NotModified | RequestFailed:
    try:
        return await pull.run(url)
    except RequestFailed as failed:
        return failed


def _connection(test: ConnectionTest, *, https: bool, others: bool, at: datetime) -> Iterator[UrlFinding]:
    failure, certificate = test.failure, test.certificate
    described, ends = describe(certificate, at) if certificate else ("", None)
    accepts = _ok("connect", f"{test.address} accepts", test.connect_ms)
    if failure is not None:
        name = "connect"
        if failure.fault is Fault.TLS:
            name = "tls"
            yield accepts
        what, _, advice = failure.message.partition(". ")
        held = f" It is {described}." if described else ""
        yield (_warn if others else _fail)(name, f"{test.address}: {what}.{held}", advice)
        return
    yield accepts
    what = f"{test.tls_version or 'TLS'}, a certificate {described}" if described else "TLS"
    if ends is not None and ends - at < EXPIRES_SOON:
        advice = "Renew the certificate, or see why that has not happened by itself."
        yield _warn("tls", what, advice, test.tls_ms)
    elif https:
        yield _ok("tls", what, test.tls_ms)


def _time(pulled: Pulled, limits: PullLimits) -> UrlFinding:
    what = f"read in {pulled.elapsed_ms / 1000:.1f} s; {limits.total:g} s are allowed"
    if pulled.elapsed_ms <= limits.total * 1000 * SLOW:
        return _ok("time", what)
    advice = "Serve a file that is made beforehand, compressed, and near the network's edge."
    return _warn("time", what, advice, pulled.elapsed_ms)


def _size(pulled: Pulled, limits: PullLimits) -> UrlFinding:
    sent, whole = pulled.raw_size, len(pulled.body)
    sizes = (sent, limits.max_raw, whole, limits.max_decoded)
    what = "{} sent of {}, {} unpacked of {}".format(*map(_size_of, sizes))
    if sent * 2 <= limits.max_raw and whole * 2 <= limits.max_decoded:
        return _ok("size", what)
    return _warn("size", what, "It grows towards the limit: compress it, or shorten it.")


def _encoding(pulled: Pulled) -> UrlFinding:
    if pulled.encoding != "identity":
        return _ok("encoding", f"compressed with {pulled.encoding}")
    if pulled.raw_size <= COMPRESS_FROM:
        return _ok("encoding", "not compressed, and small enough for that")
    advice = f"Let the server compress it ({ACCEPT_ENCODING}): JSON shrinks to a tenth."
    return _warn("encoding", "not compressed", advice)


def _content_type(pulled: Pulled) -> UrlFinding:
    media_type = (pulled.content_type or "").partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return _ok("content type", pulled.content_type or media_type)
    what = f"{pulled.content_type or 'no Content-Type'}; it is read as JSON all the same"
    return _warn("content type", what, "Send Content-Type: application/json.")


def _etag(pulled: Pulled, again: Pulled | NotModified | RequestFailed | None) -> UrlFinding:
    if isinstance(again, NotModified):
        return _ok("etag", f"{pulled.etag}, and 304 when asked again", again.elapsed_ms)
    if pulled.etag is None:
        what = "no ETag that can be used"
    elif isinstance(again, Pulled):
        same = again.etag == pulled.etag
        document = "the whole document" if same else "another ETag and the whole document"
        what = f"{pulled.etag}, but {document} when asked again"
    else:
        what = f"{pulled.etag}, but asked again: {again.message if again else 'it was not asked again'}"
    advice = (
        "Send an ETag, and 304 to If-None-Match: what has not changed is not downloaded and checked again."
    )
    return _warn("etag", what, advice)


def shown(url: str) -> str:
    """Return the URL for people, without its query, which may be what grants access."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "***" if parts.query else "", ""))


def _size_of(count: int) -> str:
    return f"{count / _MEBI:.1f} MiB" if count >= _MEBI else f"{count:,} bytes"


def _ok(name: str, what: str, ms: int | None = None) -> UrlFinding:
    return UrlFinding(name=name, level=Level.OK, said=what, ms=ms)


def _warn(name: str, what: str, advice: str, ms: int | None = None) -> UrlFinding:
    return UrlFinding(name=name, level=Level.WARN, said=what, advice=advice, ms=ms)


def _fail(name: str, what: str, advice: str, ms: int | None = None) -> UrlFinding:
    return UrlFinding(name=name, level=Level.FAIL, said=what, advice=advice, ms=ms)
