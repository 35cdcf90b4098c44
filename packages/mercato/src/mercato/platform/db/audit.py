"""The audit trail: who changed what, written in the transaction of the change.

The actor comes from `telemetry.context`, the subject from the caller.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, delete, select

from mercato.platform.db import tables
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared_insert
from mercato.platform.telemetry.context import SERVICE, WorkContext, current_context
from mercato_contract import clock
from mercato_contract.decoding.decode import page_of
from mercato_contract.pages import cursor_of
from mercato_contract.wire import as_json, uuid_text

_INSERT: Final = prepared_insert(tables.audit)
_NO_CONTEXT: Final = WorkContext(action=SERVICE)

MAX_SEARCHED: Final = 20_000
"""Entries that one page of a search looks at, one after the other."""

MAX_SEARCHED_BY_INDEX: Final = 2_000
"""The same limit for a partner's or an action's entries, each of which is looked up."""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change. `detail` is a small object of names and numbers."""

    id: UUID
    at: datetime
    actor: str
    surface: str | None
    partner_id: UUID | None
    action: str
    subject_type: str
    subject_id: str | None
    request_id: str | None
    detail: dict[str, Any]


async def audit(
    tx: Write,
    subject_type: str,
    subject_id: UUID | None = None,
    *,
    partner_id: UUID | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Record that this transaction changes the subject, on behalf of this task's actor.

    `partner_id` is the partner concerned, if that isn't the caller. `detail` says what changes: names and numbers,
    never secrets or customers' data.
    """
    context = current_context() or _NO_CONTEXT
    row = {
        "id": clock.new_id(),
        "at": clock.now(),
        "actor": context.actor,
        "surface": context.surface,
        "partner_id": partner_id or context.partner_id,
        "action": context.action,
        "subject_type": subject_type,
        "subject_id": None if subject_id is None else uuid_text(subject_id),
        "request_id": context.request_id,
        "detail": "{}" if detail is None else as_json(detail).decode(),
    }
    tx.defer(_INSERT, row)


async def list_entries(
    tx: Read,
    *,
    partner_id: UUID | None = None,
    action: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    before: UUID | None = None,
    not_before: UUID | None = None,
    limit: int,
) -> Sequence[AuditEntry]:
    """Return entries, newest first; `since` is the oldest instant, `before` the id that they precede."""
    c = tables.audit.c
    # Within a search the partner's index leads, and no other may: it would be read for far more than the search.
    by_action: ColumnElement[str] = (
        c.action if not_before is None or partner_id is None else c.action.concat("")
    )
    equal = ((c.partner_id, partner_id), (by_action, action), (c.actor, actor))
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal if value is not None]
    if since is not None:
        conditions.append(c.id >= clock.first_id(since))
    if before is not None:
        conditions.append(c.id < before)
    if not_before is not None:
        conditions.append(c.id >= not_before)
    found = select(tables.audit).where(*conditions).order_by(c.id.desc()).limit(limit)
    return [_entry(row) for row in await tx.all(found)]


async def search_entries(
    tx: Read,
    *,
    partner_id: UUID | None = None,
    action: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: UUID | None = None,
    limit: int,
) -> tuple[Sequence[AuditEntry], str | None]:
    """Return a page of entries, newest first, and the cursor of the next one.

    No index leads to an actor's entries, so only a bounded number is read: a page can then have fewer entries, or none,
    and the next page continues from there.
    """
    last = None
    if until is not None:
        end = clock.first_id(until)
        before = end if before is None else min(before, end)
    if actor is not None or (partner_id is not None and action is not None):
        scope = {"partner_id": partner_id} if partner_id is not None else {"action": action}
        last = await _find_last_searched(tx, before, **scope)
    entries = await list_entries(
        tx,
        partner_id=partner_id,
        action=action,
        actor=actor,
        since=since,
        before=before,
        not_before=last,
        limit=limit + 1,
    )
    page, cursor = page_of(entries, limit, lambda entry: entry.id)
    return page, cursor_of(last) if cursor is None and last is not None else cursor


async def _find_last_searched(tx: Read, before: UUID | None, **scope: Any) -> UUID | None:
    """Return the last of the entries of the partner, of the action or of all that a page looks at."""
    c = tables.audit.c
    conditions = [c[name] == value for name, value in scope.items() if value is not None]
    if before is not None:
        conditions.append(c.id < before)
    most = MAX_SEARCHED_BY_INDEX if any(scope.values()) else MAX_SEARCHED
    ids = select(c.id).where(*conditions).order_by(c.id.desc()).offset(most - 1).limit(1)
    found: UUID | None = await tx.scalar(ids)
    return found


async def prune(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` entries that are older; return how many."""
    batch = (
        select(tables.audit.c.id)
        .where(tables.audit.c.id < clock.first_id(before))
        .order_by(tables.audit.c.id)
        .limit(limit)
    )
    return (await tx.execute(delete(tables.audit).where(tables.audit.c.id.in_(batch)))).rowcount


def _entry(row: Any) -> AuditEntry:
    members = row._asdict()
    return AuditEntry(**members | {"detail": msgspec.json.decode(row.detail)})
