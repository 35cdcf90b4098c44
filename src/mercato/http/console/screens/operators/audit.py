"""Audit: who changed what."""

from typing import Annotated, Any, Final

from msgspec import Meta

from mercato.domain.partners.queries import find_names
from mercato.http.console.screen import OPERATORS, Page, Screens, Visit
from mercato.kernel.db.audit import MAX_SEARCHED, MAX_SEARCHED_BY_INDEX, search_entries
from mercato.kernel.wire import Instant, Wire, parse_instant
from mercato.kernel.wire.cursor import PAGE, Cursor, read_cursor

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
    """The filters of the list. `partner` is a name or an id."""

    actor: Text | None = None
    action: Text | None = None
    partner: Text | None = None
    since: Instant | None = None
    until: Instant | None = None
    cursor: Cursor | None = None


@screens.get("audit")
async def list_audit(visit: Visit) -> Page:
    query = visit.filters(AuditQuery)
    async with visit.app.db.read() as tx:
        page, cursor = await search_entries(
            tx,
            partner_id=await visit.partner_id(tx, query.partner),
            action=query.action,
            actor=query.actor,
            since=None if query.since is None else parse_instant(query.since),
            until=None if query.until is None else parse_instant(query.until),
            before=read_cursor(query.cursor),
            limit=PAGE,
        )
        names = await find_names(tx, {one.partner_id for one in page if one.partner_id is not None})
    values = {
        "entries": [(one, _words(one.detail)) for one in page],
        "next_cursor": cursor,
        "query": query,
        "names": names,
        "paths": _PATHS,
        "most": MAX_SEARCHED_BY_INDEX if query.partner or query.action else MAX_SEARCHED,
    }
    return Page("audit.html", "Audit", values)


def _words(detail: dict[str, Any]) -> str:
    """Return the detail in words."""
    parts = []
    for name, value in detail.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        parts.append(f"{name}: {text}")
    return "; ".join(parts)
