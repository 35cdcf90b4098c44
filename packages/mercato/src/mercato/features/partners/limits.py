"""Requests a minute: fixed windows in memory, for each partner and each kind of request."""

import ipaddress
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar
from uuid import UUID

import msgspec

from mercato.features.partners.model import Caller
from mercato.settings import Settings
from mercato_contract.clock import Clock, now

WINDOW: Final = 60
"""Seconds. All partners' windows begin with the minute, so that one reset clears every counter."""

PER_STORE: Final = {"reads": 12, "writes": 6}
"""What each live store of a partner adds to its limits: they grow with its network."""

MAX_PARTNERS: Final = 100_000
"""Counters of one kind. Beyond it they are reset within the minute: limits are then too generous once."""


MAX_FAILURES: Final = 10
"""Failed attempts a minute to sign in as one client; a person correcting a configuration makes fewer."""

MAX_FAILURES_AT: Final = 60
"""Failed attempts a minute from one address, which a whole office may share."""

MAX_FAILED: Final = 10_000
"""Clients, and addresses, whose failures or visits are counted. Beyond it the counters are reset, as above."""

MAX_VISITS: Final = 120
"""Requests a minute to the console from one address without a session. A person who signs in sends five."""

_Subject = TypeVar("_Subject", int, str)


class Quota(msgspec.Struct, frozen=True, gc=False):
    """What a partner has left in this window. A request with a `wait` (seconds) is refused."""

    limit: int
    remaining: int
    reset: int
    wait: int | None = None


class Limiter:
    """Counts one process's requests; its share is the limit divided by the processes that serve.

    `limit` is the whole limit; `remaining` counts only this process's share.
    """

    def __init__(
        self,
        *,
        reads: int,
        writes: int,
        discovery: int,
        workers: int = 1,
        clock: Clock = now,
    ) -> None:
        self._limits: dict[str, int] = {"reads": reads, "writes": writes, "discovery": discovery}
        self._workers = workers
        # Whole seconds suffice: a datetime of the default clock would cost twice as much as the count.
        self._seconds: Callable[[], float] = time.time if clock is now else lambda: clock().timestamp()
        self._minute = 0
        # By the UUID's integer: a UUID hashes and compares in Python, an integer does not.
        self._counts: dict[str, dict[int, int]] = {name: {} for name in self._limits}

    def take(self, caller: Caller, rate: str) -> Quota:
        """Count one request (`reads`, `writes` or `discovery`) of the caller's partner; a `wait` refuses it."""
        second = int(self._seconds())
        minute = second // WINDOW
        if minute != self._minute:
            self._start_minute(minute)
        limit = self.limit_of(caller, rate)
        share = -(-limit // self._workers)
        counts, partner = self._counts[rate], caller.partner_id.int
        taken = counts.get(partner, 0)
        reset = (minute + 1) * WINDOW
        if taken >= share:
            return Quota(limit, 0, reset, reset - second)
        if taken == 0 and len(counts) >= MAX_PARTNERS:
            counts.clear()
        counts[partner] = taken + 1
        return Quota(limit, share - taken - 1, reset)

    def limit_of(self, caller: Caller, rate: str) -> int:
        """Return how many requests of a kind the caller's partner has in a minute, of all servers together."""
        own: int | None = getattr(caller.limits, rate)
        return (self._limits[rate] if own is None else own) + caller.stores * PER_STORE.get(rate, 0)

    def used(self, caller: Caller, rate: str) -> int:
        """Return how many requests of a kind this process has counted in this minute for the caller's partner."""
        if int(self._seconds()) // WINDOW != self._minute:
            return 0
        return self._counts[rate].get(caller.partner_id.int, 0)

    def _start_minute(self, minute: int) -> None:
        self._minute = minute
        for counts in self._counts.values():
            counts.clear()


def limiter_of(settings: Settings, clock: Clock) -> Limiter | None:
    """Return the limiter of one process that serves, or None if the settings have none."""
    if not settings.rate_limits:
        return None
    return Limiter(
        reads=settings.rate_limit_reads,
        writes=settings.rate_limit_writes,
        discovery=settings.rate_limit_discovery,
        workers=settings.workers,
        clock=clock,
    )


class _Counts(Generic[_Subject]):
    """Counts what one process saw of each subject in this minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minute = 0
        self._counts: dict[_Subject, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def wait(self, subject: _Subject, most: int) -> int | None:
        """Return the seconds to wait if the subject has reached the limit, else None."""
        second = self._current_second()
        if self._counts.get(subject, 0) < most:
            return None
        return (self._minute + 1) * WINDOW - second

    def add(self, subject: _Subject) -> None:
        self._current_second()
        if subject not in self._counts and len(self._counts) >= MAX_FAILED:
            self._counts.clear()
        self._counts[subject] = self._counts.get(subject, 0) + 1

    def _current_second(self) -> int:
        second = int(self._clock().timestamp())
        if second // WINDOW != self._minute:
            self._minute = second // WINDOW
            self._counts.clear()
        return second


class Failures:
    """Counts one process's failed attempts to sign in, by client and by address."""

    def __init__(self, clock: Clock = now) -> None:
        self._clients: _Counts[int] = _Counts(clock)
        self._addresses: _Counts[str] = _Counts(clock)

    def wait(self, client: UUID | None, address: str) -> int | None:
        """Return the seconds to wait after too many failures of the client or from the address, else None."""
        by_client = None if client is None else self._clients.wait(client.int, MAX_FAILURES)
        return self._addresses.wait(network_of(address), MAX_FAILURES_AT) if by_client is None else by_client

    def record(self, client: UUID | None, address: str) -> None:
        if client is not None:
            self._clients.add(client.int)
        self._addresses.add(network_of(address))


class Visitors:
    """Counts one process's requests to the console without a session, by address."""

    def __init__(self, clock: Clock = now) -> None:
        self._addresses: _Counts[str] = _Counts(clock)

    def take(self, address: str) -> int | None:
        """Count one request; return the seconds to wait if it is refused, else None."""
        network = network_of(address)
        wait = self._addresses.wait(network, MAX_VISITS)
        if wait is None:
            self._addresses.add(network)
        return wait


def network_of(address: str) -> str:
    """Return the address to count by: of IPv6 the /64 network, which one customer has for itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if parsed.version == 4 or parsed.ipv4_mapped is not None:  # noqa: PLR2004  # the Internet Protocol's
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return parsed.exploded[:19]
