"""How many orders were placed in each hour of the last day, for the operators' first page."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from sqlalchemy import func, select

from mercato.features.orders.tables import orders
from mercato.platform.clock import Clock, first_id
from mercato.platform.db.engine import Read

HOURS: Final = 24

MAX_COUNTED: Final = 10_000
"""A count of an hour's orders ends here."""

_HOUR: Final = timedelta(hours=1)

_SETTLED: Final = timedelta(minutes=5)
"""How long after an hour's end an order of the hour may still be committed."""


class Hour(Struct, frozen=True):
    """How many orders were placed in the hour that begins at the instant, at most `MAX_COUNTED`."""

    at: datetime
    count: int


class HourlyOrders:
    """Counts orders by hours. Past hours are counted once: orders are never deleted within a day."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._past: dict[datetime, int] = {}

    async def look(self, tx: Read) -> list[Hour]:
        """Return the last 24 hours, the present one last."""
        now = self._now()
        present = now.replace(minute=0, second=0, microsecond=0)
        hours = [present - number * _HOUR for number in reversed(range(HOURS))]
        self._past = {at: count for at, count in self._past.items() if at >= hours[0]}
        found = []
        for at in hours:
            count = self._past.get(at)
            if count is None:
                count = await _count(tx, at)
                if at + _HOUR + _SETTLED <= now:
                    self._past[at] = count
            found.append(Hour(at, count))
        return found


async def _count(tx: Read, at: datetime) -> int:
    ids = select(orders.c.id).where(orders.c.id >= first_id(at), orders.c.id < first_id(at + _HOUR))
    count: int = await tx.scalar(select(func.count()).select_from(ids.limit(MAX_COUNTED).subquery()))
    return count
