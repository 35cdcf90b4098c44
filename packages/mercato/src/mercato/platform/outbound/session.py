"""The connection pools of `Outbound`: the only place that sets aiohttp up."""

from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver

from mercato.platform.outbound.client import Outbound
from mercato.platform.outbound.guard import GuardedResolver, SystemResolver, socket_factory
from mercato.platform.outbound.pool import ConnectionPool
from mercato_contract import USER_AGENT

CONNECTIONS = 512  # open at a time; one file descriptor each
CONNECTIONS_PER_HOST = 64  # a partner's systems often share one host
URGENT_CONNECTIONS = 1024  # for calls that somebody waits for; the caller bounds those to one server
URGENT_DNS_THREADS = 64  # a name whose DNS servers don't answer occupies one until the system gives up
IDLE_SECONDS = 15  # after which a kept connection is closed; servers commonly close theirs after 5 to 75


@dataclass(frozen=True, slots=True)
class Session:
    """Two connection pools: one for urgent calls, one for the rest."""

    http: aiohttp.ClientSession
    urgent: aiohttp.ClientSession
    resolvers: tuple[AbstractResolver, ...]

    async def close(self) -> None:
        await self.http.close()
        await self.urgent.close()
        for resolver in self.resolvers:
            await resolver.close()


def open_session(options: Outbound) -> Session:
    """Return a session on the running event loop."""
    resolver = GuardedResolver(options.resolver or SystemResolver(), options.policy)
    # Urgent calls have connections and DNS threads of their own, which downloads and deliveries can't occupy, and no
    # bound per host: a host may serve a thousand partners' systems, and one that hangs must not block the others.
    for_urgent = GuardedResolver(
        options.resolver or SystemResolver(threads=URGENT_DNS_THREADS), options.policy
    )
    return Session(
        http=_pool(options, resolver, limit=CONNECTIONS, per_host=CONNECTIONS_PER_HOST),
        urgent=_pool(options, for_urgent, limit=URGENT_CONNECTIONS, per_host=0),
        resolvers=(resolver, for_urgent),
    )


def _pool(
    options: Outbound, resolver: AbstractResolver, *, limit: int, per_host: int
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=ConnectionPool(
            resolver=resolver,
            socket_factory=socket_factory(options.policy),
            ssl=options.tls or True,
            use_dns_cache=options.dns_seconds > 0,
            ttl_dns_cache=options.dns_seconds,
            limit=limit,
            limit_per_host=per_host,
            keepalive_timeout=IDLE_SECONDS,
        ),
        headers={aiohttp.hdrs.USER_AGENT: USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )
