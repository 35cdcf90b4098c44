"""Stores as the service's operators see them: of every partner, those of suspended partners included."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Row, and_, func, or_, select

from mercato.features.catalogs.tables import catalog_owners as owners
from mercato.features.partners.tables import partners
from mercato.features.stores.model import StoreNotFound, handling_of
from mercato.features.stores.service import set_status
from mercato.features.stores.tables import sold_out_items, stores
from mercato.features.webhooks.store_health import IS_IN_TROUBLE
from mercato.features.webhooks.tables import failing_stores
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.search import get_id
from mercato_contract.clock import first_id
from mercato_contract.stores import OrderHandling, StoreStatusUpdate, StoreStatusValue
from mercato_outbound.guard import origin_of


class StoreFilter(Struct, frozen=True, kw_only=True):
    """Which stores to list: all that fit. `before` is the last id shown, `failing` those in trouble."""

    partner_id: UUID | None = None
    store_id: UUID | None = None
    status: StoreStatusValue | None = None
    since: datetime | None = None
    before: UUID | None = None
    failing: bool = False


class CallFailures(Struct, frozen=True):
    """The calls to a store in trouble: how many in a row have failed, since when, and the last error."""

    since: datetime
    calls: int
    error: str | None


class StoreSummary(Struct, frozen=True, kw_only=True):
    """A store in a list. `suspended` is whether its partner is suspended, which hides the store.

    `is_unseen` is whether the service accepts its orders and nobody is called; `failing` is None unless the store is in
    trouble.
    """

    id: UUID
    partner_id: UUID
    partner: str | None
    partner_store_id: str
    name: str
    status: StoreStatusValue
    pause_reason: str | None
    resume_at: datetime | None
    suspended: bool
    is_unseen: bool
    failing: CallFailures | None
    created_at: datetime
    updated_at: datetime


class StoreDetail(StoreSummary, frozen=True, kw_only=True):
    """A store and what decides whether it takes orders. Only its webhookUrl's origin: the rest may grant access."""

    onboarding_id: UUID
    catalog_set_id: UUID | None
    timezone: str
    webhook_origin: str | None
    delivery_allowed: bool
    pickup_allowed: bool
    sold_out: int


_STORES: Final = (
    select(
        stores,
        owners.c.current_set_id,
        partners.c.name.label("partner"),
        partners.c.suspended_at,
        failing_stores.c.failing_since,
        failing_stores.c.calls.label("failed_calls"),
        failing_stores.c.error.label("call_error"),
    )
    .join(partners, partners.c.id == stores.c.partner_id, isouter=True)
    .join(owners, owners.c.id == stores.c.onboarding_id, isouter=True)
    .join(failing_stores, and_(failing_stores.c.store_id == stores.c.id, IS_IN_TROUBLE), isouter=True)
)


async def list_stores(tx: Read, wanted: StoreFilter, *, limit: int, now: datetime) -> list[StoreSummary]:
    """Return at most `limit` stores, newest first, with their status at the instant."""
    query = _STORES
    if wanted.partner_id is not None:
        query = query.where(stores.c.partner_id == wanted.partner_id)
    if wanted.store_id is not None:
        query = query.where(stores.c.id == wanted.store_id)
    if wanted.status is not None:
        paused = and_(stores.c.paused, or_(stores.c.resume_at.is_(None), stores.c.resume_at > now))
        query = query.where(paused if wanted.status is StoreStatusValue.PAUSED else ~paused)
    if wanted.failing:
        query = query.where(failing_stores.c.store_id.is_not(None))
    if wanted.since is not None:
        query = query.where(stores.c.id >= first_id(wanted.since))
    if wanted.before is not None:
        query = query.where(stores.c.id < wanted.before)
    return [_summary(row, now) for row in await tx.all(query.order_by(stores.c.id.desc()).limit(limit))]


async def list_stores_of(tx: Read, ids: Sequence[UUID], *, now: datetime) -> list[StoreSummary]:
    """Return the stores of these ids in their order, with their status at the instant."""
    rows = await tx.all(_STORES.where(stores.c.id.in_(ids))) if ids else ()
    return sorted((_summary(row, now) for row in rows), key=lambda store: ids.index(store.id))


async def get_store_id(tx: Read, text: str) -> UUID:
    """Return the id of the store that begins with the text. Raises UnknownIdError."""
    return await get_id(tx, stores.c.id, text, noun="store")


async def get_store(tx: Read, store_id: UUID, *, now: datetime) -> StoreDetail:
    """Return the store. Raises StoreNotFound once it is deleted."""
    row = await tx.first(_STORES.where(stores.c.id == store_id))
    if row is None:
        raise StoreNotFound(store_id)
    is_sold_out = or_(sold_out_items.c.until.is_(None), sold_out_items.c.until > now)
    sold_out = select(func.count()).where(sold_out_items.c.store_id == store_id, is_sold_out)
    return StoreDetail(
        **asdict(_summary(row, now)),
        onboarding_id=row.onboarding_id,
        catalog_set_id=row.current_set_id,
        timezone=row.timezone,
        webhook_origin=None if row.webhook_url is None else origin_of(row.webhook_url),
        delivery_allowed=row.delivery_allowed,
        pickup_allowed=row.pickup_allowed,
        sold_out=await tx.scalar(sold_out),
    )


async def change_status(tx: Write, store_id: UUID, request: StoreStatusUpdate, *, now: datetime) -> None:
    """Pause or resume the store as its merchant would. Raises StoreNotFound, ValidationFailed."""
    partner_id = await tx.scalar(select(stores.c.partner_id).where(stores.c.id == store_id))
    await set_status(tx, partner_id, store_id, request, now=now)


def _summary(row: Row[Any], now: datetime) -> StoreSummary:
    paused = row.paused and (row.resume_at is None or row.resume_at > now)
    return StoreSummary(
        id=row.id,
        partner_id=row.partner_id,
        partner=row.partner,
        partner_store_id=row.partner_store_id,
        name=row.name,
        status=StoreStatusValue.PAUSED if paused else StoreStatusValue.ONLINE,
        pause_reason=row.pause_reason if paused else None,
        resume_at=row.resume_at if paused else None,
        suspended=row.suspended_at is not None,
        is_unseen=handling_of(row.order_handling, row.webhook_url) is OrderHandling.AUTOMATIC,
        failing=None
        if row.failing_since is None
        else CallFailures(row.failing_since, row.failed_calls, row.call_error),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
