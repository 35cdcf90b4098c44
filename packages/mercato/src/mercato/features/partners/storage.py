"""How much a partner may store in a day (UTC), counted in the transaction that stores, over all processes.

Deleting data doesn't reduce the day's count.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import Insert, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from mercato.features.partners.tables import stored_bytes
from mercato.platform import errors
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared
from mercato.platform.db.types import Dialect

ORDER_BYTES: Final = 12_000
"""What an order stores besides its content: rows, indices, events. Measured by `benchmarks.stored`."""

VALIDATION_BYTES: Final = 1_000
"""What the log of a validation without a usable reply stores besides its body."""

_DAY: Final = timedelta(days=1)
_COLUMNS: Final = tuple(stored_bytes.c.keys())
_KEY: Final = [stored_bytes.c.partner_id, stored_bytes.c.day]


def _add(dialect: Dialect) -> Insert:
    # The two dialects' inserts are one statement under two names.
    make: Any = postgresql.insert if dialect == "postgresql" else sqlite.insert
    new = make(stored_bytes).values({name: bindparam(name) for name in _COLUMNS})
    added: Insert = new.on_conflict_do_update(
        index_elements=_KEY,
        set_={"bytes": stored_bytes.c.bytes + new.excluded.bytes},
        where=stored_bytes.c.bytes < bindparam("quota"),
    )
    return prepared(added)


_ADD: Final[dict[Dialect, Insert]] = {dialect: _add(dialect) for dialect in ("sqlite", "postgresql")}
_FIND: Final = prepared(
    select(stored_bytes.c.bytes).where(
        stored_bytes.c.partner_id == bindparam("where_partner"), stored_bytes.c.day == bindparam("where_day")
    )
)


class StorageQuota(Struct, frozen=True):
    """The bytes that each partner may store in a day; 0 means no limit and no count."""

    per_day: int

    async def take(self, tx: Write, partner_id: UUID, size: int, *, now: datetime) -> None:
        """Count bytes that this transaction stores for the partner. Raises RateLimited if its quota is used up.

        The last call that succeeds may exceed the quota.
        """
        if not self.per_day:
            return
        row = {"partner_id": partner_id, "day": _day_of(now), "bytes": size, "quota": self.per_day}
        if (await tx.execute(_ADD[tx.dialect], row)).rowcount != 1:
            raise self._used_up(now)

    async def check(self, tx: Read, partner_id: UUID, *, now: datetime) -> None:
        """Raise RateLimited if the partner's quota is used up."""
        if not self.per_day:
            return
        if await self.used(tx, partner_id, now=now) >= self.per_day:
            raise self._used_up(now)

    async def used(self, tx: Read, partner_id: UUID, *, now: datetime) -> int:
        """Return the bytes that were counted for the partner in this day."""
        used: int | None = await tx.scalar(_FIND, {"where_partner": partner_id, "where_day": _day_of(now)})
        return used or 0

    def _used_up(self, now: datetime) -> errors.RateLimited:
        midnight = (now.astimezone(UTC) + _DAY).replace(hour=0, minute=0, second=0, microsecond=0)
        seconds = -int((now - midnight) // timedelta(seconds=1))
        return errors.RateLimited(
            f"You have stored all of the {self.per_day:,} bytes that a partner may store in a day. The next day begins "
            f"at 00:00 UTC, in {seconds:,} seconds. The operator can raise MERCATO_STORED_BYTES_PER_DAY.",
            retry_after=seconds,
        )


async def prune(tx: Write, *, now: datetime, limit: int) -> int:
    """Delete at most `limit` counts of past days; return how many."""
    some = select(*_KEY).where(stored_bytes.c.day < _day_of(now) - 1).limit(limit)
    rows = await tx.all(some)
    for row in rows:
        its = (stored_bytes.c.partner_id == row.partner_id, stored_bytes.c.day == row.day)
        await tx.execute(delete(stored_bytes).where(*its))
    return len(rows)


def _day_of(now: datetime) -> int:
    """Return the number of the day in UTC, from 1 January of the year 1."""
    return now.astimezone(UTC).toordinal()
