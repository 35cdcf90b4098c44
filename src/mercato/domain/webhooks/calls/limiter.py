"""Which call may be made now: a few for each store, and fewer for each when many hold theirs for long."""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

PER_STORE: Final = 20
"""Calls of one store that run at once."""

WAITING: Final = 100
"""Calls of one store that wait for their turn; one more is refused at once."""

TOTAL: Final = 1024
"""Calls of all stores that run at once: a connection and a file descriptor each."""

STORE_SHARE: Final = 4
"""A store gets at most this fraction of what its partner may still have, so that the others have a place."""


class QueueFull(Exception):  # noqa: N818  # a verdict, not a mishap
    """As many calls of the store wait already as may."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Share:
    """What runs for one partner: at most half of what is left by it and all others, so a third of all places."""

    running: int = 0


@dataclass(slots=True, eq=False)
class Line:
    """The calls of one store: how many run, and those that wait, the first first."""

    share: Share = field(default_factory=Share)
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting


class ConcurrencyLimiter:
    """Places for calls. One event loop's, without locks: nothing here waits but `take`."""

    def __init__(self, *, per_store: int = PER_STORE, waiting: int = WAITING, total: int = TOTAL) -> None:
        self._per_store = per_store
        self._waiting = waiting
        self._total = total
        self._running = 0
        # Lines with calls waiting that a free place would help, in the order of their turns.
        self._short: OrderedDict[Line, None] = OrderedDict()

    async def take(self, line: Line, seconds: float) -> None:
        """Return when the call may be made. Raises QueueFull at once, TimeoutError after so many seconds."""
        if not line.waiting and self._has_room(line):
            self._enter(line)
            return
        if len(line.waiting) >= self._waiting:
            raise QueueFull
        turn = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        self._note_shortage(line)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException:
            self._leave(line, turn)
            raise

    def give_back(self, line: Line) -> None:
        """End a call whose turn it was, and let the next one go."""
        line.running -= 1
        line.share.running -= 1
        self._running -= 1
        self._note_shortage(line)
        self._let_waiting()

    def _leave(self, line: Line, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():  # its turn came in the moment in which it left
            self.give_back(line)
        elif turn in line.waiting:
            line.waiting.remove(turn)
            self._note_shortage(line)

    def _has_room(self, line: Line) -> bool:
        # Bounds that shrink with what is free: the busier it is, the more of a place goes to who has none.
        room = (self._total - self._running + 1) // 2 - line.share.running
        return room > 0 and line.running < min(self._per_store, max(room // STORE_SHARE, 1))

    def _enter(self, line: Line) -> None:
        line.running += 1
        line.share.running += 1
        self._running += 1

    def _let_waiting(self) -> None:
        for line in tuple(self._short):
            if self._has_room(line):
                self._let(line)
                self._note_shortage(line)

    def _let(self, line: Line) -> None:
        """Let those that wait in the line go while there is room; a place is taken from this moment on."""
        while line.waiting and self._has_room(line):
            turn = line.waiting.popleft()
            if not turn.done():
                self._enter(line)
                turn.set_result(None)

    def _note_shortage(self, line: Line) -> None:
        """Keep the line among those that a free place would help, at the end, or take it out."""
        if line.waiting and line.running < self._per_store:
            self._short[line] = None
            self._short.move_to_end(line)
        else:
            self._short.pop(line, None)
