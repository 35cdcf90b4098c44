"""The SQL of attempts: the job of one, what is due, and what became of it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Executable,
    Integer,
    Update,
    Uuid,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    text,
    update,
)

from mercato.domain.partners.model import Surface
from mercato.domain.webhooks.model import KIND, CallResult, DeliverJob, Delivery, DeliveryStatus, Outcome
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.db.statements import prepared, prepared_insert, prepared_update
from mercato.kernel.db.tables import deliveries, delivery_attempts, endpoints, orders
from mercato.kernel.db.types import Dialect, Instant
from mercato.kernel.jobs import enqueue

ITS_ENDPOINT: Final = and_(
    endpoints.c.partner_id == deliveries.c.partner_id, endpoints.c.url == deliveries.c.url
)

ITS_ORDER: Final = orders.c.id == deliveries.c.order_id
BASE: Final = orders.c.content.label("base")
"""What the body of a delivery about an order is compressed with, as it is stored itself."""


async def enqueue_attempt(
    tx: Write,
    job: DeliverJob,
    delivery_id: UUID,
    *,
    round: int = 0,  # noqa: A002  # the column's name
    attempts: int = 0,
    faults: int = 0,
    delay: timedelta | None = None,
) -> dict[str, object] | None:
    """Enqueue the job of a delivery's attempt, after others of its round; return the delivery's columns of it.

    None if that is enqueued already: a repeat is harmless, and replaces a job that died.
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
    return None if enqueued is None else {"due_at": enqueued.run_at, "job_id": enqueued.id}


# --- reading ------------------------------------------------------------------------------------------


LARGE: Final = 16 * 1024
"""Bytes of a body and its base, as stored, above which they are read only when the delivery is sent."""

_ITS_KEY: Final = (
    deliveries.c.partner_id == bindparam("its_partner"),
    deliveries.c.url == bindparam("its_url"),
    deliveries.c.partition == bindparam("its_partition"),
)
# No clock is asked: a job that runs is due, and so is all that was due when it was, or before.
_IS_DUE: Final = (*_ITS_KEY, deliveries.c.due_at <= bindparam("through", type_=Instant))

_SIZE: Final = func.length(deliveries.c.body) + func.coalesce(
    func.length(orders.c.content), literal_column("0")
)
_IS_SMALL: Final = literal_column(str(LARGE)) >= _SIZE
_DUE: Final = prepared(
    select(
        deliveries.c.id,
        deliveries.c.partner_id,
        deliveries.c.surface,
        deliveries.c.webhook_id,
        deliveries.c.url,
        case((_IS_SMALL, deliveries.c.body)).label("body"),
        case((_IS_SMALL, orders.c.content)).label("base"),
        deliveries.c.traceparent,
        deliveries.c.round,
        deliveries.c.attempts,
        deliveries.c.attempts_before_round,
        deliveries.c.faults,
        endpoints.c.failing_since,
        endpoints.c.disabled_reason,
    )
    .join(endpoints, ITS_ENDPOINT, isouter=True)
    .join(orders, ITS_ORDER, isouter=True)
    .where(*_IS_DUE)
    .order_by(deliveries.c.due_at, deliveries.c.job_id)
    .limit(bindparam("most", type_=Integer))
)
_BODY: Final = prepared(
    select(deliveries.c.body, BASE)
    .join(orders, ITS_ORDER, isouter=True)
    .where(deliveries.c.id == bindparam("its_id"))
)


def _due(job: DeliverJob, through: datetime) -> dict[str, Any]:
    return {
        "its_partner": job.partner_id,
        "its_url": job.url,
        "its_partition": job.partition,
        "through": through,
    }


async def list_due(tx: Read, job: DeliverJob, *, through: datetime, most: int) -> list[Delivery]:
    """Return the job's first deliveries that are due, in order, without large bodies."""
    rows = await tx.all(_DUE, _due(job, through) | {"most": most})
    return [Delivery(**row._asdict() | {"surface": Surface(row.surface)}) for row in rows]


async def get_body(tx: Read, delivery_id: UUID) -> tuple[bytes, bytes | None]:
    """Return a delivery's compressed body, and what it is compressed with. Raises LookupError."""
    row = await tx.first(_BODY, {"its_id": delivery_id})
    if row is None:
        raise LookupError(f"delivery {delivery_id} was deleted")
    return row.body, row.base


