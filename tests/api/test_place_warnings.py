"""The warnings to a merchant whose place is unknown."""

import json
from typing import Any
from uuid import UUID, uuid4

from aiohttp import web
from tests.api.examples import in_turn
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.sharing import shared

pytestmark = [shared, mostly_sqlite]

ONBOARDINGS = "/v1/commerce/onboarding/stores"
STORES = "/v1/commerce/stores"
NO_NAME = {"items": {str(UUID(int=1)): {"basePrice": "1.00"}}}


def codes(answer: Any) -> list[tuple[str, str]]:
    """Return the warnings but that of a store without a webhookUrl, which none of these stores has."""
    found = [(warning["code"], warning["pointer"]) for warning in answer["warnings"]]
    return [one for one in found if one[0] != "ORDERS_UNSEEN"]


async def register(pos: Client, url: str, address: object, **more: object) -> Any:
    body = {"partnerStoreId": str(uuid4()), "name": "S", "address": address, "catalogCallbackUrl": url} | more
    reply = await pos.post(ONBOARDINGS, body)
    assert reply.status == 201, reply.body
    return reply.json()


@in_turn(
    ("address", "timezone", "expected"),
    [
        ({"city": "Lyon", "country": "France"}, None, []),
        (
            {"city": "Nowhereville", "country": "Spain"},
            None,
            [("LOCATION_UNKNOWN", "/address/city"), ("TIMEZONE_ASSUMED", "/timezone")],
        ),
        (
            {"city": "Nowhereville", "country": "Spain"},
            "Europe/Madrid",
            [("LOCATION_UNKNOWN", "/address/city")],
        ),
        ({"city": "Nowhereville", "country": "France"}, None, [("LOCATION_UNKNOWN", "/address/city")]),
        (
            {"city": "Lyon", "country": "Frence"},
            None,
            [("LOCATION_UNKNOWN", "/address/country"), ("TIMEZONE_ASSUMED", "/timezone")],
        ),
        ({"postalCode": "69001", "country": "FR"}, None, [("LOCATION_UNKNOWN", "/address/postalCode")]),
        ({}, None, [("LOCATION_UNKNOWN", "/address"), ("TIMEZONE_ASSUMED", "/timezone")]),
        ({"coordinates": {"lat": 45.76, "lng": 4.83}}, None, []),
    ],
)
async def test_registration_warns_of_an_unknown_place(
    pos: Client,
    shop: MerchantServer,
    address: object,
    timezone: str | None,
    expected: list[tuple[str, str]],
):
    status = await register(pos, shop.host(CATALOG), address, timezone=timezone)
    assert codes(status) == expected
    assert (
        codes((await pos.get(f"{ONBOARDINGS}/{status['onboardingId']}")).json())[: len(expected)] == expected
    )


async def test_a_store_outside_the_united_states_has_its_place_and_its_time_zone(
    mercato: Service, pos: Client, shop: MerchantServer
):
    status = await register(pos, shop.host(CATALOG), {"city": "京都", "country": "日本"})
    path = f"{ONBOARDINGS}/{status['onboardingId']}"
    await mercato.until(pos, path, lambda it: it["status"] == "ready_to_activate")
    store = (await pos.post(path + "/activate")).json()
    assert (store["timezone"], codes(store)) == ("Asia/Tokyo", [])


async def test_a_warning_of_the_place_ends_when_the_merchant_sends_coordinates(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}"
    both = [("LOCATION_UNKNOWN", "/address"), ("TIMEZONE_ASSUMED", "/timezone")]
    assert codes(store) == both
    run = await mercato.run(pos, store["storeId"], shop.host(CATALOG, "/new.json"))
    assert codes(run) == both
    sent = {"address": {"coordinates": {"lat": 45.76, "lng": 4.83}}, "timezone": "Europe/Paris"}
    assert codes((await pos.call("PUT", path, sent)).json()) == []
    assert codes((await pos.get(f"{ONBOARDINGS}/{store['onboardingId']}")).json()) == []
    assert codes((await pos.get(ONBOARDINGS)).json()["onboardings"][0]) == []


