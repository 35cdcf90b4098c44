"""The operations on live stores: read, change, pause, mark items as sold out, notify."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, field, structs

from mercato.features.catalogs import ingest, uploads
from mercato.features.catalogs import queries as catalogs
from mercato.features.catalogs.errors import CatalogIngestNotFound
from mercato.features.catalogs.ingest import NewRun
from mercato.features.catalogs.periods import list_periods
from mercato.features.catalogs.queries import CompiledCatalogs
from mercato.features.catalogs.runs import OPEN, Owner, Period, Run, activation_fault
from mercato.features.catalogs.switches import Switches
from mercato.features.catalogs.uploads import Receive, receiving_slots
from mercato.features.partners.model import Caller
from mercato.features.partners.queries import StorageQuota
from mercato.features.partners.vault import Vault
from mercato.features.stores import events, places, queries, rules, views
from mercato.features.stores.cache import StoreCache, invalidate, publish_change
from mercato.features.stores.catalogs import IdMappings
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.features.stores.rules import address_of
from mercato.features.stores.views import status_of, store_of
from mercato.features.webhooks.deliveries import enable_endpoints_below
from mercato.features.webhooks.outbox import origin_changed
from mercato.features.webhooks.store_health import forget_store
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.gazetteer import Location
from mercato.platform.slots import Slots
from mercato_contract.catalogs import CatalogSetActivated, CatalogSetNotification
from mercato_contract.clock import Clock, MakeId
from mercato_contract.decoding.checks import refuse, uri_fault
from mercato_contract.decoding.decode import page_of
from mercato_contract.feeds import StoreChangeKind
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.stores import (
    AddressRequest,
    ItemAvailabilityRequest,
    Store,
    StorePage,
    StoreStatusEntry,
    StoreStatusResponse,
    StoreStatusUpdate,
    StoreStatusValue,
    StoreUpdate,
)
from mercato_contract.wire import parse_instant
from mercato_outbound.document import NewDocument
from mercato_outbound.guard import AddressPolicy, origin_of

_UNSEEN: Final = {"webhook_url", "timezone_given", "order_handling", "accept_within", "charges"}
"""Members of a store that storefronts don't see."""


