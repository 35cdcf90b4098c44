"""Time-outs that hardly ever come: one timer of the event loop for all of them.

`asyncio.timeout` has a timer of its own for each use, which the loop opens and closes in a turn of its own. That takes
longer than anything else about a call that is answered in time.
"""

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from types import TracebackType
from typing import Any, Final

_FEW: Final = 64
"""Alarms that were switched off are cleared away once they are so many, and more than the others."""


class Alarms:
    """Alarms of one event loop."""

    def __init__(self) -> None:
        self._numbers = count()
        # What was switched off stays until its time comes, or until it is most of what is there.
        self._set: list[tuple[float, int, Alarm]] = []
        self._off = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many are kept, those included that were switched off and not cleared away yet."""
        return len(self._set)

    def within(self, seconds: float) -> "Alarm":
        """Return a context in which the present task has so many seconds. It raises TimeoutError after them.

        As with `asyncio.timeout`, a task that somebody else cancels stays cancelled.
        """
        return Alarm(self, seconds)

    def add(self, alarm: "Alarm", at: float) -> None:
        """Ring the alarm at that time of the loop."""
        heappush(self._set, (at, next(self._numbers), alarm))
        if self._set[0][2] is alarm:
            self._arm(at)

    def note_off(self) -> None:
        """Count an alarm that needs to ring no more."""
        self._off += 1
        if self._off > _FEW and self._off * 2 > len(self._set):
            self._set = [one for one in self._set if one[2].is_on]
            heapify(self._set)
            self._off = 0

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._set:
            at, _, alarm = self._set[0]
            if alarm.is_on and at > now:
                self._arm(at)
                return
            heappop(self._set)
            if alarm.is_on:
                alarm.ring()
            else:
                self._off -= 1


class Alarm:
    """One of them; a context that is entered once."""

    __slots__ = ("_alarms", "_asked", "_rang", "_seconds", "_task", "is_on")

    def __init__(self, alarms: Alarms, seconds: float) -> None:
        self._alarms = alarms
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._asked = 0
        self._rang = False
        self.is_on = False

    def ring(self) -> None:
        """Interrupt the task."""
        self.is_on = False
        self._rang = True
        assert self._task is not None, "it rings only once it is set"
        self._task.cancel()

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "only a task can be interrupted"
        self._task, self._asked, self.is_on = task, task.cancelling(), True
        self._alarms.add(self, asyncio.get_running_loop().time() + self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        assert task is not None, "it was entered"
        if not self._rang:
            self.is_on = False
            self._alarms.note_off()
        elif task.uncancel() <= self._asked and kind is asyncio.CancelledError:
            raise TimeoutError from error
