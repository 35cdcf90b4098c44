"""validatedOrderTokens: a signed quote for an order, so that placing it needs no second validation."""

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

from mercato.features.orders.amounts import Sums
from mercato.features.orders.checks import OrderCheck
from mercato.features.orders.errors import OrderTokenInvalid
from mercato.features.orders.store_replies import Quote
from mercato.platform.clock import MakeId
from mercato_contract.carts import CartModifierGroup, LineItem
from mercato_contract.placements import Fulfillment
from mercato_contract.problems import OrderError
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import as_json, redacted, rfc3339

LIFETIME: Final = timedelta(minutes=15)

PURPOSE: Final = "mercato validated order"
"""The purpose of the derived signing keys: what is signed for another purpose isn't a valid token."""

PREFIX: Final = "vo_"
MAX_LENGTH: Final = 65_536
"""Characters of a token. A longer one isn't read."""

_VERSION: Final = 1
_SIGNATURE: Final = 32


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """The identity of an order: its partner, its store, and hashes of its parts."""

    caller: UUID
    store: UUID
    cart: bytes
    fulfillment: bytes


class TokenClaims(msgspec.Struct, frozen=True, array_like=True):
    """The signed content. An order that is placed with the token uses `token_id` up."""

    version: int
    token_id: UUID
    expires_at: datetime
    digest: Digest
    sums: Sums
    estimated_ready_at: datetime | None


_encode: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode
_decode: Final = msgspec.msgpack.Decoder(TokenClaims).decode


def digest_of(caller: UUID, check: OrderCheck) -> Digest:
    """Return the digest of a checked order. Line ids, names and the order of lines don't change it."""
    return digest(
        caller,
        check.store.id,
        currency=check.currency,
        lines=check.lines,
        fulfillment=check.fulfillment,
        note=check.note,
    )


def digest(
    caller: UUID,
    store: UUID,
    *,
    currency: str,
    lines: Sequence[LineItem],
    fulfillment: Fulfillment,
    note: str | None = None,
) -> Digest:
    """Return the digest of an order. The fulfillment must be normalized.

    Without notes it is the same as before there were notes, so that tokens outlive an upgrade.
    """
    cart = _canonical([CartModifierGroup(modifier_group_id=UUID(int=0), line_items=list(lines))])
    handover = as_json(fulfillment)
    if note:
        handover += b"\0" + note.encode()
    return Digest(
        caller=caller,
        store=store,
        cart=hashlib.sha256(currency.encode() + b"\0" + cart).digest(),
        fulfillment=hashlib.sha256(handover).digest(),
    )


def _canonical(groups: Sequence[CartModifierGroup], note: str | None = None) -> bytes:
    """Return the lines of all groups, and their line's note, as bytes that don't depend on their order or on splits.

    Lines are equal if `carts.lines.choice_of` is. Ids, numbers and a note's hash have a fixed length, and the first bit
    says whether there is a note, so that different carts have different bytes.
    """
    units: dict[bytes, int] = {}
    for group in groups:
        group_id = group.modifier_group_id.int.to_bytes(16, "big")
        for line in group.line_items:
            plain = not line.modifier_groups and not line.note
            below = _NO_LINES if plain else _canonical(line.modifier_groups, line.note or None)
            key = group_id + line.item_id.int.to_bytes(16, "big") + below
            units[key] = units.get(key, 0) + line.quantity
    encoded = bytearray(len(units).to_bytes(8, "big"))
    if note:
        encoded[0] |= 0x80
        encoded += hashlib.sha256(note.encode()).digest()
    for key in sorted(units):
        encoded += key
        encoded += units[key].to_bytes(8, "big")
    return bytes(encoded)


_NO_LINES: Final = _canonical([])


@redacted("keys")
class OrderTokens(Struct, frozen=True):
    """Signs with its first key and verifies with any, so that keys can be rotated."""

    keys: Sequence[bytes]
    new_id: MakeId

    def issue(self, digest: Digest, quote: Quote, *, now: datetime) -> str:
        """Return a token for the order with this digest and quote, valid for fifteen minutes."""
        claims = _encode(
            TokenClaims(
                version=_VERSION,
                token_id=self.new_id(),
                expires_at=now + LIFETIME,
                digest=digest,
                sums=quote.sums,
                estimated_ready_at=quote.estimated_ready_at,
            )
        )
        signed = base64.urlsafe_b64encode(claims + hmac_sha256(self.keys[0], claims))
        text = PREFIX + signed.rstrip(b"=").decode()
        assert len(text) <= MAX_LENGTH, "the texts of a store are bounded"
        return text

    def verify(self, text: str, *, digest: Digest, now: datetime) -> TokenClaims:
        """Return the claims of a token for the order with this digest. Raises OrderTokenInvalid."""
        claims = self._claims(text)
        if claims is None:
            raise _invalid("The token can't be read. Send it exactly as Validate order returned it.")
        if claims.digest.caller != digest.caller:
            raise _invalid("The token was not made for this account.")
        if claims.digest.store != digest.store:
            raise _invalid("The token was made for an order from another store.")
        if claims.digest.cart != digest.cart:
            raise _invalid("The token was made for another cart. Validate this one.")
        if claims.digest.fulfillment != digest.fulfillment:
            raise _invalid(
                "The token was made for another fulfillment or note. Validate the order again with this one."
            )
        if claims.expires_at <= now:
            raise TokenExpired(claims.token_id, claims.expires_at)
        return claims

    def _claims(self, text: str) -> TokenClaims | None:
        raw = _raw(text)
        if raw is None:
            return None
        content, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
        for key in self.keys:
            if hmac.compare_digest(hmac_sha256(key, content), signature):
                break
        else:
            return None
        try:
            claims = _decode(content)
        except msgspec.MsgspecError:
            # Signed by another release, whose claims have other members.
            return None
        return claims if claims.version == _VERSION else None


class TokenExpired(OrderTokenInvalid):
    """The token has expired. An order may have been placed with it before."""

    def __init__(self, token_id: UUID, expires_at: datetime) -> None:
        message = f"The token expired at {rfc3339(expires_at)}. Validate the order again."
        super().__init__(message, errors=[_fault(message)])
        self.token_id = token_id


def _invalid(message: str) -> OrderTokenInvalid:
    return OrderTokenInvalid(message, errors=[_fault(message)])


def _fault(message: str) -> OrderError:
    return OrderError(code=OrderTokenInvalid.code, message=message, pointer="/validatedOrderToken")


def _raw(token: str) -> bytes | None:
    """Return the bytes of a token; None for malformed text and for any other encoding of the same bytes."""
    if len(token) > MAX_LENGTH or not token.startswith(PREFIX) or not token.isascii():
        return None
    text = token[len(PREFIX) :]
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == text.encode() else None
