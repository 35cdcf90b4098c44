"""The SQL of refused requests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, delete, func, select

from mercato.domain.partners.model import Caller, Surface
from mercato.kernel.clock import first_id
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.db.statements import prepared_insert
from mercato.kernel.db.tables import refused_requests
from mercato.kernel.errors import OrderError
from mercato.kernel.wire import as_json

_INSERT: Final = prepared_insert(refused_requests)

Errors = tuple[OrderError, ...]


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


class Filter(Struct, frozen=True, kw_only=True):
    """Which refused requests to list. `caller` limits the list to the requests of its partner and surface."""

    caller: Caller | None = None
    partner_id: UUID | None = None
    error_code: str | None = None
    since: datetime | None = None
    store_id: UUID | None = None


def insert(tx: Write, refusal: Refusal) -> None:
    row = msgspec.structs.asdict(refusal)
    tx.defer(_INSERT, row | {"errors": as_json(refusal.errors).decode()})


async def list_refused(
    tx: Read, wanted: Filter, *, before: UUID | None = None, limit: int
) -> Sequence[Refusal]:
    """Return refused requests, newest first: of every partner if the filter names none."""
    found = (
        select(refused_requests).where(*_conditions(wanted)).order_by(refused_requests.c.id.desc())
    ).limit(limit)
    if before is not None:
        found = found.where(refused_requests.c.id < before)
    if wanted.partner_id is None or wanted.caller is not None:
        return [_refusal(row) for row in await tx.all(found)]
    # The indexes of a partner's requests begin with partner and surface; those by the console have none.
    side = refused_requests.c.surface
    sides = (side.is_(None), *(side == surface.value for surface in Surface))
    rows = [row for condition in sides for row in await tx.all(found.where(condition))]
    return [_refusal(row) for row in sorted(rows, key=lambda row: row.id, reverse=True)[:limit]]


async def count_by_code(tx: Read, wanted: Filter, *, limit: int) -> Sequence[tuple[str, int]]:
    """Return how many of the newest `limit` refused requests had which code, the most frequent first."""
    c = refused_requests.c
    newest = select(c.error_code).where(*_conditions(wanted)).order_by(c.id.desc()).limit(limit).subquery()
    count = func.count()
    found = select(newest.c.error_code, count).group_by(newest.c.error_code)
    rows = await tx.all(found.order_by(count.desc(), newest.c.error_code))
    return [(code, number) for code, number in rows]


async def find_refused(tx: Read, wanted: Filter, refusal_id: UUID) -> Refusal | None:
    """Return the refused request of the id if the filter includes it."""
    conditions = (refused_requests.c.id == refusal_id, *_conditions(wanted))
    row = await tx.first(select(refused_requests).where(*conditions))
    return None if row is None else _refusal(row)


def _conditions(wanted: Filter) -> list[ColumnElement[bool]]:
    c, caller = refused_requests.c, wanted.caller
    partner_id = wanted.partner_id if caller is None else caller.partner_id
    equal = {
        c.partner_id: partner_id,
        c.surface: None if caller is None else caller.surface.value,
        c.error_code: wanted.error_code,
        c.store_id: wanted.store_id,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    return conditions if wanted.since is None else [*conditions, c.id >= first_id(wanted.since)]


async def prune(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` refused requests that are older; return how many."""
    return await _delete(tx, refused_requests.c.id < first_id(before), limit=limit)


async def delete_of_partner(tx: Write, partner_id: UUID, *, limit: int) -> int:
    """Delete at most `limit` refused requests of the partner; return how many."""
    return await _delete(tx, refused_requests.c.partner_id == partner_id, limit=limit)


async def _delete(tx: Write, condition: ColumnElement[bool], *, limit: int) -> int:
    ids = select(refused_requests.c.id).where(condition).limit(limit)
    return (await tx.execute(delete(refused_requests).where(refused_requests.c.id.in_(ids)))).rowcount


def _refusal(row: Any) -> Refusal:
    return Refusal(**row._asdict() | {"errors": msgspec.json.decode(row.errors, type=Errors)})
