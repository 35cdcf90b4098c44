"""Idempotency keys and outcomes: the request that claims a key is processed, every other one gets its outcome.

A claim is a lease, so that another request can continue the work of a process that died. Its number is the fence: a
claim that was taken over writes nothing any more.

Two requests are the same if they mean the same: an absent member is a null one, and `1.0` is `1.00`. A row has a hash
of what the request means; one of an earlier release has that of its bytes instead.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import and_, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from mercato.features.compression import compress, decompress
from mercato.features.orders.errors import StoreUnreachable
from mercato.features.orders.tables import idempotency_keys as keys
from mercato.features.orders.tables import orders
from mercato.platform import errors
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared, prepared_update
from mercato.platform.problem_details import ProblemFormat
from mercato_contract.money import canonical_decimal
from mercato_contract.problems import ProblemDetail
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import Wire, as_json, parse_instant, redacted, rfc3339

PURPOSE: Final = "mercato idempotency"
"""The purpose of the derived keys for the fingerprints of requests."""

LIFETIME: Final = timedelta(hours=24)
"""How long a key returns its outcome. Then it is free again."""

SKEW: Final = timedelta(minutes=1)
"""How much the clocks of two servers may differ."""

WAIT_SECONDS: Final = 2
"""The Retry-After while another process handles the request."""

_FREE: Final = b""
"""The `request` of a key that is free again. Its row stays, so that the numbers of its claims stay unique."""

_USED: Final = b"\x01"
"""The `request` of a key in use: `meaning` tells which request has it."""

_COLUMNS: Final[dict[str, Any]] = {column.name: bindparam(column.name) for column in keys.c}
_INSERT: Final[dict[str, Any]] = {
    "sqlite": prepared(sqlite.insert(keys).values(_COLUMNS).on_conflict_do_nothing()),
    "postgresql": prepared(postgresql.insert(keys).values(_COLUMNS).on_conflict_do_nothing()),
}
_CLAIMED: Final = (
    keys.c.partner_id == bindparam("where_partner"),
    keys.c.key == bindparam("where_key"),
    keys.c.claims == bindparam("where_claim"),
)
_FIND: Final = prepared(select(keys).where(*_CLAIMED[:2]))
_SET_ORDER: Final = prepared_update(keys, "order_id", where=_CLAIMED)
_PIN: Final = prepared_update(keys, "status", "media_type", "body", where=_CLAIMED)
_CONTENT: Final = prepared(select(orders.c.content).where(orders.c.id == bindparam("where_order")))


_OK: Final = 200
_CREATED: Final = 201
_JSON: Final = "application/json"
_YAML: Final = b"---\n"

_problem: Final = msgspec.json.Decoder(ProblemDetail)


class _StoredFormat(Struct, frozen=True):
    format: ProblemFormat = ProblemFormat.JSON


_format: Final = msgspec.json.Decoder(_StoredFormat)


# --- what a partner gets for an order that it places, cancels or adjusts ---------------------------------


class PlacedOrder(Struct, frozen=True):
    """The order as it was when its store had accepted it, or its merchant had adjusted it, as JSON.

    What is pinned is what is sent. `replayed`: an earlier request got the same bytes.
    """

    order_id: UUID
    document: bytes
    replayed: bool = False


class CancelledOrder(Struct, frozen=True):
    """The order as it was when its storefront's cancellation took effect, as JSON."""

    order_id: UUID
    document: bytes
    replayed: bool = False


class RefusedOrder(Struct, frozen=True):
    """The refusal by the order's store, in the format that the first request with the key preferred."""

    problem: ProblemDetail
    format: ProblemFormat
    replayed: bool = False


class UnansweredOrder(Struct, frozen=True):
    """The order is stored, and its store hasn't answered yet. The result is open."""

    problem: StoreUnreachable


PinnedOutcome = PlacedOrder | CancelledOrder | RefusedOrder
OrderOutcome = PinnedOutcome | UnansweredOrder


