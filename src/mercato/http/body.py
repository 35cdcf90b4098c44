"""A request's body on its way in: read once and within limits, or read past, so that the answer is heard."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from mercato.http.head import Head
from mercato.kernel.errors import InvalidRequest, PayloadTooLarge, RateLimited, ServiceUnavailable
from mercato.kernel.settings import MiB

Owner = int | str
"""Whose body it is: the number of a partner's id, or the network of a client whose partner isn't known."""

SHARES: Final = 4
"""One owner gets a quarter of the budget, so that four have to send at once before anybody else is refused."""

RETRY_AFTER: Final = 2
"""Seconds until a refused client tries again: a body has left memory once its request is answered."""


class BodyBudget:
    """Counts bytes as they arrive, not as they are declared: a length without bytes takes nothing from anybody.

    A body that arrives in one piece never comes here: it's in memory already, and the server bounds its size.
    """

    def __init__(self, total: int, *, largest: int) -> None:
        """`largest` is the limit of one body: an owner may always send one."""
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
        """Give bytes back that were taken."""
        self._taken -= size
        left = self._by_owner[owner] - size
        if left:
            self._by_owner[owner] = left
        else:
            del self._by_owner[owner]


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

DRAINED: Final = 16 * MiB
"""Bytes that are read and thrown away before an answer that came first."""

PAUSE_SECONDS: Final = 0.5
"""A client that has sent nothing for so long waits for an answer that comes before the body's end. Shorter, and an
upload over a slow line would be cut off between two of its packets."""

_CODING: Final = b"transfer-encoding"


class Body:
    """The body of one request, all of which has to arrive within `seconds`."""

    __slots__ = (
        "_arrived",
        "_began",
        "_budget",
        "_declared",
        "_head",
        "_more",
        "_owner",
        "_receive",
        "_seconds",
        "_taken",
    )

    def __init__(self, receive: Receive, head: Head, seconds: float, budget: BodyBudget) -> None:
        self._receive = receive
        self._head = head
        self._seconds = seconds
        self._budget = budget
        self._owner: Owner = ""
        self._taken = 0
        self._began: float | None = None
        self._arrived = 0
        # Beside chunks a length means nothing.
        self._declared = None if _CODING in head.headers else head.content_length
        self._more = True

    @property
    def is_coming(self) -> bool:
        """Whether there is a body that was not read to its end."""
        return self._more and ((self._head.content_length or 0) > 0 or _CODING in self._head.headers)

    async def read(self, limit: int, owner: Owner) -> bytes:
        """Return the body, which counts against the owner's budget until `release` if it comes in several parts.

        Raises PayloadTooLarge, InvalidRequest when it is slow, breaks off or is coded, and what `BodyBudget.take`
        raises.
        """
        self._owner = owner
        self._begin(limit)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._whole(limit)
        except TimeoutError:
            raise self._late() from None

    async def read_into(self, write: Callable[[bytes], Awaitable[None]], limit: int) -> None:
        """Give the body to `write` in the parts in which it arrives. Raises what `read` does but for the budget's."""
        self._begin(limit)
        timeout = asyncio.timeout(self._seconds)
        try:
            async with timeout:
                while self._more:
                    part = self._part(await self._receive())
                    if self._arrived > limit:
                        raise PayloadTooLarge(limit)
                    await write(part)
        except TimeoutError:
            if timeout.expired():
                raise self._late() from None
            raise  # the writer's own

    def release(self) -> None:
        """Give the body's bytes back to the budget."""
        if self._taken:
            self._budget.release(self._owner, self._taken)
            self._taken = 0

    def check_length(self, limit: int) -> None:
        """Refuse a body by its declared length, before any of it has arrived. Raises PayloadTooLarge."""
        if (self._head.content_length or 0) > limit:
            raise PayloadTooLarge(limit)

    def _begin(self, limit: int) -> None:
        coding = self._head.headers.get(_CODING)
        if coding is not None and coding.strip().lower() != b"chunked":
            # Of a body in two transfer codings, as HTTP allows it, only the outer one has been taken off.
            raise InvalidRequest(
                "The one Transfer-Encoding that is read is: chunked. Send the body as it is."
            )
        self.check_length(limit)
        self._began = monotonic()

    def _late(self) -> InvalidRequest:
        return InvalidRequest(f"The body did not arrive within {self._seconds:g} s. Send it again, faster.")

    async def _whole(self, limit: int) -> bytes:
        whole = self._part(await self._receive())
        if self._more:
            self._take(len(whole))
            parts, size = [whole], len(whole)
            while self._more and size <= limit:
                part = self._part(await self._receive())
                self._take(len(part))
                parts.append(part)
                size += len(part)
            whole = b"".join(parts)
        if len(whole) > limit:
            raise PayloadTooLarge(limit)
        return whole

    def _take(self, size: int) -> None:
        self._budget.take(self._owner, size)
        self._taken += size

    async def drain(self) -> None:
        """Read on while the body is still coming: most clients only listen once they have sent it.

        Who stops sending waits for the answer, and gets it without having to send the rest.
        """
        if not self.is_coming:
            return
        if b"expect" in self._head.headers and self._began is None:
            return  # it is held back until it is asked for, and the answer comes in its place
        left = DRAINED
        spent = 0.0 if self._began is None else monotonic() - self._began
        with suppress(TimeoutError, InvalidRequest):
            async with asyncio.timeout(self._seconds - spent):
                while self._more and left > 0:
                    async with asyncio.timeout(PAUSE_SECONDS):
                        left -= len(self._part(await self._receive()))

    def _part(self, message: Message) -> bytes:
        if message["type"] == "http.disconnect":
            self._more = False
            # Whoever only stopped sending still listens, and the server has no answer of its own but a 500.
            raise InvalidRequest("The body breaks off, or its chunks cannot be read. Send all of it again.")
        part: bytes = message.get("body", b"")
        self._arrived += len(part)
        # The server only knows of the end when it is asked once more, and each time costs a third of a short request.
        self._more = message.get("more_body", False) and self._arrived != self._declared
        return part
