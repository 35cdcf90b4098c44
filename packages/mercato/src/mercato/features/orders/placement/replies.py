"""The replies of placements, pinned to their idempotency keys."""

from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.metrics import Activity
from mercato.features.orders.errors import OrderClosed, StoreUnreachable
from mercato.features.orders.placement import idempotency
from mercato.features.orders.placement.idempotency import Claim, Reply
from mercato.features.orders.placement.plan import PlacementContext
from mercato.features.orders.record import OrderRow, StoreAnswer, order_of
from mercato.features.orders.validation.error_codes import problem_of
from mercato.features.orders.validation.service import RETRY_SECONDS
from mercato.platform.clock import Clock
from mercato.platform.db.engine import Write
from mercato.platform.errors import Problem
from mercato.platform.wire.problem import represent
from mercato_contract.wire import as_json

CREATED: Final = 201
JSON: Final = "application/json"


class Replies(Struct, frozen=True):
    """Writes replies of placements."""

    clock: Clock
    activity: Activity

    async def settle(self, tx: Write, context: PlacementContext, claim: Claim, order: OrderRow) -> Reply:
        """Return the order's reply. It is pinned to the key once the store has answered."""
        extensions = {"orderId": str(order.id)}
        match order.answer:
            case StoreAnswer.ACCEPTED:
                reply = Reply(
                    status=CREATED, media_type=JSON, body=as_json(order_of(order)), order_id=order.id
                )
                await idempotency.settle(tx, claim, reply, order_content=order.content)
                return reply
            case StoreAnswer.REFUSED:
                problem = problem_of(order.errors)
                problem.extensions |= extensions
            case StoreAnswer.GIVEN_UP:
                problem = OrderClosed(
                    "The order was cancelled before its store answered. Place it again with a new key.",
                    extensions=extensions,
                )
            case StoreAnswer.WAITING:
                await idempotency.release(tx, claim, now=self.clock())
                problem = StoreUnreachable(
                    "The store has not answered yet. The order is stored and resent for some minutes. Repeat the "
                    "request with the same Idempotency-Key, or read the order.",
                    retry_after=RETRY_SECONDS,
                    extensions=extensions,
                )
                return _reply(problem, context, order.id)
        return await self.refuse(tx, context, claim, problem, order)

    async def refuse(
        self,
        tx: Write,
        context: PlacementContext,
        claim: Claim,
        problem: Problem,
        order: OrderRow | None = None,
    ) -> Reply:
        """Return the refusal. It is pinned to the key unless a repeat may succeed."""
        if order is None:
            self.activity.refused(problem.code)
        reply = _reply(problem, context, None if order is None else order.id)
        if problem.retryable:
            await idempotency.free(tx, claim, now=self.clock())
        else:
            content = b"" if order is None else order.content
            await idempotency.settle(tx, claim, reply, order_content=content)
        return reply


def _reply(problem: Problem, context: PlacementContext, order_id: UUID | None) -> Reply:
    media_type, body = represent(problem, context.problem_context)
    return Reply(
        status=problem.status,
        media_type=media_type,
        body=body,
        order_id=order_id,
        retry_after=problem.retry_after,
    )
