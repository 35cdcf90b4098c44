"""What operators see of partners whose servers fail: endpoints, and stores that order calls don't reach."""

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import case, func, select

from mercato.clock import first_id
from mercato.db.engine import Read
from mercato.db.tables import deliveries, endpoints
from mercato.db.types import Instant
from mercato.webhooks.breaker import LEAST_CALLS
from mercato.webhooks.deliveries import QUESTIONS
from mercato.webhooks.model import DeliveryStatus

MOST: Final = 1000
"""Stores that are listed."""


class Unreached(NamedTuple):
    """A store most of whose order calls failed, the last one too."""

    store_id: UUID
    calls: int
    failed: int


async def count_failing(tx: Read, *, since: datetime) -> tuple[int, int]:
    """Return how many endpoints fail since then or longer and are still called, and of how many partners."""
    failing = (endpoints.c.failing_since <= since, endpoints.c.disabled_at.is_(None))
    row = await tx.first(select(func.count(), func.count(endpoints.c.partner_id.distinct())).where(*failing))
    return (0, 0) if row is None else (row[0], row[1])


async def list_unreached(tx: Read, *, since: datetime) -> list[Unreached]:
    """Return the stores that circuit breakers cut off, as far as the calls since then show it.

    Each process has its own breakers, in memory. They go by the same calls that stand in the delivery log.
    """
    c = deliveries.c
    succeeded = c.status == DeliveryStatus.SUCCEEDED.value
    failed = func.sum(case((succeeded, 0), else_=1))
    answered_at = func.max(case((succeeded, c.created_at)), type_=Instant)
    failed_at = func.max(case((succeeded, None), else_=c.created_at), type_=Instant)
    rows = await tx.all(
        select(c.store_id, func.count().label("calls"), failed.label("failed"), answered_at, failed_at)
        .where(c.id >= first_id(since), c.type.in_(QUESTIONS), c.store_id.is_not(None))
        .group_by(c.store_id)
        .having(func.count() >= LEAST_CALLS, failed * 2 >= func.count())
        .order_by(failed.desc(), c.store_id)
        .limit(MOST)
    )
    return [Unreached(row[0], row[1], int(row[2])) for row in rows if row[3] is None or row[3] < row[4]]
