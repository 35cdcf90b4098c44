"""What is kept for a time and no longer: superseded catalogs, ended deliveries and runs, customers, used keys."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from msgspec import Struct

from mercato.domain.catalog import queries as catalogs
from mercato.domain.console import sessions as console
from mercato.domain.orders import idempotency
from mercato.domain.orders.forgetting import forget_before
from mercato.domain.partners import storage
from mercato.domain.stores import queries as stores
from mercato.domain.webhooks import retention as webhooks
from mercato.kernel.clock import Clock
from mercato.kernel.db import audit
from mercato.kernel.db.engine import Database, Write
from mercato.kernel.db.errors import is_unavailable

log = structlog.get_logger("mercato.upkeep")

EVERY_SECONDS: Final = 600.0
FIRST_SECONDS: Final = 30.0
"""A start has more urgent things to do, and many processes start together."""

BATCH: Final = 100
"""Rows that one transaction deletes: a catalog's row can drag megabytes along."""

LOG_SECONDS: Final = 1.0
"""How long readers of an embedded database are waited for; in ten minutes it is tried again."""

Prune = Callable[[Write], Awaitable[int]]


class Upkeep(Struct, frozen=True):
    """Deletes what is older than it is kept, in small batches. Several processes may do it at once."""

    db: Database
    clock: Clock
    catalog_days: int
    delivery_days: int
    run_days: int = 30
    customer_days: int = 90
    audit_days: int = 365

    async def run(self) -> None:
        """Tidy up soon and every ten minutes, for ever; what goes wrong is told, and tried again later."""
        pause = FIRST_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = EVERY_SECONDS
            try:
                await self.once()
            except Exception as error:  # told: upkeep that ends would let everything grow, customers included
                if is_unavailable(error):
                    log.warning("upkeep waits: the database is away")
                else:
                    log.exception("bug in upkeep")

    async def once(self) -> None:
        """Delete everything that is older than it is kept.

        Raises what was raised over one kind of things, a bug first of all, but not before the others have had their
        turn: a database that is away for one may only take too long over it, each time, and be there for the others.
        """
        faults: list[Exception] = []
        steps: list[Callable[[], Awaitable[object]]] = [
            partial(self._drain, prune) for prune in self._prunes()
        ]
        # The log holds the rows as they were, customers included, until it is emptied.
        steps.append(partial(self.db.empty_log, seconds=LOG_SECONDS))
        for step in steps:
            try:
                await step()
            except Exception as error:  # noqa: BLE001  # raised in the end
                faults.append(error)
        if faults:
            raise min(faults, key=is_unavailable)

    def _prunes(self) -> Sequence[Prune]:
        now = self.clock()
        sets_before = now - timedelta(days=self.catalog_days)
        runs_before = now - timedelta(days=self.run_days)
        customers_before = now - timedelta(days=self.customer_days)
        audit_before = now - timedelta(days=self.audit_days)
        deliveries_before = now - timedelta(days=self.delivery_days)
        return (
            lambda tx: catalogs.prune_sets(tx, before=sets_before, limit=BATCH),
            lambda tx: webhooks.prune(tx, before=deliveries_before, most=BATCH),
            lambda tx: stores.prune_sold_out(tx, before=now, limit=BATCH),
            lambda tx: idempotency.prune(tx, now=now, limit=BATCH),
            lambda tx: catalogs.prune_runs(tx, before=runs_before, limit=BATCH),
            lambda tx: forget_before(tx, before=customers_before, limit=BATCH),
            lambda tx: storage.prune(tx, now=now, limit=BATCH),
            lambda tx: audit.prune(tx, before=audit_before, limit=BATCH),
            lambda tx: console.prune(tx, now=now, limit=BATCH),
        )

    async def _drain(self, prune: Prune) -> None:
        while True:
            async with self.db.write() as tx:
                gone = await prune(tx)
            if gone < BATCH:
                return
