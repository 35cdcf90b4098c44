"""`mercato audit`: who changed what."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from cyclopts import Parameter

from mercato import clock
from mercato.cli.console import note, print_json, print_table
from mercato.cli.options import DataDir, Duration, Json, check_limit
from mercato.cli.session import opened
from mercato.db.audit import Entry, list_entries
from mercato.partners import accounts
from mercato.wire import Instant, Wire, instant

PAGE: Final = 50
MOST: Final = 1000


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


class Changes(Wire):
    """A page of entries, the newest first; `nextBefore` is where the next one begins."""

    entries: list[Change]
    next_before: UUID | None


async def audit(
    *,
    partner: Annotated[str | None, Parameter(help="Only this partner's: its id or name.")] = None,
    action: Annotated[
        str | None, Parameter(help="Only this operation or command, as setStoreStatus or 'key revoke'.")
    ] = None,
    since: Annotated[Duration | None, Parameter(help="Only of the last 2d, 12h, …")] = None,
    before: Annotated[UUID | None, Parameter(help="Only what came before this entry.")] = None,
    limit: Annotated[int, Parameter(help=f"Entries at most ({PAGE}; no more than {MOST}).")] = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List who changed what, the newest first."""
    check_limit(limit, MOST)
    async with opened(data_dir) as session, session.db.read() as tx:
        owner = None if partner is None else (await accounts.get_partner_named(tx, partner)).id
        found = await list_entries(
            tx,
            partner_id=owner,
            action=action,
            since=_since(since),
            before=before,
            limit=limit + 1,
        )
    page, more = found[:limit], found[limit:]
    if json:
        following = page[-1].id if more else None
        print_json(Changes(entries=[_change(one) for one in page], next_before=following))
        return
    rows = [
        (one.at, one.actor, one.action, _subject(one), _shown(one.detail), one.request_id) for one in page
    ]
    columns = ("At", "Who", "Did", "To", "Detail", "Request")
    print_table(columns, rows, empty="Nothing was changed.")
    if more:
        note(f"There is more: mercato audit --before {page[-1].id}")


def _since(span: timedelta | None) -> datetime | None:
    return None if span is None else clock.now() - span


def _subject(one: Entry) -> str:
    return one.subject_type if one.subject_id is None else f"{one.subject_type} {one.subject_id}"


def _shown(detail: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in detail.items()
    )


def _change(one: Entry) -> Change:
    return Change(
        id=one.id,
        at=instant(one.at),
        actor=one.actor,
        surface=one.surface,
        partner_id=one.partner_id,
        action=one.action,
        subject_type=one.subject_type,
        subject_id=one.subject_id,
        request_id=one.request_id,
        detail=one.detail,
    )
