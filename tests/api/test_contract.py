"""Unusual but legal requests, and every fault of a request at once."""

from typing import Any

import pytest
from tests.api.examples import in_turn
from tests.api.trade import MERCHANT, ORDERS, PLACE, VALIDATE, Trade, tea, trade
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service
from tests.sharing import shared

from mercato.asgi import document
from mercato_client.testing.caller import Answer

pytestmark = [shared, mostly_sqlite]


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def pointers(reply: Answer) -> dict[str | None, str]:
    return {fault["pointer"]: fault["code"] for fault in reply.json()["errors"]}


# --- orders ---------------------------------------------------------------------------------------


async def test_an_order_from_validate_can_be_placed_unchanged(here: Trade):
    said = await here.validate(here.order(amounts={"tip": "1.00"}))
    reply = await here.place(said["order"] | {"validatedOrderToken": said["validatedOrderToken"]})
    assert reply.status == 201, reply.body
    placed = reply.json()
    for member in ("amounts", "clientContext", "customer", "fulfillment", "cart"):
        assert placed[member] == said["order"][member], member


async def test_an_order_from_place_can_be_placed_again_unchanged(here: Trade):
    first = await here.placed(here.order(amounts={"tip": "1.00"}))
    second = await here.placed(first)
    assert second["orderId"] != first["orderId"]
    assert (second["amounts"], second["cart"]) == (first["amounts"], first["cart"])


async def test_amounts_other_than_the_tip_are_ignored_whatever_they_hold(here: Trade):
    nonsense: dict[str, Any] = {
        "tip": "0",
        "subTotal": None,
        "fees": {},
        "taxesDescription": "x",
        "total": True,
    }
    assert (await here.validate(here.order(amounts=nonsense)))["order"]["amounts"]["total"] == "5.80"


async def test_unknown_members_are_ignored_at_every_depth_and_null_is_absent(here: Trade):
    order = here.order(amounts=None, customer=None, zz=[1])
    order["cart"]["lineItems"][0] |= {"lineItemId": None, "zz": {}, "quantity": 2.0}
    order["fulfillment"] |= {"scheduledTime": None, "zz": 1}
    order["clientContext"]["zz"] = None
    said = await here.validate(order)
    assert (said["isValid"], said["order"]["amounts"]["total"]) == (True, "5.80")
    assert "customer" not in said["order"]
    assert (await here.place(order | {"validatedOrderToken": None, "payment": None})).status == 201


async def test_a_payment_goes_to_the_store_unchanged_even_if_a_quantity_is_normalised(here: Trade):
    body = (
        b'{"payment":{"amount": 10.10, "n":12345678901234567890},"cart":{"storeId":"%s","catalogSetId":"%s",'
        % (
            here.store["storeId"].encode(),
            here.store["catalogSetId"].encode(),
        )
    )
    line = here.order(tea())["cart"]["lineItems"][0]["itemId"].encode()
    body += b'"lineItems":[{"itemId":"%s","quantity":1.0,"modifierGroups":[]}]},' % line
    body += (
        b'"clientContext":{"ip":"::1","userAgent":"x"},"fulfillment":{"mode":"PICKUP","scheduleType":"ASAP"}}'
    )
    assert (await here.place(body)).status == 201
    await here.shop.webhook()
    assert b'"payment":{"amount": 10.10, "n":12345678901234567890}' in (await here.shop.webhook())[2]


@only_sqlite
@in_turn("body", [b"{}", b"", b"[", b"null"])
async def test_without_an_idempotency_key_it_is_missing_whatever_the_body_holds(here: Trade, body: bytes):
    for key in ({}, {"Idempotency-Key": "  "}):
        reply = await here.front.post(PLACE, body, headers=key)
        assert (reply.status, reply.json()["errorCode"]) == (400, "MISSING_IDEMPOTENCY_KEY")
        assert pointers(reply) == {None: "MISSING_IDEMPOTENCY_KEY"}


async def test_a_key_has_1_to_255_printable_ascii_characters(here: Trade):
    assert (await here.place(here.order(), key="~" * 255)).status == 201
    assert (await here.place(here.order(), key="a b")).status == 201
    for key in ("k" * 256, "k\u00e9"):
        reply = await here.place(here.order(), key=key)
        assert (reply.status, reply.json()["errorCode"]) == (422, "VALIDATION_FAILED")


async def test_a_wrong_total_is_reported_with_a_pointer(here: Trade):
    reply = await here.place(here.order(amounts={"total": "5.79"}))
    assert (reply.status, pointers(reply)) == (400, {"/amounts/total": "ORDER_TOTAL_DIFFERENT"})
    assert (await here.place(here.order(amounts={"total": "5.8000"}))).status == 201


async def test_a_refusal_is_replayed_in_the_form_it_first_had(here: Trade):
    here.shop.answers["place"] = {"accepted": False, "errors": [{"code": "PAYMENT_DECLINED"}]}
    order = here.order()
    first = await here.place(order, key="one")
    again = await here.front.post(PLACE, order, headers={"Idempotency-Key": "one", "Accept": "text/markdown"})
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["Content-Type"] == first.headers["Content-Type"] == "application/problem+json"
    assert (again.headers["Idempotent-Replayed"], "Idempotent-Replayed" in first.headers) == ("true", False)
    assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]


