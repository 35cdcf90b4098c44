"""Validate: the order by our own rules, then by its store's; what the store adds to the price is taken over."""

from typing import Final

from msgspec import UNSET, Struct

from mercato import errors
from mercato.catalog.model import CompiledCatalog
from mercato.clock import Clock, MakeId
from mercato.db.engine import Database
from mercato.errors import OrderError
from mercato.orders.amounts import wire
from mercato.orders.bodies import validate_body
from mercato.orders.model import CheckedOrder, ValidateOrderResponse
from mercato.orders.replies import Agreed, Refused, ValidateJudge
from mercato.orders.request import OrderCore, PlaceOrderRequest
from mercato.orders.review import Review, review
from mercato.orders.tokens import Seal, Terms, digest_of
from mercato.outbound.signing import target
from mercato.partners.model import Caller
from mercato.partners.storage import VALIDATION_BYTES, StorageQuota
from mercato.stores.menus import Menus
from mercato.stores.model import StoreRow
from mercato.webhooks.calls import Called, StoreCall, StoreCalls
from mercato.webhooks.deliveries import record
from mercato.webhooks.event_types import EventType
from mercato.webhooks.model import DeliveryStatus
from mercato.wire import instant

VALIDATE: Final = "validate"

RETRY_SECONDS: Final = 5
"""What a client is told to wait when a store did not answer."""


class Checked(Struct, frozen=True):
    """An order as our own rules found it."""

    store: StoreRow
    catalog: CompiledCatalog
    review: Review


class Validations(Struct, frozen=True):
    """Validates orders. `seconds` bound the call of a store's webhook.

    What is answered is true of the store as it was at some instant after the request came, in whatever process it
    was changed: so its version is read before anything is checked, or its webhook called.
    """

    db: Database
    clock: Clock
    new_id: MakeId
    menus: Menus
    calls: StoreCalls
    seal: Seal
    seconds: float
    quota: StorageQuota

    async def validate(self, caller: Caller, order: OrderCore, *, trace: str) -> ValidateOrderResponse:
        """Return whether the order can be placed, and if so the token that places it.

        Raises StoreNotFound, CatalogSetNotFound, ValidationFailed for what is wrong with the request itself,
        StoreUnreachable when the store gave no usable answer, and RateLimited.
        """
        checked = await self.check_in_force(order)
        reasons = checked.review.reasons
        agreed: Agreed | None = None
        if not reasons:
            said = await self.ask(caller, checked, order, trace=trace)
            if isinstance(said, Agreed):
                agreed = said
            else:
                reasons = said
        return _answer(
            order, checked.review, agreed, reasons, self._token(caller, checked, agreed) if agreed else None
        )

    async def check(self, order: OrderCore | PlaceOrderRequest) -> Checked:
        """Return the order as our own rules find it. Raises as `validate` does, but for the store's part.

        The store may have changed in another process: what follows from this is to be held against its version.
        """
        return self._checked(order, *await self.menus.get(order.cart.store_id, order.cart.catalog_set_id))

    async def check_in_force(self, order: OrderCore | PlaceOrderRequest) -> Checked:
        """Return and raise as `check`, with every change of the store that was committed before this call."""
        return self._checked(
            order, *await self.menus.get_in_force(order.cart.store_id, order.cart.catalog_set_id)
        )

    def _checked(
        self, order: OrderCore | PlaceOrderRequest, store: StoreRow, catalog: CompiledCatalog
    ) -> Checked:
        found = review(order, store=store, catalog=catalog, now=self.clock(), new_id=self.new_id)
        return Checked(store, catalog, found)

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
        now = self.clock()
        body = validate_body(store, order, checked.review, catalog=checked.catalog, now=now)
        call = StoreCall(
            store_id=store.id,
            partner_id=store.partner_id,
            url=target(store.webhook_url, VALIDATE),
            webhook_id=self.new_id(),
            body=body,
            traceparent=trace,
        )
        judge = ValidateJudge(sums)
        called = await self.calls.post(call, seconds=self.seconds, judge=judge)
        if called.error is None and isinstance(judge.reply, Agreed):
            return judge.reply
        if called.error is None and isinstance(judge.reply, Refused):
            return judge.reply.errors
        raise await self._unreachable(caller, call, called)

    async def _unreachable(self, caller: Caller, call: StoreCall, called: Called) -> errors.StoreUnreachable:
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
            await record(
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

    def _token(self, caller: Caller, checked: Checked, agreed: Agreed) -> str:
        digest = digest_of(caller.partner_id, checked.store.id, checked.review)
        return self.seal.issue(
            Terms(digest=digest, sums=agreed.sums, estimated_ready_at=agreed.estimated_ready_at),
            now=self.clock(),
        )


def _answer(
    order: OrderCore,
    found: Review,
    agreed: Agreed | None,
    reasons: tuple[OrderError, ...],
    token: str | None,
) -> ValidateOrderResponse:
    sums = agreed.sums if agreed is not None else found.sums
    return ValidateOrderResponse(
        is_valid=token is not None,
        validated_order_token=token,
        order=CheckedOrder(
            cart=found.cart,
            client_context=order.client_context,
            fulfillment=found.fulfillment,
            amounts=UNSET if sums is None else wire(sums),
            customer=order.customer or UNSET,
            estimated_ready_at=(instant(agreed.estimated_ready_at) if agreed else None) or UNSET,
            errors=reasons,
        ),
    )
