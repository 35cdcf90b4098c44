"""What happens to an order after it is stored, and the one function that writes it.

Each thing that can happen is a struct: it knows its entry in the history, the columns it changes, whether the partners
get an event, and its line in the log. A new one is a struct here and, if a merchant's update causes it, a line of
`PROGRESS`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar, Final
from uuid import UUID

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.features.metrics import Activity
from mercato.features.orders import queries, search, spending
from mercato.features.orders.record import (
    EncodedEventData,
    EntryDetail,
    OrderRow,
    StoreAnswer,
    StoredAdjustment,
    StoredCancellation,
    cancelled_data,
    event_data,
    merchant_data,
)
from mercato.features.orders.rules import NOT_ACCEPTED, ProgressChange
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_event_url
from mercato.features.webhooks.outbox import NewEvent, Recipient, push_all
from mercato.platform.db.engine import Write
from mercato_contract.clock import MakeId
from mercato_contract.events import EventType, MerchantOrderData, OrderCancelledData
from mercato_contract.money import to_text
from mercato_contract.orders import STATE_TRANSITIONS, Actor, CancellationStatus, OrderState
from mercato_contract.problems import ORDER_ERROR_CODES, OTHER, OrderError
from mercato_contract.wire import rfc3339

STORE_UNREACHABLE: Final = "STORE_UNREACHABLE"
"""The cancelReason of an order whose store never answered."""

CANCELLED_BY_OPERATOR: Final = "CANCELLED_BY_OPERATOR"
"""The cancelReason of an order that an operator cancelled without another."""

OWN_CODES: Final = frozenset({*ORDER_ERROR_CODES, STORE_UNREACHABLE, CANCELLED_BY_OPERATOR, NOT_ACCEPTED})
"""The cancelReasons that are codes of this service; any other is a partner's words."""

UNANSWERED: Final = "order unanswered"
REFUSED: Final = "order refused"
CANCELLED: Final = "order cancelled"
GIVEN_UP: Final = "order given up"


class OrderChange(Struct, frozen=True, kw_only=True):
    """Something that happens to an order.

    `entry` is its type in the history, `milestone` its event in the log: of what operators look for. `event` is what
    the storefront gets, unless it is the order's first: `order.created`. If it `tells_store`, the merchant gets
    `order.cancelled`: in its feed, and at the `webhook_url` if there is one. The merchant of a store that isn't called
    gets every change in its feed.
    """

    entry: ClassVar[str]
    milestone: ClassVar[str | None] = None
    event: ClassVar[EventType] = EventType.ORDER_UPDATED
    at: datetime
    actor: Actor
    tells_store: bool = False
    webhook_url: str | None = None

    def apply_to(self, order: OrderRow) -> OrderRow:
        """Return the order with the columns that change; `Lifecycle.apply` counts events and entries."""
        return order

    def detail(self) -> EntryDetail:
        """Return the details of the entry in the history."""
        return EntryDetail()

    def notifies_storefront(self, _order: OrderRow) -> bool:
        """Return whether the storefront gets an event."""
        return True


class OrderAccepted(OrderChange, frozen=True, kw_only=True):
    """The store accepted the order. What it didn't say stays as it is."""

    entry: ClassVar[str] = "accepted"
    actor: Actor = Actor.STORE
    partner_order_id: str | None = None
    estimated_ready_at: datetime | None = None

    def apply_to(self, order: OrderRow) -> OrderRow:
        return replace(
            order,
            answer=StoreAnswer.ACCEPTED,
            partner_order_id=self.partner_order_id or order.partner_order_id,
            estimated_ready_at=self.estimated_ready_at or order.estimated_ready_at,
        )


class OrderPending(OrderChange, frozen=True, kw_only=True):
    """The order waits for a person, who accepts or refuses it. Its placement is answered."""

    entry: ClassVar[str] = "pending"
    actor: Actor = Actor.SERVICE

    def apply_to(self, order: OrderRow) -> OrderRow:
        return replace(order, answer=StoreAnswer.PENDING)


class OrderRefused(OrderChange, frozen=True, kw_only=True):
    """The store rejected the order: it is cancelled, and its token is free again.

    A storefront that hasn't had an event of the order gets none: the response to its request says it. `doubt` is why
    the store may have the order all the same: then it is told.
    """

    entry: ClassVar[str] = "refused"
    milestone: ClassVar[str | None] = REFUSED
    actor: Actor = Actor.STORE
    errors: tuple[OrderError, ...]
    doubt: str | None = None

    def apply_to(self, order: OrderRow) -> OrderRow:
        return replace(
            order,
            answer=StoreAnswer.REFUSED,
            state=OrderState.CANCELLED,
            cancel_reason=self.errors[0].code,
            errors=self.errors,
            token_id=None,
        )

    def detail(self) -> EntryDetail:
        return EntryDetail(errors=self.errors, store_notified=self.doubt or UNSET)

    def notifies_storefront(self, order: OrderRow) -> bool:
        return order.sequence > 0


