"""The SQL of sending: new deliveries, the jobs of their attempts, what is due, and the results."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import (
    ARRAY,
    Executable,
    Integer,
    LargeBinary,
    Update,
    Uuid,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    null,
    select,
    text,
    update,
)

from mercato.features.events.tables import events, orders
from mercato.features.partners.model import Surface
from mercato.features.partners.tables import webhook_endpoints
from mercato.features.webhooks.model import KIND, CallResult, DeliverJob, Delivery
from mercato.features.webhooks.tables import deliveries, delivery_attempts, failing_endpoints
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared, prepared_insert, prepared_update
from mercato.platform.db.types import Dialect, Id, Instant
from mercato.platform.jobs import enqueue
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import redacted

ENDPOINT_OF_DELIVERY: Final = and_(
    failing_endpoints.c.partner_id == deliveries.c.partner_id, failing_endpoints.c.url == deliveries.c.url
)

ORDER_OF_DELIVERY: Final = orders.c.id == deliveries.c.order_id
BASE: Final = orders.c.content.label("base")
"""The stored order, which the body of a delivery about it is compressed with."""

EVENT_OF_DELIVERY: Final = events.c.id == deliveries.c.webhook_id
BODY: Final = func.coalesce(events.c.body, deliveries.c.body, type_=LargeBinary)
"""Every delivery of an event sends the event's bytes. Calls to stores, and what was sent again, have their own."""


class Due(Struct, frozen=True):
    """When the next attempt of a delivery is due, and the job that makes it."""

    at: datetime
    job_id: int


async def enqueue_attempt(
    tx: Write,
    job: DeliverJob,
    delivery_id: UUID,
    *,
    round: int = 0,  # noqa: A002  # the column's name
    attempts: int = 0,
    faults: int = 0,
    delay: timedelta | None = None,
) -> Due | None:
    """Enqueue the job of an attempt.

    Return None if the job is enqueued already: a repeat is harmless, and replaces a dead job.
    """
    enqueued = await enqueue(
        tx,
        KIND,
        job,
        run_at=delay,
        ordering_key=job.ordering_key,
        dedup=f"{delivery_id}:{round}:{attempts}:{faults}",
        group=job.partner_id.hex,
    )
    return None if enqueued is None else Due(enqueued.run_at, enqueued.id)


# --- new deliveries -----------------------------------------------------------------------------------

_INSERT_DELIVERY: Final = prepared_insert(deliveries)


@redacted("body", "payment")
class NewDelivery(Struct, frozen=True, kw_only=True):
    """A delivery to be inserted. `body` is compressed, `payment` sealed."""

    id: UUID
    partner_id: UUID
    surface: Surface
    store_id: UUID | None = None
    order_id: UUID | None = None
    type: str
    webhook_id: UUID
    url: str
    body: bytes
    traceparent: str
    partition: int
    status: DeliveryStatus
    created_at: datetime
    updated_at: datetime
    error: str | None = None
    next_attempt_at: datetime | None = None
    due_at: datetime | None = None
    job_id: int | None = None
    attempts: int = 0
    round: int = 0
    attempts_before_round: int = 0
    faults: int = 0
    give_up_at: datetime | None = None
    payment: bytes | None = None
    endpoint_id: UUID | None = None


def insert_delivery(tx: Write, delivery: NewDelivery) -> None:
    """Insert a delivery before the transaction commits."""
    tx.defer(_INSERT_DELIVERY, asdict(delivery))


async def insert_deliveries(tx: Write, new: Sequence[NewDelivery]) -> None:
    """Insert deliveries in one statement for all."""
    await tx.execute(_INSERT_DELIVERY, [asdict(delivery) for delivery in new])


# --- reading ------------------------------------------------------------------------------------------


LARGE: Final = 16 * 1024
"""Stored bytes of a body and its base. Larger ones are read when the delivery is sent."""

_SAME_KEY: Final = (
    deliveries.c.partner_id == bindparam("where_partner"),
    deliveries.c.url == bindparam("where_url"),
    deliveries.c.partition == bindparam("where_partition"),
)
# No clock needed: a running job is due, and so is every delivery that was due at the same time or before.
_IS_DUE: Final = (*_SAME_KEY, deliveries.c.due_at <= bindparam("through", type_=Instant))

