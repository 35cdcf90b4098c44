"""Self-service onboarding: register, pull the catalog, poll, activate."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, structs

from mercato.features.catalogs import ingest, uploads
from mercato.features.catalogs import queries as catalogs
from mercato.features.catalogs.codings import compress_as, decompress
from mercato.features.catalogs.ingest import NewRun
from mercato.features.catalogs.runs import Owner, Run
from mercato.features.events.log import ALL_KINDS
from mercato.features.partners.credentials import STORES_TOPIC
from mercato.features.partners.model import Caller
from mercato.features.partners.queries import StorageQuota, hold_active_partner
from mercato.features.partners.vault import Vault
from mercato.features.stores import events, places, queries, registrations, views
from mercato.features.stores.cache import publish_change
from mercato.features.stores.model import (
    Onboarding,
    OnboardingActive,
    OnboardingChange,
    OnboardingNotFailed,
    OnboardingNotFound,
    OnboardingNotReady,
    StoreAlreadyRegistered,
    StoreRow,
    fill,
    first_error,
    state_of,
)
from mercato.features.stores.registrations import Registration
from mercato.features.stores.rules import address_of, change_of, handling_fault, token_fault
from mercato.features.stores.tables import onboardings_one_for_each_name
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.changes import announce
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.db.errors import is_unique_violation
from mercato.platform.gazetteer import Location
from mercato_contract.clock import Clock, MakeId
from mercato_contract.decoding.checks import refuse, uri_fault
from mercato_contract.decoding.decode import page_of
from mercato_contract.refusals import Problem
from mercato_contract.stores import (
    OnboardingPage,
    OnboardingRequest,
    OnboardingState,
    OnboardingStatus,
    StoreUpdate,
    timezone_fault,
)
from mercato_contract.texts import name_fault
from mercato_contract.wire import instant
from mercato_outbound.document import Document
from mercato_outbound.guard import AddressPolicy

PATH: Final = "/v1/commerce/onboarding/stores"


_URL: Final = "catalogCallbackUrl"

_NO_URL: Final = (
    "This store was registered with an uploaded menu, which is no longer kept. Send the address of its catalog as "
    "catalogCallbackUrl, or register the store again."
)


class NewMenu(Struct, frozen=True):
    """The menu of a registration of the console: a CatalogSet, compressed. The registration is of `updated_at`."""

    registration_id: UUID
    updated_at: datetime
    document: Document


class Onboardings(Struct, frozen=True):
    """The operations on onboardings. `policy` says which addresses may be called."""

    db: Database
    clock: Clock
    new_id: MakeId
    vault: Vault
    policy: AddressPolicy
    quota: StorageQuota

    async def register(
        self, caller: Caller, request: OnboardingRequest, *, trace: str, unknown: Sequence[str] = ()
    ) -> OnboardingStatus:
        """Start an onboarding and its pull. `unknown` are pointers to members of the request that were ignored.

        Raises ValidationFailed, StoreAlreadyRegistered.
        """
        refuse([*_faults(request), ("/catalogCallbackUrl", uri_fault(request.catalog_callback_url, _URL))])
        onboarding = structs.replace(
            self._new(caller, request, await places.find(address_of(request.address))),
            unknown_members=views.unknown_members_of(OnboardingRequest, unknown),
        )
        return await self._start(caller, request, onboarding, trace, None)

    async def register_in_console(
        self, caller: Caller, request: OnboardingRequest, menu: NewMenu, *, trace: str
    ) -> OnboardingStatus:
        """Start the onboarding of a registration of the console, whose menu was uploaded: its URL is an empty text.

        Raises ValidationFailed, StoreAlreadyRegistered, RateLimited, RegistrationChanged.
        """
        refuse(_faults(request))
        onboarding = self._new(caller, request, await places.find(address_of(request.address)))
        return await self._start(caller, request, onboarding, trace, menu)

    async def _start(
        self,
        caller: Caller,
        request: OnboardingRequest,
        onboarding: Onboarding,
        trace: str,
        menu: NewMenu | None,
    ) -> OnboardingStatus:
        async with self._claim_name(onboarding) as tx:
            await hold_active_partner(tx, caller.partner_id)
            await self._release_failed_name(tx, onboarding)
            await queries.insert_onboarding(tx, onboarding)
            if onboarding.webhook_url is not None:
                await events.bind_token(
                    tx, self.vault, caller.partner_id, onboarding.webhook_url, token=request.webhook_token
                )
            await catalogs.insert_owner(tx, _owner(onboarding))
            await places.enqueue_for_onboarding(tx, onboarding)
            run = await self._pull(tx, onboarding, trace)
            if menu is not None:
                await self.quota.take(tx, caller.partner_id, menu.document.size, now=self.clock())
                await uploads.check_room(tx, caller.partner_id)
                await uploads.insert_upload(tx, run.id, caller.partner_id, menu.document)
                await registrations.set_onboarding(
                    tx, menu.registration_id, onboarding.id, updated_at=menu.updated_at
                )
            await audit(tx, "onboarding", onboarding.id)
            processes.crash_point("onboarding.written")
        processes.crash_point("onboarding.stored")
        return _status(onboarding, run, onboarding, policy=self.policy)

    async def get(self, caller: Caller, onboarding_id: UUID) -> OnboardingStatus:
        """Raises OnboardingNotFound."""
        async with self.db.read() as tx:
            onboarding = await _get(tx, caller, onboarding_id)
            [status] = await _statuses(tx, [onboarding], policy=self.policy)
        return status

    async def list(self, caller: Caller, *, before: UUID | None, limit: int) -> OnboardingPage:
        """Return the caller's onboardings, newest first."""
        async with self.db.read() as tx:
            rows = await queries.list_onboardings(tx, caller.partner_id, before=before, limit=limit + 1)
            statuses = await _statuses(tx, rows[:limit], policy=self.policy)
        _, cursor = page_of(rows, len(statuses), lambda row: row.id)
        return OnboardingPage(onboardings=statuses, next_cursor=cursor)

    async def cancel(self, caller: Caller, onboarding_id: UUID) -> None:
        """Cancel the onboarding and abandon its pull. Raises OnboardingNotFound, OnboardingActive."""
        now = self.clock()
        async with self.db.write() as tx:
            onboarding = await _get(tx, caller, onboarding_id, lock=True)
            if not await queries.update_onboarding(
                tx, onboarding.id, OnboardingChange(cancelled_at=now, holds_name=False)
            ):
                raise OnboardingActive
            await ingest.abandon(tx, onboarding.id, now=now)
            await audit(tx, "onboarding", onboarding.id)

    async def retry(
        self, caller: Caller, onboarding_id: UUID, callback_url: str | None, *, trace: str
    ) -> OnboardingStatus:
        """Pull the catalog of a failed onboarding again. Raises OnboardingNotFailed, StoreAlreadyRegistered."""
        if callback_url is not None:
            refuse([("/catalogCallbackUrl", uri_fault(callback_url, _URL))])
        async with self.db.read() as tx:
            named = await _get(tx, caller, onboarding_id)
        async with self._claim_name(named) as tx:
            onboarding = await _get(tx, caller, onboarding_id, lock=True)
            failed = await _newest(tx, onboarding)
            state = state_of(onboarding, failed)
            if state is not OnboardingState.CATALOG_FAILED:
                raise OnboardingNotFailed(state)
            if not onboarding.holds_name:
                await self._release_failed_name(tx, onboarding)
            url = callback_url or onboarding.catalog_callback_url
            refuse([("/catalogCallbackUrl", None if url else _NO_URL)])
            await queries.update_onboarding(
                tx, onboarding.id, OnboardingChange(catalog_callback_url=url, holds_name=True)
            )
            run = await self._pull(tx, onboarding, trace, url=url, after=failed)
            await audit(tx, "onboarding", onboarding.id)
        return _status(onboarding, run, onboarding, policy=self.policy)

    async def activate(
        self, caller: Caller, onboarding_id: UUID, *, details: StoreUpdate | None = None
    ) -> StoreRow:
        """Create the onboarding's store with the validated catalog, and with `details` that registration doesn't take.

        Without details, an onboarding that was made of a registration is refused: what was typed there would be lost,
        its taxes among it. Raises OnboardingNotReady, and ValidationFailed for details that aren't allowed.
        """
        now = self.clock()
        async with self.db.write() as tx:
            await hold_active_partner(tx, caller.partner_id)
            onboarding = await _get(tx, caller, onboarding_id, lock=True)
            state = state_of(onboarding, await _newest(tx, onboarding))
            if state is not OnboardingState.READY_TO_ACTIVATE:
                is_active = state is OnboardingState.ACTIVE
                raise OnboardingNotReady(state, store_id=onboarding.store_id if is_active else None)
            if await registrations.delete_of_onboarding(tx, onboarding.id) and details is None:
                raise OnboardingNotReady(state, is_typed=True)
            await queries.update_onboarding(tx, onboarding.id, OnboardingChange(activated_at=now))
            await queries.insert_store(tx, onboarding, now=now)
            if details is not None:
                await self._complete(tx, onboarding, details)
            await audit(tx, "store", onboarding.store_id, detail={"onboardingId": onboarding.id})
            await publish_change(tx, onboarding.store_id, ALL_KINDS, at=now)
            await announce(tx, STORES_TOPIC, str(caller.partner_id))
            store = await queries.find_store(tx, onboarding.store_id)
            processes.crash_point("store.written")
        processes.crash_point("store.stored")
        assert store is not None
        return store

    async def _complete(self, tx: Write, onboarding: Onboarding, details: StoreUpdate) -> None:
        """Change the new store before anybody sees it. Raises ValidationFailed."""
        row = await queries.find_store(tx, onboarding.store_id)
        assert row is not None
        change = change_of(details, row, found=Location(), policy=self.policy)
        await queries.update_store(tx, row.partner_id, row.id, change, now=self.clock())

    def _new(self, caller: Caller, request: OnboardingRequest, found: Location) -> Onboarding:
        sent = request.address.coordinates
        latitude, longitude = (sent.lat, sent.lng) if sent else found.coordinates or (None, None)
        return fill(
            Onboarding,
            request,
            id=self.new_id(),
            store_id=self.new_id(),
            partner_id=caller.partner_id,
            address=address_of(request.address),
            latitude=latitude,
            longitude=longitude,
            timezone=request.timezone or found.timezone or places.UNKNOWN_ZONE,
            timezone_given=request.timezone is not None,
            created_at=self.clock(),
            activated_at=None,
            cancelled_at=None,
            holds_name=True,
        )

    @asynccontextmanager
    async def _claim_name(self, onboarding: Onboarding) -> AsyncIterator[Write]:
        """Open a transaction in which the onboarding takes its partnerStoreId. Raises StoreAlreadyRegistered."""
        try:
            async with self.db.write() as tx:
                yield tx
        except Exception as error:
            if not is_unique_violation(error, onboardings_one_for_each_name):
                raise
            # A concurrent request has taken the name between our read and our write.
            raise await self._already_registered(onboarding) from None

    async def _release_failed_name(self, tx: Write, onboarding: Onboarding) -> None:
        """Release a failed onboarding's name. Raises StoreAlreadyRegistered if its holder hasn't failed."""
        holder = await queries.find_name_holder(tx, onboarding.partner_id, onboarding.partner_store_id)
        if holder is None:
            return
        if state_of(holder, await _newest(tx, holder)) is not OnboardingState.CATALOG_FAILED:
            raise _already(holder)
        await queries.update_onboarding(tx, holder.id, OnboardingChange(holds_name=False))

    async def _pull(
        self,
        tx: Write,
        onboarding: Onboarding,
        trace: str,
        *,
        url: str | None = None,
        after: Run | None = None,
    ) -> Run:
        # The newest run determines the state, and the clock of the last run's process may be ahead of ours.
        run_id = self.new_id()
        if after is not None and run_id <= after.id:
            run_id = UUID(int=after.id.int + 1)
        new = NewRun(
            id=run_id,
            owner=_owner(onboarding),
            callback_url=url or onboarding.catalog_callback_url,
            notified=False,
            traceparent=trace,
        )
        return await ingest.accept(tx, new, now=self.clock())

    async def _already_registered(self, onboarding: Onboarding) -> Problem:
        async with self.db.write() as tx:
            holder = await queries.find_name_holder(tx, onboarding.partner_id, onboarding.partner_store_id)
        return _already(holder or onboarding)


