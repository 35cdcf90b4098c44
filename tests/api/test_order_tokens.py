"""What a validatedOrderToken can be used for, once."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from tests.api.trade import ADDRESS, ORDERS, Time, Trade, line, tea, trade
from tests.catalog.documents import CAKE, EXTRAS, LEMON, MILK, TEA, cafe
from tests.databases import first_on_postgresql, mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import shared

from mercato.features import offboarding
from mercato.features.catalogs import periods
from mercato.features.partners.model import PartnerKind
from mercato.features.stores.tables import stores
from mercato_client.testing.caller import Answer
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

NEXT_MONTH = (datetime.now(UTC) + timedelta(days=30)).isoformat()


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def refused(reply: Answer, code: str, status: int = 400) -> Any:
    said = reply.json()
    assert (reply.status, said["errorCode"]) == (status, code), said
    return said


def delivery(**more: Any) -> dict[str, Any]:
    return {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "deliveryType": "LEAVE_AT_DOOR",
        "address": ADDRESS,
    } | more


async def count_validations(here: Trade) -> int:
    """Return how often the store's validate webhook was called so far."""
    calls = 0
    while not here.shop.received.empty():
        calls += here.shop.received.get_nowait()[0].endswith("/validate")
    return calls


async def test_with_a_token_the_store_does_not_validate_again_and_its_quote_applies(here: Trade):
    here.shop.answers["validate"] = {
        "amounts": {"fees": "1.00", "taxes": "0.46"},
        "estimatedReadyAt": "2030-01-01T12:00:00+02:00",
    }
    said = await here.validate(here.order())
    here.shop.answers["validate"] = {"isValid": False, "errors": [{"code": "STORE_CLOSED"}]}
    token = said["validatedOrderToken"]
    reply = await here.place(here.order(validatedOrderToken=token, amounts={"total": "7.26"}))
    assert reply.status == 201, reply.body
    assert reply.json()["amounts"] == said["order"]["amounts"]
    assert reply.json()["estimatedReadyAt"] == "2030-01-01T10:00:00.000Z"
    assert await count_validations(here) == 1


async def test_lines_may_be_reordered_renamed_split_and_their_modifiers_too(here: Trade):
    cart = [tea(2), line(CAKE)]
    token = await here.token(here.order(*cart))
    groups = [
        {"modifierGroupId": EXTRAS, "lineItems": [line(LEMON)]},
        {"modifierGroupId": EXTRAS.upper(), "lineItems": [line(MILK)]},
    ]
    turned = [line(CAKE, name="x"), line(TEA, 2, *groups, lineItemId=CAKE)]
    reply = await here.place(here.order(*turned, validatedOrderToken=token))
    assert reply.status == 201, reply.body


@first_on_postgresql
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"lines": [tea(3)]}, id="quantity"),
        pytest.param({"lines": [line(TEA, 2)]}, id="modifiers"),
        pytest.param({"lines": [tea(2), line(CAKE)]}, id="another item"),
        pytest.param({"fulfillment": delivery()}, id="mode"),
        pytest.param(
            {"fulfillment": {"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": NEXT_MONTH}},
            id="time",
        ),
    ],
)  # fmt: skip
async def test_a_token_is_invalid_for_another_order(here: Trade, change: Any):
    token = await here.token(here.order())
    members = {name: value for name, value in change.items() if name != "lines"}
    reply = await here.place(here.order(*change.get("lines", []), validatedOrderToken=token, **members))
    said = refused(reply, "ORDER_TOKEN_INVALID")
    assert said["errors"][0]["pointer"] == "/validatedOrderToken"
    assert (await here.place(here.order(validatedOrderToken=token))).status == 201


async def test_an_address_is_part_of_what_was_validated(here: Trade):
    token = await here.token(here.order(fulfillment=delivery()))
    elsewhere = delivery(address=ADDRESS | {"address1": "2 Main St"})
    reply = await here.place(here.order(fulfillment=elsewhere, validatedOrderToken=token))
    refused(reply, "ORDER_TOKEN_INVALID")
    # `street` is another spelling of `address1`.
    street = {"street": ADDRESS["address1"]} | {k: v for k, v in ADDRESS.items() if k != "address1"}
    spelt = delivery(address=street)
    placed = await here.place(here.order(fulfillment=spelt, validatedOrderToken=token))
    assert placed.status == 201, placed.body
    assert placed.json()["fulfillment"]["address"]["address1"] == ADDRESS["address1"]


