"""Forgetting customers: an order stays, who it was for, from where and where to goes out of it.

What was sent about it goes too, because the bodies of webhooks and the replies of idempotency keys hold the same.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Row, and_, func, select, update

from mercato.domain.orders.request import Customer, DeliveryFulfillment, Fulfillment
from mercato.domain.webhooks.retention import delete_of_orders, delete_validations, list_validations
from mercato.kernel.db.audit import audit
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.db.tables import idempotency_keys as keys
from mercato.kernel.db.tables import orders
from mercato.kernel.wire import Wire, as_json


class _Order(Wire):
    customer: Customer | None = None


class _Data(Wire):
    order: _Order


class _Asked(Wire):
    """What a store was asked, as far as it says who ordered."""

    data: _Data


_asked: Final = msgspec.json.Decoder(_Asked)
_customer: Final = msgspec.json.Decoder(Customer | None)
_fulfillment: Final = msgspec.json.Decoder(Fulfillment)

_SPECIAL: Final = re.compile(r"([\\%_])")
"""What LIKE reads as a pattern."""

_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")
"""What databases do not agree on the small letters of."""

_OF_SOMEBODY: Final = orders.c.client_context.is_not(None)


async def forget_before(tx: Write, *, before: datetime, limit: int) -> int:
    """Forget the customers of orders that were placed before an instant; return how many orders."""
    rows = await tx.all(
        select(orders.c.id, orders.c.fulfillment)
        .where(_OF_SOMEBODY, orders.c.created_at < before)
        .order_by(orders.c.created_at, orders.c.id)
        .limit(limit)
    )
    await _forget(tx, rows)
    return len(rows)


async def forget_customer(tx: Write, name: str, *, after: UUID | None, limit: int) -> tuple[int, UUID | None]:
    """Forget a customer by e-mail address, phone number or `partnerUserId`, in a part of all orders.

    Return how many orders were theirs, and the last order looked at; None when all have been.
    """
    rows = await _list_of(tx, name, after=after, limit=limit)
    theirs = _theirs(rows, name)
    await _forget(tx, theirs)
    for row in theirs:
        # Not whose it was: that is what is to be forgotten.
        await audit(tx, "order", row.id, detail={"customer": "erased"})
    return len(theirs), rows[-1].id if len(rows) == limit else None


async def forget_validations(
    tx: Write, name: str, *, after: UUID | None, limit: int
) -> tuple[int, UUID | None]:
    """Forget a customer in a part of the validations that a store did not answer.

    Return how many were theirs, and the last that was looked at; None when all have been.
    """
    theirs, last = await find_validations(tx, name, after=after, limit=limit)
    await delete_validations(tx, theirs)
    return len(theirs), last


async def find_orders(
    tx: Read, name: str, *, after: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the customer's orders in a part of all, and the last order looked at; None when all have been."""
    rows = await _list_of(tx, name, after=after, limit=limit)
    return [row.id for row in _theirs(rows, name)], rows[-1].id if len(rows) == limit else None


async def find_validations(
    tx: Read, name: str, *, after: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the same of validations that a store did not answer."""
    rows = await list_validations(tx, after=after, most=limit)
    theirs = [id_ for id_, body in rows if _is_theirs(_asked.decode(body).data.order.customer, name)]
    return theirs, rows[-1][0] if len(rows) == limit else None


def _theirs(rows: Sequence[Row[Any]], name: str) -> list[Row[Any]]:
    return [row for row in rows if _is_theirs(_customer.decode(row.customer), name)]


async def _list_of(tx: Read, name: str, *, after: UUID | None, limit: int) -> Sequence[Row[Any]]:
    """Return orders whose customer holds the text somewhere, by id: which member it is in is for the reader."""
    # As it stands in JSON, and without what LIKE reads as a pattern.
    text = _SPECIAL.sub(r"\\\1", as_json(name)[1:-1].decode())
    pattern = f"%{_FOREIGN.sub('%', text).lower()}%"
    query = select(orders.c.id, orders.c.fulfillment, orders.c.customer).where(
        _OF_SOMEBODY, func.lower(orders.c.customer).like(pattern, escape="\\")
    )
    if after is not None:
        query = query.where(orders.c.id > after)
    return await tx.all(query.order_by(orders.c.id).limit(limit))


def _is_theirs(customer: Customer | None, name: str) -> bool:
    if customer is None:
        return False
    return name.lower() in {
        text.lower() for text in (customer.email, customer.phone, customer.partner_user_id) if text
    }


async def _forget(tx: Write, rows: Sequence[Row[Any]]) -> None:
    if not rows:
        return
    ids = [row.id for row in rows]
    for row in rows:
        await tx.execute(
            update(orders)
            .where(orders.c.id == row.id)
            .values(customer=None, client_context=None, fulfillment=_without_place(row.fulfillment))
        )
    await delete_of_orders(tx, ids)
    # The key still knows its order: a repeat of the request gets it as it is now.
    await tx.execute(
        update(keys)
        .where(and_(keys.c.order_id.in_(ids), keys.c.status.is_not(None)))
        .values(status=None, media_type=None, body=None, claimed_until=keys.c.created_at)
    )


def _without_place(text: str) -> str:
    fulfillment = _fulfillment.decode(text)
    if isinstance(fulfillment, DeliveryFulfillment):
        fulfillment = msgspec.structs.replace(fulfillment, address=None, instructions=None)
    return as_json(fulfillment).decode()
