"""Log lines of requests and orders, which one task writes in batches, so that requests don't wait for them."""

import asyncio
from collections import deque
from datetime import UTC, datetime
from time import time
from typing import Final

import structlog

from mercato.kernel.telemetry.context import WorkContext, current_context
from mercato.kernel.telemetry.logs import write_events

log = structlog.get_logger("mercato.events")

FLUSH_SECONDS: Final = 0.25
"""How long a line may wait. A process that is killed loses the lines of that time."""

MAX_WAITING: Final = 5_000
"""Lines that may wait. Further ones are dropped and counted."""

Line = tuple[float, str, WorkContext | None, dict[str, object]]


class EventLog:
    """Queues lines and writes them later, with the time at which they were recorded."""

    def __init__(self) -> None:
        self._waiting: deque[Line] = deque()
        self._dropped = 0

    def record(self, event: str, **fields: object) -> None:
        """Queue a line at `info`. It also gets the fields of the task's context."""
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            return
        self._waiting.append((time(), event, current_context(), fields))

    def flush(self) -> None:
        """Write every waiting line."""
        if self._waiting:
            lines, self._waiting = self._waiting, deque()
            write_events([_event(*line) for line in lines])
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            log.warning("log lines dropped: too many at once", count=dropped)

    async def run(self) -> None:
        """Write lines until cancelled, including those that are left at the end."""
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                self.flush()
        finally:
            self.flush()


def _event(
    at: float, event: str, context: WorkContext | None, fields: dict[str, object]
) -> dict[str, object]:
    known = {} if context is None else dict(context.log_fields())
    timestamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    return {"event": event, "timestamp": timestamp, **known, **fields}
