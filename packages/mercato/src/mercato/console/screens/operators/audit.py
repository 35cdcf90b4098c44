"""Audit: who changed what."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import Meta

from mercato.console.actors import actor_of, name_actors
from mercato.console.filters import partner_of, read_filters
from mercato.console.forms import read_query
from mercato.console.screen import OPERATORS, Page, Screens, Visit
from mercato.features.partners.queries import find_names
from mercato.platform.db.audit import (
    MAX_SEARCHED,
    MAX_SEARCHED_BY_INDEX,
    AuditEntry,
    list_entries,
    search_entries,
)
from mercato.platform.wire.decode import read_cursor
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.wire import Instant, Wire, parse_instant

screens: Final = Screens(OPERATORS)

_PATHS: Final = {
    "order": "orders",
    "store": "stores",
    "partner": "partners",
    "delivery": "deliveries",
}
"""Where a subject's page is, by its type."""

Text = Annotated[str, Meta(max_length=200)]


class AuditQuery(Wire):
    """The filters of the list, besides the partner."""

    actor: Text | None = None
    action: Text | None = None
    since: Instant | None = None
    until: Instant | None = None
    cursor: Cursor | None = None


@screens.get("audit")
async def list_audit(visit: Visit) -> Page:
    filters = read_filters(AuditQuery, read_query(visit.head.query))
    query = filters.query
    page: Sequence[AuditEntry] = ()
    cursor = None
    async with visit.app.db.read() as tx:
        partner_id = await partner_of(tx, visit, filters)
        if not filters.faults:
            page, cursor = await search_entries(
                tx,
                partner_id=partner_id,
                action=query.action,
                actor=None if query.actor is None else actor_of(query.actor),
                since=None if query.since is None else parse_instant(query.since),
                until=None if query.until is None else parse_instant(query.until),
                before=read_cursor(query.cursor),
                limit=PAGE,
            )
        if query.action is not None and not await list_entries(tx, action=query.action, limit=1):
            filters.doubts["action"] = "Nothing was done under this name."
        actors = await name_actors(tx, {one.actor for one in page})
        names = await find_names(tx, {one.partner_id for one in page if one.partner_id is not None})
    if query.actor is not None and not (partner_id or query.action or query.since or query.until):
        filters.doubts["actor"] = "Nobody of this name has done anything."
    filters.listed(page, cursor)
    values = {
        "entries": [(one, _words(one.detail)) for one in page],
        "next_cursor": cursor,
        "search": filters,
        "names": names,
        "actors": actors,
        "paths": _PATHS,
        "most": MAX_SEARCHED_BY_INDEX if partner_id or query.action else MAX_SEARCHED,
    }
    return Page("audit.html", "Audit", values)


def _words(detail: dict[str, Any]) -> str:
    """Return the detail in words."""
    parts = []
    for name, value in detail.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        parts.append(f"{name}: {text}")
    return "; ".join(parts)
