"""Deliveries as whoever runs the service sees them: of every partner, found, counted and sent again."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, Select, func, or_, select, text

from mercato.domain.partners.model import Caller, Limits, Surface
from mercato.domain.webhooks import queries
from mercato.domain.webhooks.deliveries import redeliver
from mercato.domain.webhooks.event_types import STORE_CALLS
from mercato.domain.webhooks.model import DeliveryStatus
from mercato.kernel import errors
from mercato.kernel.clock import Clock, first_id
from mercato.kernel.db.engine import Database, Read, Write
from mercato.kernel.db.tables import deliveries, partners

_AT_ONCE: Final = 500
"""Ids that are read at one time while deliveries are sent again."""

_CAN_BE_SENT: Final = deliveries.c.type.not_in(STORE_CALLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries: all of these hold. `type_` is an event's type or what several begin with, as `order`.

    `since` is when it was pushed; `before` is an id, for the next page.
    """

    partner_id: UUID | None = None
    surface: Surface | None = None
    store_id: UUID | None = None
    order_id: UUID | None = None
    status: DeliveryStatus | None = None
    type_: str | None = None
    since: datetime | None = None
    before: UUID | None = None


@dataclass(frozen=True, slots=True)
class DeliveryCount:
    """How many deliveries of a partner are of the type and status."""

    partner: str | None
    type: str
    status: DeliveryStatus
    count: int


async def list_rows(tx: Read, criteria: DeliveryFilter, *, most: int) -> Sequence[Row[Any]]:
    """Return at most `most`, without bodies, newest first; each with its partner's name."""
    return await tx.all(_shown().where(*_held(criteria)).order_by(deliveries.c.id.desc()).limit(most))


async def count_deliveries(tx: Read, criteria: DeliveryFilter, *, most: int) -> int:
    """Return how many deliveries there are, at most `most`."""
    some = select(deliveries.c.id).where(*_held(criteria)).limit(most)
    count: int = await tx.scalar(select(func.count()).select_from(some.subquery()))
    return count


async def find_row(tx: Read, name: UUID) -> Row[Any] | None:
    """Return the delivery of the id, or the newest one of the webhook-id, with its body."""
    query = queries.with_body(_shown())
    found = await tx.first(query.where(deliveries.c.id == name))
    if found is not None:
        return found
    return await tx.first(query.where(deliveries.c.id.in_(queries.ids_of_webhook(name, most=1))))


async def count_redeliverable(tx: Read, criteria: DeliveryFilter) -> list[DeliveryCount]:
    """Return what `redeliver_all` would send, counted."""
    counted = (
        select(partners.c.name, deliveries.c.type, deliveries.c.status, func.count())
        .join(partners, partners.c.id == deliveries.c.partner_id, isouter=True)
        .where(*_held(criteria), _CAN_BE_SENT)
        .group_by(partners.c.name, deliveries.c.type, deliveries.c.status)
        .order_by(partners.c.name, deliveries.c.type, deliveries.c.status)
    )
    return [
        DeliveryCount(name, kind, DeliveryStatus(status), count)
        for name, kind, status, count in await tx.all(counted)
    ]


async def redeliver_all(db: Database, criteria: DeliveryFilter, *, now: Clock) -> AsyncGenerator[UUID, None]:
    """Redeliver all that are criteria, newest first, but questions to stores; yield the id of each that is.

    Each in a transaction of its own: one that held two would wait for a sender that waits for it.
    """
    before = criteria.before
    while True:
        page = replace(criteria, before=before)
        some = (
            select(deliveries.c.id)
            .where(*_held(page), _CAN_BE_SENT)
            .order_by(deliveries.c.id.desc())
            .limit(_AT_ONCE)
        )
        async with db.read() as tx:
            ids = [row.id for row in await tx.all(some)]
        for one in ids:
            async with db.write() as tx:
                sent = await redeliver_any(tx, one, now=now())
            if sent:
                yield one
        if len(ids) < _AT_ONCE:
            return
        before = ids[-1]


async def redeliver_any(tx: Write, delivery_id: UUID, *, now: datetime) -> bool:
    """Send a delivery of whichever partner again; False when there is none (any more). Raises Conflict."""
    owner = await tx.first(
        select(deliveries.c.partner_id, deliveries.c.surface).where(deliveries.c.id == delivery_id)
    )
    if owner is None:
        return False
    caller = Caller(owner.partner_id, owner.partner_id, Surface(owner.surface), Limits())
    try:
        await redeliver(tx, caller, delivery_id, now=now)
    except errors.DeliveryNotFound:
        return False
    return True


def _shown() -> Select[Any]:
    named = queries.without_bodies(partners.c.name.label("partner"))
    return named.join(partners, partners.c.id == deliveries.c.partner_id, isouter=True)


def _held(criteria: DeliveryFilter) -> list[Any]:
    held: list[Any] = []
    if criteria.partner_id is not None:
        held.append(deliveries.c.partner_id == criteria.partner_id)
    if criteria.surface is not None:
        held.append(deliveries.c.surface == criteria.surface)
    if criteria.store_id is not None:
        held.append(deliveries.c.store_id == criteria.store_id)
    if criteria.order_id is not None:
        held.append(deliveries.c.order_id == criteria.order_id)
    if criteria.status in {DeliveryStatus.PENDING, DeliveryStatus.FAILED}:
        # Without a parameter, so that both planners can use the partial index.
        held.append(text("deliveries.status <> 'succeeded'"))
    if criteria.status is not None:
        held.append(deliveries.c.status == criteria.status)
    if criteria.type_ is not None:
        group = criteria.type_.removesuffix(".*")
        held.append(
            or_(deliveries.c.type == group, deliveries.c.type.startswith(f"{group}.", autoescape=True))
        )
    if criteria.since is not None:
        held.append(deliveries.c.id >= first_id(criteria.since))
    if criteria.before is not None:
        held.append(deliveries.c.id < criteria.before)
    return held
