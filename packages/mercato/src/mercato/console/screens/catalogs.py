"""Catalogs: the runs that pulled them, what was wrong, and what a run changed."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from mercato.console.filters import partner_of, read_filters, store_of
from mercato.console.forms import read_query
from mercato.console.screen import MERCHANTS, OPERATORS, Done, Page, Question, Screens, Visit
from mercato.features.catalogs import operators, queries
from mercato.features.catalogs.diff import diff
from mercato.features.catalogs.model import CatalogIngestNotFound, CatalogSetNotFound
from mercato.features.catalogs.operators import RunFilter
from mercato.features.catalogs.runs import OPEN, Run
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.engine import Read
from mercato.platform.outbound.guard import origin_of
from mercato.platform.telemetry import tracing
from mercato.platform.wire.decode import page_of, read_cursor
from mercato_contract.catalogs import CatalogDiff, DiffList
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.wire import Instant, Wire, parse_instant

screens: Final = Screens(MERCHANTS | OPERATORS)

MAX_CHANGES: Final = 20
"""Entries shown of each kind of change."""


class Ended(StrEnum):
    """The runs that a list can be limited to."""

    FAILED = "failed"


class RunsQuery(Wire):
    """The filters of the list, besides the store."""

    status: Ended | None = None
    since: Instant | None = None
    cursor: Cursor | None = None


class Change(Struct, frozen=True):
    """One kind of change, with the first that changed."""

    kind: str
    count: int
    first: Sequence[str]


@screens.get("catalogs")
async def list_runs(visit: Visit) -> Page:
    filters = read_filters(RunsQuery, read_query(visit.head.query))
    query = filters.query
    async with visit.app.db.read() as tx:
        wanted = RunFilter(
            partner_id=await partner_of(tx, visit, filters),
            store_id=await store_of(tx, visit, filters, Surface.COMMERCE),
            failed=query.status is Ended.FAILED,
            since=None if query.since is None else parse_instant(query.since),
            before=read_cursor(query.cursor),
        )
        rows = [] if filters.faults else await operators.list_runs(tx, wanted, limit=PAGE + 1)
    page, cursor = page_of(rows, PAGE, lambda row: row.id)
    filters.listed(page)
    values = {
        "runs": page,
        "next_cursor": cursor,
        "search": filters,
        "statuses": list(Ended),
        "ms": _ms,
        "origin": origin_of,
    }
    return Page("catalogs.html", "Catalogs", values)


@screens.get("catalogs/{run}")
async def show_run(visit: Visit) -> Page:
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
        current = await queries.find_current_set(tx, run.owner.id)
        pair = await _sets(tx, run)
        # What the document says is the merchant's: operators see where it is wrong, and why.
        shown = [] if visit.is_operator else await queries.find_excerpts(tx, run.id)
        is_kept = run.set_id is not None and await operators.is_kept(tx, run.set_id)
    values = {
        "run": run,
        "address": origin_of(run.callback_url)
        if visit.is_operator and run.callback_url
        else run.callback_url,
        "errors": list(zip_longest(run.errors, shown, fillvalue="")),
        "has_excerpts": bool(shown),
        "took": None if run.status in OPEN else _ms(run.updated_at - run.created_at),
        "is_current": run.set_id is not None and run.set_id == current,
        "is_kept": is_kept,
        "can_cancel": run.activate_at is not None and run.status in OPEN,
        "live": await visit.app.cache.find_in_force(run.owner.store_id) is not None,
        **await _changes(visit, pair),
    }
    return Page("catalog_run.html", f"Run {run.id}", values)


async def _ask_to_activate(visit: Visit) -> Question:
    """Ask with the differences between the set that the store serves now and the run's."""
    back = f"/console/catalogs/{visit.ids['run']}"
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
        current = await queries.find_current_set(tx, run.owner.id)
        kept = run.set_id is not None and await operators.is_kept(tx, run.set_id)
    if run.set_id is None or current is None or not kept:
        raise CatalogSetNotFound(run.set_id or run.id)
    found = await _changes(visit, (current, run.set_id))
    text = "The store serves it as soon as you confirm. Carts and orders are then priced from it."
    if found["identical"]:
        text += " Nothing changes that pricing or browsing would show."
    lines = tuple(f"{one.kind} ({one.count:,}): {'; '.join(one.first)}" for one in found["changes"])
    return Question("Activate this set?", text, back=back, names=lines)


