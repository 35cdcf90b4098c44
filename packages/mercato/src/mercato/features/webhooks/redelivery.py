"""Sends many deliveries again: in the background, the oldest first, a batch at a time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, exists, func, or_, select

from mercato.features.partners.model import Caller, Surface
from mercato.features.partners.tables import webhook_endpoints
from mercato.features.partners.vault import Vault
from mercato.features.webhooks.deliveries import send_again
from mercato.features.webhooks.endpoints import check_stores, get_endpoint
from mercato.features.webhooks.model import TYPES
from mercato.features.webhooks.queries import DeliveryRow, find_row
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.db.tables import jobs
from mercato.platform.errors import Conflict, RateLimited
from mercato.platform.jobs import Handler, Job, JobOutcome, Settled, enqueue, finish
from mercato_contract.clock import Clock, first_id
from mercato_contract.decoding.checks import refuse
from mercato_contract.events import STORE_CALLS, EventType
from mercato_contract.refusals import ValidationFailed
from mercato_contract.texts import shown
from mercato_contract.webhooks import (
    MAX_REDELIVERIES,
    DeliveryStatus,
    RedeliverAccepted,
    RedeliverRequest,
    WebhookEndpointKind,
)
from mercato_contract.wire import Wire, instant_fault, parse_instant

KIND: Final = "webhook.redeliver"

BATCH: Final = 100
"""Deliveries that one run sends again, each in a separate transaction."""

START: Final = timedelta(seconds=1)
"""Between a request and its first run: of requests that come at once, the later ones find the first one under way."""

PAUSE: Final = timedelta(milliseconds=200)
"""Between two runs: 500 deliveries a second at most are added to those that wait for their endpoints."""

AT_ONCE: Final = 5
"""Requests of one account and surface that may be under way."""

RETRY_SECONDS: Final = 60


class RedeliverJob(Wire, frozen=True):
    """What is still to be sent again: the deliveries with ids from `first` up to but without `end`.

    Those that were sent again since `unless_since` are left out: another request under way has done it. None if the
    previous release has enqueued the job.
    """

    partner_id: UUID
    surface: Surface
    slot: int
    first: UUID
    end: UUID
    types: tuple[str, ...] | None = None
    store_id: UUID | None = None
    endpoint_id: UUID | None = None
    is_own_url: bool = False
    """Whether only deliveries to the event URL, or to stores' webhook URLs, are meant."""
    webhook_url_of: UUID | None = None
    """The store to whose webhook URL alone they are meant."""
    status: DeliveryStatus | None = None
    requested_at: datetime | None = None
    unless_since: datetime | None = None

    async def enqueue(self, tx: Write, *, run_at: timedelta | None = None) -> bool:
        """Enqueue it after those of its account; return False if its slot is taken."""
        key, group = f"redeliver:{self.partner_id.hex}:{self.surface}", self.partner_id.hex
        job = await enqueue(tx, KIND, self, run_at=run_at, ordering_key=key, dedup=self.dedup, group=group)
        return job is not None

    @property
    def dedup(self) -> str:
        return f"redeliver:{self.partner_id.hex}:{self.surface}:{self.slot}"

    def conditions(self) -> list[ColumnElement[bool]]:
        c = deliveries.c
        equal: Sequence[tuple[ColumnElement[Any], object]] = (
            (c.store_id, self.store_id),
            (c.store_id, self.webhook_url_of),
            (c.endpoint_id, self.endpoint_id),
            (c.status, self.status),
        )
        found = [c.partner_id == self.partner_id, c.surface == self.surface]
        found += [c.id >= self.first, c.id < self.end, c.type.not_in(STORE_CALLS)]
        found += [column == value for column, value in equal if value is not None]
        if self.types is not None:
            found.append(c.type.in_(self.types))
        if self.unless_since is not None:
            found.append(or_(c.round == 0, c.updated_at < self.unless_since))
        if self.is_own_url:
            found.append(c.endpoint_id.is_(None))
        else:
            endpoint = webhook_endpoints.c
            is_called = exists().where(endpoint.id == c.endpoint_id, endpoint.enabled)
            found.append(or_(c.endpoint_id.is_(None), is_called))
        return found

    def is_wanted(self, row: DeliveryRow) -> bool:
        """Return whether a delivery that was found is still to be sent again."""
        # The clocks of two servers may differ: what was never sent again is never left out.
        since = self.unless_since
        is_sent_again = since is not None and row.round > 0 and row.updated_at >= since
        return self.status in {None, row.status} and not is_sent_again


