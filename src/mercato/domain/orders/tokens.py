"""validatedOrderTokens: what an order was validated as, signed, so that placing it needs no second question."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato.domain.carts.model import CartModifierGroup, LineItem
from mercato.domain.orders.amounts import Sums
from mercato.domain.orders.replies import Agreed
from mercato.domain.orders.request import Fulfillment
from mercato.domain.orders.review import Review
from mercato.kernel import mac
from mercato.kernel.clock import MakeId, rfc3339
from mercato.kernel.errors import OrderError, OrderTokenInvalid
from mercato.kernel.wire.base import redacted

LIFE: Final = timedelta(minutes=15)

PURPOSE: Final = "mercato validated order"
"""What the signing keys are derived for: nothing signed for another end is taken for a token."""

BEGIN: Final = "vo_"
MOST_LENGTH: Final = 65_536
"""Characters of a token that are looked at; none that is made here has more."""

_VERSION: Final = 1
_SIGNATURE: Final = 32


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """What an order is, told apart from every other: whose it is, and hashes of its parts."""

    caller: UUID
    store: UUID
    cart: bytes
    fulfillment: bytes


class Claims(msgspec.Struct, frozen=True, array_like=True):
    """What is signed. `token_id` is used up by the order that is placed with it."""

    version: int
    token_id: UUID
    expires_at: datetime
    digest: Digest
    sums: Sums
    estimated_ready_at: datetime | None


_encode: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode
_decode: Final = msgspec.msgpack.Decoder(Claims).decode


def digest_of(caller: UUID, store: UUID, found: Review) -> Digest:
    """Return the digest of a reviewed order: line ids, names and the order of lines make no difference."""
    return digest(caller, store, currency=found.currency, lines=found.lines, fulfillment=found.fulfillment)


def digest(
    caller: UUID, store: UUID, *, currency: str, lines: Sequence[LineItem], fulfillment: Fulfillment
) -> Digest:
    """Return the digest of an order with this fulfilment, which must be normalised."""
    cart = _spell([CartModifierGroup(modifier_group_id=UUID(int=0), line_items=list(lines))])
    return Digest(
        caller=caller,
        store=store,
        cart=hashlib.sha256(currency.encode() + b"\0" + cart).digest(),
        fulfillment=hashlib.sha256(msgspec.json.encode(fulfillment)).digest(),
    )


def _spell(groups: Sequence[CartModifierGroup]) -> bytes:
    """Return the lines of all groups as bytes that don't depend on their order or on splits.

    Two lines are the same where `carts.lines.choice_of` says so. Ids and numbers have one length each, so that it can
    be read where each line ends, and no two carts share a spelling.
    """
    units: dict[bytes, int] = {}
    for group in groups:
        group_id = group.modifier_group_id.int.to_bytes(16, "big")
        for line in group.line_items:
            below = _spell(line.modifier_groups) if line.modifier_groups else _NO_LINES
            key = group_id + line.item_id.int.to_bytes(16, "big") + below
            units[key] = units.get(key, 0) + line.quantity
    spelled = bytearray(len(units).to_bytes(8, "big"))
    for key in sorted(units):
        spelled += key
        spelled += units[key].to_bytes(8, "big")
    return bytes(spelled)


_NO_LINES: Final = _spell([])


@redacted("keys")
class Seal(Struct, frozen=True):
    """Signs with its first key and verifies with any, so that keys can be replaced one after the other."""

    keys: Sequence[bytes]
    new_id: MakeId

    def issue(self, digest: Digest, agreed: Agreed, *, now: datetime) -> str:
        """Return a token for the order with this digest at what was agreed on, good for fifteen minutes."""
        claims = _encode(
            Claims(
                version=_VERSION,
                token_id=self.new_id(),
                expires_at=now + LIFE,
                digest=digest,
                sums=agreed.sums,
                estimated_ready_at=agreed.estimated_ready_at,
            )
        )
        text = BEGIN + _text(claims + mac.sign(self.keys[0], claims))
        assert len(text) <= MOST_LENGTH, "the texts that a store adds to an order are bounded"
        return text

    def read(self, text: str, *, digest: Digest, now: datetime) -> Claims:
        """Return what the token says of the order with this digest. Raises OrderTokenInvalid."""
        claims = self._claims(text)
        if claims is None:
            raise _invalid("The token can't be read: send it as Validate order answered it.")
        said = claims.digest
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
        if claims.expires_at <= now:
            raise TokenExpired(claims.token_id, claims.expires_at)
        return claims

    def _claims(self, text: str) -> Claims | None:
        raw = _raw(text)
        if raw is None:
            return None
        said, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
        for key in self.keys:
            if hmac.compare_digest(mac.sign(key, said), signature):
                break
        else:
            return None
        try:
            claims = _decode(said)
        except msgspec.MsgspecError:
            # Signed by us all the same: by a version of the service that says more, or less.
            return None
        return claims if claims.version == _VERSION else None


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
