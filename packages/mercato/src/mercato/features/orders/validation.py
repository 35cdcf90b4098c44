"""Validate: check the order by our own rules, then let its store validate it and set amounts."""

from datetime import datetime
from typing import Final

from msgspec import UNSET, Struct

from mercato.features.metrics import Activity
from mercato.features.orders.amounts import Sums, wire
from mercato.features.orders.checks import OrderCheck, OrderChecker
from mercato.features.orders.errors import StoreUnreachable
from mercato.features.orders.record import storefront_cart
from mercato.features.orders.store_replies import Quote, Rejection, ReplyParser, quote, read_validate
from mercato.features.orders.tokens import OrderTokens, digest_of
from mercato.features.partners.model import Caller
from mercato.features.partners.queries import VALIDATION_BYTES, StorageQuota
from mercato.features.webhooks.calls import StoreCalls
from mercato.features.webhooks.deliveries import CallRecord, record_store_call
from mercato.features.webhooks.model import CallResult, StoreCall, envelope
from mercato.features.webhooks.validation_log import ValidationLog
from mercato.platform.clock import Clock, MakeId
from mercato.platform.db.engine import Database
from mercato_contract.events import SUFFIXES, EventType, OrderValidateData, WebhookOrder
from mercato_contract.placements import CheckedOrder, OrderCore, PlaceOrderRequest, ValidateOrderResponse
from mercato_contract.signing import target
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import rfc3339

VALIDATE: Final = SUFFIXES[EventType.ORDER_VALIDATE]

RETRY_SECONDS: Final = 5
"""The Retry-After of a request whose store didn't answer."""


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

    async def validate(self, caller: Caller, order: OrderCore, *, trace: str) -> ValidateOrderResponse:
        """Return whether the order can be placed, and if so the token that places it.

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
                    token = self.tokens.issue(digest_of(caller.partner_id, check), quoted, now=self.clock())
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

        A store without a webhook accepts every order.
        """
        sums, store = check.sums, check.store
        assert sums is not None, "an order without a price has errors"
        if store.webhook_url is None:
            return Quote(sums, None)
        call = StoreCall(
            store_id=store.id,
            partner_id=store.partner_id,
            url=target(store.webhook_url, VALIDATE),
            webhook_id=self.new_id(),
            body=validate_body(check, order, sums, now=self.clock()),
            traceparent=trace,
        )
        parser = ReplyParser(lambda status, body: quote(sums, read_validate(status, body)))
        called = await self.calls.post(call, seconds=self.seconds, parser=parser)
        if called.error is None:
            match parser.reply:
                case Quote() as quoted:
                    self.log.record(call, called, accepted=True)
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
