"""Deletes rows whose retention is over or that nobody needs, and enqueues the rewriting of an earlier release's rows.

Retention: superseded catalogs and their history, ended deliveries and runs, customers, quotes, used keys.
"""

from asyncio import sleep
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final

import structlog
from msgspec import Struct

from mercato.features.catalogs import periods, uploads
from mercato.features.catalogs import queries as catalogs
from mercato.features.events import log as events
from mercato.features.orders import idempotency
from mercato.features.orders.privacy import erase_before
from mercato.features.orders.search import reindex_if_missing
from mercato.features.partners import queries
from mercato.features.quotes import queries as quotes
from mercato.features.quotes.model import KEPT as QUOTES_KEPT
from mercato.features.requests import log as requests
from mercato.features.requests.queries import prune as prune_requests
from mercato.features.sign_in import sessions as console
from mercato.features.stores import queries as stores
from mercato.features.stores.search import enqueue_reindex
from mercato.features.webhooks import queries as webhooks
from mercato.features.webhooks.unused_addresses import forget_unused
from mercato.platform.db import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import is_unavailable
from mercato_contract.clock import Clock

log = structlog.get_logger("mercato.upkeep")

EVERY_SECONDS: Final = 600.0
FIRST_SECONDS: Final = 30.0
"""After the start, when many processes may start together."""

BATCH: Final = 100
"""Rows that one transaction deletes: a catalog's row can have megabytes."""

REST: Final = 9.0
"""How many times as long as a batch took the pause after it is: deletion takes a tenth of one connection's time."""

LOG_SECONDS: Final = 1.0
"""How long to wait for readers of an embedded database; the next try is in ten minutes."""

Prune = Callable[[Write], Awaitable[int]]


class Upkeep(Struct, frozen=True):
    """Deletes what has passed its retention, in small batches. Several processes may do it at once."""

    db: Database
    clock: Clock
    catalog_days: int
    delivery_days: int
    run_days: int = 30
    customer_days: int = 90
    audit_days: int = 365
    rest: float = REST

    async def run(self) -> None:
        """Run `once` after the start and every ten minutes, for ever. An error is logged and tried again."""
        pause = FIRST_SECONDS
        while True:
            await sleep(pause)
            pause = EVERY_SECONDS
            try:
                await self.once()
            except Exception as error:  # logged: without upkeep everything would grow, customers included
                if is_unavailable(error):
                    log.warning("upkeep waits: the database is unavailable")
                else:
                    log.exception("bug in upkeep")

    async def once(self) -> None:
        """Delete everything that has passed its retention.

        An error in one step is raised after the other steps have run, a bug before an unavailable database: the
        database may time out on one step and work for the others.
        """
        faults = await self.drain(self._prunes())
        steps: list[Callable[[], Awaitable[object]]] = [
            partial(enqueue_reindex, self.db),
            partial(reindex_if_missing, self.db),
            partial(forget_unused, self.db),
            # The write-ahead log has the deleted rows, customers included, until it is truncated.
            partial(self.db.empty_log, seconds=LOG_SECONDS),
        ]
        for step in steps:
            try:
                await step()
            except Exception as error:  # noqa: BLE001  # raised in the end
                faults.append(error)
        if faults:
            raise min(faults, key=is_unavailable)

    async def drain(self, prunes: Sequence[Prune]) -> list[Exception]:
        """Delete a batch of each in turn, until nothing is left or it fails. Return the errors.

        In turn, because what there is most of must not delay the erasure of customers.
        """
        faults: list[Exception] = []
        pending = list(prunes)
        while pending:
            pending = [prune for prune in pending if await self._delete_batch(prune, faults)]
        return faults

    async def _delete_batch(self, prune: Prune, faults: list[Exception]) -> bool:
        """Delete a batch, and pause. Return whether there may be more to delete."""
        began = monotonic()
        try:
            async with self.db.write() as tx:
                gone = await prune(tx)
        except Exception as error:  # noqa: BLE001  # raised in the end
            faults.append(error)
            return False
        if gone < BATCH:
            return False
        await sleep((monotonic() - began) * self.rest)
        return True

    def _prunes(self) -> Sequence[Prune]:
        now = self.clock()
        sets_before = now - timedelta(days=self.catalog_days)
        runs_before = now - timedelta(days=self.run_days)
        customers_before = now - timedelta(days=self.customer_days)
        audit_before = now - timedelta(days=self.audit_days)
        requests_before = now - timedelta(days=requests.DAYS)
        deliveries_before = now - timedelta(days=self.delivery_days)
        # A delivery needs its event's body to the end of its retries.
        events_before = now - max(events.KEPT, timedelta(days=self.delivery_days) + events.RETRIES)
        return (
            lambda tx: periods.prune_sets(tx, before=sets_before, limit=BATCH),
            lambda tx: periods.prune_periods(tx, before=audit_before, limit=BATCH),
            lambda tx: webhooks.prune_deliveries(tx, before=deliveries_before, limit=BATCH),
            lambda tx: events.prune_events(tx, before=events_before, limit=BATCH),
            lambda tx: events.prune_gone_stores(tx, before=events_before, limit=BATCH),
            lambda tx: stores.prune_sold_out(tx, before=now, limit=BATCH),
            lambda tx: idempotency.prune(tx, now=now, limit=BATCH),
            lambda tx: uploads.prune_drafts(tx, before=now - uploads.DRAFT_KEPT, limit=BATCH),
            lambda tx: catalogs.prune_runs(tx, before=runs_before, limit=BATCH),
            lambda tx: quotes.erase_expired(tx, now=now, limit=BATCH),
            lambda tx: quotes.prune(tx, before=now - QUOTES_KEPT, limit=BATCH),
            lambda tx: erase_before(tx, before=customers_before, limit=BATCH),
            lambda tx: webhooks.prune_validations(tx, before=customers_before, limit=BATCH),
            lambda tx: queries.prune_stored_bytes(tx, now=now, limit=BATCH),
            lambda tx: audit.prune(tx, before=audit_before, limit=BATCH),
            lambda tx: console.prune(tx, now=now, limit=BATCH),
            lambda tx: prune_requests(tx, before=requests_before, limit=BATCH),
        )
