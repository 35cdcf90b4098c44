"""Request bodies: read once within limits, or drained so that the client reads the answer.

And content codings: the one that a client prefers (RFC 9110, 12.5.3), and gzip.
"""

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import Any, Final

from mercato.features.stores.catalogs import IDENTITY
from mercato.http.head import Head
from mercato.platform.errors import PayloadTooLarge, RateLimited, ServiceUnavailable
from mercato.settings import MiB
from mercato_contract.refusals import InvalidRequest

Owner = int | str
"""The sender of a body: a partner's id as an integer, or the network of a client whose partner isn't known."""

SHARES: Final = 4
"""An owner gets a quarter of the budget. Only four that send at once can make others be refused."""

RETRY_AFTER: Final = 2
"""Seconds until a refused client may try again. A body leaves memory when its request is answered."""


class BodyBudget:
    """Limits the bytes of bodies in memory. Counts bytes when they arrive, not when they are declared.

    A body that arrives in one piece isn't counted: it is in memory already, and the server bounds its size.
    """

    def __init__(self, total: int, *, largest: int) -> None:
        """`largest` is the limit of one body. An owner may always send one."""
        self._total = total
        self._share = max(total // SHARES, largest)
        self._taken = 0
        self._by_owner: dict[Owner, int] = {}

    @property
    def taken(self) -> int:
        """The bytes that are held now."""
        return self._taken

    def take(self, owner: Owner, size: int) -> None:
        """Count bytes that have arrived. Raises RateLimited, or ServiceUnavailable if others hold too much."""
        own = self._by_owner.get(owner, 0) + size
        if own > self._share:
            raise RateLimited(
                f"The request bodies that you are sending have more than {self._share} bytes together. "
                f"Send fewer at a time: wait {RETRY_AFTER} s.",
                retry_after=RETRY_AFTER,
            )
        if self._taken + size > self._total:
            raise ServiceUnavailable(
                f"The service is receiving too many large request bodies. Try again in {RETRY_AFTER} s.",
                retry_after=RETRY_AFTER,
            )
        self._by_owner[owner] = own
        self._taken += size

    def release(self, owner: Owner, size: int) -> None:
        """Return bytes to the budget."""
        self._taken -= size
        left = self._by_owner[owner] - size
        if left:
            self._by_owner[owner] = left
        else:
            del self._by_owner[owner]


class TimeLimit:
    """The seconds that each body may take to arrive: one timer of the event loop for all of them.

    Entering and leaving an `asyncio.timeout` alone costs a short request a twentieth of its CPU, and a timer of its own
    a tenth. Hardly any ever ends a wait.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waits: dict[Wait, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def wait(self) -> "Wait":
        """Return the block of the current task that ends with TimeoutError after these seconds."""
        task = asyncio.current_task()
        assert task is not None
        return Wait(self, task)

    def begin(self, wait: "Wait") -> None:
        """Let a block expire after these seconds unless it ends before."""
        loop = asyncio.get_running_loop()
        self._waits[wait] = deadline = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)

    def end(self, wait: "Wait") -> None:
        """Forget a block that ends."""
        self._waits.pop(wait, None)

    def _expire(self) -> None:
        """Expire what is due. The deadlines are in the order of their beginning, which is that of their ends."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for wait, deadline in list(self._waits.items()):
            if deadline > now:
                self._timer = loop.call_at(deadline, self._expire)
                return
            del self._waits[wait]
            wait.expire()


class Wait:
    """A block whose task is cancelled if it takes too long: as `asyncio.timeout`, whose rules it follows."""

    __slots__ = ("_cancelling", "_is_over", "_limit", "_task")

    def __init__(self, limit: TimeLimit, task: asyncio.Task[Any]) -> None:
        self._limit = limit
        self._task = task
        # Others may have cancelled the task before, or do while it waits: that isn't undone.
        self._cancelling = task.cancelling()
        self._is_over = False

    def __enter__(self) -> None:
        self._limit.begin(self)

    def expire(self) -> None:
        """Cancel the block."""
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object
    ) -> None:
        """End the block. Raises TimeoutError if it is over, and nobody else has cancelled it."""
        self._limit.end(self)
        if self._is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

DRAINED: Final = 16 * MiB
"""Bytes of a body that are read and discarded before an early answer is sent."""

TRUSTED_SECONDS: Final = 1.0
"""How long a body may take until the key is looked up again: what is revoked is refused within two seconds."""

PAUSE_SECONDS: Final = 0.5
"""A client that sends nothing for this long waits for the answer. If it were shorter, an upload over a slow line
would be cut off between two packets."""

_CODING: Final = b"transfer-encoding"


