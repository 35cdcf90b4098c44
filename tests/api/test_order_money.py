"""Orders in currencies of every scale, with what stores add, to the ends of int64."""

from typing import Any

import pytest
from tests.api.trade import MERCHANT, VALIDATE, Trade, line, tea, trade
from tests.catalog.documents import CAKE, EXTRAS, LEMON, MILK, TEA, cafe
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import shared

pytestmark = [shared, mostly_sqlite]

MOST = 2**63 - 1


def priced(currency: str, tea_: str, milk: str, lemon: str) -> dict[str, Any]:
    """Return the café in a currency."""
    made = cafe() | {"currency": currency}
    for item, price in ((TEA, tea_), (MILK, milk), (LEMON, lemon), (CAKE, tea_)):
        made["items"][item]["basePrice"] = price
    made["items"][CAKE].pop("maximumQuantity")
    made["modifierGroups"][EXTRAS]["priceOverrides"] = {LEMON: lemon}
    return made


@pytest.mark.parametrize(
    ("currency", "prices", "tip", "said", "expected"),
    [
        (
            "JPY", ("250", "30", "10"), "100", {"fees": 50, "taxes": "58", "adjustments": "-8"},
            {"subTotal": "580", "fees": "50", "taxes": "58", "adjustments": "-8", "tip": "100", "total": "780"},
        ),
        (
            "KWD", ("2.505", "0.3", "0.1"), "0.005", {"fees": "0.001", "promotions": "5.800"},
            {"subTotal": "5.810", "fees": "0.001", "promotions": "5.800", "tip": "0.005", "total": "0.016"},
        ),
        (
            "BHD", ("2.500", "0.300", "0.100"), "1", {"taxes": 0.58, "total": "6.380"},
            {"subTotal": "5.800", "taxes": "0.580", "tip": "1.000", "total": "7.380"},
        ),
    ],
    ids=["JPY", "KWD", "BHD"],
)  # fmt: skip
async def test_an_order_is_in_the_scale_of_its_currency(
    mercato: Service, shop: MerchantServer, currency: str, prices: Any, tip: str, said: Any, expected: Any
):
    here = await trade(mercato, shop, catalog=priced(currency, *prices))
    shop.answers["validate"] = {"amounts": said}
    order = here.order(amounts={"tip": tip})
    checked = await here.validate(order)
    assert checked["isValid"] is True, checked
    amounts = checked["order"]["amounts"]
    assert amounts["currency"] == currency
    assert {name: amounts[name] for name in expected} == expected
    scale = len(expected["total"].partition(".")[2])
    for name, value in amounts.items():
        if isinstance(value, str) and name != "currency":
            assert len(value.partition(".")[2]) == scale, name
    order["validatedOrderToken"] = checked["validatedOrderToken"]
    placed = await here.place(order | {"amounts": {"tip": tip, "total": expected["total"]}})
    assert placed.status == 201, placed.body
    assert placed.json()["amounts"] == amounts
    read = (await here.pos.get(f"{MERCHANT}/{placed.json()['orderId']}")).json()
    assert read["amounts"] == amounts


@only_sqlite
@pytest.mark.parametrize(
    ("currency", "tip", "fee"), [("JPY", "0.5", "0.5"), ("KWD", "0.0001", "0.0001"), ("USD", "0.001", 0.001)]
)
async def test_digits_beyond_the_scale_are_never_rounded(
    mercato: Service, shop: MerchantServer, database_kind: str, currency: str, tip: str, fee: Any
):
    here = await trade(mercato, shop, catalog=priced(currency, "250", "30", "10"))
    reply = await here.front.post(VALIDATE, here.order(amounts={"tip": tip}))
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (422, "/amounts/tip")
    shop.answers["validate"] = {"amounts": {"fees": fee}}
    reply = await here.front.post(VALIDATE, here.order())
    assert (reply.status, reply.json()["errorCode"]) == (503, "STORE_UNREACHABLE")
    # Zeros beyond the scale don't count.
    shop.answers["validate"] = {"amounts": {"fees": "1.0000"}}
    checked = await here.validate(here.order(amounts={"tip": "2.00000"}))
    assert checked["isValid"] is True


async def test_an_order_may_cost_all_that_an_int64_holds_and_not_one_more(
    mercato: Service, shop: MerchantServer
):
    here = await trade(mercato, shop, catalog=priced("JPY", str(MOST - 1), "0", "0"))
    order = here.order(line(TEA), amounts={"tip": "1"})
    placed = await here.place(order | {"amounts": {"tip": "1", "total": str(MOST)}})
    assert placed.status == 201, placed.body
    assert placed.json()["amounts"]["total"] == str(MOST)
    read = (await here.front.get(f"/v1/marketfront/orders/{placed.json()['orderId']}")).json()
    assert read["amounts"]["total"] == str(MOST)
    for too_much in (
        here.order(line(TEA), amounts={"tip": "2"}),
        here.order(line(TEA, 2)),
        here.order(line(TEA, 2**31 - 1)),
    ):
        for reply in (await here.front.post(VALIDATE, too_much), await here.place(too_much)):
            assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED"), reply.body
    shop.answers["validate"] = {"amounts": {"fees": "2"}}
    reply = await here.front.post(VALIDATE, here.order(line(TEA)))
    assert (reply.status, reply.json()["errorCode"]) == (503, "STORE_UNREACHABLE")


@only_sqlite
async def test_a_deep_cart_with_a_huge_total_is_refused_and_never_a_500(
    mercato: Service, shop: MerchantServer, database_kind: str
):
    here = await trade(
        mercato, shop, catalog=priced("USD", "92233720368547758.06", "92233720368547758.06", "0")
    )
    lines = [tea(2**31 - 1), line(CAKE, 2**31 - 1)]
    for reply in (await here.front.post(VALIDATE, here.order(*lines)), await here.place(here.order(*lines))):
        assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED"), reply.body


@only_sqlite
async def test_the_minimum_is_the_cart_alone_and_what_it_costs_exactly_is_enough(
    mercato: Service, shop: MerchantServer, database_kind: str
):
    here = await trade(mercato, shop)
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    assert (await here.pos.call("PUT", path, {"minimumOrderAmount": "5.80"})).status == 200
    assert (await here.validate(here.order()))["isValid"] is True
    shop.answers["validate"] = {"amounts": {"fees": "99.00"}}
    checked = await here.validate(here.order(tea(1), amounts={"tip": "50.00"}))
    assert [e["code"] for e in checked["order"]["errors"]] == ["ORDER_BELOW_MINIMUM"]


@only_sqlite
async def test_what_is_free_can_be_ordered(mercato: Service, shop: MerchantServer, database_kind: str):
    here: Trade = await trade(mercato, shop, catalog=priced("USD", "0", "0", "0"))
    placed = await here.placed(here.order(amounts={"total": "0.00"}))
    assert placed["amounts"]["total"] == "0.00"
