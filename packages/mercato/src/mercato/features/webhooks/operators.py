"""Deliveries of all partners, for operators: listed, counted, shown masked, and redelivered."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Select, func, select

from mercato.features.partners.model import Caller, Limits, Surface
from mercato.features.partners.tables import partners
from mercato.features.webhooks import queries
from mercato.features.webhooks.deliveries import detail_of, redeliver
from mercato.features.webhooks.model import DeliveryNotFound
from mercato.features.webhooks.queries import DeliveryFilter, DeliveryRow
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.errors import Conflict
from mercato_contract.clock import Clock
from mercato_contract.events import STORE_CALLS
from mercato_contract.webhooks import DeliveryStatus, WebhookDeliveryDetail
from mercato_contract.wire import as_json

HIDDEN: Final = "***"

_ABOUT_ORDERS: Final = "order."

_SHOWN: Final = frozenset(
    {
        *("type", "timestamp", "data", "sequence", "order"),
        *("orderId", "storeId", "partnerStoreId", "state", "status", "createdAt", "updatedAt"),
        *("estimatedReadyAt", "estimatedDeliveryAt"),
        *("cart", "catalogSetId", "lineItems", "lineItemId", "itemId", "partnerItemId", "name", "quantity"),
        *("modifierGroups", "modifierGroupId", "partnerModifierGroupId", "unavailable", "unitPrice", "freeQuantity"),
        *("amounts", "amount", "currency", "subTotal", "total", "tip", "fees", "taxes", "promotions", "adjustments"),
        *("fulfillment", "mode", "scheduleType", "scheduledTime", "deliveryType"),
    }
)  # fmt: skip
"""Members of these bodies whose texts are this service's, or those of the menu. `name` is an item's or a group's."""


def is_about_order(type_: str) -> bool:
    """Return whether webhooks of the type name the customer of an order."""
    return type_.startswith(_ABOUT_ORDERS)


def mask_body(type_: str, body: bytes) -> bytes:
    """Return the body of a webhook with `***` in place of what concerns a customer, and of partners' own words."""
    return as_json(_masked(msgspec.json.decode(body))) if is_about_order(type_) else body


def mask_reply(type_: str, reply: str | None) -> str | None:
    """Return the answer to a webhook, or `***` if it may repeat, in any form, what the webhook says of a customer."""
    return HIDDEN if reply and is_about_order(type_) else reply


def _masked(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: _masked(below) if name in _SHOWN or below is None else HIDDEN
                for name, below in value.items()
            }
        case list():
            return [_masked(below) for below in value]
        case _:
            return value


_PAGE: Final = 500
"""Ids that are read at once during a redelivery."""

_IS_REDELIVERABLE: Final = deliveries.c.type.not_in(STORE_CALLS)


class DeliveryCount(Struct, frozen=True):
    """The number of a partner's deliveries of a type and status."""

    partner: str | None
    type: str
    status: DeliveryStatus
    count: int


async def list_rows(tx: Read, criteria: DeliveryFilter, *, limit: int) -> list[DeliveryRow]:
    """Return at most `limit` deliveries without bodies, newest first, with their partners' names."""
    return await queries.list_rows(tx, criteria, limit=limit, listed=_with_partner())


async def list_rows_of(tx: Read, ids: Sequence[UUID]) -> list[DeliveryRow]:
    """Return the deliveries of these ids without bodies, newest first, with their partners' names."""
    found = _with_partner().where(deliveries.c.id.in_(ids)).order_by(deliveries.c.id.desc())
    return await queries.list_of(tx, found) if ids else []


async def search(
    tx: Read, criteria: DeliveryFilter, *, limit: int
) -> tuple[Sequence[DeliveryRow], str | None]:
    """Return a page like `queries.search`, with the partners' names."""
    return await queries.search(tx, criteria, limit=limit, listed=_with_partner())


async def count_deliveries(tx: Read, criteria: DeliveryFilter, *, limit: int) -> int:
    """Return how many deliveries there are, at most `limit`."""
    found = select(deliveries.c.id).where(*criteria.conditions()).limit(limit)
    count: int = await tx.scalar(select(func.count()).select_from(found.subquery()))
    return count


async def find_row(tx: Read, id_: UUID) -> DeliveryRow | None:
    """Return the delivery with the id, or else the newest one with the webhook-id, and its body."""
    query = queries.with_body(_with_partner())
    found = await queries.find_of(tx, query.where(deliveries.c.id == id_))
    if found is not None:
        return found
    return await queries.find_of(tx, query.where(deliveries.c.id.in_(queries.ids_of_webhook(id_, limit=1))))