class Body:
    """The body of one request, which must arrive within the limit's seconds."""

    __slots__ = (
        "_arrived",
        "_began",
        "_budget",
        "_declared",
        "_head",
        "_limit",
        "_more",
        "_owner",
        "_receive",
        "_taken",
        "unknown",
    )

    def __init__(self, receive: Receive, head: Head, limit: TimeLimit, budget: BodyBudget) -> None:
        self._receive = receive
        self._head = head
        self._limit = limit
        self._budget = budget
        self._owner: Owner = ""
        self._taken = 0
        self._began: float | None = None
        self._arrived = 0
        # With chunks the length has no meaning.
        self._declared = None if _CODING in head.headers else head.content_length
        self._more = True
        self.unknown: tuple[str, ...] = ()
        """Pointers to its members that are unknown, if the operation names them."""

    @property
    def is_unread(self) -> bool:
        """Whether there is a body that wasn't read to its end."""
        return self._more and ((self._declared or 0) > 0 or _CODING in self._head.headers)

    @property
    def was_slow(self) -> bool:
        """Whether it took so long to arrive that its sender may have lost its rights meanwhile."""
        return self._began is not None and monotonic() - self._began > TRUSTED_SECONDS

    async def read(self, limit: int, owner: Owner) -> bytes:
        """Return the body. If it arrives in several parts, it counts against the owner's budget until `release`.

        Raises PayloadTooLarge, InvalidRequest if it is slow, breaks off or is coded, and what `BodyBudget.take`
        raises.
        """
        self._owner = owner
        self._begin(limit)
        try:
            with self._limit.wait():
                whole = self._part(await self._receive())
                if self._more:
                    whole = await self._read_rest(whole, limit)
        except TimeoutError:
            raise self._too_slow() from None
        if len(whole) > limit:
            raise PayloadTooLarge(limit)
        return whole

    async def read_into(self, write: Callable[[bytes], Awaitable[None]], limit: int) -> None:
        """Pass each part to `write` when it arrives. Raises what `read` raises, except for the budget's refusals."""
        self._begin(limit)
        timeout = asyncio.timeout(self._limit.seconds)
        try:
            async with timeout:
                while self._more:
                    part = self._part(await self._receive())
                    if self._arrived > limit:
                        raise PayloadTooLarge(limit)
                    await write(part)
        except TimeoutError:
            if timeout.expired():
                raise self._too_slow() from None
            raise  # from `write`

    def release(self) -> None:
        """Return the body's bytes to the budget."""
        if self._taken:
            self._budget.release(self._owner, self._taken)
            self._taken = 0

    def check_length(self, limit: int) -> None:
        """Check the declared length before the body arrives. Raises PayloadTooLarge."""
        if (self._declared or 0) > limit:
            raise PayloadTooLarge(limit)

    def _begin(self, limit: int) -> None:
        coding = self._head.headers.get(_CODING)
        if coding is not None and coding.strip().lower() != b"chunked":
            # HTTP allows several transfer codings; the server decodes only the outermost.
            raise InvalidRequest(
                "The Transfer-Encoding isn't supported. Send the body as it is, or with: chunked."
            )
        self.check_length(limit)
        self._began = monotonic()

    def _too_slow(self) -> InvalidRequest:
        return InvalidRequest(
            f"The body didn't arrive within {self._limit.seconds:g} s. Send it again, faster."
        )

    async def _read_rest(self, first: bytes, limit: int) -> bytes:
        """Return the first part and the others, up to the one that exceeds the limit."""
        self._take(len(first))
        parts, size = [first], len(first)
        while self._more and size <= limit:
            part = self._part(await self._receive())
            self._take(len(part))
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def _take(self, size: int) -> None:
        self._budget.take(self._owner, size)
        self._taken += size

    async def drain(self) -> None:
        """Read and discard the rest of the body: most clients read the answer only after they have sent it.

        A client that stops sending waits for the answer and gets it without sending the rest.
        """
        if not self.is_unread:
            return
        if b"expect" in self._head.headers and self._began is None:
            return  # the client waits for 100 Continue, and gets the answer instead
        left = DRAINED
        spent = 0.0 if self._began is None else monotonic() - self._began
        with suppress(TimeoutError, InvalidRequest):
            async with asyncio.timeout(self._limit.seconds - spent):
                while self._more and left > 0:
                    async with asyncio.timeout(PAUSE_SECONDS):
                        left -= len(self._part(await self._receive()))

    def _part(self, message: Message) -> bytes:
        if message["type"] == "http.disconnect":
            self._more = False
            # A client that only stopped sending still reads; otherwise the server would answer with a 500.
            raise InvalidRequest("The body breaks off, or its chunks can't be read. Send all of it again.")
        part: bytes = message.get("body", b"")
        self._arrived += len(part)
        # Asking the server for the end takes another receive, which costs a third of a short request.
        self._more = message.get("more_body", False) and self._arrived != self._declared
        return part


GZIP: Final = "gzip"

_WEIGHT: Final = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)


@lru_cache(maxsize=256)
def best_coding(accept_encoding: bytes, codings: tuple[str, ...]) -> str:
    """Return the coding that the client prefers; among equals the first of `codings`.

    Identity is the last choice, unless the client prefers it.
    """
    weights: dict[str, float] = {}
    for part in accept_encoding.decode("latin-1").lower().split(","):
        name, _, parameter = part.strip().partition(";")
        weight = _WEIGHT.fullmatch(parameter) if parameter else None
        weights[name.strip()] = float(weight[1]) if weight else (0.0 if parameter else 1.0)
    others = weights.get("*", 0.0)
    best = max(codings, key=lambda coding: weights.get(coding, others))
    weight_of_best = weights.get(best, others)
    return best if weight_of_best > 0 and weight_of_best >= weights.get(IDENTITY, 0.0) else IDENTITY


def gzipped(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=6, mtime=0)
