"""The audit trail: who changed what, written in the transaction of the change.

The actor comes from `telemetry.context`, the subject from the caller.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import delete, select

from mercato.kernel import clock
from mercato.kernel.db import tables
from mercato.kernel.db.engine import Read, Write
from mercato.kernel.db.statements import prepared_insert
from mercato.kernel.telemetry.context import SERVICE, WorkContext, current_context

_INSERT: Final = prepared_insert(tables.audit)
_NO_CONTEXT: Final = WorkContext(action=SERVICE)


class Entry(Struct, frozen=True, kw_only=True):
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
        "subject_id": None if subject_id is None else str(subject_id),
        "request_id": context.request_id,
        "detail": "{}" if detail is None else msgspec.json.encode(detail).decode(),
    }
    tx.defer(_INSERT, row)


async def list_entries(
    tx: Read,
    *,
    partner_id: UUID | None = None,
    action: str | None = None,
    since: datetime | None = None,
    before: UUID | None = None,
    limit: int,
) -> Sequence[Entry]:
    """Return entries, newest first; `since` is the oldest instant, `before` the id that they precede."""
    found = select(tables.audit).order_by(tables.audit.c.id.desc()).limit(limit)
    if partner_id is not None:
        found = found.where(tables.audit.c.partner_id == partner_id)
    if action is not None:
        found = found.where(tables.audit.c.action == action)
    if since is not None:
        found = found.where(tables.audit.c.id >= clock.first_id(since))
    if before is not None:
        found = found.where(tables.audit.c.id < before)
    return [_entry(row) for row in await tx.all(found)]


async def prune(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete at most `limit` entries that are older; return how many."""
    batch = (
        select(tables.audit.c.id)
        .where(tables.audit.c.id < clock.first_id(before))
        .order_by(tables.audit.c.id)
        .limit(limit)
    )
    return (await tx.execute(delete(tables.audit).where(tables.audit.c.id.in_(batch)))).rowcount


def _entry(row: Any) -> Entry:
    members = row._asdict()
    return Entry(**members | {"detail": msgspec.json.decode(row.detail)})
