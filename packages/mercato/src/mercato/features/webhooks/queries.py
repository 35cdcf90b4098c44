"""The SQL of the delivery log, its retention included; that of the sender is in `attempts`."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    Update,
    bindparam,
    delete,
    exists,
    literal,
    literal_column,
    null,
    or_,
    select,
    update,
)

from mercato.features.compression import decompress
from mercato.features.events.tables import events, orders
from mercato.features.partners.model import Caller, Surface
from mercato.features.partners.tables import partners, webhook_endpoints
from mercato.features.webhooks.attempts import (
    BASE,
    BODY,
    ENDPOINT_OF_DELIVERY,
    EVENT_OF_DELIVERY,
    ORDER_OF_DELIVERY,
    Due,
)
from mercato.features.webhooks.tables import (
    answered_validations,
    deliveries,
    delivery_attempts,
    failing_endpoints,
    stores,
)
from mercato.platform.db.engine import AnyRow, Read, Write
from mercato.platform.db.statements import prepared
from mercato_contract.clock import first_id
from mercato_contract.decoding.decode import page_of
from mercato_contract.events import SUFFIXES, EventType
from mercato_contract.pages import cursor_of
from mercato_contract.signing import target
from mercato_contract.webhooks import DeliveryStatus


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries to list: all conditions hold. `types` is an event type or the first word of several (`order`).

    `since` is the earliest time of the push. `before` is an id: the deliveries of the next page are older; `not_before`
    is the oldest one to look at. `http_status` is the answer to any of the attempts.
    """

    partner_id: UUID | None = None
    surface: Surface | None = None
    status: DeliveryStatus | None = None
    type: str | None = None
    types: str | None = None
    store_id: UUID | None = None
    order_id: UUID | None = None
    endpoint_id: UUID | None = None
    http_status: int | None = None
    since: datetime | None = None
    before: UUID | None = None
    not_before: UUID | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether the index may find more rows than a page has, so that many have to be read for one."""
        if self.order_id is not None:
            return False
        searched = (self.type, self.types, self.http_status, self.endpoint_id)
        by_partner = (self.surface, self.status, self.store_id) if self.partner_id is None else ()
        # Nearly all have succeeded, and no index has both the store and the status.
        by_status = self.status is not None and self.store_id is not None
        all_but_few = self.status is DeliveryStatus.SUCCEEDED
        return all_but_few or by_status or any(value is not None for value in (*searched, *by_partner))

    def conditions(self) -> list[ColumnElement[bool]]:
        c = deliveries.c
        columns = (c.partner_id, c.surface, c.status, c.type, c.store_id, c.order_id, c.endpoint_id)
        found = [c_ == value for c_ in columns if (value := getattr(self, c_.name)) is not None]
        if self.status in {DeliveryStatus.PENDING, DeliveryStatus.FAILED}:
            # The condition of a partial index, as a literal, so that both planners may use it.
            found.append(c.status != literal_column("'succeeded'", Text))
        if self.types is not None:
            types = self.types.removesuffix(".*")
            found.append(or_(c.type == types, c.type.startswith(f"{types}.", autoescape=True)))
        if self.http_status is not None:
            attempt_columns = delivery_attempts.c
            found.append(
                exists().where(
                    attempt_columns.delivery_id == c.id, attempt_columns.status == self.http_status
                )
            )
        if self.since is not None:
            found.append(c.id >= first_id(self.since))
        if self.not_before is not None:
            found.append(c.id >= self.not_before)
        if self.before is not None:
            found.append(c.id < self.before)
        return found


_OF_ORDER = prepared(
    select(deliveries.c.id)
    .where(deliveries.c.order_id == bindparam("where_order"), deliveries.c.type == bindparam("where_type"))
    .order_by(deliveries.c.id)
    .limit(literal_column("1"))
)


# --- calls to stores ------------------------------------------------------------------------------


@cache
def update_of_call(*, has_status: bool, has_error: bool, has_ended: bool) -> Update:
    """Return the prepared update that adds attempts to a call. One that has ended loses its payment."""
    values: dict[str, Any] = {
        "attempts": deliveries.c.attempts + bindparam("added"),
        "updated_at": bindparam("updated_at"),
    }
    if has_status:
        values["status"] = bindparam("status")
    if has_error:
        values["error"] = bindparam("error")
    if has_ended:
        values |= {"give_up_at": null(), "payment": null()}
    return prepared(update(deliveries).where(deliveries.c.id == bindparam("where_id")).values(values))


async def find_store_call(tx: Read, order_id: UUID, type_: str = EventType.ORDER_PLACE) -> UUID | None:
    """Return the id of the first delivery of the type about the order: by default of the call that places it."""
    found: UUID | None = await tx.scalar(_OF_ORDER, {"where_order": order_id, "where_type": type_})
    return found


# --- for the partner ------------------------------------------------------------------------------------


MAX_SEARCHED: Final = 10_000
"""Deliveries that one page of a search looks at."""

_UUID_VERSION = 7
"""UUIDs of this version begin with their time."""

_SLACK_MS = 1_000
"""Milliseconds by which a delivery's id may be older than its webhook-id: both are made in one request."""

