"""Validate: the order by our own rules, then by its store's; what the store adds to the price is taken over."""

from datetime import datetime
from typing import Final

from msgspec import UNSET, Struct

from mercato.domain.orders.amounts import Sums, wire
from mercato.domain.orders.model import CheckedOrder, ValidateOrderResponse
from mercato.domain.orders.plan import Checked, OrderChecker
from mercato.domain.orders.record import storefront_cart
from mercato.domain.orders.replies import Agreed, Refused, ReplyParser, agree, read_validate
from mercato.domain.orders.request import OrderCore, PlaceOrderRequest
from mercato.domain.orders.tokens import Seal, digest_of
from mercato.domain.orders.wire import OrderTold, ValidateData
from mercato.domain.partners.model import Caller
from mercato.domain.partners.storage import VALIDATION_BYTES, StorageQuota
from mercato.domain.webhooks.calls.client import CallResult, StoreCall, StoreCalls
from mercato.domain.webhooks.deliveries import record_store_call
from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.model import DeliveryStatus, envelope
from mercato.kernel import errors
from mercato.kernel.clock import Clock, MakeId, rfc3339
from mercato.kernel.db.engine import Database
from mercato.kernel.errors import OrderError
from mercato.kernel.outbound.signing import target

VALIDATE: Final = "validate"

RETRY_SECONDS: Final = 5
"""What a client is told to wait when a store did not answer."""


class Validations(Struct, frozen=True):
    """Validates orders. `seconds` bound the call of a store's webhook.

    What is answered is true of the store as it was at some instant after the request came, in whatever process it
    was changed: so its version is read before anything is checked, or its webhook called.
    """

    db: Database
    clock: Clock
    new_id: MakeId
    checker: OrderChecker
    calls: StoreCalls
    seal: Seal
    seconds: float
    quota: StorageQuota

    async def validate(self, caller: Caller, order: OrderCore, *, trace: str) -> ValidateOrderResponse:
        """Return whether the order can be placed, and if so the token that places it.

        Raises StoreNotFound, CatalogSetNotFound, ValidationFailed for what is wrong with the request itself,
        StoreUnreachable when the store gave no usable answer, and RateLimited.
        """
        checked = await self.checker.check(order, in_force=True)
        found = checked.review
        reasons, sums, ready_at, token = found.reasons, found.sums, None, None
        said = reasons or await self.ask(caller, checked, order, trace=trace)
        if isinstance(said, Agreed):
            sums, ready_at = said.sums, said.estimated_ready_at
            digest = digest_of(caller.partner_id, checked.store.id, found)
            token = self.seal.issue(digest, said, now=self.clock())
        else:
            reasons = said
        return ValidateOrderResponse(
            is_valid=token is not None,
            validated_order_token=token,
            order=CheckedOrder(
                cart=storefront_cart(found.cart),
                client_context=order.client_context,
                fulfillment=found.fulfillment,
                amounts=UNSET if sums is None else wire(sums),
                customer=order.customer or UNSET,
                estimated_ready_at=rfc3339(ready_at) if ready_at else UNSET,
                errors=reasons,
            ),
        )

    async def ask(
        self, caller: Caller, checked: Checked, order: OrderCore | PlaceOrderRequest, *, trace: str
    ) -> Agreed | tuple[OrderError, ...]:
        """Return what the store agrees to, or its reasons against it. Raises StoreUnreachable, RateLimited.

        A store without a webhook agrees to everything.
        """
        sums = checked.review.sums
        assert sums is not None, "an order without a price has reasons against it"
        store = checked.store
        if store.webhook_url is None:
            return Agreed(sums, None)
        call = StoreCall(
            store_id=store.id,
            partner_id=store.partner_id,
            url=target(store.webhook_url, VALIDATE),
            webhook_id=self.new_id(),
            body=validate_body(checked, order, sums, now=self.clock()),
            traceparent=trace,
        )
        parser = ReplyParser(lambda status, body: agree(sums, read_validate(status, body)))
        called = await self.calls.post(call, seconds=self.seconds, parser=parser)
        if called.error is None:
            match parser.reply:
                case Agreed() as agreed:
                    return agreed
                case Refused(errors=reasons):
                    return reasons
        raise await self._unreachable(caller, call, called)

    async def _unreachable(
        self, caller: Caller, call: StoreCall, called: CallResult
    ) -> errors.StoreUnreachable:
        """Return the refusal, having written its cause into the merchant's delivery log.

        A call that was never made, because its store has been cut off, leaves nothing there. Raises RateLimited if the
        caller has stored all that it may.
        """
        refusal = errors.StoreUnreachable(
            "The store's system gave no usable answer; the merchant sees why in its delivery log. Try again.",
            retry_after=RETRY_SECONDS,
        )
        if not called.reached:
            return refusal
        now = self.clock()
        async with self.db.write() as tx:
            size = VALIDATION_BYTES + len(call.body)
            await self.quota.take(tx, caller.partner_id, size, now=now)
            await record_store_call(
                tx,
                delivery_id=self.new_id(),
                partner_id=call.partner_id,
                store_id=call.store_id,
                order_id=None,
                type=EventType.ORDER_VALIDATE,
                webhook_id=call.webhook_id,
                url=call.url,
                body=call.body,
                traceparent=call.traceparent,
                attempts=(called,),
                status=DeliveryStatus.FAILED,
                now=now,
            )
        return refusal


def validate_body(
    checked: Checked, order: OrderCore | PlaceOrderRequest, sums: Sums, *, now: datetime
) -> bytes:
    """Return the body of a validate call."""
    store, found = checked.store, checked.review
    data = ValidateData(
        store_id=store.id,
        partner_store_id=store.partner_store_id,
        order=OrderTold(
            cart=found.cart,
            client_context=order.client_context,
            fulfillment=found.fulfillment,
            amounts=wire(sums),
            customer=order.customer or UNSET,
        ),
    )
    return envelope(EventType.ORDER_VALIDATE, occurred_at=now, data=data)
