"""Jobs: how many there are of each kind and state, and reviving those that were given up."""

import re
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

from mercato.console.screen import OPERATORS, Done, Page, Screens, Visit
from mercato.features.sign_in.roles import Permission
from mercato.platform.clock import from_ms, to_ms
from mercato.platform.errors import Conflict, NotFound, ValidationFailed
from mercato.platform.jobs import MAX_COUNTED, DeadJob, Revival, is_capped, list_dead, list_depths, revive_job
from mercato.platform.texts import count_of
from mercato_contract.pages import MALFORMED, PAGE
from mercato_contract.wire import Wire

screens: Final = Screens(OPERATORS)

MAX_REVIVED: Final = 200
"""Jobs that one press of `Revive all` revives: each is a transaction of its own."""

_CURSOR: Final = re.compile(r"(\d{1,14})-(\d{1,18})")

Kind = Annotated[str, Meta(max_length=64)]


class JobsQuery(Wire):
    """The filters of the list. The cursor has the last job's instant, in milliseconds, and number."""

    kind: Kind | None = None
    cursor: Annotated[str, Meta(max_length=40)] | None = None


class ReviveForm(Wire):
    job: int


class ReviveAllForm(Wire):
    kind: Kind


@screens.get("jobs")
async def list_jobs(visit: Visit) -> Page:
    query = visit.filters(JobsQuery)
    async with visit.app.db.read() as tx:
        kinds = await list_depths(tx)
        dead = await list_dead(tx, kind=query.kind, before=_read_cursor(query.cursor), limit=PAGE + 1)
    values = {
        "kinds": kinds,
        "dead": dead[:PAGE],
        "next_cursor": _cursor_of(dead[PAGE - 1]) if len(dead) > PAGE else None,
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
    found = [await revive_job(visit.app.db, one.id) for one in dead]
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
