"""Refused requests, each with its faults and where to read what helps."""

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato.console.filters import Filters, before_of, partner_of, read_filters, store_of
from mercato.console.screen import EVERYBODY, Page, Screens, Visit
from mercato.features.partners.model import Caller, Surface
from mercato.features.partners.queries import find_key, find_names
from mercato.features.requests.queries import TITLES, Filter, Refusal, find_refused, list_refused
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.engine import Read
from mercato.platform.errors import NotFound
from mercato_contract.decoding.decode import page_of
from mercato_contract.member_hints import UNKNOWN_MEMBER
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.wire import Instant, Wire, parse_instant, parse_uuid, validator

screens: Final = Screens(EVERYBODY)

_CODES: Final = TITLES | {UNKNOWN_MEMBER: "Accepted, but some members of the body are unknown"}


def _code_fault(text: str) -> str | None:
    return None if text.upper() in _CODES else "No code has this name."


class RequestsQuery(Wire):
    """The filters of the list, besides the store and, for operators, the partner."""

    side: Surface | None = None
    error_code: Annotated[str, Meta(extra=validator(_code_fault))] | None = None
    since: Instant | None = None
    until: Instant | None = None
    cursor: Cursor | None = None


@screens.get("refused-requests")
async def list_requests(visit: Visit) -> Page:
    filters = read_filters(visit, RequestsQuery)
    before = before_of(filters.query.cursor, filters.query.until)
    async with visit.app.db.read() as tx:
        wanted = await _filter(tx, visit, filters)
        rows = [] if filters.faults else await list_refused(tx, wanted, before=before, limit=PAGE + 1)
        page, cursor = page_of(rows, PAGE, lambda row: row.id)
        partner_ids = {row.partner_id for row in page if row.partner_id is not None}
        names = await find_names(tx, partner_ids) if visit.is_operator else {}
    filters.listed(page)
    values = {"requests": page, "next_cursor": cursor, "search": filters, "names": names, "codes": _CODES}
    return Page("requests.html", "Refused requests", values)


@screens.get("refused-requests/{request}")
async def show_request(visit: Visit) -> Page:
    async with visit.app.db.read() as tx:
        found = await _find(tx, visit)
        if found is None:
            raise NotFound("No refused request has this id. Refused requests are deleted after 7 days.")
        key = None if found.key_id is None else await find_key(tx, found.key_id)
        names = await find_names(tx, {found.partner_id}) if found.partner_id and visit.is_operator else {}
    values = {
        "request": found,
        "meaning": _CODES.get(found.error_code),
        "codes": TITLES,
        "key": key,
        "names": names,
        "order_id": _order_id(found.path),
    }
    return Page("request.html", f"Request {found.request_id}", values)


def _order_id(path: str) -> UUID | None:
    """Return the order that a path names."""
    _, orders, rest = path.partition("/orders/")
    return parse_uuid(rest.partition("/")[0]) if orders else None


async def _filter(tx: Read, visit: Visit, filters: Filters[RequestsQuery]) -> Filter:
    """Return which requests: a partner's are its own, of one side."""
    query = filters.query
    return Filter(
        caller=None if visit.is_operator else visit.caller_of(query.side),
        partner_id=await partner_of(tx, visit, filters) if visit.is_operator else None,
        error_code=None if query.error_code is None else query.error_code.upper(),
        since=None if query.since is None else parse_instant(query.since),
        store_id=await store_of(tx, visit, filters, query.side),
        masked=not visit.may(Permission.SEE_CUSTOMERS),
    )


async def _find(tx: Read, visit: Visit) -> Refusal | None:
    """Return the request of the path as the account may see it: with any of its sides."""
    sides: list[Caller | None] = [visit.caller(surface) for surface in visit.surfaces]
    for caller in sides or [None]:
        wanted = Filter(
            caller=caller, store_id=visit.store_id, masked=not visit.may(Permission.SEE_CUSTOMERS)
        )
        found = await find_refused(tx, wanted, visit.ids["request"])
        if found is not None:
            return found
    return None
