"""The attempts that were made about one order, to whichever side: what its timeline shows of them."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select

from mercato.db.engine import Read
from mercato.db.tables import deliveries, delivery_attempts
from mercato.partners.model import Surface


class OrderAttempt(Struct, frozen=True):
    """One attempt: `surface` is whose it was, `status` the reply's, `error` None when it succeeded."""

    delivery_id: UUID
    surface: Surface
    type: str
    number: int
    at: datetime
    status: int | None
    ms: int
    error: str | None


async def list_attempts_of_order(tx: Read, order_id: UUID, *, limit: int) -> list[OrderAttempt]:
    """Return the attempts of the order's deliveries, oldest first."""
    rows = await tx.all(
        select(
            deliveries.c.id,
            deliveries.c.surface,
            deliveries.c.type,
            delivery_attempts.c.number,
            delivery_attempts.c.at,
            delivery_attempts.c.status,
            delivery_attempts.c.ms,
            delivery_attempts.c.error,
        )
        .join(delivery_attempts, delivery_attempts.c.delivery_id == deliveries.c.id)
        .where(deliveries.c.order_id == order_id)
        .order_by(delivery_attempts.c.at, deliveries.c.id, delivery_attempts.c.number)
        .limit(limit)
    )
    return [OrderAttempt(row[0], Surface(row[1]), *row[2:]) for row in rows]