class OrderAcceptedTooLate(OrderChange, frozen=True, kw_only=True):
    """The store accepted an order that it had refused in another answer: it stays cancelled, and the store is told."""

    entry: ClassVar[str] = "accepted.late"
    actor: Actor = Actor.STORE

    def detail(self) -> EntryDetail:
        return EntryDetail(store_notified="The order was cancelled already: an earlier answer refused it.")

    def notifies_storefront(self, _order: OrderRow) -> bool:
        return False


class OrderUnanswered(OrderChange, frozen=True, kw_only=True):
    """The store hasn't answered in the time of the request. Background work goes on."""

    entry: ClassVar[str] = "unanswered"
    milestone: ClassVar[str | None] = UNANSWERED
    actor: Actor = Actor.SERVICE


class OrderGivenUp(OrderChange, frozen=True, kw_only=True):
    """The store never answered: the order is cancelled, and both partners get an event."""

    entry: ClassVar[str] = "cancelled"
    milestone: ClassVar[str | None] = CANCELLED
    reason: ClassVar[str] = STORE_UNREACHABLE
    actor: Actor = Actor.SERVICE

    def apply_to(self, order: OrderRow) -> OrderRow:
        return replace(
            order, answer=StoreAnswer.GIVEN_UP, state=OrderState.CANCELLED, cancel_reason=self.reason
        )

    def detail(self) -> EntryDetail:
        return EntryDetail(cancel_reason=self.reason)


class OrderNotAccepted(OrderGivenUp, frozen=True, kw_only=True):
    """No person accepted the order in time: it ends as one that the store never answered, for another reason."""

    reason: ClassVar[str] = NOT_ACCEPTED


class OrderUpdated(OrderChange, frozen=True, kw_only=True):
    """The merchant updated the order, which stays open. A merchant that updates an order has received it.

    A person accepts one by its status, or by completing it: a number or a time alone accepts nothing.
    """

    entry: ClassVar[str] = "updated"
    actor: Actor = Actor.MERCHANT
    progress: ProgressChange

    def apply_to(self, order: OrderRow) -> OrderRow:
        after = self.progress.after
        return replace(
            order,
            answer=self._answer(order),
            partner_order_id=after.partner_order_id,
            state=after.state,
            status=after.status,
            estimated_ready_at=after.estimated_ready_at,
            estimated_delivery_at=after.estimated_delivery_at,
            courier=after.courier,
            cancel_reason=after.cancel_reason,
        )

    def _answer(self, order: OrderRow) -> StoreAnswer:
        """Return the answer to the placement that the update is, if there was none."""
        if order.answer not in {StoreAnswer.WAITING, StoreAnswer.PENDING}:
            return order.answer
        if self.actor is not Actor.MERCHANT:
            return StoreAnswer.GIVEN_UP
        if order.answer is StoreAnswer.PENDING:
            if self.progress.after.state is OrderState.CANCELLED:
                return StoreAnswer.REFUSED
            if self.progress.after.state is OrderState.OPEN and not self.progress.changes_status:
                return StoreAnswer.PENDING
        return StoreAnswer.ACCEPTED

    def detail(self) -> EntryDetail:
        """Return the members that changed; of the courier only that it did: the history outlives the person's data."""
        before, after = self.progress.before, self.progress.after
        delivery_at = after.estimated_delivery_at
        ready_at, reason = after.estimated_ready_at, after.cancel_reason
        number = after.partner_order_id
        return EntryDetail(
            status=UNSET if after.status is before.status else after.status,
            state=UNSET if after.state is before.state else after.state,
            estimated_ready_at=UNSET if ready_at in (None, before.estimated_ready_at) else rfc3339(ready_at),
            estimated_delivery_at=(
                UNSET if delivery_at in (None, before.estimated_delivery_at) else rfc3339(delivery_at)
            ),
            courier=UNSET if after.courier == before.courier else "assigned",
            cancel_reason=UNSET if reason in (None, before.cancel_reason) else reason,
            partner_order_id=UNSET if number in (None, before.partner_order_id) else number,
        )


class OrderCompleted(OrderUpdated, frozen=True, kw_only=True):
    """The merchant completed the order."""

    entry: ClassVar[str] = "completed"


class OrderCancelled(OrderUpdated, frozen=True, kw_only=True):
    """The merchant cancelled the order."""

    entry: ClassVar[str] = "cancelled"
    milestone: ClassVar[str | None] = CANCELLED


