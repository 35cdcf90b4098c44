"""The operator's lists and the search read by indexes, whatever the filter: the tables may have millions of rows."""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import UUID

import pytest
from sqlalchemy import Column, insert, text
from sqlalchemy.dialects import postgresql, sqlite
from tests.databases import only_postgresql, only_sqlite

from mercato.features import lookup
from mercato.features.catalogs.tables import catalog_runs
from mercato.features.orders.queries import list_open_pulled
from mercato.features.orders.search import ContactKeys
from mercato.features.partners.model import Caller, Limits, Surface
from mercato.features.partners.queries import list_newest_partners
from mercato.features.partners.tables import partners
from mercato.features.requests.queries import Filter, count_by_code, list_refused
from mercato.features.requests.tables import refused_requests
from mercato.features.stores.tables import stores
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.audit import search_entries
from mercato.platform.db.engine import Database
from mercato.platform.db.search import list_ids_ending
from mercato.platform.jobs import list_dead, list_depths
from mercato_contract import clock

ID: Final = clock.new_id()
CALLER: Final = Caller(ID, ID, Surface.MARKETFRONT, Limits())
NOW: Final = clock.now()
EVERYTHING: Final = lookup.Scope(customers=True, names=True)
OWN: Final = lookup.Scope(partner_id=ID, surfaces=(Surface.COMMERCE,), customers=True, names=True)
BOTH: Final = lookup.Scope(partner_id=ID, surfaces=(Surface.COMMERCE, Surface.MARKETFRONT))
CONTACTS: Final = ContactKeys([b"k" * 32])

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
    "jobs counted": lambda tx: list_depths(tx, most=100),
    "partners": lambda tx: list_newest_partners(tx, before=ID, limit=50),
    "search by id": lambda tx: lookup.find_all(tx, str(ID), EVERYTHING, CONTACTS),
    "search by the end of an id": lambda tx: lookup.find_all(tx, str(ID)[-8:], EVERYTHING, CONTACTS),
    "search by the end of an id of a partner": lambda tx: lookup.find_all(tx, str(ID)[-8:], OWN, CONTACTS),
    "search by the number of a ticket": lambda tx: lookup.find_all(tx, "0a1b2", EVERYTHING, CONTACTS),
    "search by the number of a ticket of a partner": lambda tx: lookup.find_all(tx, "0a1b2", OWN, CONTACTS),
    "search by the number of a ticket of both": lambda tx: lookup.find_all(tx, "0a1b2", BOTH, CONTACTS),
    "search by words": lambda tx: lookup.find_all(tx, "some words", EVERYTHING, CONTACTS),
    "search by words of a partner": lambda tx: lookup.find_all(tx, "some words", OWN, CONTACTS),
    "search by phone": lambda tx: lookup.find_all(tx, "+31612345678", EVERYTHING, CONTACTS),
    "search by number of a partner": lambda tx: lookup.find_all(tx, "A-1", OWN, CONTACTS),
}


