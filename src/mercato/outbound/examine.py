"""Everything that a pull would meet at a URL, found out step by step: names, addresses, TLS, redirects, the document.

The document is fetched by the very pull that an ingest makes, once, without its retries, and once more with its ETag.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Final
from urllib.parse import urljoin

from aiohttp import ClientResponse, hdrs
from aiohttp.abc import AbstractResolver
from msgspec.structs import replace as changed

from mercato.clock import Clock, now
from mercato.outbound.guard import AddressPolicy, SystemResolver, UrlRefused, check_url
from mercato.outbound.handshake import Connected, Found, connect, look_up
from mercato.outbound.outcomes import NotModified, Pulled, PullFailed, PullLimits
from mercato.outbound.pull import Puller
from mercato.outbound.session import open_session
from mercato.outbound.urls import ParsedUrl

MOST_HOSTS: Final = 5
"""Hosts on the way of redirects that are looked at: a pull goes no further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer on the way. `location` is where it redirects to."""

    url: str
    status: int
    location: str | None
    ms: int


@dataclass(slots=True, kw_only=True)
class Host:
    """One host on the way. `refused` is why its URL is not opened, `unnamed` that its name is not found."""

    url: str
    parsed: ParsedUrl | None = None
    refused: UrlRefused | None = None
    unnamed: bool = False
    lookup_ms: int = 0
    found: list[Found] = field(default_factory=list)
    tried: list[Connected] = field(default_factory=list)

    @property
    def reachable(self) -> bool:
        """Tell whether a pull would get as far as sending its request."""
        allowed = bool(self.found) and all(one.verdict.allowed for one in self.found)
        return allowed and any(one.failure is None for one in self.tried)


@dataclass(slots=True, kw_only=True)
class Examination:
    """All that was found. `pulled` or `failed` is what an ingest's pull would come to."""

    hosts: list[Host] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    pulled: Pulled | None = None
    failed: PullFailed | None = None
    pull_ms: int = 0
    again: Pulled | NotModified | PullFailed | None = None
    """What came of asking with the ETag; None when there is no ETag to ask with."""


@dataclass(frozen=True, kw_only=True)
class Examiner:
    """Examines URLs. `resolver` and `tls` as in `Outbound`."""

    policy: AddressPolicy
    limits: PullLimits
    resolver: AbstractResolver | None = None
    tls: ssl.SSLContext | None = None
    clock: Clock = now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def examine(self, url: str) -> Examination:
        """Return what is found: in the order of a pull, and no further than one would go."""
        found = Examination()
        resolver = self.resolver or SystemResolver()
        session = open_session(
            self.policy,
            resolver=self.resolver,
            tls=self.tls,
            clock=self.clock,
            sleep=self.sleep,
            dns_seconds=0,
        )
        try:
            found.hosts.append(await self._host(url, resolver))
            if found.hosts[0].reachable:
                await self._pull(url, session.puller, found)
                await self._follow(found, resolver)
        finally:
            await session.close()
            if self.resolver is None:
                await resolver.close()
        return found

    async def _host(self, url: str, resolver: AbstractResolver) -> Host:
        host = Host(url=url)
        try:
            # Its address is judged below, to be named: nothing is connected to before.
            host.parsed = check_url(url, _JUDGED_LATER, https_only=False)
        except UrlRefused as refused:
            host.refused = refused
            return host
        try:
            host.found, host.lookup_ms = await look_up(host.parsed, resolver, self.policy)
        except OSError:
            host.unnamed = True
            return host
        if all(one.verdict.allowed for one in host.found):
            for one in host.found:
                host.tried.append(
                    await connect(host.parsed, one, self.policy, tls=self.tls, seconds=self.limits.connect)
                )
        return host

    async def _pull(self, url: str, puller: Puller, found: Examination) -> None:
        started = asyncio.get_running_loop().time()

        def seen(at: ParsedUrl, response: ClientResponse) -> None:
            ms = round((asyncio.get_running_loop().time() - started) * 1000)
            location = response.headers.get(hdrs.LOCATION)
            found.answers.append(Answer(url=at.text, status=response.status, location=location, ms=ms))

        once = changed(self.limits, waits=())
        try:
            pulled = await replace(puller, seen=seen).pull(url, limits=once, etag=None)
        except PullFailed as failed:
            found.failed, found.pull_ms = failed, failed.elapsed_ms
            return
        assert not isinstance(pulled, NotModified)
        found.pulled, found.pull_ms = pulled, pulled.elapsed_ms
        if pulled.etag is not None:
            try:
                found.again = await puller.pull(url, limits=once, etag=pulled.etag)
            except PullFailed as failed:
                found.again = failed

    async def _follow(self, found: Examination, resolver: AbstractResolver) -> None:
        """Look at each other host on the way: also at one that the pull would not go on to."""
        known = {_place(found.hosts[0].parsed)}
        for answer in found.answers:
            if answer.location is None or len(found.hosts) == MOST_HOSTS:
                continue
            try:
                target = urljoin(answer.url, answer.location)
                place = _place(check_url(target, _JUDGED_LATER, https_only=False))
            except ValueError:  # UrlRefused is one: the pull has said it
                continue
            if place not in known:
                known.add(place)
                found.hosts.append(await self._host(target, resolver))


def _place(parsed: ParsedUrl | None) -> tuple[str, str, int] | None:
    return None if parsed is None else (parsed.scheme, parsed.host, parsed.port)


_JUDGED_LATER: Final = AddressPolicy(extra_public=frozenset({ip_network("0.0.0.0/0"), ip_network("::/0")}))
"""For the text: an address in a URL is judged by `look_up` like those of names, so that the verdict can be told."""
