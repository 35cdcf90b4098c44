"""Change what an order costs after it was placed: once for each key, and only so far as its sums allow.

What the order was placed for never changes. Adjustments are added to it, never changed or removed, and what the order
costs now is always computed from all of them. The adjustment, its event, its entry in the history and the answer that
is pinned to the key are one transaction under the order's lock: after a crash at any instant, all are there or none.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.orders import idempotency, queries
from mercato.features.orders.amounts import fits
from mercato.features.orders.errors import OrderClosed
from mercato.features.orders.idempotency import KeyedRequest, Pinned, PlacedOrder
from mercato.features.orders.lifecycle import Lifecycle, OrderAdjusted
from mercato.features.orders.record import OrderRow, StoreAnswer, StoredAdjustment, commerce_order_of
from mercato.features.partners.model import Caller
from mercato.platform import processes
from mercato.platform.clock import Clock, MakeId
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database
from mercato.platform.errors import Conflict
from mercato.platform.wire.checks import refuse
from mercato_contract.money import MoneyError, to_minor, to_text
from mercato_contract.orders import MAX_ADJUSTMENTS, AdjustmentType, AdjustOrderRequest, OrderState
from mercato_contract.placements import CommerceLine
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import as_json, redacted

LEASE: Final = timedelta(seconds=5)
"""How long a request holds its key. It is over with its transaction, so nobody sees the claim of another."""


@redacted("secrets")
class Adjustments(Struct, frozen=True, kw_only=True):
    """Adjusts orders for their merchants."""

    db: Database
    clock: Clock
    new_id: MakeId
    lifecycle: Lifecycle
    secrets: Sequence[bytes]

    async def adjust(
        self, caller: Caller, order_id: UUID, request: AdjustOrderRequest, *, key: str
    ) -> PlacedOrder:
        """Return the adjusted order for its merchant, or what is pinned to the key.

        Raises OrderNotFound, ValidationFailed, Conflict, OrderClosed: the key stays free.
        """
        text = b"adjust" + order_id.bytes + as_json(request)
        keyed = KeyedRequest(
            partner_id=caller.partner_id,
            key=key,
            fingerprints=[hmac_sha256(secret, text) for secret in self.secrets],
            lease=LEASE,
        )
        async with self.db.write() as tx:
            order = await queries.get_own_order(tx, caller, order_id, lock=True)
            now = self.clock()
            claim = await idempotency.claim(tx, keyed, now=now, order_id=order_id)
            if isinstance(claim, Pinned):
                assert isinstance(claim.outcome, PlacedOrder), "no refusal of this request is pinned"
                return claim.outcome
            # A key without its answer adjusted the order before its customer was erased, and the answer with it.
            if not claim.joins:
                adjustment = StoredAdjustment(
                    id=self.new_id(),
                    type=request.type,
                    amount=check_adjustment(order, request),
                    # What is written of a customer who is erased already wouldn't be erased any more.
                    reason=None if order.client_context is None else request.reason,
                    line_item_ids=tuple(dict.fromkeys(request.line_item_ids or ())),
                    at=now,
                )
                detail = {"adjustment": adjustment.type, "amount": to_text(adjustment.amount, order.currency)}
                await audit(tx, "order", order.id, detail=detail)
                change = OrderAdjusted(at=now, adjustment=adjustment, currency=order.currency)
                order = await self.lifecycle.apply(tx, order, change)
            outcome = PlacedOrder(order.id, as_json(commerce_order_of(order)))
            await idempotency.pin(tx, claim, outcome, order_content=order.content)
            processes.crash_point("adjustment.written")
        processes.crash_point("adjustment.stored")
        return outcome


def check_adjustment(order: OrderRow, request: AdjustOrderRequest) -> int:
    """Return the amount in minor units. Raises ValidationFailed for every fault, OrderClosed, Conflict."""
    if order.state is OrderState.CANCELLED:
        raise OrderClosed("The order is cancelled: nothing of it is charged, so there is nothing to adjust.")
    if order.answer is StoreAnswer.WAITING:
        raise Conflict(
            "The store has not answered the placement yet. Answer it, or set the order's status to confirmed, and "
            "adjust the order then."
        )
    if len(order.adjustments or ()) >= MAX_ADJUSTMENTS:
        raise Conflict(
            f"The order has {MAX_ADJUSTMENTS} adjustments already, the most that an order may have."
        )
    amount, fault = _amount(order, request)
    refuse(
        [
            ("/amount", fault),
            ("/currency", _currency_fault(order, request.currency)),
            *_line_faults(order, request.line_item_ids or ()),
        ]
    )
    return amount


def _amount(order: OrderRow, request: AdjustOrderRequest) -> tuple[int, str | None]:
    """Return the amount in minor units, and what is wrong with it."""
    try:
        amount = to_minor(request.amount, order.currency)
    except MoneyError as fault:
        return 0, f"amount {fault}"
    kind, costs = request.type, order.total_after_adjustments
    if kind is not AdjustmentType.SUBSTITUTION and amount <= 0:
        return amount, f"amount of a {kind.value} must be above zero. {_SIGNS[kind]}"
    after = costs + (-amount if kind is AdjustmentType.REFUND else amount)
    if after < 0:
        now = to_text(costs, order.currency)
        return amount, (
            f"amount takes more off than the order costs. At most {now} {order.currency} can be taken off: that is "
            "its amounts.totalAfterAdjustments."
        )
    if not fits(after):
        return amount, "amount makes the order's total out of range. Send a smaller one."
    return amount, None


_SIGNS: Final = {
    AdjustmentType.REFUND: "A refund takes it off the total.",
    AdjustmentType.FEE: "A fee adds it to the total. To take something off, send a refund.",
}


def _currency_fault(order: OrderRow, currency: str | None) -> str | None:
    if currency in {None, order.currency}:
        return None
    return f"currency must be the order's, {order.currency}. Leave it out, or send that."


def _line_faults(order: OrderRow, line_item_ids: Sequence[UUID]) -> Iterator[tuple[str, str]]:
    known = set(_ids_of(order.cart.line_items))
    for index, id_ in enumerate(line_item_ids):
        if id_ not in known:
            yield (
                f"/lineItemIds/{index}",
                f"The order has no line {id_}. Send lineItemIds of its cart.",
            )


def _ids_of(lines: Sequence[CommerceLine]) -> Iterator[UUID]:
    for line in lines:
        yield line.line_item_id
        for group in line.modifier_groups:
            yield from _ids_of(group.line_items)
