"""A request's body on its way in: read once and within limits, or read past, so that the answer is heard."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from mercato.errors import InvalidRequest, PayloadTooLarge
from mercato.settings import MiB
from mercato.web.budget import BodyBudget, Owner
from mercato.web.head import Head

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

DRAINED: Final = 16 * MiB
"""Bytes that are read and thrown away before an answer that came first."""

PAUSE_SECONDS: Final = 0.5
"""A client that has sent nothing for so long waits for an answer that comes before the body's end. Shorter, and an
upload over a slow line would be cut off between two of its packets."""

_CODING: Final = b"transfer-encoding"


class Deadlines:
    """Interrupts tasks that take longer than `seconds`. One timer looks after all of them: they all get the same time.

    A time-out of its own costs a request more than reading its head does. This one is late by a tenth at most.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds: Final = seconds
        # In the order in which they began, which is that of their ends.
        self._ends: dict[asyncio.Task[Any], float] = {}
        self._step = min(seconds / 10, 1.0)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> asyncio.Task[Any]:
        """Count the time of the present task from now on."""
        task = asyncio.current_task()
        assert task is not None, "a request is a task of its own"
        self._ends[task] = monotonic() + self.seconds
        if self._timer is None:
            self._arm()
        return task

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Count no longer; tell whether it was in time. If not, it has been cancelled once."""
        return self._ends.pop(task, None) is not None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._step, self._look)

    def _look(self) -> None:
        self._timer = None
        now = monotonic()
        for task, end in tuple(self._ends.items()):
            if end > now:
                break
            del self._ends[task]
            task.cancel()
        if self._ends:
            self._arm()


class Body:
    """The body of one request; all of it has to arrive in the time that the deadlines give."""

    __slots__ = (
        "_arrived",
        "_began",
        "_budget",
        "_deadlines",
        "_declared",
        "_head",
        "_more",
        "_owner",
        "_receive",
        "_taken",
    )

    def __init__(self, receive: Receive, head: Head, deadlines: Deadlines, budget: BodyBudget) -> None:
        self._receive = receive
        self._head = head
        self._deadlines = deadlines
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
        task = self._begin(limit)
        try:
            return await self._whole(limit)
        except asyncio.CancelledError:
            self._check_lateness(task)
            raise
        finally:
            self._deadlines.end(task)

    async def read_into(self, write: Callable[[bytes], Awaitable[None]], limit: int) -> None:
        """Give the body to `write` in the parts in which it arrives. Raises what `read` does but for the budget's."""
        task = self._begin(limit)
        try:
            while self._more:
                part = self._part(await self._receive())
                if self._arrived > limit:
                    raise PayloadTooLarge(limit)
                await write(part)
        except asyncio.CancelledError:
            self._check_lateness(task)
            raise
        finally:
            self._deadlines.end(task)

    def release(self) -> None:
        """Give the body's bytes back to the budget."""
        if self._taken:
            self._budget.release(self._owner, self._taken)
            self._taken = 0

    def check_length(self, limit: int) -> None:
        """Refuse a body by its declared length, before any of it has arrived. Raises PayloadTooLarge."""
        if (self._head.content_length or 0) > limit:
            raise PayloadTooLarge(limit)

    def _begin(self, limit: int) -> asyncio.Task[Any]:
        coding = self._head.headers.get(_CODING)
        if coding is not None and coding.strip().lower() != b"chunked":
            # Of a body in two transfer codings, as HTTP allows it, only the outer one has been taken off.
            raise InvalidRequest(
                "The one Transfer-Encoding that is read is: chunked. Send the body as it is."
            )
        self.check_length(limit)
        self._began = monotonic()
        return self._deadlines.begin()

    def _check_lateness(self, task: asyncio.Task[Any]) -> None:
        """Raise InvalidRequest if it was the deadline that cancelled the task."""
        if self._deadlines.end(task) or task.uncancel() > 0:
            return  # somebody else has cancelled it
        raise InvalidRequest(
            f"The body did not arrive within {self._deadlines.seconds:g} s. Send it again, faster."
        ) from None

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
            async with asyncio.timeout(self._deadlines.seconds - spent):
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
