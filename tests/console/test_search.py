"""Lists of very many deliveries: those with an index, and searches that examine a bounded number at a time."""

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite
from tests.api.trade import trade
from tests.console.visiting import enter_as_operator
from tests.databases import only_sqlite
from tests.service import MerchantServer, Service

from mercato.features.partners.model import Surface
from mercato.features.webhooks import operators, queries
from mercato.features.webhooks.queries import DeliveryFilter
from mercato_contract import clock
from mercato_contract.webhooks import DeliveryStatus


@only_sqlite
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"status": DeliveryStatus.FAILED}, "ix_deliveries_not_delivered"),
        ({"order_id": clock.new_id()}, "ix_deliveries_order_id"),
        ({"order_id": clock.new_id(), "status": DeliveryStatus.SUCCEEDED}, "ix_deliveries_order_id"),
        ({"store_id": clock.new_id()}, "ix_deliveries_store_id"),
        ({}, "ix_deliveries_partner_id"),
    ],
)
async def test_a_partners_deliveries_are_listed_by_the_index_of_their_filter(
    mercato: Service, wanted: dict[str, Any], index: str
):
    seen: list[Any] = []

    class Plan:
        async def all(self, query: Any) -> list[Any]:
            seen.append(query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
            return []

    query = DeliveryFilter(partner_id=clock.new_id(), surface=Surface.COMMERCE, **wanted)
    await operators.list_rows(Plan(), query, limit=50)  # type: ignore[arg-type]  # only what it asks
    async with mercato.app.db.read() as tx:
        plan = await tx.all(text(f"EXPLAIN QUERY PLAN {seen[0]}"))
    assert any(f"INDEX {index} " in row.detail for row in plan), plan


async def test_a_search_without_an_index_continues_page_by_page(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queries, "MAX_SEARCHED", 2)
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    for _ in range(3):
        await deal.placed()
    path = "/v1/marketfront/webhook-deliveries"
    await mercato.until(deal.front, path, lambda page: len(page["deliveries"]) == 3)
    await mercato.until(deal.front, path + "?status=pending", lambda page: not page["deliveries"])
    browser = await enter_as_operator(mercato)
    for wanted, count in (
        ("type=order.created", 3),
        ("code=204", 3),
        ("code=503", 0),
        ("type=order.place", 3),
    ):
        page, found = await browser.open(f"/console/webhooks?{wanted}"), 0
        for _ in range(9):
            found += sum(len(row) > 1 for row in page.rows("Deliveries"))
            following = [one for one in page.root.all("a") if one.text == "Next page"]
            if not following:
                break
            page = await browser.open(following[0].attributes["href"])
        assert found == count, wanted