class Stores(Struct, frozen=True):
    """Live stores of merchants. `policy` says which addresses may be called."""

    db: Database
    clock: Clock
    new_id: MakeId
    cache: StoreCache
    compiled: CompiledCatalogs
    id_mappings: IdMappings
    runs_waiting: int
    vault: Vault
    quota: StorageQuota
    switches: Switches
    new_document: NewDocument
    policy: AddressPolicy
    receiving: Slots = field(default_factory=receiving_slots)

    async def get(self, caller: Caller, store_id: UUID) -> Store:
        """Raises StoreNotFound."""
        return store_of(await self.cache.get_own(caller, store_id), self.clock())

    async def list(
        self,
        caller: Caller,
        *,
        before: UUID | None,
        limit: int,
        status: StoreStatusValue | None,
        partner_store_id: str | None,
    ) -> StorePage:
        """Return the caller's stores, newest first."""
        now = self.clock()
        async with self.db.read() as tx:
            page, cursor = await queries.list_stores(
                tx,
                caller.partner_id,
                before=before,
                limit=limit,
                status=status,
                partner_store_id=partner_store_id,
                now=now,
            )
        return StorePage(stores=[store_of(row, now) for row in page], next_cursor=cursor)

    async def update(
        self,
        caller: Caller,
        store_id: UUID,
        request: StoreUpdate,
        *,
        trace: str,
        unknown: Sequence[str] = (),
    ) -> Store:
        """Change the members that are present. `unknown` are pointers to members of the request that were ignored.

        Raises StoreNotFound, ValidationFailed.
        """
        now = self.clock()
        address = request.address
        found = await places.find(address_of(address)) if isinstance(address, AddressRequest) else Location()
        async with self.db.write() as tx:
            row = await queries.lock_store(tx, caller.partner_id, store_id)
            if row is None:
                raise StoreNotFound(store_id)
            change = rules.change_of(request, row, found=found, policy=self.policy)
            warned = structs.replace(change, unknown_members=views.unknown_members_of(StoreUpdate, unknown))
            await queries.update_store(tx, caller.partner_id, store_id, warned, now=now)
            if isinstance(change.webhook_url, str):
                # A new URL, or the same one again: either way deliveries to it are enabled.
                await enable_endpoints_below(tx, caller.partner_id, change.webhook_url)
            after = await queries.find_store(tx, store_id)
            assert after is not None
            if (after.webhook_url, after.orders_url) != (row.webhook_url, row.orders_url):
                # Whether a new address works, its calls will show.
                await forget_store(tx, store_id)
            if change.address is not UNSET:
                await places.enqueue_for_store(tx, after)
            token = request.webhook_token if isinstance(request.webhook_token, str) else None
            if after.webhook_url is not None and (change.webhook_url is not UNSET or token is not None):
                await events.bind_token(tx, self.vault, caller.partner_id, after.webhook_url, token=token)
            await events.announce_webhook_url(
                tx, before=row, after=after, now=now, new_id=self.new_id, trace=trace
            )
            members = sorted(change.members) if token is None else [*sorted(change.members), "webhook_token"]
            await audit(tx, "store", store_id, detail={"changed": members} | _origin_detail(row, after))
            seen = set(change.members) - _UNSEEN
            is_changed = any(getattr(after, name) != getattr(row, name) for name in seen)
            await publish_change(tx, store_id, (StoreChangeKind.PROFILE,) if is_changed else (), at=now)
        return store_of(after, now)

    async def get_status(self, caller: Caller, store_id: UUID) -> StoreStatusResponse:
        """Raises StoreNotFound."""
        return status_of(await self.cache.get_own(caller, store_id), self.clock())

    async def set_status(
        self, caller: Caller, store_id: UUID, request: StoreStatusUpdate
    ) -> StoreStatusResponse:
        """Pause or resume. Pausing a paused store replaces reason and end. Raises StoreNotFound, ValidationFailed."""
        async with self.db.write() as tx:
            return await self._set_status(tx, caller, store_id, request, now=self.clock())

    async def set_statuses(
        self, caller: Caller, updates: Sequence[StoreStatusEntry]
    ) -> Sequence[StoreStatusResponse | Problem]:
        """Do the same with many stores in one transaction; return each outcome, in their order.

        A refused update changes nothing, and the others happen. Updates of one store are applied one after the other.
        """
        outcomes: list[StoreStatusResponse | Problem] = []
        async with self.db.write() as tx:
            await queries.lock_stores(tx, caller.partner_id, {update.store_id for update in updates})
            now = self.clock()
            for update in updates:
                try:
                    outcomes.append(await self._set_status(tx, caller, update.store_id, update, now=now))
                except Problem as problem:
                    outcomes.append(problem)
        return outcomes

    async def _set_status(
        self, tx: Write, caller: Caller, store_id: UUID, request: StoreStatusUpdate, *, now: datetime
    ) -> StoreStatusResponse:
        return status_of(await set_status(tx, caller.partner_id, store_id, request, now=now), now)

    async def set_items(
        self, caller: Caller, store_id: UUID, request: ItemAvailabilityRequest
    ) -> tuple[UUID, ...]:
        """Mark items as sold out or available; return all that are sold out now. Raises ValidationFailed."""
        now = self.clock()
        known = await self.cache.get_own(caller, store_id)
        catalog = await self.compiled.get(known.catalog_set_id)
        sold_out, available = rules.availability_changes(request, known, catalog, now)
        async with self.db.write(locks=store_id) as tx:
            row = await queries.lock_store(tx, caller.partner_id, store_id)
            if row is None:
                raise StoreNotFound(store_id)
            await queries.replace_sold_out(tx, store_id, sold_out=sold_out, available=available)
            # The set that `catalog` is of must still be the current one: what this lacks, another may have.
            if sold_out and row.catalog_set_id == known.catalog_set_id:
                await queries.delete_sold_out(tx, store_id, rules.forgotten_items(row, catalog))
            await audit(tx, "store", store_id, detail={"soldOut": len(sold_out), "available": len(available)})
            after = await queries.find_store(tx, store_id)
            assert after is not None
            is_changed = set(after.unavailable_at(now)) != set(row.unavailable_at(now))
            await invalidate(tx, store_id, (StoreChangeKind.ITEMS,) if is_changed else (), at=now)
        return after.unavailable_at(now)

    async def get_ids(self, caller: Caller, store_id: UUID) -> bytes:
        """Return the StoreIds of the caller's store as JSON. Raises StoreNotFound."""
        async with self.db.read() as tx:
            row = await queries.find_store(tx, store_id)
        if row is None or row.partner_id != caller.partner_id:
            raise StoreNotFound(store_id)
        return await self.id_mappings.get(row.catalog_set_id)

    async def notify(
        self, caller: Caller, store_id: UUID, request: CatalogSetNotification, *, trace: str
    ) -> Run:
        """Accept a catalog run. Raises StoreNotFound, ValidationFailed, RateLimited, TooManyActivations."""
        store = await self.cache.get_own(caller, store_id)
        now, url, wanted = self.clock(), request.callback_url, request.activate_at
        refuse(
            [
                ("/callbackUrl", uri_fault(url, "callbackUrl")),
                ("/activateAt", None if wanted is None else activation_fault(wanted, now)),
            ]
        )
        async with self.db.write(locks=store_id) as tx:
            await self.quota.check(tx, caller.partner_id, now=now)
            run = await self._accept(tx, store, url, wanted, trace=trace, now=now)
            await audit(tx, "run", run.id, detail={"storeId": store.id})
            return run

    async def replace_catalog(
        self,
        caller: Caller,
        store_id: UUID,
        receive: Receive,
        *,
        activate_at: str | None,
        trace: str,
        based_on: UUID | None = None,
    ) -> Run:
        """Accept a catalog run for the document in the body that `receive` reads. Raises what `notify` and it raise.

        Everything that can be refused without the body is refused before it is read. `based_on` is the store's set that
        the document was made of: raises AnotherMenu if it has, or may get, another.
        """
        store = await self.cache.get_own(caller, store_id)
        fault = None if activate_at is None else activation_fault(activate_at, self.clock())
        if fault is not None:
            raise ValidationFailed.at(None, fault)
        async with self.db.read() as tx:
            await self.quota.check(tx, caller.partner_id, now=self.clock())
            await uploads.check_room(tx, caller.partner_id)
        with self.receiving.slot(caller.partner_id), self.new_document() as document:
            await uploads.receive_into(document, receive)
            now = self.clock()
            async with self.db.write(locks=store_id) as tx:
                await self.quota.take(tx, caller.partner_id, document.size, now=now)
                await uploads.check_room(tx, caller.partner_id)
                run = await self._accept(tx, store, "", activate_at, trace=trace, now=now)
                if based_on is not None:
                    await ingest.check_base(tx, run, based_on)
                await uploads.insert_upload(tx, run.id, caller.partner_id, document)
                await audit(tx, "store", store.id, detail={"catalogIngestId": run.id})
                return run

    async def keep_menu(self, caller: Caller, document: bytes) -> UUID:
        """Keep a CatalogSet until somebody has looked at it; return the id to publish it by. Raises RateLimited.

        It is kept for an hour, and of each partner the newest five.
        """

        async def receive(write: Callable[[bytes], Awaitable[None]]) -> None:
            await write(document)

        with self.receiving.slot(caller.partner_id), self.new_document() as kept:
            await uploads.receive_into(kept, receive)
            draft_id, now = self.new_id(), self.clock()
            async with self.db.write() as tx:
                await self.quota.take(tx, caller.partner_id, kept.size, now=now)
                await uploads.check_room(tx, caller.partner_id)
                await uploads.insert_draft(tx, draft_id, caller.partner_id, kept)
        return draft_id

    async def publish_menu(
        self, caller: Caller, store_id: UUID, draft_id: UUID, *, trace: str, based_on: UUID | None = None
    ) -> Run:
        """Accept a catalog run for what `keep_menu` kept, once. Raises what `notify` raises, and DraftNotFound.

        `based_on` is the store's set that the menu was compared with, and whose hours it has: raises AnotherMenu if the
        store has, or may get, another.
        """
        store = await self.cache.get_own(caller, store_id)
        async with self.db.write(locks=store_id) as tx:
            run = await self._accept(tx, store, "", None, trace=trace, now=self.clock())
            await uploads.claim_draft(tx, draft_id, caller.partner_id, run.id)
            if based_on is not None:
                await ingest.check_base(tx, run, based_on)
            await audit(tx, "run", run.id, detail={"storeId": store.id})
        return run

    async def _accept(
        self, tx: Write, store: StoreRow, url: str, activate_at: str | None, *, trace: str, now: datetime
    ) -> Run:
        new = NewRun(
            id=self.new_id(),
            owner=_owner_of(store),
            callback_url=url,
            traceparent=trace,
            activate_at=None if activate_at is None else parse_instant(activate_at),
        )
        run = await ingest.accept_notified(tx, new, waiting=self.runs_waiting, now=now)
        processes.crash_point("run.written")
        return run

    async def activate_set(
        self, caller: Caller, store_id: UUID, set_id: UUID, *, trace: str
    ) -> CatalogSetActivated:
        """Switch back to an earlier set. Raises StoreNotFound, CatalogSetNotFound, CatalogSetExpired."""
        store = await self.cache.get_own(caller, store_id)
        async with self.db.write(locks=store_id) as tx:
            left, run_id = await self.switches.roll_back(tx, _owner_of(store), set_id, traceparent=trace)
            if run_id is not None:
                detail = {"catalogSetId": set_id, "rolledBackFrom": left, "catalogIngestId": run_id}
                await audit(tx, "store", store_id, detail=detail)
        return CatalogSetActivated(catalog_set_id=set_id, rolled_back_from=left)

    async def cancel_activation(self, caller: Caller, store_id: UUID, run_id: UUID) -> None:
        """Cancel a scheduled switch. Raises StoreNotFound, CatalogIngestNotFound, ActivationNotPending."""
        store = await self.cache.get_own(caller, store_id)
        await self.get_run(caller, store_id, run_id)
        async with self.db.write(locks=store_id) as tx:
            if await self.switches.cancel(tx, _owner_of(store), run_id):
                await audit(tx, "run", run_id, detail={"storeId": store_id, "activation": "cancelled"})

    async def list_sets(
        self, caller: Caller, store_id: UUID, *, before: UUID | None, limit: int
    ) -> tuple[Sequence[Period], str | None]:
        """Return when the store served which set, the last one first, and the next cursor."""
        store = await self.cache.get_own(caller, store_id)
        async with self.db.read() as tx:
            rows = await list_periods(tx, store.onboarding_id, before=before, limit=limit + 1)
        return page_of(rows, limit, lambda period: period.id)

    async def get_run(self, caller: Caller, store_id: UUID, run_id: UUID) -> Run:
        """Return a run of the caller's store. Raises StoreNotFound, CatalogIngestNotFound."""
        store = await self.cache.get_own(caller, store_id)
        async with self.db.read() as tx:
            run = await catalogs.find_run(tx, run_id)
        if run is None or run.owner.id != store.onboarding_id or not run.notified:
            raise CatalogIngestNotFound(run_id)
        return _with_store_warnings(run, store)

    async def list_runs(
        self, caller: Caller, store_id: UUID, *, before: UUID | None, limit: int
    ) -> tuple[Sequence[Run], str | None]:
        """Return the runs that the partner requested, newest first, and the next cursor."""
        store = await self.cache.get_own(caller, store_id)
        async with self.db.read() as tx:
            page, cursor = await catalogs.list_notified(tx, store.onboarding_id, before=before, limit=limit)
        return [_with_store_warnings(run, store) for run in page], cursor


