"""Forgets how the addresses fared that nobody uses any more: they would be in trouble for ever.

A merchant who corrects a failing webhookUrl never calls the old one again, so nothing there can succeed.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, exists, or_, select

from mercato.features.partners.tables import partners, webhook_endpoints
from mercato.features.webhooks.tables import deliveries, failing_endpoints, stores
from mercato.platform.db.engine import AnyRow, Database, Read
from mercato_contract.events import STORE_CALLS, SUFFIXES
from mercato_contract.signing import target

PAGE: Final = 200
"""Addresses that are looked at, and forgotten, at a time."""

_SENT: Final = frozenset(suffix for type_, suffix in SUFFIXES.items() if type_ not in STORE_CALLS)
"""The suffixes of a webhookUrl to which deliveries are sent."""

_f = failing_endpoints.c
_IS_FREE: Final[tuple[ColumnElement[bool], ...]] = (
    # What waits for a retry may still succeed.
    ~exists().where(
        deliveries.c.partner_id == _f.partner_id, deliveries.c.url == _f.url, deliveries.c.due_at.is_not(None)
    ),
    ~exists().where(webhook_endpoints.c.partner_id == _f.partner_id, webhook_endpoints.c.url == _f.url),
    ~exists().where(partners.c.id == _f.partner_id, partners.c.event_url == _f.url),
)


async def forget_unused(db: Database) -> int:
    """Forget the failures of addresses that their partners no longer have, and at which nothing waits; return how many.

    The reason why one was disabled stays with the deliveries that weren't sent because of it.
    """
    count, after = 0, None
    while True:
        async with db.read() as tx:
            rows = await _list(tx, after)
            unused = await _without_stores(tx, rows)
        if unused:
            one_of = or_(*(and_(_f.partner_id == row.partner_id, _f.url == row.url) for row in unused))
            async with db.write() as tx:
                # Read again: one may be used since.
                gone = await tx.execute(delete(failing_endpoints).where(one_of, *_IS_FREE))
            count += gone.rowcount
        if len(rows) < PAGE:
            return count
        after = rows[-1]


async def _list(tx: Read, after: AnyRow | None) -> list[AnyRow]:
    """Return the addresses after this one at which nothing waits, neither an endpoint's nor an event URL."""
    query = select(_f.partner_id, _f.url).where(*_IS_FREE)
    if after is not None:
        later = and_(_f.partner_id == after.partner_id, _f.url > after.url)
        query = query.where(or_(_f.partner_id > after.partner_id, later))
    return list(await tx.all(query.order_by(_f.partner_id, _f.url).limit(PAGE)))


async def _without_stores(tx: Read, rows: Sequence[AnyRow]) -> list[AnyRow]:
    """Return the addresses that aren't below a webhookUrl of their partner's stores."""
    used: dict[UUID, set[str]] = {}
    for partner_id in dict.fromkeys(row.partner_id for row in rows):
        query = select(stores.c.webhook_url).where(
            stores.c.partner_id == partner_id, stores.c.webhook_url.is_not(None)
        )
        urls = [row.webhook_url for row in await tx.all(query.distinct())]
        used[partner_id] = {target(url, suffix) for url in urls for suffix in _SENT}
    return [row for row in rows if row.url not in used[row.partner_id]]