class Redeliveries(Struct, frozen=True):
    """Takes requests, and does them."""

    db: Database
    vault: Vault
    clock: Clock

    async def request(self, caller: Caller, request: RedeliverRequest) -> RedeliverAccepted:
        """Enqueue what the caller wants to be sent again; return how many that is.

        Raises ValidationFailed, UnknownStore, EndpointNotFound, and RateLimited while too many are under way.
        """
        # Counted first: on SQLite all other partners wait for a write transaction, and this may read every delivery.
        async with self.db.read() as tx:
            job = await self._job(tx, caller, request)
            wanted = select(deliveries.c.id).where(*job.conditions()).limit(MAX_REDELIVERIES + 1)
            count: int = await tx.scalar(select(func.count()).select_from(wanted.subquery()))
        if count > MAX_REDELIVERIES:
            raise ValidationFailed.at(
                "/since",
                f"More than {MAX_REDELIVERIES} deliveries match. Send fewer at a time: narrow since and until.",
            )
        if count:
            async with self.db.write() as tx:
                await self._enqueue(tx, job)
                await audit(tx, "deliveries", partner_id=caller.partner_id, detail={"redelivered": count})
        return RedeliverAccepted(count=count)

    async def _enqueue(self, tx: Write, job: RedeliverJob) -> None:
        for slot in range(AT_ONCE):
            # Read again before each try: one that fails has waited for another request's transaction.
            since = await _find_begun(tx, job)
            if await replace(job, slot=slot, unless_since=since).enqueue(tx, run_at=START):
                return
        raise RateLimited(
            f"{AT_ONCE} redeliveries of this account are under way. Repeat this one when they have ended.",
            retry_after=RETRY_SECONDS,
        )

    async def _job(self, tx: Read, caller: Caller, request: RedeliverRequest) -> RedeliverJob:
        now = self.clock()
        since = parse_instant(request.since)
        until = now if request.until is None else parse_instant(request.until)
        known = TYPES[caller.surface] | {EventType.PING}
        refuse(
            [
                ("/since", _future_fault(request.since, since, now)),
                ("/until", None if request.until is None else _order_fault(request.until, since, until)),
                *(
                    (
                        f"/types/{place}",
                        None
                        if type_ in known
                        else f"{shown(type_)} is never redelivered here. Use {', '.join(sorted(known))}.",
                    )
                    for place, type_ in enumerate(request.types or ())
                ),
            ]
        )
        assert since is not None
        assert until is not None
        endpoint_id, is_own_url, webhook_url_of = request.endpoint_id, False, None
        await check_stores(tx, caller, None if request.store_id is None else [request.store_id])
        if endpoint_id is not None:
            endpoint = await get_endpoint(tx, self.vault, caller, endpoint_id)
            if endpoint.kind is not WebhookEndpointKind.ENDPOINT:
                is_own_url = True
                if endpoint.kind is WebhookEndpointKind.WEBHOOK_URL:
                    webhook_url_of = endpoint_id
                endpoint_id = None
        return RedeliverJob(
            partner_id=caller.partner_id,
            surface=caller.surface,
            slot=0,
            first=first_id(since),
            end=first_id(min(until, now + timedelta(milliseconds=1))),
            types=None if request.types is None else tuple(sorted(set(request.types))),
            store_id=request.store_id,
            endpoint_id=endpoint_id,
            is_own_url=is_own_url,
            webhook_url_of=webhook_url_of,
            status=None if request.status is None else DeliveryStatus(request.status.value),
            requested_at=now,
        )

    def handlers(self) -> dict[str, Handler[RedeliverJob]]:
        return {KIND: Handler(fn=self.handle, payload=RedeliverJob, concurrency=2, group_concurrency=1)}

    async def handle(self, job: Job[RedeliverJob]) -> JobOutcome:
        """Send a batch again, and enqueue the rest. What a crash interrupts is sent again once more."""
        work = job.payload
        batch = select(deliveries.c.id).where(*work.conditions()).order_by(deliveries.c.id).limit(BATCH)
        async with self.db.read() as tx:
            ids: list[UUID] = [row.id for row in await tx.all(batch)]
        for id_ in ids:
            # Each in a separate transaction: one that locks two could deadlock with a sender.
            async with self.db.write() as tx:
                row = await find_row(tx, work.partner_id, work.surface, id_)
                if row is not None and work.is_wanted(row):
                    try:
                        await send_again(tx, row, now=self.clock())
                    except Conflict:
                        continue  # its endpoint was deleted or disabled meanwhile
        async with self.db.write() as tx:
            await finish(tx, job)
            if len(ids) == BATCH:
                rest = replace(work, first=UUID(int=ids[-1].int + 1))
                await rest.enqueue(tx, run_at=PAUSE)
        return Settled()


async def _find_begun(tx: Read, job: RedeliverJob) -> datetime | None:
    """Return when the first of the account's requests was made that are under way, this one included."""
    slots = [replace(job, slot=slot).dedup for slot in range(AT_ONCE)]
    c = jobs.c
    found = await tx.all(select(c.payload).where(c.kind == KIND, c.dedup.in_(slots), c.state != "dead"))
    made = (msgspec.json.decode(row.payload, type=RedeliverJob).requested_at for row in found)
    return min(filter(None, (job.requested_at, *made)), default=None)


def _future_fault(text: str, since: datetime | None, now: datetime) -> str | None:
    if since is None:
        return instant_fault("since", text)
    return "since is in the future: nothing was delivered since then." if since > now else None


def _order_fault(text: str, since: datetime | None, until: datetime | None) -> str | None:
    if until is None:
        return instant_fault("until", text)
    return "until must be later than since." if since is not None and until <= since else None
