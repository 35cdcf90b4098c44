"""What an examination of a URL means: findings in words, each with what to do. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Meta

from mercato.outbound.addresses import Verdict
from mercato.outbound.body import ACCEPT_ENCODING
from mercato.outbound.examine import Examination, Host
from mercato.outbound.handshake import Certificate, Connected
from mercato.outbound.outcomes import NotModified, Pulled, PullFailed, PullLimits
from mercato.plurals import count_of
from mercato.wire import Wire

SOON: Final = timedelta(days=21)
"""A certificate that ends sooner is worth a warning: it should have been renewed by then."""

WORTH_COMPRESSING: Final = 64 * 1024
SLOW: Final = 1 / 3
"""Of the time that a pull may take."""

MOST_NAMES: Final = 4
_MEBI: Final = 1 << 20

_WORDS: Final = {
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


class UrlFinding(Wire):
    """One thing that was looked at. `advice` is empty where there is nothing to do."""

    name: Annotated[str, Meta(description="What was looked at, for programs: dns, tls, etag…")]
    level: Level
    said: str
    advice: str = ""
    ms: int | None = None


def findings(
    found: Examination, *, limits: PullLimits, allow_private: bool, now: datetime
) -> Iterator[UrlFinding]:
    """Yield the findings in the order of a pull."""
    for number, host in enumerate(found.hosts):
        yield from _host(host, redirected=number > 0, allow_private=allow_private, now=now)
    yield from _redirects(found)
    if found.failed is not None:
        yield UrlFinding(name="document", level=Level.FAIL, said=found.failed.message, ms=found.pull_ms)
    if found.pulled is not None:
        yield from _document(found.pulled, found, limits)


# --- hosts ------------------------------------------------------------------------------------------


def _host(host: Host, *, redirected: bool, allow_private: bool, now: datetime) -> Iterator[UrlFinding]:
    url = shown(host.url)
    if host.refused is not None:
        yield _fail(
            "url", f"{url}: The URL {host.refused.fault.value}.", "Write the URL as a browser shows it."
        )
        return
    assert host.parsed is not None
    if host.parsed.scheme == "http":
        advice = "Serve it by https: whoever is on the way can read and change it."
        yield UrlFinding(name="url", level=Level.WARN, said=f"{url} is not encrypted.", advice=advice)
    else:
        yield _ok("url", f"{url}{' (redirected there)' if redirected else ''}")
    yield from _dns(host, allow_private=allow_private)
    for one in host.tried:
        yield from _connection(one, https=host.parsed.scheme == "https", others=host.reachable, now=now)


def _dns(host: Host, *, allow_private: bool) -> Iterator[UrlFinding]:
    assert host.parsed is not None
    if host.unnamed:
        said = f"The name {host.parsed.host} has no address."
        yield _fail("dns", said, "Check its spelling, and its A and AAAA records.")
        return
    for one in host.found:
        literal = host.parsed.address is not None
        what = one.address if literal else f"{host.parsed.host} is at {one.address}"
        said = f"{what}: {_WORDS[one.verdict]}"
        if one.verdict.allowed:
            yield UrlFinding(name="dns", level=Level.OK, said=said, ms=None if literal else host.lookup_ms)
            continue
        advice = "The guard refuses it: use a host that can be reached from the public internet."
        if not allow_private and one.verdict in {Verdict.LOOPBACK, Verdict.PRIVATE, Verdict.SHARED}:
            advice += " For development set MERCATO_ALLOW_PRIVATE_NETWORKS=true."
        if len(host.found) > 1:
            advice += " One such address among others is enough for a refusal."
        yield _fail("dns", said, advice)


def _connection(one: Connected, *, https: bool, others: bool, now: datetime) -> Iterator[UrlFinding]:
    name = "tls" if one.failure is not None and one.failure.fault.value == "tls" else "connect"
    if one.failure is not None:
        if name == "tls":
            yield UrlFinding(name="connect", level=Level.OK, said=f"{one.address} accepts", ms=one.connect_ms)
        what, _, advice = one.failure.message.partition(". ")
        level = Level.WARN if others else Level.FAIL
        held = f" It is {_held(one.certificate, now)}." if one.certificate is not None else ""
        yield UrlFinding(name=name, level=level, said=f"{one.address}: {what}.{held}", advice=advice)
        return
    yield UrlFinding(name="connect", level=Level.OK, said=f"{one.address} accepts", ms=one.connect_ms)
    if https:
        yield _tls(one, now)


def _tls(one: Connected, now: datetime) -> UrlFinding:
    certificate = one.certificate
    said = f"{one.tls_version or 'TLS'}, a certificate {_held(certificate, now)}" if certificate else "TLS"
    if certificate is not None and certificate.not_after - now < SOON:
        advice = "Renew the certificate, or see why that has not happened by itself."
        return UrlFinding(name="tls", level=Level.WARN, said=said, advice=advice, ms=one.tls_ms)
    return UrlFinding(name="tls", level=Level.OK, said=said, ms=one.tls_ms)


def _held(certificate: Certificate | None, now: datetime) -> str:
    if certificate is None:
        return "that cannot be read"
    names = list(certificate.names[:MOST_NAMES])
    more = len(certificate.names) - len(names)
    left = (certificate.not_after - now).days
    until = f"until {certificate.not_after:%Y-%m-%d}"
    ends = f"{until} ({count_of(left, 'day')})" if left >= 0 else f"{until}, which is over"
    issued = f", issued by {certificate.issuer}" if certificate.issuer else ""
    return f"for {', '.join(names) or 'no name'}{f' and {more} more' if more else ''}{issued}, good {ends}"


# --- the way and the document -----------------------------------------------------------------------


def _redirects(found: Examination) -> Iterator[UrlFinding]:
    for answer in found.answers:
        if (
            answer.location is not None
            and HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST
        ):
            said = f"{answer.status}: {shown(answer.url)} leads to {shown(answer.location)}"
            advice = "Give the final URL: each redirect costs a connection, and at most 3 are followed."
            yield UrlFinding(name="redirect", level=Level.WARN, said=said, advice=advice, ms=answer.ms)


def _document(pulled: Pulled, found: Examination, limits: PullLimits) -> Iterator[UrlFinding]:
    first = found.answers[-1].ms if found.answers else None
    yield UrlFinding(name="status", level=Level.OK, said="200", ms=first)
    yield _time(pulled, limits)
    yield _size(pulled, limits)
    yield _encoding(pulled)
    yield _content_type(pulled)
    yield _etag(pulled, found.again)


def _time(pulled: Pulled, limits: PullLimits) -> UrlFinding:
    said = f"read in {pulled.elapsed_ms / 1000:.1f} s; {limits.total:g} s are allowed"
    if pulled.elapsed_ms <= limits.total * 1000 * SLOW:
        return _ok("time", said)
    advice = "Serve a file that is made beforehand, compressed, and near the network's edge."
    return UrlFinding(name="time", level=Level.WARN, said=said, advice=advice, ms=pulled.elapsed_ms)


def _size(pulled: Pulled, limits: PullLimits) -> UrlFinding:
    sent, whole = pulled.raw_size, len(pulled.body)
    sizes = (sent, limits.max_raw, whole, limits.max_decoded)
    said = "{} sent of {}, {} unpacked of {}".format(*map(_size_of, sizes))
    if sent * 2 <= limits.max_raw and whole * 2 <= limits.max_decoded:
        return _ok("size", said)
    return UrlFinding(
        name="size",
        level=Level.WARN,
        said=said,
        advice="It grows towards the limit: compress it, or shorten it.",
    )


def _encoding(pulled: Pulled) -> UrlFinding:
    if pulled.encoding != "identity":
        return _ok("encoding", f"compressed with {pulled.encoding}")
    if pulled.raw_size <= WORTH_COMPRESSING:
        return _ok("encoding", "not compressed, and small enough for that")
    advice = f"Let the server compress it ({ACCEPT_ENCODING}): JSON shrinks to a tenth."
    return UrlFinding(name="encoding", level=Level.WARN, said="not compressed", advice=advice)


def _content_type(pulled: Pulled) -> UrlFinding:
    kind = (pulled.content_type or "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _ok("content type", pulled.content_type or kind)
    said = f"{pulled.content_type or 'no Content-Type'}; it is read as JSON all the same"
    return UrlFinding(
        name="content type", level=Level.WARN, said=said, advice="Send Content-Type: application/json."
    )


def _etag(pulled: Pulled, again: Pulled | NotModified | PullFailed | None) -> UrlFinding:
    advice = (
        "Send an ETag, and 304 to If-None-Match: what has not changed is not downloaded and checked again."
    )
    if pulled.etag is None:
        return UrlFinding(name="etag", level=Level.WARN, said="no ETag that can be used", advice=advice)
    if isinstance(again, NotModified):
        return UrlFinding(
            name="etag", level=Level.OK, said=f"{pulled.etag}, and 304 when asked again", ms=again.elapsed_ms
        )
    if isinstance(again, Pulled):
        what = "the whole document" if again.etag == pulled.etag else "another ETag and the whole document"
        return UrlFinding(
            name="etag", level=Level.WARN, said=f"{pulled.etag}, but {what} when asked again", advice=advice
        )
    why = again.message if again is not None else "it was not asked again"
    return UrlFinding(
        name="etag", level=Level.WARN, said=f"{pulled.etag}, but asked again: {why}", advice=advice
    )


def shown(url: str) -> str:
    """Return the URL for people, its query, which may be what grants access, blotted out."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "***" if parts.query else "", ""))


def _size_of(count: int) -> str:
    return f"{count / _MEBI:.1f} MiB" if count >= _MEBI else f"{count:,} bytes"


def _ok(name: str, said: str) -> UrlFinding:
    return UrlFinding(name=name, level=Level.OK, said=said)


def _fail(name: str, said: str, advice: str) -> UrlFinding:
    return UrlFinding(name=name, level=Level.FAIL, said=said, advice=advice)
