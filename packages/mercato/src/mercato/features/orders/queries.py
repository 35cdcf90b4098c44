"""The SQL of orders. What a partner can reach takes the caller: another partner's order isn't found."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import (
    ColumnElement,
    Integer,
    Row,
    Select,
    Text,
    UpdateBase,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    not_,
    select,
    text,
    update,
)

from mercato.features.compression import compress, decompress
from mercato.features.orders.errors import OrderNotFound
from mercato.features.orders.record import (
    EntryDetail,
    Notes,
    OrderContent,
    OrderRow,
    StoreAnswer,
    StoredAdjustment,
    StoredCancellation,
    with_notes,
)
from mercato.features.orders.sold import sold_of
from mercato.features.orders.tables import order_history as history
from mercato.features.orders.tables import order_submissions as submissions
from mercato.features.orders.tables import orders
from mercato.features.partners.model import Caller, Surface
from mercato.features.partners.tables import partners
from mercato.features.stores.tables import stores
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared, prepared_insert
from mercato.platform.db.tables import jobs
from mercato.platform.db.types import Instant, json_rows
from mercato_contract.clock import first_id, from_ms
from mercato_contract.decoding.decode import page_of
from mercato_contract.events import SUFFIXES, EventType
from mercato_contract.orders import Actor, Courier, OrderState, OrderStatus
from mercato_contract.placements import ClientContext, Customer, Fulfillment
from mercato_contract.problems import OrderError
from mercato_contract.signing import base_of
from mercato_contract.stores import OrderHandling
from mercato_contract.wire import as_json, redacted

_DOCUMENTS: Final[dict[str, Any]] = {
    "errors": msgspec.json.Decoder(tuple[OrderError, ...]),
    "notes": msgspec.json.Decoder(Notes | None),
    "courier": msgspec.json.Decoder(Courier | None),
    "cancellation": msgspec.json.Decoder(StoredCancellation | None),
    "adjustments": msgspec.json.Decoder(tuple[StoredAdjustment, ...] | None),
    "fulfillment": msgspec.json.Decoder(Fulfillment),
    "customer": msgspec.json.Decoder(Customer | None),
    "client_context": msgspec.json.Decoder(ClientContext | None),
}
"""The columns that hold JSON."""

_content: Final = msgspec.json.Decoder(OrderContent)

_BY_ID: Final = (orders.c.id == bindparam("where_id"),)
_UNCHANGED: Final = (
    *_BY_ID,
    orders.c.entries == literal_column("0"),
    orders.c.answer == literal_column(f"'{StoreAnswer.WAITING.value}'"),
    # Nor was its customer erased.
    orders.c.client_context.is_not(None),
)
"""Every change of an order adds to its history, or erases its customer."""

_STORE_UNCHANGED: Final = prepared(
    select(stores.c.id).where(
        stores.c.id == bindparam("where_store"), stores.c.version == bindparam("where_version")
    )
)
_STOREFRONT_ACTIVE: Final = (
    select(partners.c.id)
    .where(partners.c.id == bindparam("where_storefront"), partners.c.suspended_at.is_(None))
    # Only its deletion waits for this lock, and finds the order then.
    .with_for_update(read=True, key_share=True)
)
_INSERT_ORDER: Final = prepared(
    insert(orders).from_select(
        orders.c.keys(),
        select(*(bindparam(column.name, type_=column.type) for column in orders.c)).where(
            _STORE_UNCHANGED.exists(), _STOREFRONT_ACTIVE.exists()
        ),
        include_defaults=False,
    )
)
_READ: Final = tuple(column for column in orders.c if column is not orders.c.sold)
"""The columns of an order: `sold` only repeats parts of its content."""

_FIND: Final = prepared(select(*_READ).where(*_BY_ID))
_LOCK: Final = prepared(_FIND.with_for_update())
_FIND_BY_TOKEN: Final = prepared(select(orders.c.id).where(orders.c.token_id == bindparam("where_token")))
_FIND_SUBMISSION: Final = prepared(
    select(
        deliveries.c.id,
        deliveries.c.url,
        stores.c.webhook_url,
        deliveries.c.body,
        orders.c.content,
        deliveries.c.payment,
        deliveries.c.give_up_at,
    )
    .join_from(deliveries, orders, orders.c.id == deliveries.c.order_id)
    .join(stores, stores.c.id == orders.c.store_id)
    .where(
        deliveries.c.order_id == bindparam("where_order"),
        deliveries.c.type == literal_column(f"'{EventType.ORDER_PLACE}'"),
        deliveries.c.give_up_at.is_not(None),
    )
)
_DELETE_EARLIER_SUBMISSION: Final = prepared(
    delete(submissions).where(submissions.c.order_id == bindparam("where_order"))
)
_INSERT_ENTRY: Final = prepared_insert(history)
_ENTRY: Final = (history.c.at, history.c.actor, history.c.type, history.c.detail)
_LIST_HISTORY: Final = prepared(
    select(*_ENTRY)
    .where(history.c.order_id == bindparam("where_order"))
    .order_by(history.c.number)
    .limit(bindparam("most"))
)
_of_order: Final = (
    select(*_ENTRY)
    .where(history.c.order_id == orders.c.id)
    .order_by(history.c.number)
    .limit(bindparam("most"))
    .correlate(orders)
    .subquery()
)
_HISTORY: Final = select(json_rows(*_of_order.c)).correlate(orders).scalar_subquery().label("history")
"""The history of an order, in the statement that reads the order."""

_COLUMNS: Final = tuple(column.name for column in _READ)
_values_of: Final = attrgetter(*_COLUMNS)

_ENUMS: Final = {"state": OrderState, "status": OrderStatus, "answer": StoreAnswer}


class HistoryEntry(NamedTuple):
    """What happened to an order. `detail` is the stored JSON of an EntryDetail."""

    at: datetime
    actor: Actor
    type: str
    detail: str


# --- orders ---------------------------------------------------------------------------------------

MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
"""Bytes of orders as they are stored, after which a page ends: everybody waits while one is made."""


class StoreChanged(Exception):  # noqa: N818  # not a failure: check the order again
    """The store has changed since the order was checked, or the storefront was suspended or deleted."""


def insert_order(tx: Write, order: OrderRow, *, store_version: int) -> None:
    """Insert an order that was checked against this version of its store. Else the transaction fails with StoreChanged.

    The version is the committed one when the statement starts, so that every acknowledged change counts. A change that
    commits at the same moment comes after the order: the row needn't be locked, and a store's orders don't wait for
    each other. The same holds for a suspension of the storefront, whose key was looked up before; its deletion waits
    until the transaction ends. The unique index refuses a second order of the same token.
    """
    values = _to_columns(asdict(order))
    values["sold"] = as_json(sold_of(order.cart, order.amounts, order.currency)).decode()
    values |= {
        "where_store": order.store_id,
        "where_version": store_version,
        "where_storefront": order.storefront_id,
    }
    tx.require(_INSERT_ORDER, values, otherwise=StoreChanged())


def require_version(tx: Write, store_id: UUID, version: int) -> None:
    """Have the transaction fail with StoreChanged unless this is the store's version, as `insert_order` does."""
    values = {"where_store": store_id, "where_version": version}
    tx.require(_STORE_UNCHANGED, values, otherwise=StoreChanged())


