"""Requests a minute, counted by all servers together: in Redis or Valkey, one round trip for each request.

Counting must not stop requests: when the server doesn't answer in time, each process counts its own share, and
reconnects in the background.
"""

import asyncio
from contextlib import suppress
from typing import Final

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mercato.features.partners.limits import WINDOW, Limiter, Quota
from mercato.features.partners.model import Caller
from mercato.settings import SettingsError
from mercato_contract.clock import Clock

log = structlog.get_logger("mercato.partners")

COUNT_TIMEOUT: Final = 0.05
"""How long a request waits for its count, in seconds."""

CONNECT_TIMEOUT: Final = 2.0
"""Timeout of a connection, which no request waits for."""

RETRY_SECONDS: Final = 1.0
"""Between two attempts to reconnect."""

CONNECTIONS: Final = 16
"""Connections of one process: with a round trip of 1 ms they count 16,000 requests a second."""

_UNAVAILABLE: Final = (RedisError, OSError, TimeoutError)


class SharedLimiter:
    """Counts the requests of all servers with the same address; without it, `local` counts."""

    def __init__(self, url: str, local: Limiter, clock: Clock) -> None:
        """Raises SettingsError for a malformed address."""
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=CONNECTIONS,
                timeout=CONNECT_TIMEOUT,
                socket_timeout=CONNECT_TIMEOUT,
                socket_connect_timeout=CONNECT_TIMEOUT,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError:
            # The address may hold a password: the message doesn't repeat it.
            raise SettingsError(
                "MERCATO_REDIS_URL isn't the address of a server: use redis://host:6379/0, rediss:// or unix://"
            ) from None
        self._redis: Redis = Redis.from_pool(pool)
        self._local = local
        self._clock = clock
        self._reconnecting: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether requests are counted together at present."""
        return self._reconnecting is None

    async def start(self) -> None:
        """Connect; if that fails, log it and keep trying."""
        try:
            await self._ping()
        except _UNAVAILABLE as error:
            self._fall_back(error)

    async def take(self, caller: Caller, rate: str) -> Quota:
        """Count one request (`reads`, `writes` or `discovery`) of the caller's partner; a `wait` refuses it."""
        if self._reconnecting is not None:
            return self._local.take(caller, rate)
        second = int(self._clock().timestamp())
        minute = second // WINDOW
        reset = (minute + 1) * WINDOW
        try:
            async with asyncio.timeout(COUNT_TIMEOUT):
                taken = await self._count(_key(caller, rate, minute))
        except _UNAVAILABLE as error:
            self._fall_back(error)
            return self._local.take(caller, rate)
        limit = self._local.limit_of(caller, rate)
        if taken > limit:
            return Quota(limit, 0, reset, reset - second)
        return Quota(limit, limit - taken, reset)

    async def used(self, caller: Caller, rate: str) -> int:
        """Return how many requests of a kind have been counted in this minute for the caller's partner."""
        minute = int(self._clock().timestamp()) // WINDOW
        try:
            async with asyncio.timeout(COUNT_TIMEOUT):
                taken = None if self._reconnecting else await self._redis.get(_key(caller, rate, minute))
        except _UNAVAILABLE as error:
            self._fall_back(error)
        if self._reconnecting is not None:
            return self._local.used(caller, rate)
        # Those that were refused are counted, too.
        return min(int(taken or 0), self._local.limit_of(caller, rate))

    async def close(self) -> None:
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        await self._redis.aclose(close_connection_pool=True)

    async def _count(self, key: str) -> int:
        # A duration rather than an instant: the server's clock may differ. A transaction would cost more; both commands
        # are sent at once, and the next request of the minute repeats the expiry.
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.incr(key)
            pipe.expire(key, 2 * WINDOW)
            taken, _ = await pipe.execute()
        return int(taken)

    def _fall_back(self, error: Exception) -> None:
        if self._reconnecting is None:
            log.warning("rate limits are counted by each server: no Redis", error=type(error).__name__)
            self._reconnecting = asyncio.create_task(self._reconnect(), name="shared limits")

    async def _reconnect(self) -> None:
        while True:
            # Wait first: a server that answers a ping may still be too slow to count, or refuse to, and every request
            # would wait for that.
            await asyncio.sleep(RETRY_SECONDS)
            with suppress(*_UNAVAILABLE):
                await self._ping()
                log.info("rate limits are counted by all servers together")
                self._reconnecting = None
                return

    async def _ping(self) -> None:
        async with asyncio.timeout(2 * CONNECT_TIMEOUT):
            await self._redis.ping()


def _key(caller: Caller, rate: str, minute: int) -> str:
    return f"mercato:{rate}:{caller.partner_id.hex}:{minute}"
