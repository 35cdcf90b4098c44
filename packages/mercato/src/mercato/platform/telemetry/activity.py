"""What the network does: counts of carts, validations, orders and catalogs, and log lines of requests and orders.

The counts are plain numbers, which the metrics copy when they are read: pricing a cart is too fast for anything slower.
One task writes the lines in batches, so that requests don't wait for them. Money is not counted.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping
from datetime import UTC, datetime
from time import time
from typing import Final
from uuid import UUID

import structlog

from mercato.platform.telemetry.context import WorkContext, current_context
from mercato.platform.telemetry.logs import write_events

log = structlog.get_logger("mercato.events")

FLUSH_SECONDS: Final = 0.25
"""How long a line may wait. A process that is killed loses the lines of that time."""

MAX_WAITING: Final = 5_000
"""Lines that may wait. Further ones are dropped and counted."""

Line = tuple[float, str, WorkContext | None, dict[str, object]]

Counts = dict[str, int]


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


class Activity:
    """Counts since the metrics were last read, and the log of milestones."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.carts = 0
        self.orders_placed = 0
        self._validations: Counts = defaultdict(int)
        self._orders_refused: Counts = defaultdict(int)
        self._orders_cancelled: Counts = defaultdict(int)
        self._catalogs: Counts = defaultdict(int)

    def validated(self, *, valid: bool) -> None:
        """Count an answer of Validate."""
        self._validations["valid" if valid else "invalid"] += 1

    def ingested(self, *, switched: bool) -> None:
        """Count a catalog run that switched its store to a new catalog, or failed."""
        self._catalogs["switched" if switched else "failed"] += 1

    def refused(self, code: str) -> None:
        """Count a placement that was refused; `code` is one of ours."""
        self._orders_refused[code] += 1

    def cancelled(self, reason: str) -> None:
        """Count an order that was cancelled; `reason` is one of ours."""
        self._orders_cancelled[reason] += 1

    def record(self, event: str, order_id: UUID, store_id: UUID, **fields: object) -> None:
        """Log a milestone of an order."""
        self.log.record(event, order_id=str(order_id), store_id=str(store_id), **fields)

    def take(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counts by name and label since the last call."""
        counts = {
            "carts": {"": self.carts},
            "orders_placed": {"": self.orders_placed},
            "validations": dict(self._validations),
            "orders_refused": dict(self._orders_refused),
            "orders_cancelled": dict(self._orders_cancelled),
            "catalogs": dict(self._catalogs),
        }
        self.carts = self.orders_placed = 0
        for taken in (self._validations, self._orders_refused, self._orders_cancelled, self._catalogs):
            taken.clear()
        return counts
