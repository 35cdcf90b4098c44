"""The one way out: every connection that the service opens to a partner's server is made here."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver

from mercato.clock import Clock, now
from mercato.outbound.agent import USER_AGENT
from mercato.outbound.call import Caller, CallFailed, Reply, reuse_trace
from mercato.outbound.faults import Fault
from mercato.outbound.guard import AddressPolicy, GuardedResolver, SystemResolver, socket_factory
from mercato.outbound.pull import NotModified, Pulled, Puller, PullFailed, PullLimits

__all__ = ["CallFailed", "Fault", "NotModified", "Outbound", "PullFailed", "PullLimits", "Pulled", "Reply"]

CONNECTIONS = 512  # at once; one file descriptor each
CONNECTIONS_PER_HOST = 64  # a partner's stores often share one host: three stores' worth of 20 calls
IDLE_SECONDS = 15  # a kept connection is closed after; servers commonly close theirs after 5 to 75
DNS_SECONDS = 10  # a name's judged addresses are used again for so long
ORDER_REPLY = 1 << 20  # bytes of a reply that is parsed


class Outbound:
    """Guarded downloads and webhook calls, over one pool of connections.

    Make it inside a running event loop and `close` it there, or use it in `async with`. Nothing of the
    environment reaches it: no proxy, no netrc, no cookies. `resolver` is asked for addresses and its answers
    are judged; `tls` trusts other authorities than the system's; `sleep` waits between attempts.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock = now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        dns_seconds: int = DNS_SECONDS,
    ) -> None:
        self._resolver = GuardedResolver(resolver or SystemResolver(), policy)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=self._resolver,
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
        self._puller = Puller(session=self._session, policy=policy, clock=clock, sleep=sleep)
        self._caller = Caller(session=self._session, policy=policy, clock=clock)

    async def pull(
        self, url: str, *, limits: PullLimits | None = None, etag: str | None = None
    ) -> Pulled | NotModified:
        """Return the document at `url`, or `NotModified` when `etag` is still its; raise `PullFailed`."""
        return await self._puller.pull(url, limits=limits or PullLimits(), etag=etag)

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float,  # noqa: ASYNC109  # it bounds several steps, and what came by then can be an answer
        max_reply: int = ORDER_REPLY,
        truncate: bool = False,
    ) -> Reply:
        """Return the endpoint's reply of whatever status, or raise `CallFailed`.

        `timeout` seconds bound everything from the name look-up to the last byte. With `truncate` the status is
        what matters: a body beyond `max_reply` bytes, late, broken or unreadable leaves `complete` false.
        """
        return await self._caller.post(
            url, headers=headers, body=body, seconds=timeout, max_reply=max_reply, truncate=truncate
        )

    async def close(self) -> None:
        await self._session.close()
        await self._resolver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
