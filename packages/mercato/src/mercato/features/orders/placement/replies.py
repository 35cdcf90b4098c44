"""The outcomes of placements, pinned to their idempotency keys."""

from msgspec import Struct
from msgspec.structs import replace

from mercato.features.metrics import Activity
from mercato.features.orders.errors import OrderClosed, StoreUnreachable
from mercato.features.orders.placement import idempotency
from mercato.features.orders.placement.idempotency import Claim
from mercato.features.orders.placement.outcomes import Outcome, PlacedOrder, RefusedOrder, UnansweredOrder
from mercato.features.orders.placement.plan import PlacementContext
from mercato.features.orders.record import OrderRow, StoreAnswer, order_of
from mercato.features.orders.validation.error_codes import problem_of
from mercato.features.orders.validation.service import RETRY_SECONDS
from mercato.platform.clock import Clock
from mercato.platform.db.engine import Write
from mercato.platform.errors import Problem
from mercato.platform.wire.problem import detail_of


class Outcomes(Struct, frozen=True):
    """Decides and pins outcomes of placements."""

    clock: Clock
    activity: Activity

    async def decide(self, tx: Write, context: PlacementContext, claim: Claim, order: OrderRow) -> Outcome:
        """Return the order's outcome. It is pinned to the key once the store has answered."""
        match order.answer:
            case StoreAnswer.ACCEPTED:
                placed = PlacedOrder(order_of(order))
                await idempotency.pin(tx, claim, placed, order_content=order.content)
                return placed
            case StoreAnswer.REFUSED:
                return await self._refuse(tx, context, claim, problem_of(order.errors), order)
            case StoreAnswer.GIVEN_UP:
                closed = OrderClosed(
                    "The order was cancelled before its store answered. Place it again with a new key."
                )
                return await self._refuse(tx, context, claim, closed, order)
            case StoreAnswer.WAITING:
                await idempotency.release(tx, claim, now=self.clock())
                return UnansweredOrder(
                    StoreUnreachable(
                        "The store has not answered yet. The order is stored and resent for some minutes. Repeat the "
                        "request with the same Idempotency-Key, or read the order.",
                        retry_after=RETRY_SECONDS,
                        extensions={"orderId": str(order.id)},
                    )
                )

    async def refuse(
        self, tx: Write, context: PlacementContext, claim: Claim, problem: Problem
    ) -> RefusedOrder:
        """Return the refusal of an order that wasn't stored. It is pinned unless a repeat may succeed."""
        self.activity.refused(problem.code)
        return await self._refuse(tx, context, claim, problem, None)

    async def _refuse(
        self,
        tx: Write,
        context: PlacementContext,
        claim: Claim,
        problem: Problem,
        order: OrderRow | None,
    ) -> RefusedOrder:
        now = self.clock()
        detail = detail_of(problem, context.origin, at=now)
        if order is not None:
            detail = replace(detail, order_id=order.id)
        refused = RefusedOrder(detail, context.origin.format)
        if problem.retryable:
            await idempotency.free(tx, claim, now=now)
        else:
            content = b"" if order is None else order.content
            await idempotency.pin(tx, claim, refused, order_content=content)
        return refused
