"""The SQL of attempts: what is to be sent, and what became of it, one by one or many together."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import (
    ARRAY,
    BindParameter,
    Executable,
    Integer,
    Text,
    Update,
    Uuid,
    and_,
    any_,
    bindparam,
    func,
    literal_column,
    null,
    select,
    text,
    update,
)

from mercato.db.clock import Dialect
from mercato.db.engine import Read, Write
from mercato.db.statements import prepared, prepared_insert, prepared_update
from mercato.db.tables import deliveries, delivery_attempts, endpoints, orders
from mercato.db.types import Instant
from mercato.partners.model import Surface
from mercato.webhooks.model import Called, DeliverJob, Delivery, DeliveryStatus, Outcome

ITS_ENDPOINT: Final = and_(
    endpoints.c.partner_id == deliveries.c.partner_id, endpoints.c.url == deliveries.c.url
)

ITS_ORDER: Final = orders.c.id == deliveries.c.order_id
BASE: Final = orders.c.content.label("base")
"""What the body of a delivery about an order is compressed with, as it is stored itself."""

_FROM_DELIVERIES: Final = (
    "id",
    "partner_id",
    "surface",
    "webhook_id",
    "url",
    "body",
    "traceparent",
    "sublane",
    "round",
    "attempts",
    "attempts_before_round",
)
_READ: Final = (
    select(
        *(deliveries.c[name] for name in _FROM_DELIVERIES),
        BASE,
        endpoints.c.failing_since,
        endpoints.c.disabled_reason,
    )
    .join(endpoints, ITS_ENDPOINT, isouter=True)
    .join(orders, ITS_ORDER, isouter=True)
    .where(deliveries.c.status == literal_column("'pending'"))
)

# --- reading ------------------------------------------------------------------------------------------


LARGE: Final = 16 * 1024
"""Bytes of a body and its base, as stored, that are read only when it is sent: hundreds may be claimed at once."""


def _of_ids(dialect: Dialect) -> Executable:
    base_length = func.coalesce(func.length(orders.c.content), literal_column("0"))
    small = _READ.where(func.length(deliveries.c.body) + base_length <= literal_column(str(LARGE)))
    if dialect == "postgresql":
        return small.where(deliveries.c.id == any_(bindparam("its_ids", type_=ARRAY(Uuid))))
    each = func.json_each(bindparam("its_ids", type_=Text)).table_valued("value", name="each")
    return small.where(deliveries.c.id.in_(select(each.c.value)))


_SMALL: Final[dict[Dialect, Executable]] = {
    dialect: prepared(_of_ids(dialect)) for dialect in ("sqlite", "postgresql")
}
_OPEN: Final = prepared(_READ.where(deliveries.c.id == bindparam("its_id")))


async def list_small(tx: Read, jobs: Sequence[DeliverJob]) -> list[Delivery | None]:
    """Return for each job what `find_open` returns, but for those with a large body."""
    ids: Any = [job.delivery_id for job in jobs]
    if tx.dialect == "sqlite":
        ids = msgspec.json.encode([one.hex for one in ids]).decode()
    # By the integers of ids: a UUID's own hash is Python code.
    rows = {row.id.int: row for row in await tx.all(_SMALL[tx.dialect], {"its_ids": ids})}
    return [_opened(rows.get(job.delivery_id.int), job) for job in jobs]


async def find_open(tx: Read, job: DeliverJob) -> Delivery | None:
    """Return the delivery while the job's attempt is the one it waits for."""
    return _opened(await tx.first(_OPEN, {"its_id": job.delivery_id}), job)


def _opened(row: Any, job: DeliverJob) -> Delivery | None:
    if row is None or (row.round, row.attempts) != (job.round, job.attempts):
        return None
    return Delivery(**row._asdict() | {"surface": Surface(row.surface)})


# --- one ------------------------------------------------------------------------------------------------

# What holds as long as just this attempt is the next one to be made.
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


async def insert_attempt(
    tx: Write, delivery_id: UUID, number: int, outcome: Outcome, *, at: datetime
) -> None:
    tx.defer(_INSERT_ATTEMPT, _attempt(delivery_id, number, outcome, at))


async def insert_calls(tx: Write, delivery_id: UUID, calls: Sequence[Called], *, first: int) -> None:
    """Write calls down as attempts, numbered from `first`."""
    for number, called in enumerate(calls, first):
        tx.defer(_INSERT_ATTEMPT, _attempt(delivery_id, number, called, called.at))


def _attempt(delivery_id: UUID, number: int, made: Outcome | Called, at: datetime) -> dict[str, Any]:
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


def _succeed(dialect: Dialect) -> Executable:
    if dialect == "sqlite":
        succeeded = update(deliveries).where(*_NEXT)
        return succeeded.values(
            status=literal_column(f"'{DeliveryStatus.SUCCEEDED.value}'"),
            error=null(),
            next_attempt_at=null(),
            attempts=deliveries.c.attempts + literal_column("1"),
            updated_at=bindparam("now"),
        )
    binds: tuple[BindParameter[Any], ...] = (
        bindparam("its_ids", type_=ARRAY(Uuid)),
        bindparam("its_rounds", type_=ARRAY(Integer)),
        bindparam("its_attempts", type_=ARRAY(Integer)),
        bindparam("now", type_=Instant),
    )
    return text(
        """
        UPDATE deliveries
        SET status = 'succeeded', error = NULL, next_attempt_at = NULL, attempts = deliveries.attempts + 1,
            updated_at = :now
        FROM unnest(:its_ids, :its_rounds, :its_attempts) AS one (id, round, attempts)
        WHERE deliveries.id = one.id AND deliveries.status = 'pending'
            AND deliveries.round = one.round AND deliveries.attempts = one.attempts
        """
    ).bindparams(*binds)


_SUCCEED: Final[dict[Dialect, Executable]] = {
    dialect: prepared(_succeed(dialect)) for dialect in ("sqlite", "postgresql")
}


async def move_succeeded(tx: Write, made: Sequence[Delivery], *, now: datetime) -> bool:
    """Write down that the receivers have them; False when somebody else has moved one: then roll back."""
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
    """Write the next attempt of each delivery down: what came of it, and when it was made."""
    rows = [_attempt(delivery.id, delivery.attempts + 1, outcome, at) for delivery, outcome, at in made]
    await tx.execute(_INSERT_ATTEMPT, rows)