def _status(
    onboarding: Onboarding, newest: Run, place: Onboarding | StoreRow, *, policy: AddressPolicy
) -> OnboardingStatus:
    """Return the status; `place` is the store once it exists, whose address and webhookUrl may have changed."""
    state = state_of(onboarding, newest)
    failed = state is OnboardingState.CATALOG_FAILED
    return OnboardingStatus(
        onboarding_id=onboarding.id,
        partner_store_id=onboarding.partner_store_id,
        status=state,
        store_id=onboarding.store_id if state is OnboardingState.ACTIVE else UNSET,
        error=first_error(newest.errors) if failed else UNSET,
        errors=newest.errors if failed else (),
        created_at=instant(onboarding.created_at) or "",
        warnings=(
            *views.warnings_of(place),
            *views.unseen_warnings_of(place),
            *views.webhook_warnings_of(place, policy),
            *(place.unknown_members or ()),
            *newest.warnings,
        ),
    )


async def _statuses(tx: Read, page: Sequence[Onboarding], *, policy: AddressPolicy) -> list[OnboardingStatus]:
    """Return the statuses of the first onboardings: of all, unless they have very many faults."""
    newest = await catalogs.list_latest(tx, [onboarding.id for onboarding in page])
    active = [onboarding.store_id for onboarding in page if onboarding.activated_at is not None]
    stores = {store.onboarding_id: store for store in await queries.list_stores_by_id(tx, active)}
    return [
        _status(onboarding, newest[onboarding.id], stores.get(onboarding.id, onboarding), policy=policy)
        for onboarding in page[: len(newest)]
    ]


