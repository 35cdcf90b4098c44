"""A request's body on its way in: read once and within limits, or read past, so that the answer is heard."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final

from mercato.errors import InvalidRequest, PayloadTooLarge
from mercato.settings import MiB
from mercato.web.head import Head

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

DRAINED: Final = 16 * MiB
"""Bytes that are read and thrown away before an answer that came first."""

_CODING: Final = b"transfer-encoding"


class Body:
    """The body of one request. `seconds` is how long all of it may take to arrive."""

    __slots__ = ("_head", "_more", "_receive", "_seconds", "_until")

    def __init__(self, receive: Receive, head: Head, *, seconds: float) -> None:
        self._receive = receive
        self._head = head
        self._seconds = seconds
        self._until: float | None = None
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
        declared = self._head.content_length or 0
        parts: list[bytes] = []
        size = 0
        try:
            async with self._deadline():
                while self._more:
                    if max(size, declared) > limit:
                        break
                    parts.append(await self._next())
                    size += len(parts[-1])
        except TimeoutError:
            raise InvalidRequest(
                f"The body did not arrive within {self._seconds:g} s. Send it again, faster."
            ) from None
        if max(size, declared) > limit:
            raise PayloadTooLarge(limit)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def drain(self) -> None:
        """Read on for a while if the body is still coming: most clients only listen once they have sent it."""
        if not self.is_coming:
            return
        if b"expect" in self._head.headers and self._until is None:
            return  # it is held back until it is asked for, and the answer comes in its place
        left = DRAINED
        with suppress(TimeoutError, InvalidRequest):
            async with self._deadline():
                while self._more and left > 0:
                    left -= len(await self._next())

    def _deadline(self) -> asyncio.Timeout:
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + self._seconds
        return asyncio.timeout_at(self._until)

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._more = False
            # Whoever only stopped sending still listens, and the server has no answer of its own but a 500.
            raise InvalidRequest("The body breaks off, or its chunks cannot be read. Send all of it again.")
        self._more = message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part