# --- one ------------------------------------------------------------------------------------------------

# True as long as just this attempt is the next one to be made.
_NEXT: Final = (
    deliveries.c.id == bindparam("its_id"),
    deliveries.c.status == literal_column("'pending'"),
    deliveries.c.round == bindparam("its_round"),
    deliveries.c.attempts == bindparam("its_attempts"),
)
_INSERT_ATTEMPT: Final = prepared_insert(delivery_attempts)


def _next(delivery: Delivery) -> dict[str, Any]:
    """Return what `_NEXT` binds."""
    return {"its_id": delivery.id, "its_round": delivery.round, "its_attempts": delivery.attempts}


@cache
def _move(columns: tuple[str, ...]) -> Update:
    """Return the change of these columns: there are a few such sets."""
    return prepared_update(deliveries, *columns, where=_NEXT)


async def move_delivery(tx: Write, delivery: Delivery, *, now: datetime, **columns: Any) -> bool:
    """Write what became of the delivery as it was read; False when somebody else has moved it since."""
    values = columns | {"updated_at": now}
    moved = await tx.execute(_move(tuple(values)), _next(delivery) | values)
    return moved.rowcount == 1


async def insert_calls(tx: Write, delivery_id: UUID, calls: Sequence[CallResult], *, first: int) -> None:
    """Write calls as attempts, numbered from `first`."""
    for number, called in enumerate(calls, first):
        tx.defer(_INSERT_ATTEMPT, _attempt(delivery_id, number, called, called.at))


def _attempt(delivery_id: UUID, number: int, made: Outcome | CallResult, at: datetime) -> dict[str, Any]:
    return {
        "delivery_id": delivery_id,
        "number": number,
        "at": at,
        "status": made.status,
        "ms": made.ms,
        "error": made.error,
        "reply": made.reply,
    }


# --- many -----------------------------------------------------------------------------------------------


_FAIL_DUE: Final = prepared(
    update(deliveries)
    .where(*_IS_DUE)
    .values(
        status=literal_column(f"'{DeliveryStatus.FAILED.value}'"),
        error=bindparam("reason"),
        next_attempt_at=null(),
        due_at=null(),
        job_id=null(),
        updated_at=bindparam("now"),
    )
)


async def fail_due(tx: Write, job: DeliverJob, *, through: datetime, reason: str, now: datetime) -> None:
    """End all of the job's deliveries that are due, without an attempt."""
    await tx.execute(_FAIL_DUE, _due(job, through) | {"reason": reason, "now": now})


def _succeed(dialect: Dialect) -> Executable:
    if dialect == "sqlite":
        succeeded = update(deliveries).where(*_NEXT)
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
        FROM unnest(:its_ids, :its_rounds, :its_attempts) AS one (id, round, attempts)
        WHERE deliveries.id = one.id AND deliveries.status = 'pending'
            AND deliveries.round = one.round AND deliveries.attempts = one.attempts
        """
    ).bindparams(
        bindparam("its_ids", type_=ARRAY(Uuid)),
        bindparam("its_rounds", type_=ARRAY(Integer)),
        bindparam("its_attempts", type_=ARRAY(Integer)),
        bindparam("now", type_=Instant),
    )


_SUCCEED: Final[dict[Dialect, Executable]] = {
    dialect: prepared(_succeed(dialect)) for dialect in ("sqlite", "postgresql")
}


async def move_succeeded(tx: Write, made: Sequence[Delivery], *, now: datetime) -> bool:
    """Write that the receivers have them; False when somebody else has moved one: then roll back."""
    parameters: Any
    if tx.dialect == "sqlite":
        parameters = [_next(one) | {"now": now} for one in made]
    else:
        parameters = {
            "its_ids": [one.id for one in made],
            "its_rounds": [one.round for one in made],
            "its_attempts": [one.attempts for one in made],
            "now": now,
        }
    return (await tx.execute(_SUCCEED[tx.dialect], parameters)).rowcount == len(made)


async def insert_attempts(tx: Write, made: Sequence[tuple[Delivery, Outcome, datetime]]) -> None:
    """Write the next attempt of each delivery: what came of it, and when it was made."""
    rows = [_attempt(delivery.id, delivery.attempts + 1, outcome, at) for delivery, outcome, at in made]
    await tx.execute(_INSERT_ATTEMPT, rows)
