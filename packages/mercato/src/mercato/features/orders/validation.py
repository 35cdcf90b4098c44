"""Validate: check the order by our own rules, let its store validate it and set amounts, and sign the result.

The validatedOrderToken is that result, a quote for one order: placing the order with it needs no second validation.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.features.metrics import Activity
from mercato.features.orders.checks import OrderCheck, OrderChecker, sent_fulfillment
from mercato.features.orders.errors import RETRY_SECONDS, OrderTokenInvalid, StoreUnreachable
from mercato.features.orders.record import storefront_cart
from mercato.features.partners.model import Caller
from mercato.features.partners.queries import VALIDATION_BYTES, StorageQuota
from mercato.features.webhooks.calls import StoreCalls
from mercato.features.webhooks.deliveries import CallRecord, record_store_call
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.features.webhooks.validation_log import ValidationLog
from mercato.platform.db.engine import Database
from mercato_catalog.carts.lines import check_bounds
from mercato_catalog.charges import apply_charges
from mercato_contract.amounts import Sums, fits, wire
from mercato_contract.carts import CartModifierGroup, LineItem
from mercato_contract.clock import Clock, MakeId
from mercato_contract.events import SUFFIXES, EventType, OrderValidateData, WebhookOrder, envelope
from mercato_contract.placements import (
    CheckedOrder,
    Fulfillment,
    OrderCore,
    PlaceOrderRequest,
    ValidateOrderResponse,
    mode_of,
)
from mercato_contract.problems import OTHER, OrderError
from mercato_contract.refusals import ValidationFailed
from mercato_contract.replies import Quote, Rejection, ReplyParser, quote, read_validate
from mercato_contract.signing import hmac_sha256, target
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import as_json, redacted, rfc3339

VALIDATE: Final = SUFFIXES[EventType.ORDER_VALIDATE]

TOKEN_LIFETIME: Final = timedelta(minutes=15)

PURPOSE: Final = "mercato validated order"
"""The purpose of the derived signing keys: what is signed for another purpose isn't a valid token."""

PREFIX: Final = "vo_"
MAX_TOKEN: Final = 65_536
"""Characters of a token. A longer one isn't read."""

_VERSION: Final = 1
_SIGNATURE: Final = 32


# --- tokens ---------------------------------------------------------------------------------------


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
    cart = _canonical([CartModifierGroup(modifier_group_id=_NO_GROUP, line_items=list(lines))])
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
_NO_GROUP: Final = UUID(int=0)


@redacted("keys")
class OrderTokens(Struct, frozen=True):
    """Signs with its first key and verifies with any, so that keys can be rotated."""

    keys: Sequence[bytes]
    new_id: MakeId

    def issue(self, digest: Digest, quote: Quote, *, now: datetime, token_id: UUID | None = None) -> str:
        """Return a token for the order with this digest and quote, valid for fifteen minutes.

        One order is placed with all tokens of one `token_id`, which is a new one unless it is given.
        """
        claims = _encode(
            TokenClaims(
                version=_VERSION,
                token_id=token_id or self.new_id(),
                expires_at=now + TOKEN_LIFETIME,
                digest=digest,
                sums=quote.sums,
                estimated_ready_at=quote.estimated_ready_at,
            )
        )
        signed = base64.urlsafe_b64encode(claims + hmac_sha256(self.keys[0], claims))
        text = PREFIX + signed.rstrip(b"=").decode()
        assert len(text) <= MAX_TOKEN, "the texts of a store are bounded"
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
            raise _invalid(
                "The token was made for another cart, or while the store sold in another currency. Validate this cart."
            )
        if claims.digest.fulfillment != digest.fulfillment:
            raise _invalid(
                "The token was made for another fulfillment or note. Validate the order again with this one."
            )
        if claims.expires_at <= now:
            raise TokenExpired(claims.expires_at)
        return claims

    def find_id(self, text: str, *, caller: UUID, order: PlaceOrderRequest) -> UUID | None:
        """Return the id of a token that was made for this order, whatever has become of its store and its time since.

        None for any other text. An order that was placed with the token names this id.
        """
        claims, cart = self._claims(text), order.cart
        if claims is None:
            return None
        try:
            check_bounds(cart.line_items)
        except ValidationFailed:
            return None
        sent = digest(
            caller,
            cart.store_id,
            currency=claims.sums.currency,
            lines=cart.line_items,
            fulfillment=sent_fulfillment(order),
            note=order.note or None,
        )
        return claims.token_id if sent == claims.digest else None

    def _claims(self, text: str) -> TokenClaims | None:
        raw = _token_bytes(text)
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

    def __init__(self, expires_at: datetime) -> None:
        message = f"The token expired at {rfc3339(expires_at)}. Validate the order again."
        super().__init__(message, errors=[_token_error(message)])


def _invalid(message: str) -> OrderTokenInvalid:
    return OrderTokenInvalid(message, errors=[_token_error(message)])


def _token_error(message: str) -> OrderError:
    return OrderError(code=OrderTokenInvalid.code, message=message, pointer="/validatedOrderToken")


def _token_bytes(token: str) -> bytes | None:
    """Return the bytes of a token; None for malformed text and for any other encoding of the same bytes."""
    if len(token) > MAX_TOKEN or not token.startswith(PREFIX) or not token.isascii():
        return None
    text = token[len(PREFIX) :]
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == text.encode() else None


# --- validating -----------------------------------------------------------------------------------