async def test_another_tip_makes_another_total(here: Trade):
    token = await here.token(here.order(amounts={"tip": "1.00"}))
    for amounts in ({"tip": "1.01"}, None):
        reply = await here.place(here.order(amounts=amounts, validatedOrderToken=token))
        refused(reply, "ORDER_TOTAL_DIFFERENT")
    reply = await here.place(here.order(amounts={"tip": "1.0"}, validatedOrderToken=token))
    assert reply.status == 201, reply.body


@first_on_postgresql
@pytest.mark.parametrize("total", ["5.79", "5.81", "-5.80", "580"])
async def test_a_total_that_is_not_the_orders_is_refused_with_and_without_a_token(here: Trade, total: str):
    token = await here.token(here.order())
    for one in (token, None):
        order = here.order(amounts={"total": total}, validatedOrderToken=one)
        said = refused(await here.place(order), "ORDER_TOTAL_DIFFERENT")
        assert "5.80" in said["detail"]
    right = here.order(amounts={"total": "5.8", "subTotal": "ignored"}, validatedOrderToken=token)
    assert (await here.place(right)).status == 201


@on_both
async def test_an_expired_token_is_refused(here: Trade, time: Time):
    token = await here.token(here.order())
    time.ahead = timedelta(minutes=14)
    assert (await here.place(here.order(tea(1), validatedOrderToken=token))).status == 400
    time.ahead = timedelta(minutes=15)
    reply = await here.place(here.order(validatedOrderToken=token))
    assert "expired" in refused(reply, "ORDER_TOKEN_INVALID")["detail"]


async def test_a_used_token_is_reported_as_used_even_when_it_has_expired(here: Trade, time: Time):
    order = here.order(validatedOrderToken=await here.token(here.order()))
    placed = (await here.place(order)).json()
    time.ahead = timedelta(minutes=16)
    said = refused(await here.place(order), "ORDER_ALREADY_PLACED", 409)
    assert said["orderId"] == placed["orderId"]


async def test_another_storefronts_token_is_refused(here: Trade):
    token = await here.token(here.order())
    other = (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]
    reply = await here.place(here.order(validatedOrderToken=token), front=other)
    refused(reply, "ORDER_TOKEN_INVALID")


async def test_a_token_of_another_store_with_the_same_catalog_is_refused(here: Trade):
    twin = await here.mercato.live(here.pos, here.shop.base + "/catalog.json", name="twin")
    token = await here.token(here.order())
    order = here.order(validatedOrderToken=token)
    order["cart"] |= {"storeId": twin["storeId"], "catalogSetId": twin["catalogSetId"]}
    refused(await here.place(order), "ORDER_TOKEN_INVALID")


@first_on_postgresql
@pytest.mark.parametrize(
    "spoil", [str.upper, lambda t: t[:-1], lambda t: t + "A", lambda _: "", lambda _: "vo_"]
)
async def test_a_malformed_or_foreign_token_is_refused(here: Trade, spoil: Any):
    token = spoil(await here.token(here.order()))
    refused(await here.place(here.order(validatedOrderToken=token)), "ORDER_TOKEN_INVALID")


async def test_a_used_token_names_its_order_even_if_the_order_would_now_be_refused(here: Trade):
    token = await here.token(here.order())
    order = here.order(validatedOrderToken=token)
    placed = (await here.place(order)).json()
    again = refused(await here.place(order), "ORDER_ALREADY_PLACED", 409)
    assert again["orderId"] == placed["orderId"]
    assert (await here.front.get(f"{ORDERS}/{again['orderId']}")).status == 200

    path = f"/v1/commerce/stores/{here.store['storeId']}/status"
    await here.pos.post(path, {"status": "paused"})
    refused(await here.place(order), "ORDER_ALREADY_PLACED", 409)
    await here.update(placed, state="cancelled", cancelReason="no tea")
    refused(await here.place(order), "ORDER_ALREADY_PLACED", 409)