class OrderCancelledByOperator(OrderUpdated, frozen=True, kw_only=True):
    """An operator cancelled the order. A job logs and counts it: a command has neither log nor metrics."""

    entry: ClassVar[str] = "cancelled"
    actor: Actor = Actor.SERVICE


class OrderCancelledByStorefront(OrderChange, frozen=True, kw_only=True):
    """The storefront cancelled the order: its store has consented, or hasn't answered the placement yet."""

    entry: ClassVar[str] = "cancelled"
    milestone: ClassVar[str | None] = CANCELLED
    actor: Actor = Actor.STOREFRONT
    cancellation: StoredCancellation

    def apply_to(self, order: OrderRow) -> OrderRow:
        return replace(
            order,
            answer=order.answer if order.answer is StoreAnswer.ACCEPTED else StoreAnswer.GIVEN_UP,
            state=OrderState.CANCELLED,
            cancel_reason=self.cancellation.reason,
            cancellation=self.cancellation,
        )

    def detail(self) -> EntryDetail:
        return EntryDetail(cancel_reason=self.cancellation.reason)


class OrderCancellationRequested(OrderChange, frozen=True, kw_only=True):
    """The storefront asks the store to let it cancel the order."""

    entry: ClassVar[str] = "cancellation.requested"
    actor: Actor = Actor.STOREFRONT
    cancellation: StoredCancellation

    def apply_to(self, order: OrderRow) -> OrderRow:
        return replace(order, cancellation=self.cancellation)

    def detail(self) -> EntryDetail:
        cancellation = self.cancellation
        return EntryDetail(reason=cancellation.reason, refusal=cancellation.refusal or UNSET)


class OrderCancellationAccepted(OrderCancellationRequested, frozen=True, kw_only=True):
    """The order was cancelled otherwise while its store was asked."""

    entry: ClassVar[str] = "cancellation.accepted"
    actor: Actor = Actor.SERVICE


class OrderCancellationRefused(OrderCancellationRequested, frozen=True, kw_only=True):
    """The store doesn't cancel the order; or, with the service as the actor, nobody was asked, or it was completed."""

    entry: ClassVar[str] = "cancellation.refused"
    actor: Actor = Actor.STORE


class OrderCancellationUnanswered(OrderCancellationRequested, frozen=True, kw_only=True):
    """The store never answered: the order goes on."""

    entry: ClassVar[str] = "cancellation.unanswered"
    actor: Actor = Actor.SERVICE


class OrderAdjusted(OrderChange, frozen=True, kw_only=True):
    """The merchant changed what the order costs. Its state and status stay."""

    entry: ClassVar[str] = "adjusted"
    event: ClassVar[EventType] = EventType.ORDER_ADJUSTED
    actor: Actor = Actor.MERCHANT
    adjustment: StoredAdjustment
    currency: str

    def apply_to(self, order: OrderRow) -> OrderRow:
        return replace(order, adjustments=(*(order.adjustments or ()), self.adjustment))

    def detail(self) -> EntryDetail:
        """Return what changed, but not why: the history outlives the customer's data, which the reason may have."""
        return EntryDetail(
            adjustment=self.adjustment.type,
            amount=f"{to_text(self.adjustment.amount, self.currency)} {self.currency}",
        )


CANCELLATIONS: Final[Mapping[CancellationStatus, type[OrderCancellationRequested]]] = {
    CancellationStatus.REQUESTED: OrderCancellationRequested,
    CancellationStatus.ACCEPTED: OrderCancellationAccepted,
    CancellationStatus.REFUSED: OrderCancellationRefused,
    CancellationStatus.UNANSWERED: OrderCancellationUnanswered,
}
"""What happened to a cancellation that has this status, while the order's own state stays."""

PROGRESS: Final[Mapping[OrderState, type[OrderUpdated]]] = {
    OrderState.OPEN: OrderUpdated,
    OrderState.COMPLETED: OrderCompleted,
    OrderState.CANCELLED: OrderCancelled,
}
"""What happened to an order that a merchant's update left in this state."""


class AsStored(Struct, frozen=True):
    """What is known of a new order without reading it again: it is as it was stored, and its events go to this URL."""

    event_url: str | None


