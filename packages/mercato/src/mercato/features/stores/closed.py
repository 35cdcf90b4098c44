"""A merchant's stores that are outside their opening hours, from the search index: no catalog is read."""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select

from mercato.features.catalogs.model import DAY_SECONDS, DAYS
from mercato.features.discovery.hours import Openings
from mercato.features.discovery.tables import opening_hours, store_search
from mercato.features.stores.tables import stores
from mercato.platform.db.engine import Read

MAX_SEARCHED: Final = 200
"""The newest stores of a merchant whose hours are read: four rows each."""


class ClosedStore(Struct, frozen=True):
    """A store outside its hours. `opens` is the day and time in its time zone, None if it has no hours."""

    store_id: UUID
    name: str
    timezone: str
    opens: str | None


async def list_closed(
    tx: Read, partner_id: UUID, *, store_id: UUID | None, now: datetime
) -> tuple[list[ClosedStore], bool]:
    """Return those of the merchant's newest stores that are closed now, and whether there are older ones."""
    newest = select(stores.c.id, stores.c.name).where(stores.c.partner_id == partner_id)
    if store_id is not None:
        newest = newest.where(stores.c.id == store_id)
    of = newest.order_by(stores.c.id.desc()).limit(MAX_SEARCHED).subquery()
    rows = await tx.all(
        select(of.c.id, of.c.name, opening_hours.c.timezone, opening_hours.c.spans)
        .join(store_search, store_search.c.store_id == of.c.id)
        .join(opening_hours, opening_hours.c.key == store_search.c.hours_key)
        .order_by(of.c.id.desc())
    )
    hours = Openings(now)
    found = [
        ClosedStore(row.id, row.name, row.timezone, _words(hours.next_opening(row.timezone, row.spans)))
        for row in rows
        if not hours.is_open(row.timezone, row.spans)
    ]
    return found, len(rows) == MAX_SEARCHED


def _words(second: int | None) -> str | None:
    if second is None:
        return None
    day, rest = divmod(second, DAY_SECONDS)
    return f"{DAYS[day]} {rest // 3600:02}:{rest // 60 % 60:02}"