# --- keys ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class KeyedRequest:
    """A request with its key. `lease` is the lifetime of a claim.

    `meaning` is what the request means. Only its hash under the first of `secrets` is stored, because a plain hash
    would let a card's token be guessed. The other secrets are earlier ones. `sent` makes the request's own bytes, which
    are compared with the row of an earlier release.

    `is_final`: the key is for one order, so a refusal is pinned also if another order could succeed.
    """

    partner_id: UUID
    key: str
    secrets: Sequence[bytes] = field(repr=False)
    sent: Callable[[], bytes] = field(repr=False)
    meaning: bytes = field(repr=False)
    lease: timedelta
    is_final: bool = False

    @cached_property
    def columns(self) -> dict[str, bytes]:
        """Return what is stored of the request."""
        return {"request": _USED, "meaning": _bound_meaning(self.secrets[0], _USED, self.meaning)}

    def is_same(self, request: bytes, meaning: bytes | None) -> bool:
        """Return whether this is the request of a row with these columns."""
        if any(meaning == _bound_meaning(secret, request, self.meaning) for secret in self.secrets):
            return True
        if request == _USED:
            return False
        # The key is an earlier release's.
        sent = self.sent()
        return any(request == hmac_sha256(secret, sent) for secret in self.secrets)


def _bound_meaning(secret: bytes, request: bytes, meaning: bytes) -> bytes:
    """Return the hash of the meaning for a row with this `request`.

    An earlier release reuses a row without changing `meaning`: then it must match no request any more.
    """
    return hmac_sha256(secret, request + meaning)


def meaning_of(request: Wire, *, has_values: bool = True) -> bytes:
    """Return bytes that are the same for requests that mean the same.

    `has_values` says whether there may be members that are compared by value: few requests have any, and looking for
    them takes a fifth of the time.

    A member that is absent, null or empty is left out, as is an object without members; decimals and instants are
    written in one way. A required member is never absent, so that an empty one stays different from all others.
    """
    left = _as_sorted(request)
    if has_values:
        left = _BY_VALUE.sub(_in_one_form, left)
    while True:
        text, left = left, _FIRST_EMPTY.sub(b"{", _EMPTY.sub(b"", left))
        if _NO_MEMBERS not in left or left == text:
            return left


def _in_one_form(member: re.Match[bytes]) -> bytes:
    """Return a member whose value is a decimal or an instant in the one form of what it means."""
    name, value = member.groups()
    return b'"%s":"%s"' % (name, _FORMS[name.decode()](value.decode()).encode())


def _canonical_instant(text: str) -> str:
    at = parse_instant(text)
    return text if at is None else rfc3339(at)


_DECIMALS: Final = frozenset({"amount", "tip", "total"})
_INSTANTS: Final = frozenset({"scheduledTime"})
"""Members of the requests that are compared by value. A test compares both with the wire types."""

_FORMS: Final[dict[str, Callable[[str], str]]] = {
    **dict.fromkeys(_DECIMALS, canonical_decimal),
    **dict.fromkeys(_INSTANTS, _canonical_instant),
}

_as_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_BY_VALUE: Final = re.compile(rb'"(%s)":"([^"\\]+)"' % "|".join(_FORMS).encode())
"""Neither a decimal nor an instant has an escape."""
_NOTHING: Final = rb'"\w++":(?:null|""|\[\]|\{\})'
_EMPTY: Final = re.compile(b"," + _NOTHING)
_FIRST_EMPTY: Final = re.compile(rb"\{" + _NOTHING + b",?")
"""A member without a value, and one that is its object's first. Quotes in a text are escaped."""

_NO_MEMBERS: Final = b":{}"
"""What may be left of a member whose value was an object with such members alone."""


class Claim(Struct, frozen=True, kw_only=True):
    """The right to process the request of a key. A claim that `joins` continues the work of an earlier one.

    `order_id` is the order that was stored with the key, by this claim or an earlier one.
    """

    partner_id: UUID
    key: str
    number: int
    order_id: UUID | None
    joins: bool = False


@redacted("key", "body")
class _KeyRow(Struct, frozen=True):
    """A stored key, its members in the order of the columns."""

    partner_id: UUID
    key: str
    request: bytes
    order_id: UUID | None
    claimed_until: datetime
    claims: int
    status: int | None
    media_type: str | None
    body: bytes | None
    created_at: datetime
    meaning: bytes | None

    def is_used(self, now: datetime, lease: timedelta) -> bool:
        """Return whether the key has an outcome, an order, or a live claim. Else it is free."""
        if self.request == _FREE or now >= self.created_at + LIFETIME:
            return False
        return self.status is not None or self.order_id is not None or self.is_claimed(now, lease)

    def is_claimed(self, now: datetime, lease: timedelta) -> bool:
        """Return whether a claim is live. One that outlasts a new one was made before the clock was set back."""
        return now < self.claimed_until <= now + lease + SKEW


class FreeKey(Struct, frozen=True):
    """The key has neither an outcome nor an order, and nobody works on it."""


class OpenOrder(Struct, frozen=True):
    """The key has an order, or had a claim, without an outcome: the next claim joins it."""


class Pinned(Struct, frozen=True):
    """The key's outcome."""

    outcome: PinnedOutcome


class KeyUsed(Exception):  # noqa: N818  # not a failure: claim the key by what its row says
    """The key has a row. Nothing was written."""


def claim_new(tx: Write, request: KeyedRequest, *, now: datetime, order_id: UUID | None = None) -> Claim:
    """Return the claim of a key that has no row yet, as nearly every one. Else the transaction fails with KeyUsed.

    `order_id` is the order that this transaction stores with the claim.
    """
    ids = {"partner_id": request.partner_id, "key": request.key}
    row = ids | _fresh(request, order_id, now) | {"claims": 1}
    tx.require(_INSERT[tx.dialect], row, otherwise=KeyUsed())
    return Claim(partner_id=request.partner_id, key=request.key, number=1, order_id=order_id)


async def claim(
    tx: Write, request: KeyedRequest, *, now: datetime, order_id: UUID | None = None
) -> Claim | Pinned:
    """Return the claim, or the key's outcome.

    `order_id` is the order that this transaction stores with the claim, if the key has none.
    Raises IdempotencyKeyReused if the key came with another request, RequestInProgress if that has a live claim.
    """
    fresh = _fresh(request, order_id, now)
    ids: dict[str, Any] = {"partner_id": request.partner_id, "key": request.key}
    added = await tx.execute(_INSERT[tx.dialect], ids | fresh | {"claims": 1})
    if added.rowcount == 1:
        return Claim(**ids, number=1, order_id=order_id)
    row_of_key = _key_is(request.partner_id, request.key)
    found = await tx.first(select(keys).where(row_of_key).with_for_update())
    if found is None:
        raise errors.RequestInProgress("The key was just released. Try again.", retry_after=1)
    row = _KeyRow(*found)
    joins = row.is_used(now, request.lease)
    if joins:
        outcome = await _find_outcome(tx, row, request, now)
        if outcome is not None:
            return Pinned(outcome)
        order_id = row.order_id
    values = {"claimed_until": fresh["claimed_until"]} if joins else fresh
    number = row.claims + 1
    await tx.execute(update(keys).where(row_of_key).values(claims=number, **values))
    return Claim(**ids, number=number, order_id=order_id, joins=joins)


def _fresh(request: KeyedRequest, order_id: UUID | None, now: datetime) -> dict[str, Any]:
    """Return the columns of a key that the request is the first to use, or the first after it was freed."""
    return {
        **request.columns,
        "order_id": order_id,
        "claimed_until": now + request.lease,
        "status": None,
        "media_type": None,
        "body": None,
        "created_at": now,
    }


async def read(tx: Read, request: KeyedRequest, *, now: datetime) -> FreeKey | OpenOrder | Pinned:
    """Return what the key is used for. Raises IdempotencyKeyReused, RequestInProgress."""
    found = await tx.first(_FIND, {"where_partner": request.partner_id, "where_key": request.key})
    if found is None:
        return FreeKey()
    row = _KeyRow(*found)
    if not row.is_used(now, request.lease):
        return FreeKey()
    outcome = await _find_outcome(tx, row, request, now)
    if outcome is not None:
        return Pinned(outcome)
    return FreeKey() if row.order_id is None else OpenOrder()


async def _find_outcome(tx: Read, row: _KeyRow, request: KeyedRequest, now: datetime) -> PinnedOutcome | None:
    """Return the outcome of a key in use; None if its work must be continued."""
    if not request.is_same(row.request, row.meaning):
        raise _reused(row)
    if row.status is not None and row.body is not None:
        base = await tx.scalar(_CONTENT, {"where_order": row.order_id})
        return _outcome_of(row.status, row.order_id, decompress(row.body, base=base))
    if row.is_claimed(now, request.lease):
        raise errors.RequestInProgress(
            "The same request is still in progress. Repeat it with the same key.", retry_after=WAIT_SECONDS
        )
    return None


def _reused(row: _KeyRow) -> errors.IdempotencyKeyReused:
    """Return the refusal of another request, which says first what became of the one that has the key."""
    if row.order_id is not None:
        return errors.IdempotencyKeyReused(
            f"This Idempotency-Key was used with another request in the last 24 hours, for the order {row.order_id}. "
            "Read that order first: what you want may be done. Send this request with a new key only if it isn't.",
            extensions={"orderId": str(row.order_id)},
        )
    if row.status is None:
        return errors.IdempotencyKeyReused(
            "This Idempotency-Key was used with another request, which is in progress and may place an order. "
            "Repeat that request to learn its outcome. Send this one with a new key only if nothing was placed."
        )
    return errors.IdempotencyKeyReused(
        "This Idempotency-Key was used with another request in the last 24 hours. The store refused that one, and "
        "nothing was placed. Send this request with a new key."
    )


def _outcome_of(status: int, order_id: UUID | None, body: bytes) -> PinnedOutcome:
    """Return the outcome from the document that `pin` stored."""
    if order_id is not None and status == _CREATED:
        return PlacedOrder(order_id, body, replayed=True)
    if order_id is not None and status == _OK:
        return CancelledOrder(order_id, body, replayed=True)
    if body.startswith(_YAML):
        # The previous release stored Markdown as it was sent: its front matter has each member as JSON. The next
        # release needs this no longer, because a key lasts 24 hours.
        members = (line.partition(b": ") for line in body.split(b"\n---\n")[0].splitlines()[1:])
        body = b"{%s}" % b",".join(b'"%s":%s' % (name, value) for name, _, value in members)
        return RefusedOrder(_problem.decode(body), ProblemFormat.MARKDOWN, replayed=True)
    return RefusedOrder(_problem.decode(body), _format.decode(body).format, replayed=True)


def set_order(tx: Write, claim: Claim, *, order_id: UUID) -> None:
    """Store the order of the claim.

    The transaction fails with RequestInProgress if another request has taken the claim over.
    """
    overtaken = errors.RequestInProgress(
        "Another request with the same key has taken over. Repeat this one with the same key.",
        retry_after=WAIT_SECONDS,
    )
    tx.require(_SET_ORDER, _claim_values(claim) | {"order_id": order_id}, otherwise=overtaken)


async def pin(tx: Write, claim: Claim, outcome: PinnedOutcome, *, order_content: bytes = b"") -> None:
    """Pin the outcome to the key, unless another request has taken the claim over.

    It is stored as the contract's JSON document, which the previous release sends as it is, and compressed with
    `order_content`, that of the key's order.
    """
    match outcome:
        case PlacedOrder(document=document):
            status, media_type = _CREATED, _JSON
        case CancelledOrder(document=document):
            status, media_type = _OK, _JSON
        case RefusedOrder(problem, chosen):
            status, media_type, document = problem.status, ProblemFormat.JSON.value, as_json(problem)
            if chosen is not ProblemFormat.JSON:
                # Clients of the previous release ignore the member.
                document = as_json(msgspec.to_builtins(problem) | {"format": chosen})
    pinned = {
        "status": status,
        "media_type": media_type,
        "body": compress(document, base=order_content),
    }
    tx.defer(_PIN, _claim_values(claim) | pinned)


async def release(tx: Write, claim: Claim, *, now: datetime) -> None:
    """End the claim, so that the next request can claim the key. Without an order, that may be any request."""
    freed = update(keys).where(_claimed(claim), keys.c.order_id.is_(None))
    await tx.execute(freed.values(request=_FREE, claimed_until=now))
    await tx.execute(update(keys).where(_claimed(claim)).values(claimed_until=now))


async def free(tx: Write, claim: Claim, *, now: datetime) -> None:
    """Free the key for any request: a repeat of this one may succeed."""
    await tx.execute(
        update(keys).where(_claimed(claim)).values(request=_FREE, order_id=None, claimed_until=now)
    )


async def prune(tx: Write, *, now: datetime, limit: int) -> int:
    """Delete expired keys; return how many."""
    expired = and_(keys.c.created_at < now - LIFETIME, keys.c.claimed_until < now)
    found = await tx.all(select(keys.c.partner_id, keys.c.key).where(expired).limit(limit))
    if found:
        one_of = or_(*(_key_is(row.partner_id, row.key) for row in found))
        await tx.execute(delete(keys).where(one_of, expired))
    return len(found)


def _key_is(partner_id: UUID, key: str) -> Any:
    return and_(keys.c.partner_id == partner_id, keys.c.key == key)


def _claim_values(claim: Claim) -> dict[str, Any]:
    """Return the parameters of `_CLAIMED`."""
    return {"where_partner": claim.partner_id, "where_key": claim.key, "where_claim": claim.number}


def _claimed(claim: Claim) -> Any:
    return and_(_key_is(claim.partner_id, claim.key), keys.c.claims == claim.number)
