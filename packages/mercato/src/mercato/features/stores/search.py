"""A store in the search index: its words and place, the card that storefronts get, and whether it is open.

When the shape of the card changes, a background job rewrites the stored cards. Until it has, a search returns cards of
both shapes; a server of the previous release, which may run beside it, leaves cards of a later version alone.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select

from mercato.features.catalogs import queries as catalogs
from mercato.features.discovery import index
from mercato.features.discovery.hours import INDEFINITELY, Openings
from mercato.features.discovery.tables import opening_hours, store_search
from mercato.features.discovery.text import Listing
from mercato.features.stores import queries
from mercato.features.stores.model import StoreRow
from mercato.features.stores.tables import stores
from mercato.features.stores.views import CARD_VERSION, card_of
from mercato.platform import jobs
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.jobs import Done, Handler, Handlers, Job, JobOutcome
from mercato_catalog.model import DAY_SECONDS, DAYS
from mercato_catalog.words import SetSearch, unpack_search, words_of
from mercato_contract.clock import to_ms
from mercato_contract.wire import Wire, as_json

REINDEX: Final = "store.reindex"

BATCH: Final = 50
"""Stores that one transaction rewrites."""

BATCHES: Final = 200
"""Transactions of one job; the next job continues."""

_EMPTY: Final = SetSearch((), ())


async def refresh(tx: Write, store_id: UUID) -> None:
    """Rewrite the store's entry in the search index; delete that of a store that is hidden.

    The caller has locked the store's row: of two transactions that change one store, the later sees the earlier's
    changes.
    """
    row = await queries.find_store(tx, store_id, with_items=False)
    if row is None:
        await index.remove(tx, store_id)
        return
    packed = await catalogs.find_body(tx, row.catalog_set_id, catalogs.SEARCH)
    await index.put(tx, listing_of(row, unpack_search(packed) if packed is not None else _EMPTY))


async def refresh_all(db: Database, *, progress: Callable[[int], None]) -> None:
    """Rewrite every store's entry, and with it the words, which the kinds of database keep differently."""
    after, done = 0, 0
    while True:
        async with db.write() as tx:
            found = await index.list_stores(tx, after=after, limit=BATCH)
            for _, store_id in found:
                if await queries.lock(tx, store_id):
                    await refresh(tx, store_id)
        if not found:
            return
        after, done = found[-1][0], done + len(found)
        progress(done)


def listing_of(row: StoreRow, search: SetSearch) -> Listing:
    """Return what searches find of the store."""
    place = None if row.latitude is None or row.longitude is None else (row.latitude, row.longitude)
    return Listing(
        store_id=row.id,
        name=row.name,
        description=row.description,
        categories=row.categories,
        place=place,
        timezone=row.timezone,
        pickup=row.pickup_allowed,
        delivery=row.delivery_allowed,
        paused_until=_paused_until(row),
        # A set that an earlier version built has the words of that version's normal form.
        words=words_of(search.words),
        spans=search.spans,
        card=as_json(card_of(row, search.spans)),
        card_version=CARD_VERSION,
    )


def _paused_until(row: StoreRow) -> int:
    if not row.paused:
        return 0
    return INDEFINITELY if row.resume_at is None else to_ms(row.resume_at)


# --- cards of an earlier shape --------------------------------------------------------------------


class StoreReindexJob(Wire):
    """The version that all cards should have."""

    version: int


async def enqueue_reindex(db: Database) -> None:
    """Enqueue the job if a stored card has an earlier version."""
    async with db.read() as tx:
        outdated = await index.list_outdated(tx, CARD_VERSION, limit=1)
    if outdated:
        async with db.write() as tx:
            await _enqueue(tx)


async def _enqueue(tx: Write) -> None:
    await jobs.enqueue(tx, REINDEX, StoreReindexJob(version=CARD_VERSION), ordering_key=REINDEX)


class StoreReindex(Struct, frozen=True):
    """Rewrites cards of an earlier version: what a killed job has done stays done, and the next continues."""

    db: Database

    def handlers(self) -> Handlers:
        """Return the handler of the job, which runs one at a time."""
        handler = Handler(
            fn=self.run, payload=StoreReindexJob, timeout=timedelta(minutes=10), concurrency=1, coalesces=True
        )
        return {REINDEX: handler}

    async def run(self, job: Job[StoreReindexJob]) -> JobOutcome:
        """Rewrite cards in small transactions. A job of a later release's version does nothing here."""
        for _ in range(BATCHES):
            async with self.db.write() as tx:
                await jobs.fence(tx, job)
                outdated = await index.list_outdated(tx, CARD_VERSION, limit=BATCH)
                for store_id in outdated:
                    if await queries.lock(tx, store_id):
                        await refresh(tx, store_id)
                    else:
                        await index.remove(tx, store_id)
            if len(outdated) < BATCH:
                return Done()
        async with self.db.write() as tx:
            await jobs.fence(tx, job)
            await _enqueue(tx)
        return Done()


MAX_SEARCHED: Final = 200
"""The newest stores of a merchant whose hours are read: four rows each."""


class ClosedStore(Struct, frozen=True):
    """A store outside its hours. `opens` is the day and time in its time zone, None if it has no hours."""

    store_id: UUID
    name: str
    timezone: str
    opens: str | None


class Opening(Struct, frozen=True):
    """Whether a store's hours are open now, without regard to a pause, and when that changes next, if it does."""

    is_open: bool
    changes_at: datetime | None
    timezone: str


async def find_openings(tx: Read, store_ids: Sequence[UUID], *, now: datetime) -> dict[UUID, Opening]:
    """Return the openings of those stores that searches find."""
    c = store_search.c
    rows = await tx.all(
        select(c.store_id, opening_hours.c.timezone, opening_hours.c.spans)
        .join(opening_hours, opening_hours.c.key == c.hours_key)
        .where(c.store_id.in_(store_ids))
    )
    hours = Openings(now)
    found = {}
    for row in rows:
        is_open = hours.is_open(row.timezone, row.spans)
        opens_at, closes_at = hours.next_change(row.timezone, row.spans, paused_until=0)
        found[row.store_id] = Opening(is_open, closes_at if is_open else opens_at, row.timezone)
    return found


async def list_closed(
    tx: Read, partner_id: UUID, *, store_id: UUID | None, now: datetime
) -> tuple[list[ClosedStore], bool]:
    """Return those of the merchant's newest stores that are closed now, and whether there are older ones."""
    newest = select(stores.c.id, stores.c.name).where(stores.c.partner_id == partner_id)
    if store_id is not None:
        newest = newest.where(stores.c.id == store_id)
    of = newest.order_by(stores.c.id.desc()).limit(MAX_SEARCHED).subquery()
    rows = await tx.all(
        select(of.c.id, of.c.name, opening_hours.c.timezone, opening_hours.c.spans)
        .join(store_search, store_search.c.store_id == of.c.id)
        .join(opening_hours, opening_hours.c.key == store_search.c.hours_key)
        .order_by(of.c.id.desc())
    )
    hours = Openings(now)
    found = [
        ClosedStore(row.id, row.name, row.timezone, _words(hours.next_opening(row.timezone, row.spans)))
        for row in rows
        if not hours.is_open(row.timezone, row.spans)
    ]
    return found, len(rows) == MAX_SEARCHED


def _words(second: int | None) -> str | None:
    if second is None:
        return None
    day, rest = divmod(second, DAY_SECONDS)
    return f"{DAYS[day]} {rest // 3600:02}:{rest // 60 % 60:02}"