async def get_own_order(tx: Read, caller: Caller, order_id: UUID, *, lock: bool = False) -> OrderRow:
    """Return an order of the caller's stores, or placed by the caller; `lock` locks its row. Raises OrderNotFound."""
    column, owner_id = _owner(caller)
    row = await tx.first(_find_own(column, lock=lock), {"where_id": order_id, "where_owner": owner_id})
    if row is None:
        raise OrderNotFound(order_id)
    return _order(row)


async def get_own_order_with_history(
    tx: Read, caller: Caller, order_id: UUID, *, limit: int
) -> tuple[OrderRow, Sequence[HistoryEntry]]:
    """Return an order as `get_own_order` does, and its history as `list_history` does: both of one moment.

    Raises OrderNotFound.
    """
    column, owner_id = _owner(caller)
    wanted = {"where_id": order_id, "where_owner": owner_id, "most": limit}
    row = await tx.first(_find_own_with_history(column), wanted)
    if row is None:
        raise OrderNotFound(order_id)
    values: dict[str, Any] = row._asdict()
    entries: str | None = values.pop("history")
    return _order_of(values), () if entries is None else _read_history(entries)


@cache
def _find_own(column: str, *, lock: bool) -> Select[Any]:
    """Return the statement that finds an order by its id and its owner, which is in this column."""
    query = _FIND.where(orders.c[column] == bindparam("where_owner"))
    return prepared(query.with_for_update() if lock else query)


@cache
def _find_own_with_history(column: str) -> Select[Any]:
    return prepared(_FIND.add_columns(_HISTORY).where(orders.c[column] == bindparam("where_owner")))