class Recorder:
    """A reader that keeps the statements that it is given."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self.dialect = tx.dialect
        self.statements: list[str] = []

    def _keep(self, query: Any) -> Any:
        options = {"literal_binds": True}
        dialect = sqlite.dialect() if self.dialect == "sqlite" else postgresql.dialect()
        self.statements.append(str(query.compile(dialect=dialect, compile_kwargs=options)))
        return query

    async def all(self, query: Any, parameters: dict[str, Any] | None = None) -> Any:
        self._keep(query.params(parameters or {}))
        return await self.tx.all(query, parameters)

    async def first(self, query: Any) -> Any:
        return await self.tx.first(self._keep(query))

    async def scalar(self, query: Any) -> Any:
        return await self.tx.scalar(self._keep(query))


@only_sqlite
@pytest.mark.parametrize("name", LISTS)
async def test_a_list_is_read_by_an_index_in_its_order(db: Database, name: str):
    async with db.read() as tx:
        recorder = Recorder(tx)
        await LISTS[name](recorder)
        assert recorder.statements
        for statement in recorder.statements:
            plan = [row.detail for row in await tx.all(text(f"EXPLAIN QUERY PLAN {statement}"))]
            # Subqueries are bounded; the rows of `audit` and of a full-text search are in the order of their ids.
            bounded = ("SCAN anon_1", "SCAN audit", "SCAN w VIRTUAL TABLE INDEX 64:M1")
            scans = [
                one for one in plan if one.startswith("SCAN") and "USING" not in one and one not in bounded
            ]
            sorts = [one for one in plan if one.endswith("FOR ORDER BY") and "SCAN anon_1" not in plan]
            assert not scans + sorts, (plan, statement)


@pytest.mark.parametrize("ids", [partners.c.id, stores.c.id, catalog_runs.c.id, deliveries.c.id], ids=str)
async def test_an_id_is_found_by_its_end_with_an_index(db: Database, ids: Column[UUID]):
    async with db.read() as tx:
        explain = "EXPLAIN QUERY PLAN"
        if tx.dialect == "postgresql":
            # Otherwise an empty table is read whole.
            await tx.scalar(text("SELECT set_config('enable_seqscan', 'off', true)"))
            explain = "EXPLAIN"
        recorder: Any = Recorder(tx)
        await list_ids_ending(recorder, ids, str(ID)[-8:], ids != ID, limit=10)
        plan = str(await tx.all(text(f"{explain} {recorder.statements[0]}")))
        assert f"ix_{ids.table.name}_id_end" in plan, plan


@pytest.mark.parametrize("store_id", [None, ID])
async def test_the_board_reads_open_orders_by_an_index(db: Database, store_id: UUID | None):
    merchant = Caller(ID, ID, Surface.COMMERCE, Limits())
    async with db.read() as tx:
        explain = "EXPLAIN QUERY PLAN"
        if tx.dialect == "postgresql":
            # Otherwise an empty table is read whole.
            await tx.scalar(text("SELECT set_config('enable_seqscan', 'off', true)"))
            explain = "EXPLAIN"
        recorder: Any = Recorder(tx)
        await list_open_pulled(recorder, merchant, store_id=store_id, since=NOW, limit=10)
        plan = str(await tx.all(text(f"{explain} {recorder.statements[0]}")))
        indexes = {"ix_orders_on_board" if tx.dialect == "postgresql" else "ix_orders_partner_state"}
        if tx.dialect == "sqlite" and store_id is not None:
            # It has a store's orders by their ids, so it is as good; SQLite takes it in some runs.
            indexes.add("ix_orders_store_id")
    assert any(index in plan for index in indexes), plan


@only_postgresql
@pytest.mark.parametrize("wanted", [{"partner_id": ID}, {"partner_id": ID, "error_code": "RARE"}])
async def test_requests_of_a_partner_are_read_by_their_index_however_rare_they_are(
    db: Database, wanted: dict[str, Any]
):
    row = {
        "at": NOW, "request_id": "x", "partner_id": ID, "surface": "commerce", "method": "POST", "path": "/",
        "status": 400, "errors": "[]", "milliseconds": 1,
    }  # fmt: skip
    codes = ["OTHER"] * 9 + ["RARE"]
    rows = [row | {"id": clock.new_id(), "error_code": codes[number % 10]} for number in range(5_000)]
    others = [
        one | {"id": clock.new_id(), "partner_id": clock.new_id(), "surface": "marketfront"} for one in rows
    ]
    async with db.write() as tx:
        await tx.execute(insert(refused_requests), rows + others)
        await tx.execute(text("ANALYZE refused_requests"))
    async with db.read() as tx:
        recorder: Any = Recorder(tx)
        assert len(await list_refused(recorder, Filter(**wanted), limit=50)) == 50
        for statement in recorder.statements:
            plan = "\n".join(row[0] for row in await tx.all(text(f"EXPLAIN {statement}")))
            assert "ix_refused_requests_partner" in plan, plan
