"""Change an order: its row, its history and the event for its storefront, in one transaction."""

from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from mercato.features.orders import queries
from mercato.features.orders.record import OrderRow, StoreAnswer, cancelled_data, event_data
from mercato.features.orders.validation.replies import Acceptance
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_event_url
from mercato.features.webhooks.outbox import NewEvent, Recipient, push
from mercato.platform.clock import MakeId
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Write
from mercato.platform.telemetry.activity import Activity
from mercato_contract.events import EventType
from mercato_contract.orders import STATE_TRANSITIONS, Actor, OrderState
from mercato_contract.problems import ORDER_ERROR_CODES, OTHER

STORE_UNREACHABLE: Final = "STORE_UNREACHABLE"
"""The cancelReason of an order whose store never answered."""

CANCELLED_BY_OPERATOR: Final = "CANCELLED_BY_OPERATOR"
"""The cancelReason of an order that an operator cancelled without another."""

_OWN_REASONS: Final = {*ORDER_ERROR_CODES, STORE_UNREACHABLE, CANCELLED_BY_OPERATOR}

REFUSED: Final = "order refused"
CANCELLED: Final = "order cancelled"
GIVEN_UP: Final = "order given up"

MILESTONES: Final = {"unanswered": "order unanswered", "refused": REFUSED, "cancelled": CANCELLED}
"""The log events of the entries in an order's history that operators look for."""


class ConcurrentUpdate(Exception):  # noqa: N818  # not a failure
    """The order has changed since it was stored. Nothing was written."""


class Changes(Struct, frozen=True):
    """Writes changes of orders."""

    new_id: MakeId
    activity: Activity

    async def change(
        self,
        tx: Write,
        order: OrderRow,
        *,
        actor: Actor,
        entry: str,
        now: datetime,
        detail: dict[str, Any] | None = None,
        notifies: bool = True,
        records: bool = True,
        if_unchanged: bool = False,
        **values: Any,
    ) -> OrderRow:
        """Return the changed order, with a new entry in its history and an event for its storefront if it `notifies`.

        This process logs and counts a milestone if it `records`. The transaction must have locked the order's row. With
        `if_unchanged` it needn't: that raises ConcurrentUpdate if the row isn't as it was stored. An order that no
        longer waits for its store loses its submission.
        """
        state = values.get("state", order.state)
        assert state is order.state or actor in STATE_TRANSITIONS[order.state][state], (
            "callers check the transition"
        )
        values |= {"sequence": order.sequence + notifies, "entries": order.entries + 1, "updated_at": now}
        changed = replace(order, **values)
        if not await queries.update_order(tx, order.id, if_unchanged=if_unchanged, **values) and if_unchanged:
            raise ConcurrentUpdate
        # Read before anything is deferred, so that deferred statements stay together.
        event_url = await find_event_url(tx, order.storefront_id) if notifies else None
        await queries.insert_entry(
            tx, order.id, changed.entries, at=now, actor=actor, type_=entry, detail=detail or {}
        )
        if event_url is not None:
            await self._push(
                tx,
                changed,
                to=Recipient(order.storefront_id, Surface.MARKETFRONT, event_url),
                type_=EventType.ORDER_CREATED if changed.sequence == 1 else EventType.ORDER_UPDATED,
                data=event_data(changed),
                now=now,
            )
        if order.answer is not changed.answer and order.answer is StoreAnswer.WAITING:
            await queries.delete_submission(tx, order.id)
        if records and entry in MILESTONES:
            tx.after_commit(partial(self.record, MILESTONES[entry], changed, actor))
        return changed

    def record(self, event: str, order: OrderRow, actor: Actor) -> None:
        """Log the milestone, and count the order if it was refused or cancelled."""
        code = order.cancel_reason
        if code is not None and code not in _OWN_REASONS:
            # A partner's own words: they may be of a customer, and there may be any number of them.
            code = OTHER
        if event == REFUSED:
            self.activity.refused(code or OTHER)
        elif event == CANCELLED:
            self.activity.cancelled(code or OTHER)
            event = GIVEN_UP if code == STORE_UNREACHABLE else event
        reason = {} if code is None else {"reason": code}
        self.activity.record(event, order.id, order.store_id, actor=actor.value, **reason)

    async def accept(
        self,
        tx: Write,
        order: OrderRow,
        acceptance: Acceptance,
        *,
        actor: Actor,
        now: datetime,
        if_unchanged: bool = False,
    ) -> OrderRow:
        """Return the order after its store accepted it. Raises ConcurrentUpdate like `change`."""
        values: dict[str, Any] = {"answer": StoreAnswer.ACCEPTED}
        if acceptance.partner_order_id is not None:
            values["partner_order_id"] = acceptance.partner_order_id
        if acceptance.estimated_ready_at is not None:
            values["estimated_ready_at"] = acceptance.estimated_ready_at
        return await self.change(
            tx, order, actor=actor, entry="accepted", now=now, if_unchanged=if_unchanged, **values
        )

    async def refuse(self, tx: Write, order: OrderRow, *, errors: tuple[Any, ...], now: datetime) -> OrderRow:
        """Return the order after its store rejected it: cancelled, and its token free again.

        A storefront that hasn't had an event of the order gets none: the response to its request says it.
        """
        return await self.change(
            tx,
            order,
            actor=Actor.STORE,
            entry="refused",
            now=now,
            detail={"errors": errors},
            notifies=order.sequence > 0,
            answer=StoreAnswer.REFUSED,
            state=OrderState.CANCELLED,
            cancel_reason=errors[0].code,
            errors=errors,
            token_id=None,
        )

    async def give_up(self, tx: Write, order: OrderRow, *, url: str, now: datetime) -> OrderRow:
        """Return the order, cancelled because its store never answered. Both partners get an event."""
        changed = await self.change(
            tx,
            order,
            actor=Actor.SERVICE,
            entry="cancelled",
            now=now,
            detail={"cancelReason": STORE_UNREACHABLE},
            answer=StoreAnswer.GIVEN_UP,
            state=OrderState.CANCELLED,
            cancel_reason=STORE_UNREACHABLE,
        )
        await audit(
            tx, "order", order.id, partner_id=order.partner_id, detail={"cancelReason": STORE_UNREACHABLE}
        )
        await self.notify_store(tx, changed, url=url, now=now)
        return changed

    async def notify_store(self, tx: Write, order: OrderRow, *, url: str, now: datetime) -> None:
        """Send `order.cancelled` below the webhookUrl: its store gets each cancel that isn't its merchant's."""
        await self._push(
            tx,
            order,
            to=Recipient(order.partner_id, Surface.COMMERCE, url),
            type_=EventType.ORDER_CANCELLED,
            data=cancelled_data(order),
            now=now,
        )

    async def _push(
        self, tx: Write, order: OrderRow, *, to: Recipient, type_: EventType, data: object, now: datetime
    ) -> None:
        event = NewEvent(
            delivery_id=self.new_id(),
            webhook_id=self.new_id(),
            type=type_,
            data=data,
            traceparent=order.traceparent,
            store_id=order.store_id,
            order_id=order.id,
            order_content=order.content,
        )
        await push(tx, event, to=to, now=now)
