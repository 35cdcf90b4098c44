"""Which endpoints fail or are disabled, as attempts find them."""

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import and_, bindparam, delete, func, select, update

from mercato.features.partners.tables import partners, webhook_endpoints
from mercato.features.webhooks.tables import failing_endpoints
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import conflicting_insert, prepared
from mercato.platform.db.types import Instant

FAILING: Final = timedelta(hours=1)
"""How long an address fails before operators are told."""

OF_ENDPOINT: Final = and_(
    failing_endpoints.c.partner_id == webhook_endpoints.c.partner_id,
    failing_endpoints.c.url == webhook_endpoints.c.url,
)
"""The row of a webhook endpoint that fails or is disabled."""

_ENDPOINT = (
    failing_endpoints.c.partner_id == bindparam("where_partner"),
    failing_endpoints.c.url == bindparam("where_url"),
)
_FORGET_FAILURES = prepared(
    delete(failing_endpoints).where(*_ENDPOINT, failing_endpoints.c.disabled_at.is_(None))
)
_DISABLED_REASON = prepared(select(failing_endpoints.c.disabled_reason).where(*_ENDPOINT))
_FAILING_SINCE = prepared(select(failing_endpoints.c.failing_since).where(*_ENDPOINT))


async def find_disabled_reason(tx: Read, partner_id: UUID, url: str) -> str | None:
    """Return why the endpoint is disabled, None if it isn't."""
    reason: str | None = await tx.scalar(_DISABLED_REASON, {"where_partner": partner_id, "where_url": url})
    return reason


async def find_failing_since(tx: Read, partner_id: UUID, url: str) -> datetime | None:
    """Return since when the endpoint fails, None if its last attempt succeeded."""
    since: datetime | None = await tx.scalar(_FAILING_SINCE, {"where_partner": partner_id, "where_url": url})
    return since


async def insert_failing(tx: Write, partner_id: UUID, url: str, *, since: datetime) -> None:
    """Record that the endpoint fails, and since when if that isn't recorded yet."""
    await tx.execute(
        conflicting_insert(failing_endpoints, tx.dialect)
        .values(partner_id=partner_id, url=url, failing_since=since)
        .on_conflict_do_nothing(index_elements=["partner_id", "url"])
    )


async def disable(tx: Write, partner_id: UUID, url: str, *, reason: str, now: datetime) -> bool:
    """Disable the endpoint; the first reason stays. Return whether it was enabled."""
    result = await tx.execute(
        update(failing_endpoints)
        .where(*_endpoint(partner_id, url), failing_endpoints.c.disabled_at.is_(None))
        .values(disabled_at=now, disabled_reason=reason)
    )
    return result.rowcount == 1


async def forget_failures(tx: Write, partner_id: UUID, url: str) -> None:
    """Record that the endpoint works. A disabled one stays disabled, whatever a call in flight returned."""
    tx.defer(_FORGET_FAILURES, {"where_partner": partner_id, "where_url": url})


async def enable(tx: Write, partner_id: UUID, url: str) -> bool:
    """Enable the endpoint and forget its failures. Return whether it was disabled."""
    removed = await tx.execute(
        delete(failing_endpoints)
        .where(*_endpoint(partner_id, url))
        .returning(failing_endpoints.c.disabled_at)
    )
    row = removed.first()
    return row is not None and row.disabled_at is not None


def _endpoint(partner_id: UUID, url: str) -> tuple[Any, ...]:
    return failing_endpoints.c.partner_id == partner_id, failing_endpoints.c.url == url


def disabled_error(reason: str) -> str:
    """Return the error of a delivery to an endpoint that was disabled before its attempt."""
    return f"endpoint disabled: {reason}"


# --- for operators ------------------------------------------------------------------------------------


# Endpoints that work have no row, so these read a few, however many endpoints there are.
_COUNT_DISABLED: Final = prepared(select(func.count()).where(failing_endpoints.c.disabled_at.is_not(None)))
_COUNT_FAILING: Final = prepared(
    select(func.count(), func.count(failing_endpoints.c.partner_id.distinct())).where(
        failing_endpoints.c.failing_since <= bindparam("since", type_=Instant),
        failing_endpoints.c.disabled_at.is_(None),
    )
)
_WITH_PARTNER: Final = failing_endpoints.outerjoin(partners, partners.c.id == failing_endpoints.c.partner_id)
_LIST_DISABLED: Final = prepared(
    select(
        failing_endpoints.c.partner_id,
        partners.c.name,
        failing_endpoints.c.url,
        failing_endpoints.c.disabled_at,
        failing_endpoints.c.disabled_reason,
    )
    .select_from(_WITH_PARTNER)
    .where(failing_endpoints.c.disabled_at.is_not(None))
    .order_by(failing_endpoints.c.disabled_at.desc(), failing_endpoints.c.url)
    .limit(bindparam("most"))
)
_LIST_FAILING: Final = prepared(
    select(
        failing_endpoints.c.partner_id,
        partners.c.name,
        failing_endpoints.c.url,
        failing_endpoints.c.failing_since,
    )
    .select_from(_WITH_PARTNER)
    .where(failing_endpoints.c.disabled_at.is_(None))
    .order_by(failing_endpoints.c.failing_since, failing_endpoints.c.url)
    .limit(bindparam("most"))
)


async def count_disabled(tx: Read) -> int:
    """Return how many endpoints are disabled."""
    return int(await tx.scalar(_COUNT_DISABLED))


class FailingEndpoint(NamedTuple):
    """An endpoint whose last attempt failed. `partner` is its name, None once it is deleted."""

    partner_id: UUID
    partner: str | None
    url: str
    failing_since: datetime


class DisabledEndpoint(NamedTuple):
    """An endpoint that isn't called any more, and why."""

    partner_id: UUID
    partner: str | None
    url: str
    disabled_at: datetime
    reason: str | None


async def list_disabled(tx: Read, *, limit: int) -> list[DisabledEndpoint]:
    """Return the endpoints that were disabled last, the newest first."""
    return [DisabledEndpoint(*row) for row in await tx.all(_LIST_DISABLED, {"most": limit})]


async def list_failing(tx: Read, *, limit: int) -> list[FailingEndpoint]:
    """Return the enabled endpoints that fail, those that have failed longest first."""
    return [FailingEndpoint(*row) for row in await tx.all(_LIST_FAILING, {"most": limit})]


async def count_failing(tx: Read, *, since: datetime) -> tuple[int, int]:
    """Return how many enabled endpoints have failed since then or longer, and of how many partners."""
    row = await tx.first(_COUNT_FAILING, {"since": since})
    return (0, 0) if row is None else (row[0], row[1])