_MAX_SINCE = 1_000
_MAX_COPIES = 5


class DeliveryRow(NamedTuple):
    """A delivery of the log. `partner` is the partner's name, and `body` and `base` its bytes, where they are read."""

    id: UUID
    partner_id: UUID
    surface: str
    store_id: UUID | None
    order_id: UUID | None
    type: str
    webhook_id: UUID
    url: str
    traceparent: str
    partition: int
    status: str
    error: str | None
    attempts: int
    round: int
    next_attempt_at: datetime | None
    created_at: datetime
    updated_at: datetime
    endpoint_id: UUID | None
    disabled_reason: str | None
    partner: str | None = None
    body: bytes | None = None
    base: bytes | None = None


class AttemptRow(NamedTuple):
    """One attempt of a delivery. `status` is the reply's; `error` is None if it succeeded."""

    number: int
    at: datetime
    status: int | None
    ms: int
    error: str | None
    reply: str | None
    warning: str | None


_LISTED: Final = tuple(
    deliveries.c[name] for name in DeliveryRow._fields if name in deliveries.c and name != "body"
)


async def list_of(tx: Read, statement: Select[Any]) -> list[DeliveryRow]:
    """Return the deliveries that a statement of `without_bodies` or `with_body` finds."""
    return [DeliveryRow(**row._asdict()) for row in await tx.all(statement)]


async def find_of(tx: Read, statement: Select[Any]) -> DeliveryRow | None:
    """Return the first delivery that such a statement finds."""
    row = await tx.first(statement)
    return None if row is None else DeliveryRow(**row._asdict())


def with_body(query: Select[Any]) -> Select[Any]:
    """Return the query with the columns that `body_of` needs."""
    return (
        query.add_columns(BODY.label("body"), BASE)
        .join(orders, ORDER_OF_DELIVERY, isouter=True)
        .join(events, EVENT_OF_DELIVERY, isouter=True)
    )


def body_of(row: DeliveryRow) -> bytes:
    """Return the bytes of a delivery that are signed and sent, if they were read with it."""
    assert row.body is not None
    return decompress(row.body, base=row.base)


def without_bodies(*columns: ColumnElement[Any]) -> Select[Any]:
    """Select deliveries without bodies, with their endpoint's `disabled_reason` and more columns."""
    listed = select(*_LISTED, failing_endpoints.c.disabled_reason, *columns)
    return listed.join(failing_endpoints, ENDPOINT_OF_DELIVERY, isouter=True)


def ids_of_webhook(webhook_id: UUID, *conditions: ColumnElement[bool], limit: int) -> Select[Any]:
    """Select the ids of the newest deliveries with the webhook-id.

    webhook-ids have no index. But those of version 7 begin with their time, and their delivery is created soon after:
    only the first deliveries since that time are searched.
    """
    since = UUID(int=max(0, (webhook_id.int >> 80) - _SLACK_MS) << 80)
    searched = (
        select(deliveries.c.id, deliveries.c.webhook_id)
        .where(*conditions, deliveries.c.id >= since, literal(webhook_id.version == _UUID_VERSION))
        .order_by(deliveries.c.id)
        .limit(_MAX_SINCE)
        .subquery()
    )
    found = select(searched.c.id).where(searched.c.webhook_id == webhook_id)
    return found.order_by(searched.c.id.desc()).limit(limit)


def _own(caller: Caller) -> tuple[ColumnElement[bool], ...]:
    return deliveries.c.partner_id == caller.partner_id, deliveries.c.surface == caller.surface


async def list_rows(
    tx: Read, criteria: DeliveryFilter, *, limit: int, listed: Select[Any] | None = None
) -> list[DeliveryRow]:
    """Return at most `limit` deliveries without bodies, newest first. `listed` selects more columns."""
    found = (without_bodies() if listed is None else listed).where(*criteria.conditions())
    return await list_of(tx, found.order_by(deliveries.c.id.desc()).limit(limit))


async def search(
    tx: Read, criteria: DeliveryFilter, *, limit: int, listed: Select[Any] | None = None
) -> tuple[Sequence[DeliveryRow], str | None]:
    """Return a page of `limit` deliveries, newest first, and the cursor of the next one.

    Where no index leads to them, only the next `MAX_SEARCHED` are looked at: a page can then have fewer, or none, and
    the next one looks further.
    """
    horizon = await _find_horizon(tx, criteria) if criteria.is_sparse else None
    rows = await list_rows(tx, replace(criteria, not_before=horizon), limit=limit + 1, listed=listed)
    page, cursor = page_of(rows, limit, lambda row: row.id)
    return page, cursor_of(horizon) if cursor is None and horizon is not None else cursor


