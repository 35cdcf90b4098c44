"""Idempotency keys: whoever claims one does the request's work, everybody else gets its reply.

A claim is for a time, so that the work of a process that died can be taken up. Its number fences the claims off
from each other: what an overtaken one still writes goes nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, and_, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from mercato.kernel import errors
from mercato.kernel.db.compression import compress, decompress
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.db.statements import prepared, prepared_update
from mercato.kernel.db.tables import idempotency_keys as keys
from mercato.kernel.db.tables import orders

LIFE: Final = timedelta(hours=24)
"""How long a reply is given again; after that the key is as good as new."""

SKEW: Final = timedelta(minutes=1)
"""By how much the clocks of two servers may differ."""

WAIT_SECONDS: Final = 2
"""What a client is told to wait while the request runs elsewhere."""

_FREE: Final = b""
"""The request of a key that is free again. Its row stays: were the claims counted anew, one that was overtaken
could take another's for its own."""

_COLUMNS: Final[dict[str, Any]] = {column.name: bindparam(column.name) for column in keys.c}
_INSERT: Final[dict[str, Any]] = {
    "sqlite": prepared(sqlite.insert(keys).values(_COLUMNS).on_conflict_do_nothing()),
    "postgresql": prepared(postgresql.insert(keys).values(_COLUMNS).on_conflict_do_nothing()),
}
_CLAIMED: Final = (
    keys.c.partner_id == bindparam("its_partner"),
    keys.c.key == bindparam("its_key"),
    keys.c.claims == bindparam("its_number"),
)
_FIND: Final = prepared(select(keys).where(*_CLAIMED[:2]))
_HOLD: Final = prepared_update(keys, "order_id", where=_CLAIMED)
_SETTLE: Final = prepared_update(keys, "status", "media_type", "body", where=_CLAIMED)
_CONTENT: Final = prepared(select(orders.c.content).where(orders.c.id == bindparam("its_order")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a request is answered: the order as its storefront reads it, or a problem."""

    status: int
    media_type: str
    body: bytes = field(repr=False)
    order_id: UUID | None
    retry_after: int | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request under its key. `lease` is how long a claim lasts.

    `prints` tell the request from others: the first is kept, any of them knows it again.
    """

    partner_id: UUID
    key: str
    prints: Sequence[bytes] = field(repr=False)
    lease: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to do the work of one request.

    `order_id` is the order that has been made with the key: by this claim, or if it `joins`, by an earlier one.
    """

    partner_id: UUID
    key: str
    number: int
    order_id: UUID | None
    joins: bool = False


async def claim(
    tx: Write, request: KeyedRequest, *, now: datetime, order_id: UUID | None = None
) -> Claim | Reply:
    """Return the claim, or the reply that the key's request got.

    `order_id` is the order that this transaction makes with the claim, if the key has none.
    Raises IdempotencyKeyReused when the key came with another request, RequestInProgress while somebody else
    works on it.
    """
    until = now + request.lease
    fresh = {
        "request": request.prints[0],
        "order_id": order_id,
        "claimed_until": until,
        "status": None,
        "media_type": None,
        "body": None,
        "created_at": now,
    }
    its: dict[str, Any] = {"partner_id": request.partner_id, "key": request.key}
    added = await tx.execute(_INSERT[tx.dialect], its | fresh | {"claims": 1})
    if added.rowcount == 1:
        return Claim(**its, number=1, order_id=order_id)
    mine = _is(request.partner_id, request.key)
    row = await tx.first(select(keys).where(mine).with_for_update())
    if row is None:
        raise errors.RequestInProgress("The key was just released. Try again.", retry_after=1)
    joins = _in_use(row, now, request.lease)
    if joins:
        reply = await _settled(tx, row, request, now)
        if reply is not None:
            return reply
        order_id = row.order_id
    number, values = row.claims + 1, {"claimed_until": until} if joins else fresh
    await tx.execute(update(keys).where(mine).values(claims=number, **values))
    return Claim(**its, number=number, order_id=order_id, joins=joins)


async def find(tx: Read, request: KeyedRequest, *, now: datetime) -> Reply | UUID | None:
    """Return the reply that the key's request got, or else its order, which waits for its store; None: it is free.

    Raises as `claim` does.
    """
    row = await tx.first(_FIND, {"its_partner": request.partner_id, "its_key": request.key})
    if row is None or not _in_use(row, now, request.lease):
        return None
    order_id: UUID | None = row.order_id
    return await _settled(tx, row, request, now) or order_id


def _in_use(row: Row[Any], now: datetime, lease: timedelta) -> bool:
    """Tell whether the key has a reply, an order, or a live claim: else it is free."""
    if row.request == _FREE or now >= row.created_at + LIFE:
        return False
    return row.status is not None or row.order_id is not None or _is_claimed(row, now, lease)


def _is_claimed(row: Row[Any], now: datetime, lease: timedelta) -> bool:
    """Tell whether a claim is alive. One that ends later than a new one was made before the clock was set back."""
    return bool(now < row.claimed_until <= now + lease + SKEW)


async def _settled(tx: Read, row: Row[Any], request: KeyedRequest, now: datetime) -> Reply | None:
    """Return the reply of a key in use; None when its work has to be taken up."""
    if row.request not in request.prints:
        raise errors.IdempotencyKeyReused(
            "This Idempotency-Key came with another request within the last 24 hours. Send a new key with it."
        )
    if row.status is not None:
        base = await tx.scalar(_CONTENT, {"its_order": row.order_id})
        body = decompress(row.body, base=base)
        return Reply(
            status=row.status, media_type=row.media_type, body=body, order_id=row.order_id, replayed=True
        )
    if _is_claimed(row, now, request.lease):
        raise errors.RequestInProgress(
            "The same request is still running. Ask again with the same key.", retry_after=WAIT_SECONDS
        )
    return None


async def hold(tx: Write, claim: Claim, *, order_id: UUID) -> None:
    """Write down the order that the claim's work has made. Raises RequestInProgress when it was overtaken."""
    if claim.order_id == order_id:
        return  # written along with the claim
    moved = await tx.execute(_HOLD, _named(claim) | {"order_id": order_id})
    if moved.rowcount != 1:
        raise errors.RequestInProgress(
            "Another request with the same key has taken over. Ask again with the same key.",
            retry_after=WAIT_SECONDS,
        )


async def settle(tx: Write, claim: Claim, reply: Reply, *, order_content: bytes = b"") -> None:
    """Pin the reply: from now on it is what the key gets. An overtaken claim pins nothing.

    `order_content` is that of the key's order, if it has one: of the reply only what differs from it is stored.
    """
    body = compress(reply.body, base=order_content)
    pinned = {"status": reply.status, "media_type": reply.media_type, "body": body}
    tx.defer(_SETTLE, _named(claim) | pinned)


async def release(tx: Write, claim: Claim, *, now: datetime) -> None:
    """Let the next request with the key begin at once: without an order, whatever request it is."""
    freed = update(keys).where(_mine(claim), keys.c.order_id.is_(None))
    await tx.execute(freed.values(request=_FREE, claimed_until=now))
    await tx.execute(update(keys).where(_mine(claim)).values(claimed_until=now))


async def forget(tx: Write, claim: Claim, *, now: datetime) -> None:
    """Free the key altogether: the request failed in a way that a repeat of it may not."""
    await tx.execute(update(keys).where(_mine(claim)).values(request=_FREE, order_id=None, claimed_until=now))


async def prune(tx: Write, *, now: datetime, limit: int) -> int:
    """Delete keys whose time is over; return how many."""
    over = and_(keys.c.created_at < now - LIFE, keys.c.claimed_until < now)
    found = await tx.all(select(keys.c.partner_id, keys.c.key).where(over).limit(limit))
    if found:
        one_of = or_(*(_is(row.partner_id, row.key) for row in found))
        await tx.execute(delete(keys).where(one_of, over))
    return len(found)


def _is(partner_id: UUID, key: str) -> Any:
    return and_(keys.c.partner_id == partner_id, keys.c.key == key)


def _named(claim: Claim) -> dict[str, Any]:
    """Return what `_CLAIMED` binds."""
    return {"its_partner": claim.partner_id, "its_key": claim.key, "its_number": claim.number}


def _mine(claim: Claim) -> Any:
    return and_(_is(claim.partner_id, claim.key), keys.c.claims == claim.number)
