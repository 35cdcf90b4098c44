"""Orders that a person accepts: what waits for the person, and what ends the wait.

A store whose orderHandling is `manual` isn't called. Its order is placed and stays pending until its merchant updates
it, its storefront cancels it, an operator does, or its time is over: whichever locks the order first. The others find
what happened, as with the answer of a store.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.orders import queries
from mercato.features.orders.lifecycle import Lifecycle, OrderNotAccepted
from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.orders.rules import NOT_ACCEPTED
from mercato.features.orders.submission import end_submission
from mercato.platform import processes
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Write
from mercato.platform.jobs import Handler, Handlers, Job, JobOutcome, Settled, delete_waiting, enqueue, finish
from mercato.platform.telemetry.context import set_partner
from mercato_contract.clock import Clock

KIND: Final = "order.accept"
"""The job that cancels an order that nobody has accepted in time."""


class AcceptJob(Struct, frozen=True):
    """The payload of a `KIND` job."""

    order_id: UUID


async def schedule(tx: Write, order: OrderRow, *, within: timedelta) -> None:
    """Cancel the new order after this time, unless somebody decides before."""
    await enqueue(
        tx,
        KIND,
        AcceptJob(order_id=order.id),
        run_at=within,
        group=order.partner_id.hex,
        dedup=order.id.hex,
    )


async def end_waiting(tx: Write, order: OrderRow, *, delivered: bool, now: datetime) -> None:
    """End what still waits for the answer to the placement of a locked order, whoever would have given it."""
    match order.answer:
        case StoreAnswer.WAITING:
            await end_submission(tx, order, delivered=delivered, now=now)
        case StoreAnswer.PENDING:
            await delete_waiting(tx, KIND, order.id.hex)


class Acceptances(Struct, frozen=True):
    """Cancels orders that nobody has accepted in time."""

    db: Database
    clock: Clock
    lifecycle: Lifecycle

    def handlers(self) -> Handlers:
        return {KIND: Handler(fn=self.end, payload=AcceptJob, on_dead=self.give_up)}

    async def end(self, job: Job[AcceptJob]) -> JobOutcome:
        """Cancel the order if it is still pending."""
        async with self.db.write() as tx:
            await finish(tx, job)
            await self.give_up(tx, job, "its time is over")
            processes.crash_point("order.unaccepted")
        return Settled()

    async def give_up(self, tx: Write, job: Job[AcceptJob], reason: str) -> None:
        order = await queries.get_order(tx, job.payload.order_id, lock=True)
        set_partner(partner_id=order.partner_id, store_id=order.store_id, traceparent=order.traceparent)
        if order.answer is StoreAnswer.PENDING:
            await self.lifecycle.apply(tx, order, OrderNotAccepted(at=self.clock(), tells_store=True))
            detail = {"cancelReason": NOT_ACCEPTED, "reason": reason}
            await audit(tx, "order", order.id, partner_id=order.partner_id, detail=detail)
