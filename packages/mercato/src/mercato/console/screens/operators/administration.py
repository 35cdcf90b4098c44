"""What an operator looks after: background jobs, the audit trail, and the erasure of customers.

A customer's name is in forms alone: an address of a page is in logs and in the browser's history.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta

from mercato.console.filters import actor_of, name_actors, partner_of, read_filters
from mercato.console.screen import OPERATORS, Done, Page, Screens, Visit
from mercato.features.orders.privacy import LOG_SECONDS, erase_all, find_all
from mercato.features.partners.queries import find_names
from mercato.features.quotes.privacy import erase_quotes
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.audit import (
    MAX_SEARCHED,
    MAX_SEARCHED_BY_INDEX,
    AuditEntry,
    list_entries,
    search_entries,
)
from mercato.platform.errors import Conflict, NotFound
from mercato.platform.jobs import MAX_COUNTED, DeadJob, Revival, is_capped, list_dead, list_depths, revive_job
from mercato_contract.clock import from_ms, to_ms
from mercato_contract.decoding.decode import end_page, read_cursor
from mercato_contract.pages import MALFORMED, PAGE, Cursor
from mercato_contract.refusals import ValidationFailed
from mercato_contract.texts import count_of
from mercato_contract.wire import Instant, Wire, parse_instant, redacted

screens: Final = Screens(OPERATORS)

# --- jobs -----------------------------------------------------------------------------------------

MAX_REVIVED: Final = 200
"""Jobs that one press of `Revive all` revives, each in a separate transaction."""

_CURSOR: Final = re.compile(r"(\d{1,14})-(\d{1,18})")

JobKind = Annotated[str, Meta(max_length=64)]


class JobsQuery(Wire):
    """The filters of the list. The cursor has the last job's instant, in milliseconds, and number."""

    kind: JobKind | None = None
    cursor: Annotated[str, Meta(max_length=40)] | None = None


class ReviveForm(Wire):
    job: int


class ReviveAllForm(Wire):
    kind: JobKind


@screens.get("jobs")
async def list_jobs(visit: Visit) -> Page:
    query = visit.filters(JobsQuery)
    async with visit.app.db.read() as tx:
        kinds = await list_depths(tx)
        found = await list_dead(tx, kind=query.kind, before=_read_cursor(query.cursor), limit=PAGE + 1)
    dead, are_left = end_page(found, PAGE)
    values = {
        "kinds": kinds,
        "dead": dead,
        "next_cursor": _cursor_of(dead[-1]) if are_left else None,
        "query": query,
        "most": MAX_COUNTED,
        "is_capped": is_capped(kinds),
    }
    return Page("jobs.html", "Jobs", values)


@screens.post("jobs/revive", needs=Permission.REVIVE_JOBS)
async def revive_dead_job(visit: Visit) -> Done:
    number = visit.fields(ReviveForm).job
    found = await revive_job(visit.app.db, number)
    if found in {Revival.NOT_DEAD, Revival.INVALID}:
        raise NotFound(f"Job {number} isn't dead, or no longer exists. Somebody may have revived it.")
    if found is Revival.NOT_NEEDED:
        raise Conflict(f"Job {number} isn't needed: another job for the same work is queued already.")
    return Done(f"Job {number} is due again.", to="/console/jobs")


@screens.post("jobs/revive-all", needs=Permission.REVIVE_JOBS)
async def revive_dead_jobs(visit: Visit) -> Done:
    kind = visit.fields(ReviveAllForm).kind
    async with visit.app.db.read() as tx:
        dead = await list_dead(tx, kind=kind, limit=MAX_REVIVED)
    found = [await revive_job(visit.app.db, job.id) for job in dead]
    more = " Press the button again for more." if len(dead) == MAX_REVIVED else ""
    count = found.count(Revival.DUE)
    return Done(f"Due again: {count_of(count, 'job')} of {kind}.{more}", to="/console/jobs")


def _cursor_of(last: DeadJob) -> str:
    return f"{to_ms(last.died_at)}-{last.id}"


def _read_cursor(text: str | None) -> tuple[datetime, int] | None:
    if text is None:
        return None
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise ValidationFailed.at(None, MALFORMED)
    return from_ms(int(match[1])), int(match[2])


# --- audit ----------------------------------------------------------------------------------------

_PATHS: Final = {
    "order": "orders",
    "store": "stores",
    "partner": "partners",
    "delivery": "webhooks",
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
    filters = read_filters(visit, AuditQuery)
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
        actors = await name_actors(tx, {entry.actor for entry in page})
        names = await find_names(tx, {entry.partner_id for entry in page if entry.partner_id is not None})
    if query.actor is not None and not (partner_id or query.action or query.since or query.until):
        filters.doubts["actor"] = "Nobody of this name has done anything."
    filters.listed(page, cursor)
    values = {
        "entries": [(entry, _words(entry.detail)) for entry in page],
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


# --- erasure --------------------------------------------------------------------------------------

SHOWN: Final = 100
"""Orders that are listed before."""


@redacted("customer")
class ErasureForm(Wire):
    """An e-mail address, a phone number, or a partnerUserId as it was sent."""

    customer: Annotated[str, Meta(max_length=400)] = ""


@screens.get("erasure", needs=Permission.ERASE)
async def show_erasure(visit: Visit) -> Page:
    assert visit.is_operator
    return Page("erasure.html", "Erasure", {"customer": "", "found": None, "most": SHOWN})


@screens.post("erasure/find", needs=Permission.ERASE)
async def find_customer(visit: Visit) -> Page:
    customer = _customer(visit)
    found = await find_all(visit.app.db, customer, visit.app.placements.contacts)
    return Page("erasure.html", "Erasure", {"customer": customer, "found": found, "most": SHOWN})


@screens.post("erasure/confirm", needs=Permission.ERASE)
async def confirm_erasure(visit: Visit) -> Page:
    return Page("erasure_confirm.html", "Erase this customer?", {"customer": _customer(visit)})


@screens.post("erasure/erase", needs=Permission.ERASE)
async def erase_customer(visit: Visit) -> Done:
    app, customer = visit.app, _customer(visit)
    await erase_quotes(app.db, app.vault, customer)
    count, emptied = await erase_all(app.db, customer, app.placements.contacts)
    message = f"The customer was erased from {count_of(count, 'order')}."
    if not emptied:
        message += (
            " The database's log may still hold what was erased: a long-running reader, such as a backup, kept "
            f"it in use for {LOG_SECONDS:g} s. Erase the customer again once it has ended."
        )
    return Done(message, to="/console/erasure")


def _customer(visit: Visit) -> str:
    customer = visit.fields(ErasureForm).customer.strip()
    if not customer:
        raise ValidationFailed.at(
            None, "Name the customer: an e-mail address, a phone number or a partnerUserId, as it was sent."
        )
    return customer
