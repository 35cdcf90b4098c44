"""Which partners are in trouble, for metrics, alerts and the operators' events: one rule, built on that for stores."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Integer, bindparam, func, literal_column, select, union_all

from mercato.features.metrics import PartnerTrouble, Trouble
from mercato.features.partners.tables import partners
from mercato.features.webhooks.endpoint_health import FAILING, count_disabled
from mercato.features.webhooks.store_health import IS_IN_TROUBLE
from mercato.features.webhooks.tables import failing_endpoints, failing_stores
from mercato.platform.db.audit import list_entries
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.errors import is_unavailable
from mercato.platform.db.statements import prepared
from mercato.platform.db.types import Instant
from mercato_contract.clock import Clock

BACKUP: Final = "backup"
"""The action of the audit trail's entries about backups."""

MAX_PARTNERS: Final = 1000
"""Partners in trouble that are looked at, the worst."""

_READ_SECONDS: Final = 2.0

_ONE, _NONE = literal_column("1", Integer), literal_column("0", Integer)
_FAILING: Final = union_all(
    select(
        failing_stores.c.partner_id,
        failing_stores.c.failing_since.label("since"),
        _ONE.label("stores"),
        _NONE.label("addresses"),
    ).where(IS_IN_TROUBLE),
    select(failing_endpoints.c.partner_id, failing_endpoints.c.failing_since, _NONE, _ONE).where(
        failing_endpoints.c.disabled_at.is_(None),
        failing_endpoints.c.failing_since <= bindparam("before", type_=Instant),
    ),
).subquery()
_count = func.sum(_FAILING.c.stores) + func.sum(_FAILING.c.addresses)
_PARTNERS: Final = prepared(
    select(
        _FAILING.c.partner_id,
        func.min(_FAILING.c.since, type_=Instant),
        func.sum(_FAILING.c.stores),
        func.sum(_FAILING.c.addresses),
    )
    .join(partners, partners.c.id == _FAILING.c.partner_id)
    .where(partners.c.suspended_at.is_(None))
    .group_by(_FAILING.c.partner_id)
    .order_by(_count.desc(), func.min(_FAILING.c.since), _FAILING.c.partner_id)
    .limit(bindparam("most", type_=Integer))
)
_FIRST_PARTNER: Final = prepared(select(func.min(partners.c.created_at, type_=Instant)))


async def list_troubled_partners(tx: Read, *, now: datetime) -> Sequence[PartnerTrouble]:
    """Return the partners in trouble, the worst first.

    A partner is in trouble while one of its stores is, or while an address of its events has failed for an hour.
    """
    rows = await tx.all(_PARTNERS, {"before": now - FAILING, "most": MAX_PARTNERS})
    return [
        PartnerTrouble(partner_id=row[0], since=row[1], stores=int(row[2]), addresses=int(row[3]))
        for row in rows
    ]


async def find_backup(tx: Read) -> datetime | None:
    """Return when the last backup was made that this database knows of; on SQLite without one, its first partner."""
    for entry in await list_entries(tx, action=BACKUP, limit=1):
        return entry.at
    # PostgreSQL is backed up by tools of its own, which needn't say so here.
    found: datetime | None = await tx.scalar(_FIRST_PARTNER) if tx.dialect == "sqlite" else None
    return found


async def find_trouble(db: Database, now: Clock) -> Trouble | None:
    """Return what operators are alerted about; None if the database doesn't answer in time."""
    try:
        async with asyncio.timeout(_READ_SECONDS), db.read() as tx:
            at = now()
            return Trouble(
                partners=await list_troubled_partners(tx, now=at),
                disabled=await count_disabled(tx),
                now=at,
                backup_at=await find_backup(tx),
            )
    except Exception as error:
        if not isinstance(error, TimeoutError) and not is_unavailable(error):
            raise
        return None