async def get_order(tx: Read, order_id: UUID, *, lock: bool = False) -> OrderRow:
    """Return an order of any partner, for background work and operators. Raises OrderNotFound.

    `lock` locks its row until the transaction ends.
    """
    row = await tx.first(_LOCK if lock else _FIND, {"where_id": order_id})
    if row is None:
        raise OrderNotFound(order_id)
    return _order(row)


async def find_order_by_token(tx: Read, token_id: UUID) -> UUID | None:
    """Return the order that was placed with the token."""
    found: UUID | None = await tx.scalar(_FIND_BY_TOKEN, {"where_token": token_id})
    return found


async def find_webhook_url(tx: Read, order: OrderRow) -> str | None:
    """Return the webhookUrl that is called about the order, None if nobody is."""
    if order.is_pulled:
        return None
    url: str | None = await tx.scalar(select(stores.c.webhook_url).where(stores.c.id == order.store_id))
    return url


async def list_orders(
    tx: Read,
    caller: Caller,
    *,
    store_id: UUID | None,
    state: OrderState | None,
    since: datetime | None,
    before: UUID | None,
    limit: int,
) -> tuple[list[OrderRow], str | None]:
    """Return the orders of the caller's stores, or placed by the caller, newest first, and the `nextCursor`.

    They are at most `limit`, and fewer if they are large: a page ends after MAX_PAGE_BYTES.
    """
    query: Select[Any] = select(*_READ).where(_is_own(caller))
    if store_id is not None:
        query = query.where(orders.c.store_id == store_id)
    if state is not None:
        query = query.where(orders.c.state == state.value)
    if since is not None:
        query = query.where(orders.c.id >= first_id(since))
    if before is not None:
        query = query.where(orders.c.id < before)
    rows = await tx.all(query.order_by(orders.c.id.desc()).limit(limit + 1))
    made = map(_order, rows)
    return page_of(made, limit, lambda order: order.id, lambda order: len(order.content), most=MAX_PAGE_BYTES)


async def list_open_pulled(
    tx: Read, caller: Caller, *, store_id: UUID | None, since: datetime, limit: int
) -> tuple[list[OrderRow], bool]:
    """Return the open orders of the merchant's stores about which no store is called, and whether there are more.

    They are the newest first, at most `limit`, and fewer if they are large: a page ends after MAX_PAGE_BYTES.
    """
    query = select(*_READ).where(
        orders.c.partner_id == caller.partner_id,
        orders.c.id >= first_id(since),
        # The words of an index. SQLite takes that of all open orders, which is as good in a small network.
        orders.c.handling.is_not(None),
        orders.c.state == literal_column(f"'{OrderState.OPEN.value}'"),
    )
    if store_id is not None:
        query = query.where(orders.c.store_id == store_id)
    rows = await tx.all(query.order_by(orders.c.id.desc()).limit(limit + 1))
    page, more = page_of(
        map(_order, rows),
        limit,
        lambda order: order.id,
        lambda order: len(order.content),
        most=MAX_PAGE_BYTES,
    )
    return page, more is not None


async def is_own_order(tx: Read, caller: Caller, order_id: UUID) -> bool:
    """Return whether it is an order of the caller's stores, or placed by the caller."""
    conditions = (orders.c.id == order_id, _is_own(caller))
    return await tx.scalar(select(orders.c.id).where(*conditions)) is not None


_EVENT_URL: Final = (
    select(partners.c.event_url).where(partners.c.id == orders.c.storefront_id).scalar_subquery()
)


class ConcurrentUpdate(Exception):  # noqa: N818  # not a failure: lock the order, and see what has changed
    """The order, or where its events go, isn't any more as it was when the order was stored. Nothing was written."""


async def lock_own_orders(tx: Write, caller: Caller, order_ids: Collection[UUID]) -> dict[UUID, OrderRow]:
    """Return those of the orders that are of the caller's stores, or placed by the caller, with their rows locked.

    They are locked in the order of their ids, so that two requests for the same orders never deadlock.
    """
    query = select(*_READ).where(orders.c.id.in_(set(order_ids)), _is_own(caller))
    rows = await tx.all(query.order_by(orders.c.id).with_for_update())
    return {row.id: _order(row) for row in rows}


def update_unchanged(tx: Write, before: OrderRow, after: OrderRow, *, event_url: str | None) -> None:
    """Write the members that differ. The transaction fails with ConcurrentUpdate unless the order is as it was stored.

    Nor if its storefront has another event URL than this one, which its events go to.
    """
    statement, values = _update_of(before, after, if_unchanged=True)
    tx.require(statement, values | {"where_event_url": event_url}, otherwise=ConcurrentUpdate())


