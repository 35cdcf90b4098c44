"""The pool of connections under `Outbound`: the one place where the HTTP client is set up."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver

from mercato.clock import Clock
from mercato.outbound.agent import USER_AGENT
from mercato.outbound.call import Caller
from mercato.outbound.document import Document, NewDocument
from mercato.outbound.guard import AddressPolicy, GuardedResolver, SystemResolver, socket_factory
from mercato.outbound.pool import ConnectionPool
from mercato.outbound.pull import Puller

CONNECTIONS = 512  # at once; one file descriptor each
CONNECTIONS_PER_HOST = 64  # a partner's stores often share one host: three stores' worth of 20 calls
ORDER_CONNECTIONS = 1024  # at once, for calls that a customer waits for; who makes them bounds each store's
ORDER_DNS_THREADS = 64  # a name whose servers don't answer holds one for as long as the system likes
IDLE_SECONDS = 15  # a kept connection is closed after; servers commonly close theirs after 5 to 75


@dataclass(frozen=True, slots=True)
class Session:
    """Open connections, and the ways to use them."""

    puller: Puller
    caller: Caller
    order_caller: Caller
    pools: tuple[aiohttp.ClientSession, ...]
    resolvers: tuple[AbstractResolver, ...]

    async def close(self) -> None:
        for pool in self.pools:
            await pool.close()
        for resolver in self.resolvers:
            await resolver.close()


def open_session(
    policy: AddressPolicy,
    *,
    resolver: AbstractResolver | None,
    tls: ssl.SSLContext | None,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]],
    dns_seconds: int,
    new_document: NewDocument = Document,
) -> Session:
    """Return a session of the running event loop; what its options mean is told by `Outbound`."""
    guarded = GuardedResolver(resolver or SystemResolver(), policy)
    http = _pool(policy, guarded, tls, dns_seconds, most=CONNECTIONS, per_host=CONNECTIONS_PER_HOST)
    # Orders have connections and look-ups of their own, which neither downloads nor deliveries can take, and no
    # bound for a host: behind one there may be a thousand stores, and one that hangs must not stop the others.
    for_orders = GuardedResolver(resolver or SystemResolver(threads=ORDER_DNS_THREADS), policy)
    orders = _pool(policy, for_orders, tls, dns_seconds, most=ORDER_CONNECTIONS, per_host=0)
    return Session(
        puller=Puller(session=http, policy=policy, clock=clock, sleep=sleep, new_document=new_document),
        caller=Caller(session=http, policy=policy, clock=clock),
        order_caller=Caller(session=orders, policy=policy, clock=clock),
        pools=(http, orders),
        resolvers=(guarded, for_orders),
    )


def _pool(
    policy: AddressPolicy,
    resolver: AbstractResolver,
    tls: ssl.SSLContext | None,
    dns_seconds: int,
    *,
    most: int,
    per_host: int,
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=ConnectionPool(
            resolver=resolver,
            socket_factory=socket_factory(policy),
            ssl=tls or True,
            use_dns_cache=dns_seconds > 0,
            ttl_dns_cache=dns_seconds,
            limit=most,
            limit_per_host=per_host,
            keepalive_timeout=IDLE_SECONDS,
        ),
        headers={aiohttp.hdrs.USER_AGENT: USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )
