"""validatedOrderTokens: what an order was validated as, signed, so that placing it needs no second question."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato import mac
from mercato.carts.model import LineItem
from mercato.clock import MakeId, rfc3339
from mercato.errors import OrderError, OrderTokenInvalid
from mercato.orders.amounts import Detail, Details, Extras, Sums
from mercato.orders.request import Fulfillment
from mercato.orders.review import Review
from mercato.wire.unshown import unshown

LIFE: Final = timedelta(minutes=15)

PURPOSE: Final = "mercato validated order"
"""What the signing keys are derived for: nothing signed for another end is taken for a token."""

BEGIN: Final = "vo_"
MOST_LENGTH: Final = 65_536
"""Characters of a token that are looked at; none that is made here has more."""

_VERSION: Final = 1
_SIGNATURE: Final = 32
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """What an order is, told apart from every other: whose it is, and hashes of its parts."""

    caller: UUID
    store: UUID
    cart: bytes
    fulfillment: bytes


class Terms(Struct, frozen=True, kw_only=True):
    """What was agreed on, and the order it is for."""

    digest: Digest
    sums: Sums
    estimated_ready_at: datetime | None = None


class Validated(Struct, frozen=True, kw_only=True):
    """What a good token says. `token_id` is used up by the order that is placed with it."""

    token_id: UUID
    expires_at: datetime
    sums: Sums
    estimated_ready_at: datetime | None


_PackedDetails = tuple[tuple[int, str], ...]
_Packed = tuple[_PackedDetails, _PackedDetails, _PackedDetails, _PackedDetails]


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    """What is signed. Instants in milliseconds since 1970."""

    version: int
    token_id: UUID
    expires_at: int
    digest: Digest
    currency: str
    scale: int
    sub_total: int
    extras: _Packed
    tip: int
    estimated_ready_at: int | None


_encode: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode
_decode: Final = msgspec.msgpack.Decoder(_Claims).decode


def digest_of(caller: UUID, store: UUID, found: Review) -> Digest:
    """Return the digest of a reviewed order: line ids, names and the order of lines make no difference."""
    return digest(caller, store, currency=found.currency, lines=found.lines, fulfillment=found.fulfillment)


def digest(
    caller: UUID, store: UUID, *, currency: str, lines: Sequence[LineItem], fulfillment: Fulfillment
) -> Digest:
    """Return the digest of an order with this fulfilment, which must be normalised."""
    cart = currency.encode() + b"\0" + _cart(lines)
    return Digest(
        caller=caller,
        store=store,
        cart=hashlib.sha256(cart).digest(),
        fulfillment=hashlib.sha256(msgspec.json.encode(fulfillment)).digest(),
    )


@unshown("keys")
class Seal(Struct, frozen=True):
    """Signs with its first key and verifies with any, so that keys can be replaced one after the other."""

    keys: Sequence[bytes]
    new_id: MakeId

    def issue(self, terms: Terms, *, now: datetime) -> str:
        """Return a token for the terms, good for fifteen minutes."""
        sums = terms.sums
        ready = terms.estimated_ready_at
        said = _encode(
            _Claims(
                version=_VERSION,
                token_id=self.new_id(),
                expires_at=_milliseconds(now + LIFE),
                digest=terms.digest,
                currency=sums.currency,
                scale=sums.scale,
                sub_total=sums.sub_total,
                extras=_packed(sums.extras),
                tip=sums.tip,
                estimated_ready_at=None if ready is None else _milliseconds(ready),
            )
        )
        text = BEGIN + _text(said + self._signature(self.keys[0], said))
        assert len(text) <= MOST_LENGTH, "the texts that a store adds to an order are bounded"
        return text

    def read(self, text: str, *, digest: Digest, now: datetime) -> Validated:
        """Return what the token says of the order with this digest. Raises OrderTokenInvalid."""
        claims = self._claims(text)
        if claims is None:
            raise _invalid("The token can't be read: send it as Validate order answered it.")
        said = claims.digest
        expires_at = _instant(claims.expires_at)
        if said.caller != digest.caller:
            raise _invalid("The token was not made for this account.")
        if said.store != digest.store:
            raise _invalid("The token was made for an order from another store.")
        if said.cart != digest.cart:
            raise _invalid("The token was made for another cart. Validate this one.")
        if said.fulfillment != digest.fulfillment:
            raise _invalid(
                "The token was made for another fulfillment. Validate the order again with this one."
            )
        if expires_at <= now:
            raise TokenExpired(claims.token_id, expires_at)
        return _validated(claims, expires_at)

    def _claims(self, text: str) -> _Claims | None:
        raw = _raw(text)
        if raw is None:
            return None
        said, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
        if not any(hmac.compare_digest(self._signature(key, said), signature) for key in self.keys):
            return None
        try:
            claims = _decode(said)
        except msgspec.MsgspecError:
            # Signed by us all the same: by a version of the service that says more, or less.
            return None
        return claims if claims.version == _VERSION else None

    @staticmethod
    def _signature(key: bytes, said: bytes) -> bytes:
        return mac.sign(key, said)


class TokenExpired(OrderTokenInvalid):
    """The token was good once. An order may have been placed with it all the same."""

    def __init__(self, token_id: UUID, expires_at: datetime) -> None:
        message = f"The token expired at {rfc3339(expires_at)}. Validate the order again."
        super().__init__(message, errors=[_fault(message)])
        self.token_id = token_id


def _invalid(message: str) -> OrderTokenInvalid:
    return OrderTokenInvalid(message, errors=[_fault(message)])


def _fault(message: str) -> OrderError:
    return OrderError(code=OrderTokenInvalid.code, message=message, pointer="/validatedOrderToken")


# --- one spelling of everything -------------------------------------------------------------------


def _cart(lines: Sequence[LineItem]) -> bytes:
    """Return the lines as bytes, the same however the same choices are ordered or split."""
    units: dict[bytes, int] = {}
    for line in lines:
        choice = _choice(line)
        units[choice] = units.get(choice, 0) + line.quantity
    return _units(units)


def _choice(line: LineItem) -> bytes:
    """Return bytes that are equal exactly where `carts.lines.choice_of` is, in every process."""
    item_id = line.item_id.int.to_bytes(16, "big")
    if not line.modifier_groups:
        return item_id + _NOTHING
    units: dict[bytes, int] = {}
    for group in line.modifier_groups:
        group_id = group.modifier_group_id.int.to_bytes(16, "big")
        for below in group.line_items:
            # Most choices have nothing below them, and to be asked for it costs as much as to say so.
            key = group_id + (
                _choice(below) if below.modifier_groups else below.item_id.int.to_bytes(16, "big") + _NOTHING
            )
            units[key] = units.get(key, 0) + below.quantity
    return item_id + _units(units)


def _units(units: dict[bytes, int]) -> bytes:
    """Return the counted things in one order, after their number.

    Ids and numbers have one length each, so that it can be read where each thing ends, and no two sets share a
    spelling.
    """
    parts = [thing + count.to_bytes(8, "big") for thing, count in sorted(units.items())]
    return len(parts).to_bytes(8, "big") + b"".join(parts)


_NOTHING: Final = _units({})


def _packed(extras: Extras) -> _Packed:
    def of(details: Details) -> _PackedDetails:
        return tuple((one.amount, one.description) for one in details)

    return of(extras.fees), of(extras.taxes), of(extras.promotions), of(extras.adjustments)


def _validated(claims: _Claims, expires_at: datetime) -> Validated:
    fees, taxes, promotions, adjustments = (
        tuple(Detail(amount, description) for amount, description in details) for details in claims.extras
    )
    extras = Extras(fees=fees, taxes=taxes, promotions=promotions, adjustments=adjustments)
    ready = claims.estimated_ready_at
    return Validated(
        token_id=claims.token_id,
        expires_at=expires_at,
        sums=Sums(claims.currency, claims.scale, claims.sub_total, extras, claims.tip),
        estimated_ready_at=None if ready is None else _instant(ready),
    )


def _milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MILLISECOND


def _instant(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _raw(token: str) -> bytes | None:
    """Return the bytes of a token; None for what is none, and for any other spelling of one."""
    if len(token) > MOST_LENGTH or not token.startswith(BEGIN) or not token.isascii():
        return None
    text = token[len(BEGIN) :]
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if _text(raw) == text else None
