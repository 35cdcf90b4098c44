"""What operators see of the endpoints that are called no more."""

from sqlalchemy import func, select

from mercato.db.engine import Read
from mercato.db.tables import endpoints


async def count_disabled(tx: Read) -> int:
    """Return how many there are."""
    return int(await tx.scalar(select(func.count()).where(endpoints.c.disabled_at.is_not(None))))