@on_both
async def test_a_token_is_free_again_when_the_store_has_refused_its_order(here: Trade):
    token = await here.token(here.order())
    here.shop.answers["place"] = {"accepted": False, "errors": [{"code": "PAYMENT_DECLINED"}]}
    refused(await here.place(here.order(validatedOrderToken=token)), "PAYMENT_DECLINED")
    here.shop.answers["place"] = {"accepted": True}
    order = here.order(validatedOrderToken=token, payment={"type": "external"})
    assert (await here.place(order)).status == 201
    refused(await here.place(order), "ORDER_ALREADY_PLACED", 409)


async def sells_in_another_currency(here: Trade, time: Time) -> None:
    """Switch to a set in a currency of another scale, so that neither total nor tip can be read in it."""
    document = cafe() | {"currency": "JPY"}
    for item in document["items"].values():
        item["basePrice"] = "300"
    for group in document["modifierGroups"].values():
        group.pop("priceOverrides", None)
    run = await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(document))
    assert run["status"] == "succeeded", run


async def forgets_the_set(here: Trade, time: Time) -> None:
    changed = cafe()
    changed["items"][TEA]["name"] = "Green tea"
    await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(changed))
    async with here.mercato.app.db.write() as tx:
        assert await periods.prune_sets(tx, before=clock.now() + timedelta(days=1), limit=100) == 1


async def lets_the_time_pass(here: Trade, time: Time) -> None:
    time.ahead = timedelta(minutes=11)


async def is_suspended(here: Trade, time: Time) -> None:
    async with here.mercato.app.db.read() as tx:
        owner = await tx.scalar(select(stores.c.partner_id).where(stores.c.id == UUID(here.store["storeId"])))
    await offboarding.suspend(here.mercato.app.db, UUID(str(owner)), now=clock.now)


@pytest.mark.parametrize(
    "becomes", [sells_in_another_currency, forgets_the_set, lets_the_time_pass, is_suspended]
)
async def test_a_used_token_names_its_order_whatever_becomes_of_the_store_and_of_the_time(
    here: Trade, time: Time, becomes: Callable[[Trade, Time], Awaitable[None]]
):
    later = (clock.now() + timedelta(minutes=10)).isoformat()
    members: dict[str, Any] = {
        "fulfillment": {"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": later},
        "amounts": {"tip": "0.25"},
    }
    token = await here.token(here.order(**members))
    members["amounts"] |= {"total": "6.05"}
    placed = await here.placed(here.order(validatedOrderToken=token, **members))
    await becomes(here, time)
    again = await here.place(here.order(validatedOrderToken=token, **members))
    said = refused(again, "ORDER_ALREADY_PLACED", 409)
    assert said["orderId"] == placed["orderId"]
    # For another cart it says nothing about that order.
    other = await here.place(here.order(tea(3), validatedOrderToken=token, **members))
    assert (other.status in (400, 404, 422), "orderId" in other.json()) == (True, False), other.body


async def test_a_price_that_has_changed_since_validation_is_an_error(here: Trade):
    token = await here.token(here.order())
    dearer = cafe()
    dearer["items"][TEA]["basePrice"] = "2.60"
    run = await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(dearer))
    assert run["status"] == "succeeded"
    said = refused(await here.place(here.order(validatedOrderToken=token)), "ORDER_TOTAL_DIFFERENT")
    assert "6.00" in said["detail"]
    # A new catalog whose prices are the same changes nothing for a token.
    token = await here.token(here.order())
    dearer["items"][CAKE]["basePrice"] = "9.00"
    await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(dearer))
    assert (await here.place(here.order(validatedOrderToken=token))).status == 201


@on_both
async def test_errors_since_the_validation_refuse_a_placement_with_a_token(here: Trade):
    token = await here.token(here.order())
    path = f"/v1/commerce/stores/{here.store['storeId']}/item-availability"
    await here.pos.post(path, {"items": [{"itemId": TEA, "available": False}]})
    said = refused(await here.place(here.order(validatedOrderToken=token)), "ITEM_UNAVAILABLE")
    assert said["errors"][0]["pointer"] == "/cart/lineItems/0"
    await here.pos.post(path, {"items": [{"itemId": TEA, "available": True}]})
    assert (await here.place(here.order(validatedOrderToken=token))).status == 201