@on_both
async def test_update_store_warns_of_an_unknown_address(mercato: Service, pos: Client, shop: MerchantServer):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}"
    found = (await pos.call("PUT", path, {"address": {"city": "Oslo", "country": "NO"}})).json()
    assert (found["timezone"], codes(found)) == ("Europe/Oslo", [])
    lost = (await pos.call("PUT", path, {"address": {"city": "Nowhereville", "country": "Brazil"}})).json()
    assert codes(lost) == [("LOCATION_UNKNOWN", "/address/city"), ("TIMEZONE_ASSUMED", "/timezone")]
    assert lost["timezone"] == "Europe/Oslo"
    assert "Europe/Oslo" in lost["warnings"][1]["message"]


async def test_a_catalogs_warnings_are_in_its_run_its_history_and_its_onboarding(
    mercato: Service, pos: Client, shop: MerchantServer
):
    place = {"city": "Lyon", "country": "FR"}
    status = await register(pos, shop.host(NO_NAME), place)
    path = f"{ONBOARDINGS}/{status['onboardingId']}"
    ready = await mercato.until(pos, path, lambda it: it["status"] == "ready_to_activate")
    expected = [("no-name", f"/items/{UUID(int=1)}")]
    assert codes(ready) == expected
    store = (await pos.post(path + "/activate")).json()
    same = await mercato.run(pos, store["storeId"], shop.host(NO_NAME))
    assert (same["status"], codes(same)) == ("succeeded", expected)
    other = await mercato.run(pos, store["storeId"], shop.host(NO_NAME | {"note": 1}, "/other.json"))
    assert codes(other) == expected
    failed = await mercato.run(pos, store["storeId"], shop.host(NO_NAME | {"currency": "X"}, "/bad.json"))
    assert (failed["status"], codes(failed)) == ("failed", expected)
    history = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()["runs"]
    assert [codes(run) for run in history] == [expected] * 3


async def test_a_run_of_a_document_that_was_not_modified_has_the_warnings_of_the_set_that_is_served(
    mercato: Service, pos: Client, shop: MerchantServer
):
    statuses: list[int] = []

    async def tagged(request: web.Request) -> web.Response:
        known = request.headers.get("If-None-Match") == '"1"'
        statuses.append(304 if known else 200)
        body = None if known else json.dumps(NO_NAME).encode()
        return web.Response(status=statuses[-1], body=body, headers={"ETag": '"1"'})

    store = await mercato.live(pos, shop.host(tagged))
    again = await mercato.run(pos, store["storeId"], shop.host(tagged))
    assert statuses == [200, 304]
    assert ("no-name", f"/items/{UUID(int=1)}") in codes(again)


async def test_the_event_of_a_run_has_the_warnings_of_the_place_and_of_the_catalog(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
    run = await mercato.run(pos, store["storeId"], shop.host(NO_NAME, "/new.json"))
    _, _, body = await shop.webhook()
    data = json.loads(body)["data"]
    assert data["warnings"] == run["warnings"]
    assert [code for code, _ in codes(data)] == ["LOCATION_UNKNOWN", "TIMEZONE_ASSUMED", "no-name"]


async def test_a_run_keeps_a_hundred_warnings_of_which_every_rule_has_its_share(
    mercato: Service, pos: Client, shop: MerchantServer
):
    many: dict[str, Any] = {"items": {str(UUID(int=number)): {"tags": []} for number in range(1, 301)}}
    store = await mercato.live(pos, shop.host(CATALOG))
    run = await mercato.run(pos, store["storeId"], shop.host(many, "/many.json"))
    of_catalog = [warning for warning in run["warnings"] if warning["code"].islower()]
    assert len(of_catalog) == 99
    assert [len([w for w in of_catalog if w["code"] == code]) for code in ("no-name", "no-price")] == [49, 49]
    assert of_catalog[-1]["code"] == "not-listed"
