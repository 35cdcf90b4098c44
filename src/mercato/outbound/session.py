"""The pool of connections under `Outbound`: the one place where the HTTP client is set up."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver

from mercato.clock import Clock
from mercato.outbound.agent import USER_AGENT
from mercato.outbound.call import Caller, reuse_trace
from mercato.outbound.guard import AddressPolicy, GuardedResolver, SystemResolver, socket_factory
from mercato.outbound.pull import Puller

CONNECTIONS = 512  # at once; one file descriptor each
CONNECTIONS_PER_HOST = 64  # a partner's stores often share one host: three stores' worth of 20 calls
IDLE_SECONDS = 15  # a kept connection is closed after; servers commonly close theirs after 5 to 75


@dataclass(frozen=True, slots=True)
class Session:
    """Open connections, and the two ways to use them."""

    puller: Puller
    caller: Caller
    http: aiohttp.ClientSession
    resolver: AbstractResolver

    async def close(self) -> None:
        await self.http.close()
        await self.resolver.close()


def open_session(
    policy: AddressPolicy,
    *,
    resolver: AbstractResolver | None,
    tls: ssl.SSLContext | None,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]],
    dns_seconds: int,
) -> Session:
    """Return a session of the running event loop; what its options mean is told by `Outbound`."""
    guarded = GuardedResolver(resolver or SystemResolver(), policy)
    http = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=guarded,
            socket_factory=socket_factory(policy),
            ssl=tls or True,
            use_dns_cache=dns_seconds > 0,
            ttl_dns_cache=dns_seconds,
            limit=CONNECTIONS,
            limit_per_host=CONNECTIONS_PER_HOST,
            keepalive_timeout=IDLE_SECONDS,
        ),
        headers={aiohttp.hdrs.USER_AGENT: USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        trace_configs=[reuse_trace()],
    )
    return Session(
        puller=Puller(session=http, policy=policy, clock=clock, sleep=sleep),
        caller=Caller(session=http, policy=policy, clock=clock),
        http=http,
        resolver=guarded,
    )
