"""Idempotency keys: whoever claims one does the request's work, everybody else gets the reply of it.

A claim is for a time, so that the work of a process that died can be taken up. Its number fences the claims off
from each other: what an overtaken one still writes goes nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Row, and_, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from mercato import errors
from mercato.db.compression import compress, decompress
from mercato.db.engine import Read, Write
from mercato.db.statements import prepared, prepared_update
from mercato.db.tables import idempotency_keys as keys
from mercato.db.tables import orders

LIFE: Final = timedelta(hours=24)
"""How long a reply is given again; after that the key is as good as new."""

SKEW: Final = timedelta(minutes=1)
"""By how much the clocks of two servers may differ."""

WAIT_SECONDS: Final = 2
"""What a client is told to wait while the request runs elsewhere."""

_FREE: Final = b""
"""The request of a key that is anybody's again. Its row stays: were the claims counted anew, one that was overtaken
could take another's for its own."""

_COLUMNS: Final[dict[str, Any]] = {column.name: bindparam(column.name) for column in keys.c}
_INSERT: Final[dict[str, Any]] = {
    "sqlite": prepared(sqlite.insert(keys).values(_COLUMNS).on_conflict_do_nothing()),
    "postgresql": prepared(postgresql.insert(keys).values(_COLUMNS).on_conflict_do_nothing()),
}
_MINE: Final = (
    keys.c.partner_id == bindparam("its_partner"),
    keys.c.key == bindparam("its_key"),
    keys.c.claims == bindparam("its_number"),
)
_FIND: Final = prepared(select(keys).where(*_MINE[:2]))
_HOLD: Final = prepared_update(keys, "order_id", where=_MINE)
_SETTLE: Final = prepared_update(keys, "status", "headers", "body", where=_MINE)
_CONTENT: Final = prepared(select(orders.c.content).where(orders.c.id == bindparam("its_order")))
_headers: Final = msgspec.json.Decoder(tuple[tuple[str, str], ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer as it went out, or would have."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to do the work of one request. `order_id`: the order that an earlier claim has made."""

    partner_id: UUID
    key: str
    number: int
    order_id: UUID | None = None
    holds: UUID | None = None
    """The order that this claim is to make and has written down already, as `hold` would."""


async def claim(
    tx: Write,
    *,
    partner_id: UUID,
    key: str,
    prints: Sequence[bytes],
    now: datetime,
    until: datetime,
    makes: UUID | None = None,
) -> Claim | Reply:
    """Return the claim, or the reply that the key's request got.

    `prints` tell the request from others: the first is kept, any of them knows it again. `makes` is the order that
    this transaction makes with the claim, if the key has none.
    Raises IdempotencyKeyReused when the key came with another request, RequestInProgress while somebody else
    works on it.
    """
    fresh = {
        "request": prints[0],
        "order_id": makes,
        "claimed_until": until,
        "status": None,
        "headers": None,
        "body": None,
        "created_at": now,
    }
    first = {"partner_id": partner_id, "key": key, "claims": 1}
    added = await tx.execute(_INSERT[tx.dialect], first | fresh)
    if added.rowcount == 1:
        return Claim(partner_id=partner_id, key=key, number=1, holds=makes)
    row = await tx.first(select(keys).where(_is(partner_id, key)).with_for_update())
    if row is None:
        raise errors.RequestInProgress("The key was just released. Try again.", retry_after=1)
    lease = until - now
    in_use = _in_use(row, now, lease)
    values = {"claimed_until": until} if in_use else fresh
    if in_use:
        reply = await _settled(tx, row, prints, now, lease)
        if reply is not None:
            return reply
    number = row.claims + 1
    await tx.execute(update(keys).where(_is(partner_id, key)).values(claims=number, **values))
    if in_use:
        return Claim(partner_id=partner_id, key=key, number=number, order_id=row.order_id)
    return Claim(partner_id=partner_id, key=key, number=number, holds=makes)


async def find(
    tx: Read, *, partner_id: UUID, key: str, prints: Sequence[bytes], now: datetime, lease: timedelta
) -> Reply | UUID | None:
    """Return the reply that the key's request got, or else its order, which waits for its store; None: it is free.

    `lease` is how long a claim is made for. Raises as `claim` does.
    """
    row = await tx.first(_FIND, {"its_partner": partner_id, "its_key": key})
    if row is None or not _in_use(row, now, lease):
        return None
    order_id: UUID | None = row.order_id
    return await _settled(tx, row, prints, now, lease) or order_id


def _in_use(row: Row[Any], now: datetime, lease: timedelta) -> bool:
    """Tell whether the key has a reply, an order, or somebody who works on its request: else it is anybody's."""
    if row.request == _FREE or now >= row.created_at + LIFE:
        return False
    return row.status is not None or row.order_id is not None or _is_claimed(row, now, lease)


def _is_claimed(row: Row[Any], now: datetime, lease: timedelta) -> bool:
    """Tell whether a claim is alive. One that ends later than a new one was made before the clock was set back."""
    return bool(now < row.claimed_until <= now + lease + SKEW)


async def _settled(
    tx: Read, row: Row[Any], prints: Sequence[bytes], now: datetime, lease: timedelta
) -> Reply | None:
    """Return the reply of a key in use; None when its work has to be taken up."""
    if row.request not in prints:
        raise errors.IdempotencyKeyReused(
            "This Idempotency-Key came with another request within the last 24 hours. Send a new key with it."
        )
    if row.status is not None:
        base = await tx.scalar(_CONTENT, {"its_order": row.order_id})
        body = decompress(row.body, base=base)
        return Reply(status=row.status, headers=_headers.decode(row.headers), body=body, replayed=True)
    if _is_claimed(row, now, lease):
        raise errors.RequestInProgress(
            "The same request is still running. Ask again with the same key.", retry_after=WAIT_SECONDS
        )
    return None


async def hold(tx: Write, claim: Claim, *, order_id: UUID) -> None:
    """Write down the order that the claim's work has made. Raises RequestInProgress when it was overtaken."""
    if claim.holds == order_id:
        return
    moved = await tx.execute(_HOLD, _said(claim) | {"order_id": order_id})
    if moved.rowcount != 1:
        raise errors.RequestInProgress(
            "Another request with the same key has taken over. Ask again with the same key.",
            retry_after=WAIT_SECONDS,
        )


async def settle(tx: Write, claim: Claim, reply: Reply, *, order_content: bytes = b"") -> None:
    """Pin the reply: from now on it is what the key gets. An overtaken claim pins nothing.

    `order_content` is that of the key's order, if it has one: of the reply only what differs from it is stored.
    """
    headers = msgspec.json.encode(reply.headers).decode()
    said = {"status": reply.status, "headers": headers, "body": compress(reply.body, base=order_content)}
    tx.defer(_SETTLE, _said(claim) | said)


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


def _said(claim: Claim) -> dict[str, Any]:
    """Return what `_MINE` binds."""
    return {"its_partner": claim.partner_id, "its_key": claim.key, "its_number": claim.number}


def _mine(claim: Claim) -> Any:
    return and_(_is(claim.partner_id, claim.key), keys.c.claims == claim.number)