@on_both
async def test_a_refusal_in_markdown_is_replayed_in_markdown_at_any_address_of_the_service(here: Trade):
    here.shop.answers["place"] = {
        "accepted": False,
        "errors": [{"code": "PAYMENT_DECLINED", "message": "\u20ac: #no"}],
    }
    order, key = here.order(), {"Idempotency-Key": "one"}
    first = await here.front.post(PLACE, order, headers=key | {"Accept": "text/markdown"})
    assert first.headers["Content-Type"].startswith("text/markdown")
    again = await here.front.post(PLACE, order, headers=key | {"Host": "another.example"})
    assert (again.status, again.body, again.headers["Idempotent-Replayed"]) == (400, first.body, "true")
    assert again.headers["Content-Type"] == first.headers["Content-Type"]


@on_both
async def test_orders_are_listed_by_store_and_state_page_by_page_newest_first(here: Trade):
    placed = [(await here.placed())["orderId"] for _ in range(3)]
    await here.update({"orderId": placed[0]}, state="cancelled", cancelReason="Closed")
    store = here.store["storeId"].upper()
    seen: list[str] = []
    query = f"storeId={store}&state=open&limit=1"
    cursor = ""
    while True:
        page = (await here.pos.get(f"{MERCHANT}?{query}{cursor}")).json()
        seen += [order["orderId"] for order in page["orders"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen == [placed[2], placed[1]]
    closed = (await here.pos.get(f"{MERCHANT}?state=cancelled")).json()
    assert [order["orderId"] for order in closed["orders"]] == [placed[0]]
    for bad in ("state=bogus", "limit=0", "limit=101", "cursor=zz", "storeId=zz"):
        reply = await here.pos.get(f"{MERCHANT}?{bad}")
        assert (reply.status, pointers(reply)) == (422, {None: "VALIDATION_FAILED"}), bad


@on_both
async def test_an_order_that_is_closed_says_why_and_keeps_its_status(here: Trade):
    placed = await here.placed()
    assert (
        await here.update(placed, status="INTRANSIT", estimatedReadyAt="2099-01-01T01:00:00+01:00")
    ).status == 200
    assert (await here.update(placed, state="Cancelled", cancelReason=" No tea ")).status == 200
    read = (await here.front.get(f"{ORDERS}/{placed['orderId'].upper()}")).json()
    assert (read["state"], read["status"]) == ("cancelled", "inTransit")
    assert (read["cancelReason"], read["estimatedReadyAt"]) == ("No tea", "2099-01-01T00:00:00.000Z")


async def test_a_503_says_how_long_to_wait_in_both_places(here: Trade):
    here.shop.answers["validate"] = {"isValid": "perhaps"}
    reply = await here.front.post(VALIDATE, here.order())
    assert (reply.status, reply.json()["errorCode"]) == (503, "STORE_UNREACHABLE")
    assert reply.json()["retryable"] is True
    assert int(reply.headers["Retry-After"]) == reply.json()["retryAfter"] > 0


# --- every fault at once --------------------------------------------------------------------------


@only_sqlite
async def test_faults_of_form_and_of_value_are_listed_together(pos: Client):
    body: Any = {
        "partnerStoreId": "",
        "name": 5,
        "catalogCallbackUrl": "ftp://x",
        "webhookUrl": "/x",
        "address": {"coordinates": {"lat": 91, "lng": "1"}},
    }
    reply = await pos.post("/v1/commerce/onboarding/stores", body)
    assert (reply.status, reply.json()["errorCode"]) == (400, "INVALID_REQUEST")
    assert pointers(reply) == {
        "/partnerStoreId": "VALIDATION_FAILED",
        "/name": "INVALID_REQUEST",
        "/catalogCallbackUrl": "VALIDATION_FAILED",
        "/webhookUrl": "VALIDATION_FAILED",
        "/address/coordinates/lat": "VALIDATION_FAILED",
        "/address/coordinates/lng": "INVALID_REQUEST",
    }


async def test_every_fault_of_a_pause_is_listed(here: Trade):
    path = f"/v1/commerce/stores/{here.store['storeId']}/status"
    reply = await here.pos.post(path, {"status": "paused", "pauseReason": 5, "resumeAt": 7})
    assert (reply.status, pointers(reply)) == (
        400,
        {"/pauseReason": "INVALID_REQUEST", "/resumeAt": "INVALID_REQUEST"},
    )
    reply = await here.pos.post(path, {"status": "closed", "pauseReason": "x" * 1001, "resumeAt": "soon"})
    assert reply.status == 422
    assert set(pointers(reply)) == {"/status", "/pauseReason", "/resumeAt"}
    reply = await here.pos.post(path, {"status": "ONLINE", "pauseReason": 5, "resumeAt": "soon"})
    assert reply.json() == {"status": "online", "pauseReason": None, "resumeAt": None}


@on_both
async def test_a_new_carts_missing_members_are_reported_with_pointers(here: Trade):
    reply = await here.front.post("/v1/marketfront/carts/add", {"item": tea()})
    assert (reply.status, reply.json()["errorCode"]) == (400, "MISSING_STORE_ID")
    assert pointers(reply) == {"/storeId": "MISSING_STORE_ID", "/catalogSetId": "CATALOGSET_REQUIRED"}
    reply = await here.front.post(
        "/v1/marketfront/carts/add", {"item": tea(), "storeId": here.store["storeId"]}
    )
    assert (reply.status, pointers(reply)) == (400, {"/catalogSetId": "CATALOGSET_REQUIRED"})


@only_sqlite
async def test_an_integer_is_one_in_a_query_too_however_it_is_written(pos: Client):
    assert (await pos.get("/v1/commerce/stores?limit=2.0")).status == 200
    assert (await pos.get("/v1/commerce/stores?limit=2.5")).status == 400


@only_sqlite
async def test_the_document_is_the_one_that_clients_get(pos: Client):
    reply = await pos.get("/openapi.json", headers={"Accept": "text/markdown"})
    assert (reply.status, reply.body) == (200, document())
