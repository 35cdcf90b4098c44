"""Who may read an order, and that others learn nothing of it."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.api.trade import MERCHANT, ORDERS, PLACE, VALIDATE, Trade, line, trade
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service, service, standing_clock
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind

pytestmark = [shared, mostly_sqlite]


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


@pytest.fixture
async def strangers(here: Trade) -> tuple[Client, Client]:
    """Another merchant and another storefront."""
    return (await here.mercato.partner())[1], (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]


async def test_another_partners_order_is_not_found(here: Trade, strangers: tuple[Client, Client]):
    rival, other_front = strangers
    placed = await here.placed()
    path = f"/{placed['orderId']}"
    for client, surface in ((rival, MERCHANT), (other_front, ORDERS)):
        for end in ("", "/timeline"):
            reply = await client.get(surface + path + end)
            nobodys = await client.get(f"{surface}/{uuid4()}{end}")
            assert (reply.status, reply.json()["errorCode"]) == (404, "ORDER_NOT_FOUND")
            assert (nobodys.status, nobodys.json()["title"]) == (404, reply.json()["title"])
        reply = await client.get(f"{surface}/no-uuid")
        assert (reply.status, reply.json()["errorCode"]) == (404, "ORDER_NOT_FOUND")
    for change in ({"status": "confirmed"}, {"state": "cancelled", "cancelReason": "x"}):
        reply = await rival.post(f"{MERCHANT}{path}/status", change)
        assert (reply.status, reply.json()["errorCode"]) == (404, "ORDER_NOT_FOUND")
    assert (await rival.get(MERCHANT)).json()["orders"] == []
    assert (await rival.get(f"{MERCHANT}?storeId={here.store['storeId']}")).json()["orders"] == []
    mine = (await here.front.get(ORDERS + path)).json()
    assert (mine["state"], mine["status"]) == ("open", "pending")


async def test_each_side_sees_only_its_own_deliveries(here: Trade, strangers: tuple[Client, Client]):
    rival, other_front = strangers
    await here.placed()
    own = (await here.pos.get("/v1/commerce/webhook-deliveries")).json()["deliveries"]
    # The placement's validation may be in the log already: it is written within a second.
    [placed] = [one for one in own if one["type"] != "order.validate"]
    assert placed["type"] == "order.place"
    assert (await rival.get("/v1/commerce/webhook-deliveries")).json()["deliveries"] == []
    one = await rival.get(f"/v1/commerce/webhook-deliveries/{placed['id']}")
    assert (one.status, one.json()["errorCode"]) == (404, "DELIVERY_NOT_FOUND")
    for front in (here.front, other_front):
        assert (await front.get("/v1/marketfront/webhook-deliveries")).json()["deliveries"] == []


async def test_the_merchant_that_owns_the_store_reads_what_a_storefront_placed_and_none_of_its_keys_place(
    here: Trade,
):
    placed = await here.placed()
    path = f"/{placed['orderId']}"
    calls = [
        here.pos.get(ORDERS + path),
        here.pos.get(f"{ORDERS}{path}/timeline"),
        here.pos.post(VALIDATE, here.order()),
        here.pos.post(PLACE, here.order(), headers={"Idempotency-Key": "k"}),
        here.front.get(MERCHANT),
        here.front.get(MERCHANT + path),
        here.front.get(f"{MERCHANT}{path}/timeline"),
        here.front.post(f"{MERCHANT}{path}/status", {"status": "confirmed"}),
    ]
    for call in calls:
        reply = await call
        assert (reply.status, reply.json()["errorCode"]) == (403, "FORBIDDEN")
    for call in (
        here.mercato.anonymous().post(PLACE, here.order(), headers={"Idempotency-Key": "k"}),
        here.mercato.anonymous().post(VALIDATE, here.order()),
    ):
        reply = await call
        assert (reply.status, reply.json()["errorCode"]) == (401, "UNAUTHENTICATED")
    assert (await here.pos.get(MERCHANT + path)).status == 200
    assert len((await here.pos.get(MERCHANT)).json()["orders"]) == 1


@on_both
async def test_two_storefronts_share_neither_orders_nor_keys_nor_tokens(
    here: Trade, strangers: tuple[Client, Client]
):
    _, other = strangers
    mine = (await here.place(here.order(), key="k")).json()["orderId"]
    theirs = (await here.place(here.order(), key="k", front=other)).json()["orderId"]
    assert mine != theirs
    assert (await here.front.get(f"{ORDERS}/{theirs}")).status == 404
    assert (await other.get(f"{ORDERS}/{mine}")).status == 404
    token = await here.token(here.order())
    reply = await here.place(here.order(validatedOrderToken=token), front=other)
    assert (reply.status, reply.json()["errorCode"]) == (400, "ORDER_TOKEN_INVALID")
    assert (await here.place(here.order(validatedOrderToken=token))).status == 201


async def test_a_cart_with_another_stores_items_or_set_is_refused(here: Trade):
    other = await here.mercato.live(
        here.pos, here.shop.host(CATALOG, "/other.json"), name="other", webhook=here.shop.base + "/other"
    )
    mixed = here.order(line(ITEM))
    assert [e["code"] for e in (await here.validate(mixed))["order"]["errors"]] == ["ITEM_UNAVAILABLE"]
    refused = await here.place(mixed)
    assert (refused.status, refused.json()["errorCode"]) == (400, "ITEM_UNAVAILABLE")
    for member, value in (("storeId", other["storeId"]), ("catalogSetId", other["catalogSetId"])):
        order = here.order()
        order["cart"] |= {member: value}
        for reply in (await here.front.post(VALIDATE, order), await here.place(order)):
            assert (reply.status, reply.json()["errorCode"]) == (404, "CATALOGSET_NOT_FOUND")
    assert here.shop.received.empty()


async def test_a_store_that_is_not_live_takes_no_orders(here: Trade):
    onboarding = await here.mercato.onboard(here.pos, here.shop.base + "/catalog.json", name="soon")
    assert onboarding["status"] == "ready_to_activate"
    order = here.order()
    order["cart"] |= {"storeId": onboarding["onboardingId"]}
    for reply in (await here.front.post(VALIDATE, order), await here.place(order)):
        assert (reply.status, reply.json()["errorCode"]) == (404, "STORE_NOT_FOUND")


async def test_the_list_of_orders_is_filtered_and_paged(here: Trade):
    placed = [(await here.placed())["orderId"] for _ in range(5)]
    await here.update({"orderId": placed[1]}, state="cancelled", cancelReason="x")
    seen: list[str] = []
    cursor: Any = ""
    while cursor is not None:
        page = (await here.pos.get(f"{MERCHANT}?limit=2" + (f"&cursor={cursor}" if cursor else ""))).json()
        seen += [one["orderId"] for one in page["orders"]]
        cursor = page["nextCursor"]
    assert seen == placed[::-1]
    for query, expected in (
        ("state=cancelled", [placed[1]]),
        ("state=completed", []),
        (f"storeId={here.store['storeId']}&state=open", [p for p in placed[::-1] if p != placed[1]]),
        (f"storeId={uuid4()}", []),
    ):
        page = (await here.pos.get(f"{MERCHANT}?{query}")).json()
        assert [one["orderId"] for one in page["orders"]] == expected, query
    for query in ("state=lost", "storeId=x", "limit=0", "limit=101", "cursor=!"):
        reply = await here.pos.get(f"{MERCHANT}?{query}")
        assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED"), query


async def test_validate_counts_as_a_read_and_place_as_a_write(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    limits: dict[str, Any] = {"rate_limits": True, "rate_limit_reads": 3, "rate_limit_writes": 2}
    async with service(database_url, tmp_path / "data") as mercato:
        here = await trade(mercato, shop)
    async with service(database_url, tmp_path / "data", now=standing_clock(), **limits) as mercato:
        front = Client(mercato.base, here.front.key, mercato.session)
        first = await front.post(VALIDATE, here.order())
        assert (first.status, first.headers["X-RateLimit-Limit"], first.headers["X-RateLimit-Remaining"]) == (
            200, "3", "2",
        )  # fmt: skip
        place = await here.place(here.order(), front=front)
        assert (place.status, place.headers["X-RateLimit-Limit"], place.headers["X-RateLimit-Remaining"]) == (
            201, "2", "1",
        )  # fmt: skip
        assert (await here.place(here.order(), key="k", front=front)).status == 201
        limited = await here.place(here.order(), key="k", front=front)
        assert (limited.status, limited.json()["errorCode"]) == (429, "RATE_LIMITED")
        assert int(limited.headers["Retry-After"]) == limited.json()["retryAfter"] > 0
        assert (await front.post(VALIDATE, here.order())).status == 200
