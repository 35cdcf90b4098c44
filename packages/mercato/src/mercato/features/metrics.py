"""The metrics of commerce, and the log of an order's milestones.

No label names a store or an order, and a partner's is its id: of the partners in trouble the worst, and all others as
one, because there may be too many. Money is not counted.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cache
from typing import Final
from uuid import UUID

from msgspec import Struct
from prometheus_client import Metric

from mercato.platform.telemetry import multiprocess
from mercato.platform.telemetry.logs import EventLog
from mercato.platform.telemetry.metrics import DatabaseCollector, Metrics
from mercato_contract.wire import uuid_text

Counts = dict[str, int]

MAX_PARTNERS: Final = 20
"""Partners in trouble with metrics of their own; those of the rest are added up."""

OTHERS: Final = "other"
"""The label of the rest."""


class PartnerTrouble(Struct, frozen=True, kw_only=True):
    """A partner in trouble: `stores` whose last calls failed, and `addresses` of events that have failed for long.

    `since` is when the first of these failures was.
    """

    partner_id: UUID
    since: datetime
    stores: int
    addresses: int


class Trouble(Struct, frozen=True, kw_only=True):
    """What operators are alerted about, as the database has it: the worst partners first.

    `backup_at` is when the last backup was made, None if that isn't known.
    """

    partners: Sequence[PartnerTrouble]
    disabled: int
    now: datetime
    backup_at: datetime | None


_TROUBLE: Final = (
    ("mercato_stores_failing", "Stores in trouble: their last calls failed."),
    (
        "mercato_partner_stores_failing",
        "Stores in trouble of each partner in trouble, by its id; `other` are all but the worst 20.",
        "partner",
    ),
    (
        "mercato_partner_addresses_failing",
        "Addresses of events that have failed for an hour, of each partner in trouble.",
        "partner",
    ),
    ("mercato_partner_failing_seconds", "Seconds since the partner's trouble began.", "partner"),
    ("mercato_addresses_disabled", "Addresses of events that are disabled after failures."),
    (
        "mercato_backup_age_seconds",
        "Seconds since the last backup; on SQLite without one, since the first partner.",
    ),
)


class _TroubleCollector(DatabaseCollector[Trouble]):
    """The partners in trouble."""

    def collect(self) -> Iterator[Metric]:
        total, stores, addresses, seconds, disabled, backup = families = list(self.families())
        if self.found is not None:
            found = self.found
            total.add_metric((), sum(partner.stores for partner in found.partners))
            worst, rest = found.partners[:MAX_PARTNERS], found.partners[MAX_PARTNERS:]
            groups = [(str(partner.partner_id), [partner]) for partner in worst]
            for label, group in [*groups, *([(OTHERS, list(rest))] if rest else [])]:
                stores.add_metric((label,), sum(partner.stores for partner in group))
                addresses.add_metric((label,), sum(partner.addresses for partner in group))
                since = min(partner.since for partner in group)
                seconds.add_metric((label,), max((found.now - since).total_seconds(), 0.0))
            disabled.add_metric((), found.disabled)
            if found.backup_at is not None:
                backup.add_metric((), max((found.now - found.backup_at).total_seconds(), 0.0))
        yield from families


class CommerceMetrics(Metrics):
    """The metrics of one process and, where several share a port, of all."""

    def __init__(self) -> None:
        super().__init__()
        self._ingests = self.counter("mercato_ingest_runs", "Catalog runs that ended, by outcome.", "outcome")
        self._stages = self.histogram(
            "mercato_ingest_stage_seconds", "Seconds a catalog run spent in a stage.", "stage"
        )
        self._deliveries = self.counter(
            "mercato_deliveries", "Attempts to deliver a webhook, by outcome.", "outcome"
        )
        self._delivery_seconds = self.histogram(
            "mercato_delivery_seconds", "Seconds until a webhook's receiver answered or the attempt failed."
        )
        calls = self.counter(
            "mercato_store_calls", "Calls to stores on behalf of a waiting customer, by outcome.", "outcome"
        )
        # Cached, because `labels` locks: a store is called for every order.
        self._store_calls = cache(calls.labels)
        self._breaker_openings = self.counter(
            "mercato_store_breaker_openings",
            "Times that the circuit breaker of a store's address opened.",
        )
        self._breakers_open = self.gauge(
            "mercato_store_breakers_open", "Addresses of stores whose circuit breaker is open."
        )
        self._activity = {
            "carts": self.counter("mercato_carts", "Carts priced."),
            "validations": self.counter("mercato_validations", "Answers of Validate order.", "result"),
            "orders_placed": self.counter("mercato_orders_placed", "Orders stored for their stores."),
            "orders_refused": self.counter(
                "mercato_orders_refused", "Placements refused by the service or a store.", "code"
            ),
            "orders_cancelled": self.counter("mercato_orders_cancelled", "Orders cancelled.", "reason"),
            "catalogs": self.counter(
                "mercato_catalogs", "Catalog runs that switched their store, or failed.", "result"
            ),
        }
        self._trouble = _TroubleCollector(self.database_gauges(_TROUBLE))
        self.watch_database(self._trouble)
        self._unlogged = self.counter(
            "mercato_request_log_dropped", "Refused requests that the request log dropped.", "reason"
        )
        self._unlogged_validations = self.counter(
            "mercato_validation_log_dropped", "Answered validations that the delivery log dropped.", "reason"
        )

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Measure a stage of a catalog run while the block runs."""
        return self._stages.labels(name).time()

    def ingested(self, outcome: str) -> None:
        """Count one catalog run that has ended."""
        self._ingests.labels(outcome).inc()

    def delivered(self, outcome: str, seconds: float) -> None:
        """Count one attempt to deliver a webhook; `outcome` is one of a few constants."""
        self._deliveries.labels(outcome).inc()
        self._delivery_seconds.observe(seconds)

    def called_store(self, outcome: str) -> None:
        """Count one call to a store; `outcome` is one of a few constants."""
        self._store_calls(outcome).inc()

    def breaker_opened(self) -> None:
        """Count that the circuit breaker of a store's address opened."""
        self._breaker_openings.inc()

    def watch_open_breakers(self, count: Callable[[], int]) -> None:
        """Call `count` for the number of open circuit breakers whenever the metrics are read."""
        if multiprocess.is_joined():
            self._updates.append(lambda: self._breakers_open.set(count()))
        else:
            self._breakers_open.set_function(count)

    def watch_trouble(self, read: Callable[[], Awaitable[Trouble | None]]) -> None:
        """Call `read` for the partners in trouble whenever the metrics are read."""
        self._trouble.read = read

    def watch_activity(self, take: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        """Add what `take` returns, counts by name and label, whenever the metrics are read."""

        def update() -> None:
            for name, counts in take().items():
                metric = self._activity[name]
                for label, count in counts.items():
                    (metric.labels(label) if label else metric).inc(count)

        self.on_read(update)

    def request_not_logged(self, reason: str, count: int = 1) -> None:
        """Count refused requests that the request log drops; `reason` is one of a few constants."""
        self._unlogged.labels(reason).inc(count)

    def validation_not_logged(self, reason: str, count: int) -> None:
        """Count answered validations that the delivery log drops; `reason` is one of a few constants."""
        self._unlogged_validations.labels(reason).inc(count)


class Activity:
    """Counts since the metrics were last read, and the log of milestones.

    The counts are plain numbers, which the metrics copy when they are read: pricing a cart is too fast for anything
    slower.
    """

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
        self.log.record(event, order_id=uuid_text(order_id), store_id=uuid_text(store_id), **fields)

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