def update_order(tx: Write, before: OrderRow, after: OrderRow) -> None:
    """Write the members that differ of an order whose row is locked, with the transaction's deferred statements."""
    statement, values = _update_of(before, after, if_unchanged=False)
    tx.require(statement, values, otherwise=LookupError(f"order {before.id} isn't stored yet"))


def _update_of(
    before: OrderRow, after: OrderRow, *, if_unchanged: bool
) -> tuple[UpdateBase, dict[str, object]]:
    pairs = zip(_COLUMNS, _values_of(before), _values_of(after), strict=True)
    values: dict[str, object] = {name: new for name, old, new in pairs if new is not old}
    statement = _update(tuple(values), if_unchanged=if_unchanged)
    return statement, _to_columns(values) | {"where_id": before.id}


@cache
def _update(columns: tuple[str, ...], *, if_unchanged: bool) -> UpdateBase:
    """Return the update of these columns: there are a handful of such sets."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    if not if_unchanged:
        return prepared(update(orders).where(*_BY_ID).values(values))
    same_url = _EVENT_URL.is_not_distinct_from(bindparam("where_event_url", type_=Text))
    return prepared(update(orders).where(*_UNCHANGED, same_url).values(values))


def _is_own(caller: Caller) -> ColumnElement[bool]:
    """Return whether an order is of the caller's stores, or placed by the caller: by the agent, with an agent's key."""
    column, owner_id = _owner(caller)
    return orders.c[column] == owner_id


def _owner(caller: Caller) -> tuple[str, UUID]:
    """Return the column that says whose an order is, and its value in the caller's orders."""
    if caller.agent is not None:
        return "agent_id", caller.agent.id
    return "partner_id" if caller.surface is Surface.COMMERCE else "storefront_id", caller.partner_id


def _to_columns(values: Mapping[str, object]) -> dict[str, object]:
    """Return the members of an order as the values of their columns."""
    columns = dict(values)
    for name in _DOCUMENTS:
        if columns.get(name) is not None:
            columns[name] = as_json(columns[name]).decode()
    if isinstance(content := columns.get("content"), bytes):
        columns["content"] = compress(content)
    return columns


def decode_document(name: str, text: str | None) -> Any:
    """Return the value of a column that holds JSON."""
    return None if text is None else _DOCUMENTS[name].decode(text)


def _order(row: Row[Any]) -> OrderRow:
    return _order_of(row._asdict())


def _order_of(values: dict[str, Any]) -> OrderRow:
    values["content"] = decompress(values["content"])
    content = _content.decode(values["content"])
    for name in _DOCUMENTS:
        values[name] = decode_document(name, values[name])
    for name, kind in _ENUMS.items():
        values[name] = kind(values[name])
    if values["handling"] is not None:
        values["handling"] = OrderHandling(values["handling"])
    cart = content.cart if values["notes"] is None else with_notes(content.cart, values["notes"])
    return OrderRow(cart=cart, amounts=content.amounts, **values)


# --- submissions ----------------------------------------------------------------------------------


@redacted("body", "payment")
class SubmissionRow(Struct, frozen=True, kw_only=True):
    """The call that places an order, as its delivery holds it: `payment` is sealed.

    The previous release kept it apart: then there is no `delivery_id`, no body, and `payment` is the whole body.
    """

    delivery_id: UUID | None
    base_url: str
    body: bytes
    payment: bytes | None
    give_up_at: datetime


async def find_submission(tx: Read, order_id: UUID) -> SubmissionRow | None:
    """Return the submission; None once the store has answered.

    The URL is the store's current one: a merchant who fixes it gets the waiting orders.
    """
    row = await tx.first(_FIND_SUBMISSION, {"where_order": order_id})
    if row is None:
        return await _find_earlier_submission(tx, order_id)
    return SubmissionRow(
        delivery_id=row.id,
        base_url=row.webhook_url or base_of(row.url, SUFFIXES[EventType.ORDER_PLACE]),
        body=decompress(row.body, base=row.content),
        payment=row.payment,
        give_up_at=row.give_up_at,
    )


async def _find_earlier_submission(tx: Read, order_id: UUID) -> SubmissionRow | None:
    # Of orders that the previous release has stored. The next release drops the table.
    row = await tx.first(
        select(
            func.coalesce(stores.c.webhook_url, submissions.c.url).label("url"),
            submissions.c.body,
            submissions.c.give_up_at,
        )
        .join(orders, orders.c.id == submissions.c.order_id)
        .join(stores, stores.c.id == orders.c.store_id)
        .where(submissions.c.order_id == order_id)
    )
    if row is None:
        return None
    return SubmissionRow(
        delivery_id=None, base_url=row.url, body=b"", payment=row.body, give_up_at=row.give_up_at
    )