@screens.post(
    "catalogs/{run}/activate", needs=Permission.CHANGE_CATALOGS, audiences=MERCHANTS, ask=_ask_to_activate
)
async def activate_set(visit: Visit) -> Done:
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
    if run.set_id is None:
        raise CatalogSetNotFound(run.id)
    trace = tracing.current(visit.head.child())
    caller = visit.caller(Surface.COMMERCE)
    await visit.app.stores.activate_set(caller, run.owner.store_id, run.set_id, trace=trace)
    return Done("The store serves this set now.", to=f"/console/catalogs/{run.id}")


@screens.post("catalogs/{run}/cancel", needs=Permission.CHANGE_CATALOGS, audiences=MERCHANTS)
async def cancel_activation(visit: Visit) -> Done:
    async with visit.app.db.read() as tx:
        run = await _run(tx, visit)
    await visit.app.stores.cancel_activation(visit.caller(Surface.COMMERCE), run.owner.store_id, run.id)
    return Done(
        "The activation was cancelled. The store keeps its catalog.", to=f"/console/catalogs/{run.id}"
    )


# --- runs ---------------------------------------------------------------------------------------------


async def _run(tx: Read, visit: Visit) -> Run:
    """Return the partner's run of the path. Raises CatalogIngestNotFound, also for another partner's."""
    missing = CatalogIngestNotFound(visit.ids["run"])
    run = await queries.find_run(tx, visit.ids["run"])
    if run is None:
        raise missing
    if not visit.is_operator and run.owner.partner_id != visit.caller(Surface.COMMERCE).partner_id:
        raise missing
    visit.check_store(run.owner.store_id, missing)
    return run


async def _sets(tx: Read, run: Run) -> tuple[UUID, UUID] | None:
    """Return the set before the run's and the run's own, if both are kept."""
    if run.set_id is None or not await operators.is_kept(tx, run.set_id):
        return None
    before = await operators.find_previous_set(tx, run.owner.id, run.set_id)
    return None if before is None else (before, run.set_id)


async def _changes(visit: Visit, pair: tuple[UUID, UUID] | None) -> dict[str, Any]:
    if pair is None:
        return {"changes": None, "identical": False}
    before, after = await visit.app.compiled.get(pair[0]), await visit.app.compiled.get(pair[1])
    found = await asyncio.to_thread(diff, before, after)
    return {"changes": list(_changed(found)), "identical": found.identical}


def _changed(found: CatalogDiff) -> Iterator[Change]:
    if found.currency is not None:
        yield Change("Currency", 1, [f"{found.currency.before} → {found.currency.after}"])
    items = found.items
    repriced = [
        f"{one.name or 'no name'}: {one.before or 'no price'} → {one.after or 'no price'}"
        for one in items.repriced.entries[:MAX_CHANGES]
    ]
    if repriced:
        yield Change("Items repriced", items.repriced.count, repriced)
    yield from _listed("Items added", items.added)
    yield from _listed("Items removed", items.removed)
    yield from _listed("Items with other options", items.reoptioned)
    yield from _listed("Items with another name, availability, maximum or partnerItemId", items.changed)
    parts = {
        "Modifier groups": found.modifier_groups,
        "Sections": found.sections,
        "Catalogs": found.catalogs,
    }
    for noun, part in parts.items():
        yield from _listed(f"{noun} added", part.added)
        yield from _listed(f"{noun} removed", part.removed)
        yield from _listed(f"{noun} changed", part.changed)


def _listed(kind: str, found: DiffList) -> Iterator[Change]:
    if found.count:
        yield Change(kind, found.count, [one.name or "no name" for one in found.entries[:MAX_CHANGES]])


def _ms(took: timedelta) -> int:
    return took // timedelta(milliseconds=1)