class Validations(Struct, frozen=True):
    """Validates orders. `seconds` is the timeout of the store's webhook.

    The result is true of the store at some instant after the request came, whichever process changed it: its version is
    read before the check and before its webhook is called.
    """

    db: Database
    clock: Clock
    new_id: MakeId
    checker: OrderChecker
    calls: StoreCalls
    tokens: OrderTokens
    seconds: float
    quota: StorageQuota
    activity: Activity
    log: ValidationLog

    async def validate(
        self, caller: Caller, order: OrderCore, *, trace: str, token_id: UUID | None = None
    ) -> ValidateOrderResponse:
        """Return whether the order can be placed, and if so the token that places it: `OrderTokens.issue`.

        Raises StoreNotFound, CatalogSetNotFound; InvalidRequest or ValidationFailed for faults of the request;
        StoreUnreachable without a valid reply of the store; RateLimited.
        """
        check = await self.checker.check(order, in_force=True)
        sums, listed = check.sums, check.errors
        ready_at: datetime | None = None
        token: str | None = None
        if not listed:
            match await self.validate_with_store(caller, check, order, trace=trace):
                case Rejection(errors=listed):
                    pass
                case Quote() as quoted:
                    sums, ready_at = quoted.sums, quoted.estimated_ready_at
                    digest = digest_of(caller.partner_id, check)
                    token = self.tokens.issue(digest, quoted, now=self.clock(), token_id=token_id)
        self.activity.validated(valid=token is not None)
        return ValidateOrderResponse(
            is_valid=token is not None,
            validated_order_token=token,
            order=CheckedOrder(
                cart=storefront_cart(check.cart),
                client_context=order.client_context,
                fulfillment=check.fulfillment,
                note=check.note,
                amounts=UNSET if sums is None else wire(sums),
                customer=order.customer or UNSET,
                estimated_ready_at=rfc3339(ready_at) if ready_at else UNSET,
                errors=listed,
            ),
        )

    async def validate_with_store(
        self, caller: Caller, check: OrderCheck, order: OrderCore | PlaceOrderRequest, *, trace: str
    ) -> Quote | Rejection:
        """Return the store's quote, or its rejection. Raises StoreUnreachable, RateLimited.

        A store that isn't called has nothing to add.
        """
        sums, store = check.sums, check.store
        url = store.orders_url
        if url is None:
            return own_quote(check)
        assert sums is not None, "an order without a price has errors"
        call = StoreCall(
            store_id=store.id,
            partner_id=store.partner_id,
            url=target(url, VALIDATE),
            webhook_id=self.new_id(),
            body=validate_body(check, order, sums, now=self.clock()),
            traceparent=trace,
        )
        parser = ReplyParser(lambda status, body: quote(sums, read_validate(status, body)))
        called = await self.calls.post(call, seconds=self.seconds, parser=parser)
        if called.error is None:
            match parser.reply:
                case Quote() as quoted:
                    self.log.record(call, replace(called, warning=quoted.warning), accepted=True)
                    return quoted
                case Rejection() as rejection:
                    self.log.record(call, called, accepted=False)
                    return rejection
        raise await self._unreachable(caller, call, called)

    async def _unreachable(self, caller: Caller, call: StoreCall, called: CallResult) -> StoreUnreachable:
        """Return the problem, and write the failed call into the merchant's delivery log. Raises RateLimited.

        A call that the store's circuit breaker stopped isn't logged.
        """
        problem = StoreUnreachable(
            "The store's system gave no usable answer; the merchant sees why in its delivery log. Try again.",
            retry_after=RETRY_SECONDS,
        )
        if not called.was_sent:
            return problem
        now = self.clock()
        async with self.db.write() as tx:
            size = VALIDATION_BYTES + len(call.body)
            await self.quota.take(tx, caller.partner_id, size, now=now)
            await record_store_call(
                tx,
                CallRecord(
                    call=call,
                    id=self.new_id(),
                    type=EventType.ORDER_VALIDATE,
                    body=call.body,
                    results=(called,),
                    status=DeliveryStatus.FAILED,
                    at=now,
                ),
            )
        return problem


def validate_body(
    check: OrderCheck, order: OrderCore | PlaceOrderRequest, sums: Sums, *, now: datetime
) -> bytes:
    """Return the body of a validate call."""
    data = OrderValidateData(
        store_id=check.store.id,
        partner_store_id=check.store.partner_store_id,
        order=WebhookOrder(
            cart=check.cart,
            client_context=order.client_context,
            fulfillment=check.fulfillment,
            note=check.note,
            amounts=wire(sums),
            customer=order.customer or UNSET,
        ),
    )
    return envelope(EventType.ORDER_VALIDATE, occurred_at=now, data=data)


def own_quote(check: OrderCheck) -> Quote | Rejection:
    """Return the sums with the store's own taxes and fees, as a store that is called would answer."""
    sums, charges = check.sums, check.store.charges_in_force
    assert sums is not None, "an order without a price has errors"
    if not charges:
        return Quote(sums, None)
    charged = apply_charges(sums, charges, mode=mode_of(check.fulfillment))
    code = OTHER
    if not fits(charged.total):
        message = "The order's total is out of range with the store's taxes and fees. Order less at a time."
    elif charged.total < 0:
        code = ValidationFailed.code
        message = f"The order's total is negative: {wire(charged).total} {charged.currency}."
    else:
        return Quote(charged, None)
    return Rejection((OrderError(code=code, message=message, pointer="/cart/lineItems"),))