class Lifecycle(Struct, frozen=True):
    """Writes what happens to orders."""

    new_id: MakeId
    activity: Activity

    async def apply(
        self, tx: Write, order: OrderRow, change: OrderChange, *, if_stored: AsStored | None = None
    ) -> OrderRow:
        """Return the changed order: with an entry in its history, and its events.

        The transaction must have locked the order's row. With `if_stored` it needn't: it fails with ConcurrentUpdate
        unless that is still true.
        """
        [changed] = await self.apply_all(tx, [(order, change)], if_stored=if_stored)
        return changed

    async def apply_all(
        self,
        tx: Write,
        changes: Sequence[tuple[OrderRow, OrderChange]],
        *,
        if_stored: AsStored | None = None,
    ) -> list[OrderRow]:
        """Do the same with changes of different orders that happen at one instant, in few statements."""
        applied = [_apply(order, change) for order, change in changes]
        event_urls: dict[UUID, str | None] = {}
        if if_stored is not None:
            for (order, _), changed in zip(changes, applied, strict=True):
                queries.update_unchanged(tx, order, changed, event_url=if_stored.event_url)
                event_urls[order.storefront_id] = if_stored.event_url
        await spending.give_back(
            tx, [(order, after) for (order, _), after in zip(changes, applied, strict=True)]
        )
        # Read and enqueue before anything is deferred, so that deferred statements stay together.
        events = await self._events(tx, changes, applied, event_urls)
        if events:
            await push_all(tx, events, now=changes[0][1].at)
        for (order, change), changed in zip(changes, applied, strict=True):
            if if_stored is None:
                queries.update_order(tx, order, changed)
            await queries.insert_entry(
                tx,
                order.id,
                changed.entries,
                at=change.at,
                actor=change.actor,
                type_=change.entry,
                detail=change.detail(),
            )
            if changed.partner_order_id is not None and changed.partner_order_id != order.partner_order_id:
                enter = search.add_number if order.partner_order_id is None else search.replace_number
                enter(tx, order.id, changed.partner_order_id)
            if change.milestone is not None:
                tx.after_commit(partial(self.record, change.milestone, changed, change.actor))
        return applied

    async def _events(
        self,
        tx: Write,
        changes: Sequence[tuple[OrderRow, OrderChange]],
        applied: Sequence[OrderRow],
        event_urls: dict[UUID, str | None],
    ) -> list[tuple[NewEvent, Recipient]]:
        """Return the events of the changes. Those storefronts' event URLs that aren't known yet are read."""
        events: list[tuple[NewEvent, Recipient]] = []
        for (order, change), changed in zip(changes, applied, strict=True):
            if changed.sequence > order.sequence:
                if order.storefront_id not in event_urls:
                    event_urls[order.storefront_id] = await find_event_url(tx, order.storefront_id)
                type_ = EventType.ORDER_CREATED if changed.sequence == 1 else change.event
                to = Recipient(order.storefront_id, Surface.MARKETFRONT, event_urls[order.storefront_id])
                events.append((self._event(changed, type_, event_data(changed)), to))
            if changed.is_pulled:
                to = Recipient(order.partner_id, Surface.COMMERCE, None)
                cancelled = changed.state is OrderState.CANCELLED is not order.state
                type_ = EventType.ORDER_CANCELLED if cancelled else EventType.ORDER_UPDATED
                type_ = EventType.ORDER_CREATED if order.entries == 0 else type_
                events.append((self._event(changed, type_, merchant_data(changed, cancelled=cancelled)), to))
            elif change.tells_store:
                to = Recipient(order.partner_id, Surface.COMMERCE, change.webhook_url)
                type_, data = EventType.ORDER_CANCELLED, cancelled_data(changed)
                events.append((self._event(changed, type_, data), to))
        return events

    def _event(
        self,
        order: OrderRow,
        type_: EventType,
        data: EncodedEventData | OrderCancelledData | MerchantOrderData,
    ) -> NewEvent:
        return NewEvent(
            delivery_id=self.new_id(),
            webhook_id=self.new_id(),
            type=type_,
            data=data,
            traceparent=order.traceparent,
            store_id=order.store_id,
            order_id=order.id,
            order_content=order.content,
        )

    def record(self, milestone: str, order: OrderRow, actor: Actor) -> None:
        """Log the milestone, and count the order if it was refused or cancelled."""
        code = order.cancel_reason
        if code is not None and code not in OWN_CODES:
            # A partner's own words: they may be of a customer, and there may be any number of them.
            code = OTHER
        if milestone == REFUSED:
            self.activity.refused(code or OTHER)
        elif milestone == CANCELLED:
            self.activity.cancelled(code or OTHER)
            milestone = GIVEN_UP if code == STORE_UNREACHABLE else milestone
        reason = {} if code is None else {"reason": code}
        self.activity.record(milestone, order.id, order.store_id, actor=actor.value, **reason)


def _apply(order: OrderRow, change: OrderChange) -> OrderRow:
    """Return the order after the change, with one more entry, and one more event if the storefront gets it."""
    changed = replace(
        change.apply_to(order),
        sequence=order.sequence + change.notifies_storefront(order),
        entries=order.entries + 1,
        updated_at=change.at,
    )
    assert changed.state is order.state or change.actor in STATE_TRANSITIONS[order.state][changed.state], (
        "callers check the transition"
    )
    return changed
