"""The operator's lists and the search read by indexes, whatever the filter: the tables may have millions of rows."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite
from tests.databases import only_sqlite
from tests.service import Service

from mercato.domain import lookup
from mercato.domain.partners.model import Caller, Limits, Surface
from mercato.domain.partners.queries import list_newest_partners
from mercato.domain.requests.queries import Filter, count_by_code, list_refused
from mercato.kernel import clock
from mercato.kernel.db.audit import search_entries
from mercato.kernel.jobs import count_kinds, list_dead

ID: Final = clock.new_id()
CALLER: Final = Caller(ID, ID, Surface.MARKETFRONT, Limits())
NOW: Final = clock.now()

Read = Callable[[Any], Awaitable[Any]]

LISTS: Final[dict[str, Read]] = {
    "audit": lambda tx: search_entries(tx, before=ID, limit=50),
    "audit by partner": lambda tx: search_entries(tx, partner_id=ID, until=NOW, limit=50),
    "audit by action": lambda tx: search_entries(tx, action="x", since=NOW, limit=50),
    "audit by actor": lambda tx: search_entries(tx, actor="x", limit=50),
    "audit by all": lambda tx: search_entries(tx, actor="x", action="x", partner_id=ID, limit=50),
    "requests by partner": lambda tx: list_refused(tx, Filter(partner_id=ID), before=ID, limit=50),
    "requests by partner and code": lambda tx: list_refused(
        tx, Filter(partner_id=ID, error_code="X"), limit=50
    ),
    "requests by partner and store": lambda tx: list_refused(
        tx, Filter(partner_id=ID, store_id=ID), limit=50
    ),
    "requests counted by code": lambda tx: count_by_code(
        tx, Filter(partner_id=ID, caller=CALLER, since=NOW), limit=1000
    ),
    "dead jobs": lambda tx: list_dead(tx, before=(NOW, 1), limit=50),
    "dead jobs of a kind": lambda tx: list_dead(tx, kind="x", before=(NOW, 1), limit=50),
    "jobs counted": lambda tx: count_kinds(tx, most=100),
    "partners": lambda tx: list_newest_partners(tx, before=ID, limit=50),
    "search by id": lambda tx: lookup.find_all(tx, str(ID)),
    "search by words": lambda tx: lookup.find_all(tx, "some words"),
}


class Recorder:
    """A reader that keeps the statements that it is given."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self.statements: list[str] = []

    def _keep(self, query: Any) -> Any:
        options = {"literal_binds": True}
        self.statements.append(str(query.compile(dialect=sqlite.dialect(), compile_kwargs=options)))
        return query

    async def all(self, query: Any) -> Any:
        return await self.tx.all(self._keep(query))

    async def first(self, query: Any) -> Any:
        return await self.tx.first(self._keep(query))

    async def scalar(self, query: Any) -> Any:
        return await self.tx.scalar(self._keep(query))


@only_sqlite
@pytest.mark.parametrize("name", LISTS)
async def test_a_list_is_read_by_an_index_in_its_order(mercato: Service, name: str):
    async with mercato.app.db.read() as tx:
        recorder = Recorder(tx)
        await LISTS[name](recorder)
        assert recorder.statements
        for statement in recorder.statements:
            plan = [row.detail for row in await tx.all(text(f"EXPLAIN QUERY PLAN {statement}"))]
            # Subqueries are bounded; the rows of `audit` are in the order of their ids.
            bounded = ("SCAN anon_1", "SCAN audit")
            scans = [
                one for one in plan if one.startswith("SCAN") and "USING" not in one and one not in bounded
            ]
            sorts = [one for one in plan if one.endswith("FOR ORDER BY") and "SCAN anon_1" not in plan]
            assert not scans + sorts, (plan, statement)