async def set_status(
    tx: Write,
    partner_id: UUID,
    store_id: UUID,
    request: StoreStatusUpdate,
    *,
    now: datetime,
) -> StoreRow:
    """Pause or resume the partner's store; return it without its items. Raises ValidationFailed, StoreNotFound."""
    change = rules.status_change_of(request, now)
    # Locked: else it could differ from what a change at the same time has left, and that would go unnoticed.
    if not await queries.lock_own(tx, partner_id, store_id):
        raise StoreNotFound(store_id)
    before = await queries.get_any_store(tx, store_id)
    await queries.update_store(tx, partner_id, store_id, change, now=now)
    await audit(tx, "store", store_id, partner_id=partner_id, detail={"status": request.status})
    after = await queries.get_any_store(tx, store_id)
    # Storefronts see no reason of a pause, and what has ended by itself is no change.
    is_changed = _pause_of(after, now) != _pause_of(before, now)
    await publish_change(tx, store_id, (StoreChangeKind.STATUS,) if is_changed else (), at=now)
    return after


def _pause_of(row: StoreRow, now: datetime) -> tuple[bool, datetime | None]:
    return (True, row.resume_at) if row.paused_at(now) else (False, None)


def _owner_of(store: StoreRow) -> Owner:
    return Owner(id=store.onboarding_id, store_id=store.id, partner_id=store.partner_id)


def _with_store_warnings(run: Run, store: StoreRow) -> Run:
    """Return an ended run with the warnings about the store's address before its own."""
    if run.status in OPEN:
        return run
    return structs.replace(run, warnings=(*views.warnings_of(store), *run.warnings))


def _origin_detail(before: StoreRow, after: StoreRow) -> dict[str, str | None]:
    """Return a webhookUrl's new origin for the audit log; the rest of the URL may grant access."""
    if not origin_changed(before.webhook_url, after.webhook_url):
        return {}
    return {"webhookOrigin": None if after.webhook_url is None else origin_of(after.webhook_url)}
