"""Which stores are in trouble: one rule, which every list, page, command, metric and alert reads from here.

A store whose last calls failed is in trouble until one succeeds, however long ago they were. Calls are those that a
customer or the service waits for: to validate, to place and to cancel. A refusal is an answer, so it counts as a
success.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog
from msgspec import Struct
from sqlalchemy import ColumnElement, Integer, Select, and_, bindparam, delete, func, literal_column, select

from mercato.features.partners.tables import partners
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.features.webhooks.tables import failing_stores, stores
from mercato.platform.db.engine import AnyRow, Database, Read, Write
from mercato.platform.db.errors import is_unavailable, repeat
from mercato.platform.db.statements import conflicting_insert, prepared
from mercato.platform.db.types import Instant
from mercato_contract.events import STORE_CALLS, SUFFIXES
from mercato_contract.signing import target
from mercato_contract.stores import OrderHandling

log = structlog.get_logger("mercato.webhooks")

MIN_FAILED: Final = 2
"""Calls in a row that fail before a store is in trouble: one time-out isn't a dead store."""

IS_IN_TROUBLE: Final[ColumnElement[bool]] = failing_stores.c.calls >= literal_column(str(MIN_FAILED))
"""The rule. Only stores whose last call failed have a row."""

MAX_STORES: Final = 10_000
"""Stores whose results may wait to be written. Those of others are dropped: their next calls say the same."""

MAX_ERROR: Final = 500
"""Characters of the last error that are kept; the delivery log has all of it."""

_BATCH: Final = 200
_FLUSH_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 3.0


class FailingStore(NamedTuple):
    """A store in trouble: `calls` in a row have failed since `since`, the last one with `error`."""

    store_id: UUID
    partner_id: UUID
    since: datetime
    calls: int
    error: str | None


# --- reading --------------------------------------------------------------------------------------------

_c = failing_stores.c
# A suspended partner's stores take no orders, so nobody needs to do anything about them.
_OF_ACTIVE: Final = failing_stores.join(
    partners, and_(partners.c.id == _c.partner_id, partners.c.suspended_at.is_(None))
)
_IN_TROUBLE: Final = (
    select(_c.store_id, _c.partner_id, _c.failing_since, _c.calls, _c.error)
    .where(IS_IN_TROUBLE)
    .order_by(_c.calls.desc(), _c.store_id)
)
_LIST: Final = prepared(_IN_TROUBLE.select_from(_OF_ACTIVE).limit(bindparam("most", type_=Integer)))
_COUNT: Final = prepared(select(func.count()).select_from(_OF_ACTIVE).where(IS_IN_TROUBLE))


async def list_failing_stores(tx: Read, *, limit: int) -> list[FailingStore]:
    """Return the stores in trouble, those with the most failures first."""
    return [FailingStore(*row) for row in await tx.all(_LIST, {"most": limit})]


async def count_failing_stores(tx: Read) -> int:
    """Return how many stores are in trouble."""
    return int(await tx.scalar(_COUNT))


async def list_failing_stores_of(tx: Read, partner_id: UUID, *, limit: int) -> list[FailingStore]:
    """Return the partner's stores in trouble, those with the most failures first."""
    mine = _IN_TROUBLE.where(_c.partner_id == partner_id)
    return [FailingStore(*row) for row in await tx.all(mine.limit(limit))]


# --- writing --------------------------------------------------------------------------------------------

_FORGET: Final = prepared(
    delete(failing_stores).where(
        _c.store_id == bindparam("where_store"), _c.failed_at <= bindparam("through", type_=Instant)
    )
)


async def forget_store(tx: Write, store_id: UUID) -> None:
    """Forget the failures of a store that was deleted, has another webhookUrl, or isn't called any more."""
    await tx.execute(delete(failing_stores).where(_c.store_id == store_id))


class _Seen(Struct):
    """The newest results of calls to one address of a store: its last success, and the failures after it."""

    partner_id: UUID
    url: str
    succeeded_at: datetime | None = None
    failed: int = 0
    since: datetime | None = None
    failed_at: datetime | None = None
    error: str | None = None