class UnansweredOrders(NamedTuple):
    """How many orders wait for their store's answer, and when the oldest was placed."""

    orders: int
    oldest: datetime | None


async def count_unanswered(tx: Read) -> UnansweredOrders:
    """Return how many orders wait for their store's answer."""
    row = await tx.first(
        select(func.count(), func.min(deliveries.c.created_at, type_=Instant)).where(
            deliveries.c.give_up_at.is_not(None)
        )
    )
    return UnansweredOrders(0, None) if row is None else UnansweredOrders(row[0], row[1])


class UnattendedOrder(NamedTuple):
    """An order that waits for its store's answer, and that no job submits again."""

    id: UUID
    store_id: UUID
    partner_id: UUID


_ITS_JOB: Final = (
    select(jobs.c.id)
    .where(
        jobs.c.kind.in_(bindparam("kinds", expanding=True)),
        # A job's key is the id in hexadecimal: as SQLite stores it, and PostgreSQL without the hyphens.
        jobs.c.dedup == func.replace(cast(deliveries.c.order_id, Text), "-", ""),
        # The condition of the partial index that finds it.
        text("dedup IS NOT NULL AND jobs.state <> 'dead'"),
    )
    # Looked up row by row: PostgreSQL may make a join of NOT EXISTS, and read all jobs for it.
    .limit(1)
    .scalar_subquery()
)
# Not prepared: thousands of orders may wait.
_UNATTENDED: Final = (
    select(deliveries.c.order_id, deliveries.c.store_id, deliveries.c.partner_id)
    .where(
        deliveries.c.give_up_at.is_not(None),
        not_(deliveries.c.created_at.between(bindparam("before"), bindparam("after"))),
        _ITS_JOB.is_(None),
    )
    .order_by(deliveries.c.created_at)
    .limit(bindparam("limit", type_=Integer))
)


async def list_unattended(
    tx: Read, *, before: datetime, after: datetime, kinds: Sequence[str], limit: int
) -> list[UnattendedOrder]:
    """Return waiting orders without a job of these kinds that were placed before `before` or after `after`.

    It reads the row of every order that waits for its store, and looks for its job in an index. Submitting them again
    costs a hundred times as much.
    """
    given = {"before": before, "after": after, "kinds": kinds, "limit": limit}
    return [UnattendedOrder(*row) for row in await tx.all(_UNATTENDED, given)]


async def delete_earlier_submission(tx: Write, order_id: UUID) -> None:
    """Delete the sealed body that the previous release stored, and the card token with it."""
    tx.defer(_DELETE_EARLIER_SUBMISSION, {"where_order": order_id})


# --- history --------------------------------------------------------------------------------------


async def insert_entry(
    tx: Write, order_id: UUID, number: int, *, at: datetime, actor: str, type_: str, detail: EntryDetail
) -> None:
    """Add to an order's history."""
    row = {"order_id": order_id, "number": number, "at": at, "actor": actor, "type": type_}
    tx.defer(_INSERT_ENTRY, row | {"detail": as_json(detail).decode()})


_entries: Final = msgspec.json.Decoder(tuple[tuple[int, Actor, str, str], ...])


def _read_history(text: str) -> Sequence[HistoryEntry]:
    """Return the entries that `_HISTORY` found."""
    return [
        HistoryEntry(from_ms(at), actor, kind, detail) for at, actor, kind, detail in _entries.decode(text)
    ]


_LAST_ACTOR: Final = prepared(
    select(history.c.actor)
    .where(history.c.order_id == bindparam("where_order"), history.c.type == bindparam("where_type"))
    .order_by(history.c.number.desc())
    .limit(literal_column("1"))
)


async def find_last_actor(tx: Read, order_id: UUID, type_: str) -> Actor | None:
    """Return who caused the last entry of the type in an order's history, None if there is none."""
    found: str | None = await tx.scalar(_LAST_ACTOR, {"where_order": order_id, "where_type": type_})
    return None if found is None else Actor(found)


async def list_history(tx: Read, order_id: UUID, *, limit: int) -> list[HistoryEntry]:
    """Return an order's history, oldest first."""
    rows = await tx.all(_LIST_HISTORY, {"where_order": order_id, "most": limit})
    return [HistoryEntry(row.at, Actor(row.actor), row.type, row.detail) for row in rows]
