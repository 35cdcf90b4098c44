"""Lists of orders on both surfaces: filters, pages, and cursors that aren't the caller's."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.trade import MERCHANT, ORDERS, Trade, trade
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind
from mercato_contract.pages import cursor_of

pytestmark = [shared, mostly_sqlite]


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def ids(client: Client, path: str, **query: Any) -> list[str]:
    reply = await client.get(path, params={name: str(value) for name, value in query.items()})
    assert reply.status == 200, reply.body
    return [one["orderId"] for one in reply.json()["orders"]]


async def stranger(here: Trade) -> Trade:
    """Return the same shop's trade with another storefront."""
    front = (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]
    return Trade(here.mercato, here.shop, here.pos, front, here.store)


@on_both
async def test_a_storefront_lists_what_it_placed_page_by_page_and_no_other_storefronts_orders(here: Trade):
    rival = await stranger(here)
    placed, others = [], []
    for _ in range(3):
        placed.append((await here.placed())["orderId"])
        others.append((await rival.placed())["orderId"])
    seen: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": "2"} if cursor is None else {"limit": "2", "cursor": cursor}
        page = (await here.front.get(ORDERS, params=query)).json()
        assert len(page["orders"]) <= 2
        seen += [one["orderId"] for one in page["orders"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == placed[::-1]
    assert await ids(rival.front, ORDERS) == others[::-1]
    [first] = (await here.front.get(ORDERS, params={"limit": "1"})).json()["orders"]
    assert first == (await here.front.get(f"{ORDERS}/{placed[-1]}")).json()


@on_both
async def test_lists_of_both_surfaces_are_filtered_by_state_store_and_instant(here: Trade):
    first = (await here.placed())["orderId"]
    await here.update({"orderId": first}, state="cancelled", cancelReason="x")
    second = (await here.placed())["orderId"]
    instant = datetime.fromtimestamp((UUID(second).int >> 80) / 1000, UTC)
    since = instant.isoformat().replace("+00:00", "Z")
    future = (instant + timedelta(days=1)).isoformat().replace("+00:00", "Z")
    store = here.store["storeId"]
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        assert await ids(client, path) == [second, first]
        assert await ids(client, path, state="cancelled") == [first]
        assert await ids(client, path, state="OPEN", storeId=store) == [second]
        assert await ids(client, path, state="completed") == []
        assert await ids(client, path, storeId=uuid4()) == []
        assert await ids(client, path, since=since) == [second]
        assert await ids(client, path, since="2020-01-01T00:00:00+02:00", storeId=store) == [second, first]
        assert await ids(client, path, since=future) == []


@only_sqlite
@pytest.mark.parametrize(
    "query", ["state=lost", "storeId=x", "limit=0", "limit=101", "since=yesterday", "since=2026-01-31"]
)
async def test_a_filter_that_cannot_be_used_is_refused_on_both_surfaces(here: Trade, query: str):
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        reply = await client.get(f"{path}?{query}")
        assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED"), reply.body
    assert (await here.front.get(f"{ORDERS}?unknown=1")).status == 200


async def test_a_cursor_that_the_list_did_not_give_to_the_storefront_is_refused(here: Trade):
    rival = await stranger(here)
    for _ in range(2):
        await here.placed()
        await rival.placed()
    own = (await here.front.get(ORDERS, params={"limit": "1"})).json()["nextCursor"]
    other = (await rival.front.get(ORDERS, params={"limit": "1"})).json()["nextCursor"]
    last = "A" if own[-1] != "A" else "B"
    for bad in (
        other,
        "x",
        "",
        own[:-1],
        own[:-1] + last,
        own + "A",
        own.swapcase(),
        "%00",
        cursor_of(uuid4()),
    ):
        reply = await here.front.get(ORDERS, params={"cursor": bad})
        problem = reply.json()
        assert (reply.status, problem["errorCode"]) == (400, "INVALID_CURSOR"), (bad, reply.body)
        assert problem["retryable"] is False
    assert len(await ids(here.front, ORDERS, cursor=own)) == 1


async def test_each_surface_lists_orders_to_its_own_keys_alone(here: Trade):
    for client, path in ((here.pos, ORDERS), (here.front, MERCHANT)):
        reply = await client.get(path)
        assert (reply.status, reply.json()["errorCode"]) == (403, "FORBIDDEN")
    assert (await here.mercato.anonymous().get(ORDERS)).status == 401