async def _find_horizon(tx: Read, criteria: DeliveryFilter) -> UUID | None:
    """Return the last of the next `MAX_SEARCHED` deliveries of the partner, or of all; None if there are fewer."""
    scope = DeliveryFilter(partner_id=criteria.partner_id, before=criteria.before)
    if criteria.partner_id is not None:
        scope = replace(scope, surface=criteria.surface)
    ids = select(deliveries.c.id).where(*scope.conditions()).order_by(deliveries.c.id.desc())
    found: UUID | None = await tx.scalar(ids.offset(MAX_SEARCHED - 1).limit(1))
    return found


async def find_row(tx: Read, partner_id: UUID, surface: Surface, delivery_id: UUID) -> DeliveryRow | None:
    """Return a partner's delivery with its body."""
    c = deliveries.c
    own = c.id == delivery_id, c.partner_id == partner_id, c.surface == surface
    return await find_of(tx, with_body(without_bodies().where(*own)))


async def list_sent(tx: Read, caller: Caller, webhook_id: UUID) -> list[DeliveryRow]:
    """Return the caller's newest deliveries with the webhook-id and their bodies: `_MAX_COPIES` at most."""
    ids = ids_of_webhook(webhook_id, *_own(caller), limit=_MAX_COPIES)
    found = with_body(without_bodies().where(*_own(caller), deliveries.c.id.in_(ids)))
    return await list_of(tx, found.order_by(deliveries.c.id.desc()))


async def list_attempts(tx: Read, delivery_id: UUID) -> list[AttemptRow]:
    """Return all attempts, oldest first. Unbounded, but each redelivery adds only a few."""
    attempt_columns = delivery_attempts.c
    rows = await tx.all(
        select(*(attempt_columns[name] for name in AttemptRow._fields))
        .where(attempt_columns.delivery_id == delivery_id)
        .order_by(attempt_columns.number)
    )
    return [AttemptRow(*row) for row in rows]


async def list_warnings(tx: Read, deliveries_: Sequence[UUID]) -> dict[UUID, str]:
    """Return the warnings about the answers to these deliveries."""
    c = delivery_attempts.c
    rows = await tx.all(
        select(c.delivery_id, c.warning)
        .where(c.delivery_id.in_(deliveries_), c.warning.is_not(None))
        .order_by(c.number)
    )
    return {row.delivery_id: row.warning for row in rows}


async def find_own_address(tx: Read, row: DeliveryRow) -> str:
    """Return where the partner gets such events at present, at its event URL or its store's webhookUrl.

    It is where the delivery went if there is no such address any more. The notice that an address was changed goes to
    the one before.
    """
    if row.type == EventType.ENDPOINT_CHANGED:
        return row.url
    base: str | None
    if row.surface == Surface.MARKETFRONT:
        base = await tx.scalar(select(partners.c.event_url).where(partners.c.id == row.partner_id))
        return base or row.url
    base = await tx.scalar(select(stores.c.webhook_url).where(stores.c.id == row.store_id))
    suffix = SUFFIXES.get(row.type)
    return row.url if base is None or suffix is None else target(base, suffix)


async def start_next_round(tx: Write, row: DeliveryRow, due: Due, *, url: str, now: datetime) -> bool:
    """Make the delivery due at the URL and restart its schedule. Return False if it has changed since it was read.

    From now on it has its own body: it may be kept for longer than its event.
    """
    updated = await tx.execute(
        update(deliveries)
        .where(
            deliveries.c.id == row.id,
            deliveries.c.round == row.round,
            deliveries.c.attempts == row.attempts,
            deliveries.c.status == row.status,
        )
        .values(
            status=DeliveryStatus.PENDING,
            body=row.body,
            url=url,
            error=None,
            round=row.round + 1,
            attempts_before_round=row.attempts,
            next_attempt_at=now,
            faults=0,
            updated_at=now,
            due_at=due.at,
            job_id=due.job_id,
        )
    )
    return updated.rowcount == 1


# --- for the timeline of an order --------------------------------------------------------------------------


class OrderAttempt(Struct, frozen=True):
    """One attempt. `status` is the reply's; `error` is None if it succeeded."""

    delivery_id: UUID
    surface: Surface
    type: str
    number: int
    at: datetime
    status: int | None
    ms: int
    error: str | None
    warning: str | None