_SIZE: Final = func.length(BODY) + func.coalesce(func.length(orders.c.content), literal_column("0"))
_IS_SMALL: Final = literal_column(str(LARGE)) >= _SIZE
_DUE: Final = prepared(
    select(
        deliveries.c.id,
        deliveries.c.partner_id,
        deliveries.c.surface,
        deliveries.c.webhook_id,
        deliveries.c.url,
        case((_IS_SMALL, BODY)).label("body"),
        case((_IS_SMALL, orders.c.content)).label("base"),
        deliveries.c.traceparent,
        deliveries.c.round,
        deliveries.c.attempts,
        deliveries.c.attempts_before_round,
        deliveries.c.faults,
        failing_endpoints.c.failing_since,
        failing_endpoints.c.disabled_reason,
        deliveries.c.endpoint_id,
        webhook_endpoints.c.url.label("endpoint_url"),
        webhook_endpoints.c.enabled.label("endpoint_enabled"),
        webhook_endpoints.c.credentials.label("endpoint_credentials"),
    )
    .join(failing_endpoints, ENDPOINT_OF_DELIVERY, isouter=True)
    .join(webhook_endpoints, webhook_endpoints.c.id == deliveries.c.endpoint_id, isouter=True)
    .join(orders, ORDER_OF_DELIVERY, isouter=True)
    .join(events, EVENT_OF_DELIVERY, isouter=True)
    .where(*_IS_DUE)
    .order_by(deliveries.c.due_at, deliveries.c.job_id, deliveries.c.id)
    .limit(bindparam("limit", type_=Integer))
)
_BODY: Final = prepared(
    select(BODY.label("body"), BASE)
    .join(orders, ORDER_OF_DELIVERY, isouter=True)
    .join(events, EVENT_OF_DELIVERY, isouter=True)
    .where(deliveries.c.id == bindparam("where_id"))
)


def _due(job: DeliverJob, through: datetime) -> dict[str, Any]:
    return {
        "where_partner": job.partner_id,
        "where_url": job.url,
        "where_partition": job.partition,
        "through": through,
    }


async def list_due(tx: Read, job: DeliverJob, *, through: datetime, limit: int) -> list[Delivery]:
    """Return the job's first due deliveries, in order, without large bodies."""
    rows = await tx.all(_DUE, _due(job, through) | {"limit": limit})
    return [Delivery(**row._asdict() | {"surface": Surface(row.surface)}) for row in rows]


async def find_body(tx: Read, delivery_id: UUID) -> tuple[bytes, bytes | None] | None:
    """Return a delivery's compressed body and its base; None if the delivery was deleted."""
    row = await tx.first(_BODY, {"where_id": delivery_id})
    return None if row is None else (row.body, row.base)


# --- one delivery ---------------------------------------------------------------------------------------------

# True if the delivery's next attempt is still this one.
_UNCHANGED: Final = (
    deliveries.c.id == bindparam("where_id"),
    deliveries.c.status == literal_column("'pending'"),
    deliveries.c.round == bindparam("where_round"),
    deliveries.c.attempts == bindparam("where_attempts"),
)
_INSERT_ATTEMPT: Final = prepared_insert(delivery_attempts)


def _unchanged(delivery: Delivery) -> dict[str, Any]:
    """Return the parameters of `_UNCHANGED`."""
    return {"where_id": delivery.id, "where_round": delivery.round, "where_attempts": delivery.attempts}


@cache
def _update(columns: tuple[str, ...]) -> Update:
    """Cached: there are a few such sets of columns."""
    return prepared_update(deliveries, *columns, where=_UNCHANGED)


class DeliveryFailed(Struct, frozen=True):
    """The delivery isn't attempted again."""

    reason: str


class DeliveryRetried(Struct, frozen=True):
    """The delivery is attempted again at an instant of its schedule."""

    at: datetime
    error: str | None
    due: Due | None


class DeliveryPostponed(Struct, frozen=True):
    """A delivery that is attempted again after `faults` internal faults in a row. Its error and its schedule stay."""

    faults: int
    due: Due | None


class DeliveryRedirected(Struct, frozen=True):
    """The delivery is attempted at another URL. `faults` is a number that it hasn't had: it names the job."""

    url: str
    faults: int
    due: Due | None


DeliveryChange = DeliveryFailed | DeliveryRetried | DeliveryPostponed | DeliveryRedirected


async def update_delivery(
    tx: Write, delivery: Delivery, change: DeliveryChange, *, attempts: int, now: datetime
) -> bool:
    """Write what follows from an attempt, and the number of attempts so far.

    Return False if another transaction has changed the delivery since it was read.
    """
    values: dict[str, object] = {"attempts": attempts, "updated_at": now}
    due: Due | None = None
    match change:
        case DeliveryFailed(reason=reason):
            values |= {"status": DeliveryStatus.FAILED, "error": reason, "next_attempt_at": None}
            values |= {"due_at": None, "job_id": None}
        case DeliveryRetried(at=at, error=error, due=due):
            values |= {"error": error, "next_attempt_at": at, "faults": 0}
        case DeliveryPostponed(faults=faults, due=due):
            values |= {"faults": faults}
        case DeliveryRedirected(url=url, faults=faults, due=due):
            values |= {"url": url, "faults": faults}
    if due is not None:
        values |= {"due_at": due.at, "job_id": due.job_id}
    updated = await tx.execute(_update(tuple(values)), _unchanged(delivery) | values)
    return updated.rowcount == 1


_RESULT: Final = ("at", "status", "ms", "error", "reply", "warning")
"""The columns of an attempt that are members of its result."""

