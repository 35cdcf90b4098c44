"""A request's body on its way in: read once and within limits, or read past, so that the answer is heard."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from mercato.errors import InvalidRequest, PayloadTooLarge
from mercato.settings import MiB
from mercato.web.head import Head

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

DRAINED: Final = 16 * MiB
"""Bytes that are read and thrown away before an answer that came first."""

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

    __slots__ = ("_arrived", "_began", "_deadlines", "_declared", "_head", "_more", "_receive")

    def __init__(self, receive: Receive, head: Head, deadlines: Deadlines) -> None:
        self._receive = receive
        self._head = head
        self._deadlines = deadlines
        self._began: float | None = None
        self._arrived = 0
        # Beside chunks a length means nothing.
        self._declared = None if _CODING in head.headers else head.content_length
        self._more = True

    @property
    def is_coming(self) -> bool:
        """Whether there is a body that was not read to its end."""
        return self._more and ((self._head.content_length or 0) > 0 or _CODING in self._head.headers)

    async def read(self, limit: int) -> bytes:
        """Return the body. Raises PayloadTooLarge, or InvalidRequest when it is slow, breaks off or is coded."""
        coding = self._head.headers.get(_CODING)
        if coding is not None and coding.strip().lower() != b"chunked":
            # Of a body in two transfer codings, as HTTP allows it, only the outer one has been taken off.
            raise InvalidRequest(
                "The one Transfer-Encoding that is read is: chunked. Send the body as it is."
            )
        self._began = monotonic()
        if (self._head.content_length or 0) > limit:
            raise PayloadTooLarge(limit)
        task = self._deadlines.begin()
        try:
            return await self._whole(limit)
        except asyncio.CancelledError:
            if self._deadlines.end(task) or task.uncancel() > 0:
                raise  # somebody else has cancelled it
            raise InvalidRequest(
                f"The body did not arrive within {self._deadlines.seconds:g} s. Send it again, faster."
            ) from None
        finally:
            self._deadlines.end(task)

    async def _whole(self, limit: int) -> bytes:
        whole = self._part(await self._receive())
        if self._more:
            parts, size = [whole], len(whole)
            while self._more and size <= limit:
                parts.append(self._part(await self._receive()))
                size += len(parts[-1])
            whole = b"".join(parts)
        if len(whole) > limit:
            raise PayloadTooLarge(limit)
        return whole

    async def drain(self) -> None:
        """Read on for a while if the body is still coming: most clients only listen once they have sent it."""
        if not self.is_coming:
            return
        if b"expect" in self._head.headers and self._began is None:
            return  # it is held back until it is asked for, and the answer comes in its place
        left = DRAINED
        spent = 0.0 if self._began is None else monotonic() - self._began
        with suppress(TimeoutError, InvalidRequest):
            async with asyncio.timeout(self._deadlines.seconds - spent):
                while self._more and left > 0:
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