async def list_attempts_of_order(tx: Read, order_id: UUID, *, limit: int) -> list[OrderAttempt]:
    """Return the attempts of the order's deliveries, oldest first."""
    rows = await tx.all(
        select(
            deliveries.c.id,
            deliveries.c.surface,
            deliveries.c.type,
            delivery_attempts.c.number,
            delivery_attempts.c.at,
            delivery_attempts.c.status,
            delivery_attempts.c.ms,
            delivery_attempts.c.error,
            delivery_attempts.c.warning,
        )
        .join(delivery_attempts, delivery_attempts.c.delivery_id == deliveries.c.id)
        .where(deliveries.c.order_id == order_id)
        .order_by(delivery_attempts.c.at, deliveries.c.id, delivery_attempts.c.number)
        .limit(limit)
    )
    return [OrderAttempt(row[0], Surface(row[1]), *row[2:]) for row in rows]


# --- deletion ---------------------------------------------------------------------------------------------


_MAX_IDS: Final = 10_000
"""Ids in one statement: databases take about 32,000, and an order may have any number of updates."""


async def prune_deliveries(tx: Write, *, before: datetime, limit: int = 500) -> int:
    """Delete at most `limit` deliveries that ended before then, with their attempts. Return how many."""
    old = await tx.all(
        select(deliveries.c.id)
        .where(
            # Ids begin with their time: the primary key finds the rows that are old enough.
            deliveries.c.id < first_id(before),
            deliveries.c.updated_at < before,
            deliveries.c.status != DeliveryStatus.PENDING,
        )
        .limit(limit)
        # Locked, so that none is sent again between this query and the deletion.
        .with_for_update(skip_locked=True)
    )
    await _delete(tx, deliveries.c.id.in_([row.id for row in old]))
    return len(old)


async def delete_of_orders(tx: Write, order_ids: Sequence[UUID]) -> None:
    """Delete all deliveries about the orders, sent or not: their customers must be forgotten.

    The call that places an order stays until its store has answered: the store must get the order, or its end.
    """
    await _delete(tx, deliveries.c.order_id.in_(order_ids) & deliveries.c.give_up_at.is_(None))


async def delete_store_call(tx: Write, delivery_id: UUID) -> None:
    """Delete the record of a call that has ended, and whose customer was erased meanwhile."""
    await _delete(tx, deliveries.c.id == delivery_id)


async def delete_of_partner(tx: Write, partner_id: UUID, *, limit: int) -> int:
    """Delete at most `limit` deliveries to the partner, and all its endpoints. Return how many deliveries."""
    await tx.execute(delete(failing_endpoints).where(failing_endpoints.c.partner_id == partner_id))
    await tx.execute(delete(webhook_endpoints).where(webhook_endpoints.c.partner_id == partner_id))
    found = await tx.all(select(deliveries.c.id).where(deliveries.c.partner_id == partner_id).limit(limit))
    await _delete(tx, deliveries.c.id.in_([row.id for row in found]))
    return len(found)


async def prune_validations(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` recorded validations from before then, which name customers. Return how many."""
    rows = await _list_validations(tx, deliveries.c.id < first_id(before), limit=limit)
    await delete_validations(tx, [row.id for row in rows])
    return len(rows)


async def list_validations(tx: Read, *, after: UUID | None, limit: int) -> list[tuple[UUID, bytes]]:
    """Return id and body of the recorded validations, by id: they have no order to be found by."""
    rest = () if after is None else (deliveries.c.id > after,)
    return [(row.id, decompress(row.body)) for row in await _list_validations(tx, *rest, limit=limit)]


async def _list_validations(tx: Read, *which: ColumnElement[bool], limit: int) -> list[AnyRow]:
    columns = select(deliveries.c.id, deliveries.c.body).where(*which)
    failed = columns.where(
        # The condition of the partial index that finds them.
        deliveries.c.status != literal_column(f"'{DeliveryStatus.SUCCEEDED.value}'"),
        deliveries.c.type == EventType.ORDER_VALIDATE,
    )
    answered = columns.join(answered_validations, answered_validations.c.delivery_id == deliveries.c.id)
    found: list[AnyRow] = []
    for query in (failed, answered):
        found += await tx.all(query.order_by(deliveries.c.id).limit(limit))
    return sorted(found, key=lambda row: row.id)[:limit]


async def delete_validations(tx: Write, ids: Sequence[UUID]) -> None:
    """Delete recorded validations: their customers must be forgotten."""
    await _delete(tx, deliveries.c.id.in_(ids))


async def _delete(tx: Write, which: ColumnElement[bool]) -> None:
    # Deliveries first: a sender that records an attempt locks its delivery. This waits for it, or it finds none.
    rows = (await tx.execute(delete(deliveries).where(which).returning(deliveries.c.id))).all()
    deleted = [row.id for row in rows]
    for first in range(0, len(deleted), _MAX_IDS):
        batch = deleted[first : first + _MAX_IDS]
        await tx.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(batch)))
        await tx.execute(delete(answered_validations).where(answered_validations.c.delivery_id.in_(batch)))
