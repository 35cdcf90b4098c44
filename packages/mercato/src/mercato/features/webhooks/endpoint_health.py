"""Which endpoints fail or are disabled, as attempts find them; and, for operators, which stores fail."""

from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Text, and_, bindparam, case, delete, func, literal_column, select, update

from mercato.features.partners.model import Surface
from mercato.features.partners.tables import partners
from mercato.features.webhooks.tables import deliveries, failing_endpoints
from mercato.platform.clock import first_id
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import conflicting_insert, prepared
from mercato.platform.db.types import Instant
from mercato_contract.events import STORE_CALLS
from mercato_contract.webhooks import DeliveryStatus

MAX_STORES: Final = 1000
"""Stores with failed calls that are examined at most."""

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


class FailingStore(NamedTuple):
    """A store at least half of whose calls about orders failed, the last one too."""

    store_id: UUID
    calls: int
    failed: int


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


async def list_failing_stores(tx: Read, *, since: datetime, min_calls: int) -> list[FailingStore]:
    """Return the stores of which half of the calls since then failed, of at least `min_calls`, and the last one.

    With the breakers' own minimum they are those that circuit breakers stop, as far as the recorded calls show it: each
    process has breakers in memory, which count the same calls. Only calls of stores with enough failures are read:
    those that failed have an index, by partner.
    """
    c = deliveries.c
    calls = (
        c.surface == Surface.COMMERCE.value,
        c.id >= first_id(since),
        c.type.in_(STORE_CALLS),
        c.store_id.is_not(None),
    )
    # The index is for what the literal says; the list of values makes each partner's rows one range of it.
    unsuccessful = (
        c.status != literal_column(f"'{DeliveryStatus.SUCCEEDED.value}'", Text),
        c.status.in_([DeliveryStatus.FAILED.value, DeliveryStatus.PENDING.value]),
    )
    suspects = (
        select(c.partner_id, c.store_id)
        .select_from(partners)
        .join(deliveries, c.partner_id == partners.c.id)
        .where(*calls, *unsuccessful)
        .group_by(c.partner_id, c.store_id)
        .having(func.count() * 2 >= min_calls)
        .order_by(func.count().desc())
        .limit(MAX_STORES)
        .subquery()
    )
    succeeded = c.status == DeliveryStatus.SUCCEEDED.value
    failed = func.sum(case((succeeded, 0), else_=1))
    answered_at = func.max(case((succeeded, c.created_at)), type_=Instant)
    failed_at = func.max(case((succeeded, None), else_=c.created_at), type_=Instant)
    rows = await tx.all(
        select(c.store_id, func.count().label("calls"), failed.label("failed"), answered_at, failed_at)
        .select_from(suspects)
        .join(
            deliveries,
            and_(c.partner_id == suspects.c.partner_id, c.store_id == suspects.c.store_id),
        )
        .where(*calls)
        .group_by(c.store_id)
        .having(func.count() >= min_calls, failed * 2 >= func.count())
        .order_by(failed.desc(), c.store_id)
    )
    return [FailingStore(row[0], row[1], int(row[2])) for row in rows if row[3] is None or row[3] < row[4]]
