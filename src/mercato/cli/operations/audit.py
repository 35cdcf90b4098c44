"""`mercato audit`: the audit trail."""

from functools import partial
from typing import Any, Final
from uuid import UUID

from mercato.cli.options import PAGE, DataDir, Duration, Json, Limit, OnlyPartner
from mercato.cli.output import Column, format_detail, print_objects, print_page, view
from mercato.cli.session import opened
from mercato.kernel import clock
from mercato.kernel.db.audit import Entry, list_entries
from mercato.kernel.wire import Instant, Wire


class Change(Wire):
    """One entry."""

    id: UUID
    at: Instant | None
    actor: str
    surface: str | None
    partner_id: UUID | None
    action: str
    subject_type: str
    subject_id: str | None
    request_id: str | None
    detail: dict[str, Any]


def _subject(entry: Entry) -> str:
    return entry.subject_type if entry.subject_id is None else f"{entry.subject_type} {entry.subject_id}"


COLUMNS: Final[dict[str, Column]] = {
    "At": "at",
    "Who": "actor",
    "Did": "action",
    "To": _subject,
    "Detail": lambda entry: format_detail(entry.detail),
    "Request": "request_id",
}


async def audit(
    *,
    partner: OnlyPartner = None,
    action: str | None = None,
    since: Duration | None = None,
    before: UUID | None = None,
    limit: Limit = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List who changed what, the newest first.

    Args:
        action: Only this operation or command, such as setStoreStatus or 'key revoke'.
        since: Only entries of the last 2d, 12h, …
        before: Only entries before this one.
        limit: How many entries to list (50; at most 1000).

    """
    async with opened(data_dir) as session, session.db.read() as tx:
        found = await list_entries(
            tx,
            partner_id=await session.find_partner_id(tx, partner),
            action=action,
            since=None if since is None else clock.now() - since,
            before=before,
            limit=limit + 1,
        )
    print_page(
        "entries",
        found,
        limit=limit,
        as_json=json,
        entry=partial(view, Change),
        show=partial(print_objects, COLUMNS, empty="Nothing was changed."),
    )