async def get_delivery(tx: Read, delivery_id: UUID) -> WebhookDeliveryDetail:
    """Return a delivery of any partner without what operators don't see. Raises DeliveryNotFound."""
    row = await queries.find_of(tx, queries.with_body(_with_partner()).where(deliveries.c.id == delivery_id))
    if row is None:
        raise DeliveryNotFound(delivery_id)
    return mask_delivery(await detail_of(tx, row))


def mask_delivery(found: WebhookDeliveryDetail) -> WebhookDeliveryDetail:
    """Return a delivery for readers who may not see customers."""
    return replace(
        found,
        body=msgspec.Raw(mask_body(found.type, bytes(found.body))),
        attempt_log=[
            replace(attempt, reply=mask_reply(found.type, attempt.reply)) for attempt in found.attempt_log
        ],
    )


async def count_redeliverable(tx: Read, criteria: DeliveryFilter) -> list[DeliveryCount]:
    """Count the deliveries that `redeliver_all` would send."""
    counted = (
        select(partners.c.name, deliveries.c.type, deliveries.c.status, func.count())
        .join(partners, partners.c.id == deliveries.c.partner_id, isouter=True)
        .where(*criteria.conditions(), _IS_REDELIVERABLE)
        .group_by(partners.c.name, deliveries.c.type, deliveries.c.status)
        .order_by(partners.c.name, deliveries.c.type, deliveries.c.status)
    )
    return [
        DeliveryCount(name, kind, DeliveryStatus(status), count)
        for name, kind, status, count in await tx.all(counted)
    ]


async def list_not_redeliverable(tx: Read, criteria: DeliveryFilter) -> list[str]:
    """Return the types of the newest calls to stores that match: `redeliver_all` skips them."""
    newest = (
        select(deliveries.c.type)
        .where(*criteria.conditions(), ~_IS_REDELIVERABLE)
        .order_by(deliveries.c.id.desc())
        .limit(_PAGE)
        .subquery()
    )
    return sorted(row.type for row in await tx.all(select(newest.c.type).distinct()))


async def redeliver_all(db: Database, criteria: DeliveryFilter, *, now: Clock) -> AsyncGenerator[UUID, None]:
    """Redeliver, newest first, and yield the id of each.

    Calls to stores are skipped, and what goes to endpoints that were deleted or that their partner has disabled.

    Each has a separate transaction: one that locks two could deadlock with a sender.
    """
    before = criteria.before
    while True:
        page = replace(criteria, before=before)
        batch = (
            select(deliveries.c.id)
            .where(*page.conditions(), _IS_REDELIVERABLE)
            .order_by(deliveries.c.id.desc())
            .limit(_PAGE)
        )
        async with db.read() as tx:
            ids = [row.id for row in await tx.all(batch)]
        for id_ in ids:
            try:
                async with db.write() as tx:
                    is_sent = await redeliver_any(tx, id_, now=now())
            except Conflict:
                continue
            if is_sent:
                yield id_
        if len(ids) < _PAGE:
            return
        before = ids[-1]


async def redeliver_some(db: Database, criteria: DeliveryFilter, *, most: int, now: Clock) -> int:
    """Redeliver the newest as `redeliver_all` does, and stop after `most`. Return how many."""
    sent = 0
    async with aclosing(redeliver_all(db, criteria, now=now)) as ids:
        while sent < most and await anext(ids, None) is not None:
            sent += 1
    return sent


async def redeliver_any(tx: Write, delivery_id: UUID, *, now: datetime) -> bool:
    """Redeliver a delivery of any partner. Return False if it doesn't exist. Raises Conflict."""
    owner = await tx.first(
        select(deliveries.c.partner_id, deliveries.c.surface).where(deliveries.c.id == delivery_id)
    )
    if owner is None:
        return False
    caller = Caller(owner.partner_id, owner.partner_id, Surface(owner.surface), Limits())
    try:
        await redeliver(tx, caller, delivery_id, now=now)
    except DeliveryNotFound:
        return False
    return True


async def find_partner(tx: Read, delivery_id: UUID) -> tuple[UUID, str | None] | None:
    """Return the id and the name of the delivery's partner; None if there is no such delivery."""
    of_partner = select(deliveries.c.partner_id, partners.c.name).join(
        partners, partners.c.id == deliveries.c.partner_id, isouter=True
    )
    row = await tx.first(of_partner.where(deliveries.c.id == delivery_id))
    return None if row is None else (row.partner_id, row.name)


def _with_partner() -> Select[Any]:
    selected = queries.without_bodies(partners.c.name.label("partner"))
    return selected.join(partners, partners.c.id == deliveries.c.partner_id, isouter=True)
