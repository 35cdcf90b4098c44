"""The SQL of refused requests. Without a caller they are for operators, and masked."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Row, Select, delete, func, select

from mercato.features.partners.model import Caller, Surface
from mercato.features.requests.tables import refused_requests
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared_insert
from mercato_contract.clock import first_id
from mercato_contract.member_hints import UNKNOWN_MEMBER
from mercato_contract.problems import OTHER, PROBLEMS, OrderError
from mercato_contract.wire import as_json

_INSERT: Final = prepared_insert(refused_requests)

MAX_SEARCHED: Final = 1_000
"""Refused requests of a partner among which those with some of its keys are looked for: no index leads to these."""

Errors = tuple[OrderError, ...]

TITLES: Final = {kind.code: kind.title for kind in PROBLEMS.values()}
_OWN_WORDS: Final = frozenset(TITLES.values())


class Refusal(Struct, frozen=True, kw_only=True):
    """A refused request as it is stored. Without a valid key it has no partner."""

    id: UUID
    at: datetime
    request_id: str
    partner_id: UUID | None
    key_id: UUID | None
    surface: str | None
    operation: str | None
    method: str
    path: str
    status: int
    error_code: str
    errors: Errors
    store_id: UUID | None
    milliseconds: int
    detail: str | None = None


class Filter(Struct, frozen=True, kw_only=True):
    """Which refused requests to list. `caller` limits the list to the requests of its partner and surface.

    They are masked without a caller, and with `masked` for a partner's sessions that see no customers.
    """

    caller: Caller | None = None
    partner_id: UUID | None = None
    error_code: str | None = None
    since: datetime | None = None
    store_id: UUID | None = None
    masked: bool = False


def insert(tx: Write, refusal: Refusal) -> None:
    row = msgspec.structs.asdict(refusal)
    tx.defer(_INSERT, row | {"errors": as_json(refusal.errors).decode()})


async def list_refused(
    tx: Read, wanted: Filter, *, before: UUID | None = None, limit: int
) -> Sequence[Refusal]:
    """Return refused requests, newest first: of every partner if the filter names none."""
    c, values = refused_requests.c, _values(wanted)
    sides = [values]
    if c.partner_id in values and c.surface not in values:
        # The indexes of a partner's requests begin with partner and surface; those by the console have none.
        partner = {c.partner_id: values.pop(c.partner_id)}
        sides = [partner | {c.surface: surface} | values for surface in (None, *Surface)]
    rows: list[Row[Any]] = []
    for side in sides:
        found = _newest(tx, select(refused_requests), side, since=wanted.since, limit=limit)
        rows += await tx.all(found if before is None else found.where(c.id < before))
    return [_refusal(row, wanted) for row in sorted(rows, key=lambda row: row.id, reverse=True)[:limit]]


async def list_refused_of_keys(
    tx: Read, wanted: Filter, key_ids: Collection[UUID], *, limit: int
) -> Sequence[Refusal]:
    """Return those of the newest `MAX_SEARCHED` refused requests that were made with the keys, newest first."""
    every = _newest(tx, select(refused_requests), _values(wanted), since=wanted.since, limit=MAX_SEARCHED)
    newest = every.subquery()
    found = select(newest).where(newest.c.key_id.in_(key_ids)).order_by(newest.c.id.desc()).limit(limit)
    return [_refusal(row, wanted) for row in await tx.all(found)]


async def count_by_code(tx: Read, wanted: Filter, *, limit: int) -> Sequence[tuple[str, int]]:
    """Return how many of the newest `limit` refused requests had which code, the most frequent first."""
    codes = select(refused_requests.c.error_code)
    newest = _newest(tx, codes, _values(wanted), since=wanted.since, limit=limit).subquery()
    count = func.count()
    found = select(newest.c.error_code, count).group_by(newest.c.error_code)
    rows = await tx.all(found.order_by(count.desc(), newest.c.error_code))
    return [(code, number) for code, number in rows]


def _newest(
    tx: Read, query: Select[Any], values: Mapping[Column[Any], Any], *, since: datetime | None, limit: int
) -> Select[Any]:
    """Return the query of the newest requests with the values.

    PostgreSQL reads the whole table in the order of the ids if it takes such requests for more frequent than they are.
    A range of one value instead of the last value puts the columns of an index into the order, which only it has.
    """
    c = refused_requests.c
    indexed = [column for column in values if column is not c.store_id or c.error_code not in values]
    if tx.dialect == "postgresql":
        query = query.order_by(*(column.desc() for column in indexed))
    else:
        indexed = []
    for column, value in values.items():
        is_range = value is not None and column in indexed[-1:]
        query = query.where(column.between(value, value) if is_range else column == value)
    if since is not None:
        query = query.where(c.id >= first_id(since))
    return query.order_by(c.id.desc()).limit(limit)


async def find_refused(tx: Read, wanted: Filter, refusal_id: UUID) -> Refusal | None:
    """Return the refused request of the id if the filter includes it."""
    conditions = (column == value for column, value in _values(wanted).items())
    row = await tx.first(select(refused_requests).where(refused_requests.c.id == refusal_id, *conditions))
    return None if row is None else _refusal(row, wanted)


def _values(wanted: Filter) -> dict[Column[Any], Any]:
    """Return the columns that have one value each, in the order of the indexes."""
    c, caller = refused_requests.c, wanted.caller
    partner_id = wanted.partner_id if caller is None else caller.partner_id
    equal = {
        c.partner_id: partner_id,
        c.surface: None if caller is None else caller.surface.value,
        c.error_code: wanted.error_code,
        c.store_id: wanted.store_id,
    }
    return {column: value for column, value in equal.items() if value is not None}


async def prune(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` refused requests that are older; return how many."""
    return await _delete(tx, refused_requests.c.id < first_id(before), limit=limit)


async def delete_of_partner(tx: Write, partner_id: UUID, *, limit: int) -> int:
    """Delete at most `limit` refused requests of the partner; return how many."""
    return await _delete(tx, refused_requests.c.partner_id == partner_id, limit=limit)


async def _delete(tx: Write, condition: ColumnElement[bool], *, limit: int) -> int:
    ids = select(refused_requests.c.id).where(condition).limit(limit)
    return (await tx.execute(delete(refused_requests).where(refused_requests.c.id.in_(ids)))).rowcount


def _refusal(row: Any, wanted: Filter) -> Refusal:
    refusal = Refusal(**row._asdict() | {"errors": msgspec.json.decode(row.errors, type=Errors)})
    return _masked(refusal) if wanted.caller is None or wanted.masked else refusal


def _masked(refusal: Refusal) -> Refusal:
    """Return the refusal for readers who may not see customers: a store's texts may repeat their data."""
    return msgspec.structs.replace(
        refusal,
        error_code=public_code(refusal.error_code),
        errors=tuple(
            msgspec.structs.replace(
                error,
                code=public_code(error.code),
                # Of a refusal that is kept in our words, the place is the store's.
                pointer=None if error.message in _OWN_WORDS else error.pointer,
            )
            for error in refusal.errors
        ),
    )


def public_code(code: str) -> str:
    """Return the code, or OTHER if a store made it up: it may say anything."""
    return code if code in TITLES or code == UNKNOWN_MEMBER else OTHER