_INSERT_NEXT_ATTEMPT: Final = prepared(
    insert(delivery_attempts).from_select(
        delivery_attempts.c.keys(),
        select(
            deliveries.c.id,
            deliveries.c.attempts + bindparam("number", type_=Integer),
            *(bindparam(name, type_=delivery_attempts.c[name].type) for name in _RESULT),
        ).where(deliveries.c.id == bindparam("where_id")),
    )
)


def insert_attempts(tx: Write, delivery_id: UUID, results: Sequence[CallResult]) -> None:
    """Insert the first attempts of a new delivery before the transaction commits."""
    for number, result in enumerate(results, 1):
        tx.defer(_INSERT_ATTEMPT, _attempt_row(delivery_id, number, result))


def insert_next_attempts(tx: Write, delivery_id: UUID, results: Sequence[CallResult]) -> None:
    """Insert further attempts of a delivery, unless it was deleted, before the transaction commits.

    They are numbered from its number of attempts, which is raised after them.
    """
    for number, result in enumerate(results, 1):
        row = _attempt_row(delivery_id, number, result)
        tx.defer(_INSERT_NEXT_ATTEMPT, row | {"where_id": row.pop("delivery_id")})


def _attempt_row(delivery_id: UUID, number: int, result: CallResult) -> dict[str, Any]:
    row: dict[str, Any] = {"delivery_id": delivery_id, "number": number}
    return row | {name: getattr(result, name) for name in _RESULT}


# --- a batch --------------------------------------------------------------------------------------------

_FAIL_DUE: Final = prepared(
    update(deliveries)
    .where(
        *_IS_DUE,
        func.coalesce(deliveries.c.endpoint_id, deliveries.c.partner_id)
        == bindparam("where_endpoint", type_=Id),
    )
    .values(
        status=literal_column(f"'{DeliveryStatus.FAILED.value}'"),
        error=bindparam("reason"),
        next_attempt_at=null(),
        due_at=null(),
        job_id=null(),
        updated_at=bindparam("now"),
    )
)


async def fail_due(
    tx: Write, job: DeliverJob, *, endpoint_id: UUID | None, through: datetime, reason: str, now: datetime
) -> None:
    """Fail all due deliveries of the job without an attempt: those of the webhook endpoint, or those of none."""
    # No endpoint has the partner's id.
    which = {"where_endpoint": endpoint_id or job.partner_id}
    await tx.execute(_FAIL_DUE, _due(job, through) | which | {"reason": reason, "now": now})


def _succeed(dialect: Dialect) -> Executable:
    if dialect == "sqlite":
        succeeded = update(deliveries).where(*_UNCHANGED)
        return succeeded.values(
            status=literal_column(f"'{DeliveryStatus.SUCCEEDED.value}'"),
            error=null(),
            next_attempt_at=null(),
            due_at=null(),
            job_id=null(),
            attempts=deliveries.c.attempts + literal_column("1"),
            updated_at=bindparam("now"),
        )
    return text(
        """
        UPDATE deliveries
        SET status = 'succeeded', error = NULL, next_attempt_at = NULL, due_at = NULL, job_id = NULL,
            attempts = deliveries.attempts + 1, updated_at = :now
        FROM unnest(:where_ids, :where_rounds, :where_attempts) AS sent (id, round, attempts)
        WHERE deliveries.id = sent.id AND deliveries.status = 'pending'
            AND deliveries.round = sent.round AND deliveries.attempts = sent.attempts
        """
    ).bindparams(
        bindparam("where_ids", type_=ARRAY(Uuid)),
        bindparam("where_rounds", type_=ARRAY(Integer)),
        bindparam("where_attempts", type_=ARRAY(Integer)),
        bindparam("now", type_=Instant),
    )


_SUCCEED: Final[dict[Dialect, Executable]] = {
    dialect: prepared(_succeed(dialect)) for dialect in ("sqlite", "postgresql")
}


async def update_succeeded(tx: Write, sent: Sequence[Delivery], *, now: datetime) -> bool:
    """Mark the deliveries as succeeded. Return False if one was changed since it was read: then roll back."""
    parameters: Any
    if tx.dialect == "sqlite":
        parameters = [_unchanged(delivery) | {"now": now} for delivery in sent]
    else:
        parameters = {
            "where_ids": [delivery.id for delivery in sent],
            "where_rounds": [delivery.round for delivery in sent],
            "where_attempts": [delivery.attempts for delivery in sent],
            "now": now,
        }
    return (await tx.execute(_SUCCEED[tx.dialect], parameters)).rowcount == len(sent)


async def insert_attempt_of_each(tx: Write, results: Sequence[tuple[Delivery, CallResult]]) -> None:
    """Insert the attempt that was just made of each delivery."""
    rows = [_attempt_row(delivery.id, delivery.attempts + 1, result) for delivery, result in results]
    await tx.execute(_INSERT_ATTEMPT, rows)
