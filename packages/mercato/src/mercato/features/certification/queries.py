"""The reports that a partner has uploaded: a row for each, the newest of them."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import Row, delete, insert, select

from mercato.features.certification.tables import certification_reports as reports
from mercato.platform.db.engine import Read, Write
from mercato_contract.certification import Counts, Report
from mercato_contract.wire import as_json

MAX_KEPT: Final = 20
"""Reports kept of a partner; another one replaces the oldest."""

_report: Final = msgspec.json.Decoder(Report)
_LISTED: Final = tuple(column for column in reports.c if column.name != "report")


class UploadedReport(Struct, frozen=True, kw_only=True):
    """A report in a list. `trusted` is whether this installation signed it."""

    id: UUID
    kind: str
    target: str
    counts: Counts
    fingerprint: str
    trusted: bool
    created_at: datetime


async def add_report(
    tx: Write,
    partner_id: UUID,
    report: Report,
    *,
    new_id: UUID,
    fingerprint: str,
    trusted: bool,
    now: datetime,
) -> int:
    """Store a verified report, and delete the oldest beyond MAX_KEPT. Return the bytes stored."""
    text = as_json(report).decode()
    await tx.execute(
        insert(reports).values(
            id=new_id,
            partner_id=partner_id,
            kind=report.kind,
            target=report.target,
            **msgspec.structs.asdict(report.counts),
            fingerprint=fingerprint,
            trusted=trusted,
            report=text,
            created_at=now,
        )
    )
    mine = reports.c.partner_id == partner_id
    kept = select(reports.c.id).where(mine).order_by(reports.c.id.desc()).limit(MAX_KEPT)
    await tx.execute(delete(reports).where(mine, reports.c.id.not_in(kept)))
    return len(text.encode())


async def list_reports(tx: Read, partner_id: UUID) -> list[UploadedReport]:
    """Return the partner's reports, newest first."""
    mine = select(*_LISTED).where(reports.c.partner_id == partner_id)
    rows = await tx.all(mine.order_by(reports.c.id.desc()).limit(MAX_KEPT))
    return [_uploaded(row) for row in rows]


async def find_report(tx: Read, partner_id: UUID, report_id: UUID) -> tuple[UploadedReport, Report] | None:
    """Return the partner's report of this id."""
    row = await tx.first(select(reports).where(reports.c.id == report_id, reports.c.partner_id == partner_id))
    return None if row is None else (_uploaded(row), _report.decode(row.report))


async def delete_report(tx: Write, partner_id: UUID, report_id: UUID) -> bool:
    """Delete the partner's report; return whether there was one."""
    gone = await tx.execute(
        delete(reports).where(reports.c.id == report_id, reports.c.partner_id == partner_id)
    )
    return gone.rowcount == 1


async def delete_of_partner(tx: Write, partner_id: UUID) -> None:
    """Delete the partner's reports."""
    await tx.execute(delete(reports).where(reports.c.partner_id == partner_id))


def _uploaded(row: Row[Any]) -> UploadedReport:
    return UploadedReport(
        id=row.id,
        kind=row.kind,
        target=row.target,
        counts=Counts(passed=row.passed, failed=row.failed, skipped=row.skipped),
        fingerprint=row.fingerprint,
        trusted=row.trusted,
        created_at=row.created_at,
    )