async def _get(tx: Read, caller: Caller, onboarding_id: UUID, *, lock: bool = False) -> Onboarding:
    onboarding = await queries.find_onboarding(tx, caller.partner_id, onboarding_id, lock=lock)
    if onboarding is None:
        raise OnboardingNotFound(onboarding_id)
    return onboarding


async def _newest(tx: Read, onboarding: Onboarding) -> Run:
    return (await catalogs.list_latest(tx, [onboarding.id]))[onboarding.id]


def _owner(onboarding: Onboarding) -> Owner:
    return Owner(id=onboarding.id, store_id=onboarding.store_id, partner_id=onboarding.partner_id)


def _already(holder: Onboarding) -> StoreAlreadyRegistered:
    return StoreAlreadyRegistered(holder.id, holder.partner_store_id, location=f"{PATH}/{holder.id}")


def _faults(request: OnboardingRequest) -> Sequence[tuple[str, str | None]]:
    return [
        ("/name", name_fault(request.name)),
        ("/webhookUrl", uri_fault(request.webhook_url, "webhookUrl") if request.webhook_url else None),
        ("/webhookToken", token_fault(request.webhook_token, request.webhook_url)),
        ("/orderHandling", handling_fault(request.order_handling, request.webhook_url)),
        ("/timezone", timezone_fault(request.timezone) if request.timezone is not None else None),
    ]


async def new_menu(kept: Registration, stored: bytes, change: Callable[[bytes], bytes]) -> NewMenu:
    """Return the menu of a registration for its onboarding, from what is kept of it, changed."""

    def made() -> bytes:
        return compress_as(change(decompress(stored, "zstd")), "zstd")

    return NewMenu(kept.id, kept.updated_at, Document.of(await asyncio.to_thread(made)))
