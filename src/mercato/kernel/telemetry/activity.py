"""What the network does: counts of carts, validations, orders and catalogs, and a log line for each milestone.

The counts are plain numbers, which the metrics copy when they are read: pricing a cart is too fast for anything slower.
Money is not counted.
"""

from collections import defaultdict
from collections.abc import Mapping
from uuid import UUID

from mercato.kernel.telemetry.event_log import EventLog

Counts = dict[str, int]


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