class StoreHealth:
    """Records how calls to stores end. Nothing waits for it: a process that is killed loses the results of a second.

    A success of a store that doesn't fail writes nothing.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[UUID, _Seen] = {}
        self._writing = asyncio.Lock()

    def record(self, call: StoreCall, result: CallResult) -> None:
        """Note how a call ended. One that its circuit breaker stopped has failed, too."""
        seen = self._waiting.get(call.store_id)
        if seen is None:
            if len(self._waiting) >= MAX_STORES:
                return
            seen = self._waiting[call.store_id] = _Seen(call.partner_id, call.url)
        seen.url = call.url
        # Of two calls at once, the one that ended later says how the store is now.
        ended_at = result.at + timedelta(milliseconds=result.ms)
        if result.error is None:
            seen.succeeded_at, seen.failed = ended_at, 0
            return
        if not seen.failed:
            seen.since = result.at
        seen.failed += 1
        seen.failed_at = ended_at
        if result.was_sent:
            seen.error = result.error[:MAX_ERROR]

    async def run(self) -> None:
        """Write results until cancelled, and at the end those that still wait."""
        try:
            await repeat(
                self.flush,
                seconds=_FLUSH_SECONDS,
                log=log,
                unavailable="results of calls to stores wait for the database",
                bug="bug in recording calls to stores",
            )
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self.flush()

    async def flush(self) -> None:
        """Write what waits. If the database is unavailable, it goes on waiting."""
        async with self._writing:
            while self._waiting:
                batch = dict(list(self._waiting.items())[:_BATCH])
                for store_id in batch:
                    del self._waiting[store_id]
                try:
                    await self._write(batch)
                except Exception as error:
                    if is_unavailable(error):
                        # What was recorded meanwhile is newer.
                        self._waiting = batch | self._waiting
                    raise

    async def _write(self, batch: dict[UUID, _Seen]) -> None:
        async with self._db.read() as tx:
            changed = _changes(batch, await tx.all(_known(list(batch))))
        if not changed:
            return
        async with self._db.write() as tx:
            # A store that has got another address since has forgotten its failures, and none of them come back.
            locked = _known(list(changed)).with_for_update(read=True, of=stores)
            for store_id, seen in _changes(changed, await tx.all(locked)).items():
                if seen.succeeded_at is not None:
                    await tx.execute(_FORGET, {"where_store": store_id, "through": seen.succeeded_at})
                if seen.failed:
                    await tx.execute(_failed(tx, store_id, seen))


def _known(ids: Sequence[UUID]) -> Select[Any]:
    """Return the stores, in the order of their ids: two processes that lock the same rows don't wait for each other."""
    return (
        select(stores.c.id, stores.c.webhook_url, stores.c.order_handling, _c.calls)
        .join(failing_stores, _c.store_id == stores.c.id, isouter=True)
        .where(stores.c.id.in_(ids))
        .order_by(stores.c.id)
    )


def _changes(seen_of: dict[UUID, _Seen], known: Sequence[AnyRow]) -> dict[UUID, _Seen]:
    """Return the results that change what is stored, in the order of these stores.

    A result for an address that the store no longer has, or isn't called at, says nothing about it now.
    """
    return {
        store.id: seen
        for store in known
        if _is_called(store, (seen := seen_of[store.id]).url)
        and (seen.failed or (store.calls is not None and seen.succeeded_at is not None))
    }


def _is_called(store: AnyRow, url: str) -> bool:
    """Return whether the store is called at the URL about its orders: without a choice, at the webhookUrl it has."""
    if store.webhook_url is None or store.order_handling not in {None, OrderHandling.WEBHOOK}:
        return False
    return url in {target(store.webhook_url, SUFFIXES[type_]) for type_ in STORE_CALLS}


def _failed(tx: Write, store_id: UUID, seen: _Seen) -> Any:
    new = conflicting_insert(failing_stores, tx.dialect).values(
        store_id=store_id,
        partner_id=seen.partner_id,
        failing_since=seen.since,
        failed_at=seen.failed_at,
        calls=seen.failed,
        error=seen.error,
    )
    return new.on_conflict_do_update(
        index_elements=["store_id"],
        set_={
            "calls": _c.calls + new.excluded.calls,
            "failed_at": new.excluded.failed_at,
            "error": func.coalesce(new.excluded.error, _c.error),
        },
    )


Record = Callable[[StoreCall, CallResult], None]
"""Takes the result of a call to a store."""
