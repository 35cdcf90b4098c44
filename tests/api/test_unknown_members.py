"""Unknown members are ignored, and named: in a header, in warnings, and in the list of requests."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.api.table import GUARDED, body_for, headers_for, target
from tests.api.world import World, ids_for
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service, service
from tests.sharing import shared

from mercato.http.operations import Access

pytestmark = [shared, mostly_sqlite]

ONBOARDINGS = "/v1/commerce/onboarding/stores"
STORES = "/v1/commerce/stores"
REQUESTS = "/v1/commerce/requests"
HEADER = "X-Unknown-Members"
HOT = {
    *("addCartItem", "removeCartItem", "updateCartItem", "validateOrder", "placeOrder", "cancelOrder"),
    *(
        "discoverStores",
        "validateCatalogSet",
        "explainWebhookSignature",
        "createConsoleLink",
        "sendMcpMessage",
    ),
}
"""Operations with a body that aren't examined: a storefront's, and those that change nothing of a store.

Agents' messages have members that clients add as they like; arguments that a tool doesn't have are refused.
"""


def registration(url: str, **more: Any) -> dict[str, Any]:
    return {"partnerStoreId": "s1", "name": "Shop", "address": {}, "catalogCallbackUrl": url} | more


def about_members(warnings: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(one["path"], one["message"]) for one in warnings if one["code"] == "UNKNOWN_MEMBER"]


async def stored(mercato: Service, client: Client) -> list[dict[str, Any]]:
    await mercato.app.request_log.flush()
    found: list[dict[str, Any]] = (await client.get(REQUESTS)).json()["requests"]
    return found


@on_both
async def test_every_operation_of_a_merchant_with_a_body_names_its_unknown_members(world: World):
    for operation in GUARDED:
        if operation.takes is None or operation.id == "putCatalog":
            continue
        ids = await ids_for(world, operation)
        body = body_for(operation, ids) | {"n\u00f6body, knows": 1}
        path = target(operation, ids, store=world.ids["storeId"])
        reply = await world.owner[operation.access].call(
            operation.method, path, body, headers=headers_for(operation)
        )
        named = operation.id not in HOT
        assert (operation.id, operation.names_unknown) == (operation.id, named)
        # Other refusals than of a body don't name them.
        if named and (reply.status < 300 or reply.status in {400, 422}):
            assert (operation.id, reply.headers.get(HEADER)) == (operation.id, "/n%C3%B6body%2C%20knows")
        else:
            assert (operation.id, reply.headers.get(HEADER)) == (operation.id, None)
        good = await world.owner[operation.access].call(
            operation.method, path, body_for(operation, ids), headers=headers_for(operation)
        )
        assert (operation.id, good.headers.get(HEADER)) == (operation.id, None)


async def test_register_warns_of_each_with_the_nearest_known_member(
    mercato: Service, pos: Client, shop: MerchantServer
):
    body = registration(shop.host(CATALOG), webhookURL=shop.base, openingHours=[], address={"zip": "90210"})
    made = await pos.post(ONBOARDINGS, body)
    assert made.status == 201
    assert made.headers[HEADER] == "/address/zip, /webhookURL, /openingHours"
    expected = [
        ("/address/zip", "`zip` is not a member; did you mean `postalCode`?"),
        ("/webhookURL", "`webhookURL` is not a member; did you mean `webhookUrl`?"),
        (
            "/openingHours",
            "`openingHours` is not a member; opening hours are the `availability` of the catalogs in the CatalogSet.",
        ),
    ]
    assert about_members(made.json()["warnings"]) == expected
    path = made.headers["Location"]
    ready = await mercato.until(pos, path, lambda status: status["status"] == "ready_to_activate")
    assert about_members(ready["warnings"]) == expected
    listed = (await pos.get(ONBOARDINGS)).json()["onboardings"][0]
    assert about_members(listed["warnings"]) == expected

    # They stay with the store until its next update, which may have its own.
    store = (await pos.post(f"{path}/activate")).json()
    own = f"{STORES}/{store['storeId']}"
    for shown in (store, (await pos.get(own)).json(), (await pos.get(STORES)).json()["stores"][0]):
        assert about_members(shown["warnings"]) == expected
    changed = await pos.call("PUT", own, {"webhookURL": shop.base})
    assert changed.headers[HEADER] == "/webhookURL"
    assert about_members(changed.json()["warnings"]) == expected[1:2]
    assert about_members((await pos.get(path)).json()["warnings"]) == expected[1:2]
    fixed = await pos.call("PUT", own, {"webhookUrl": shop.base})
    assert HEADER not in fixed.headers
    for shown in (fixed.json(), (await pos.get(own)).json(), (await pos.get(path)).json()):
        assert about_members(shown["warnings"]) == []


async def test_an_update_of_a_status_names_them_in_its_header(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}/status"
    reply = await pos.post(path, {"status": "paused", "reason": "Oven"})
    assert (reply.status, reply.headers[HEADER], reply.json()["pauseReason"]) == (200, "/reason", None)
    many = {"updates": [{"storeId": store["storeId"], "status": "online"}] * 2}
    many["updates"][1] = many["updates"][1] | {"until": "2099-01-01T00:00:00Z"}
    assert (await pos.post(f"{STORES}/status", many)).headers[HEADER] == "/updates/1/until"


async def test_a_refused_body_names_them_too(mercato: Service, pos: Client):
    reply = await pos.post(ONBOARDINGS, {"partnerStoreID": "s", "name": "n", "address": {}})
    assert (reply.status, reply.headers[HEADER]) == (400, "/partnerStoreID")
    (entry,) = await stored(mercato, pos)
    assert entry["errorCode"] == "INVALID_REQUEST"
    assert entry["errors"][-1] == {
        "code": "UNKNOWN_MEMBER",
        "message": "`partnerStoreID` is not a member; did you mean `partnerStoreId`?",
        "pointer": "/partnerStoreID",
    }


@on_both
async def test_an_accepted_request_with_unknown_members_is_listed_once_an_hour(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}/status"
    for member in ("reason", "reason", "note"):
        await pos.post(path, {"status": "paused", member: "Oven"})
    found = [entry for entry in await stored(mercato, pos) if entry["errorCode"] == "UNKNOWN_MEMBER"]
    assert [(entry["operation"], entry["status"]) for entry in found] == [("setStoreStatus", 200)] * 2
    assert [error["pointer"] for entry in found for error in entry["errors"]] == ["/note", "/reason"]


async def test_at_most_twenty_are_named_and_a_long_name_is_cut(pos: Client):
    many = {f"m{number}": 1 for number in range(30)}
    reply = await pos.post(ONBOARDINGS, registration("http://nobody@127.0.0.1/") | many)
    assert reply.headers[HEADER].split(", ") == [f"/m{number}" for number in range(20)]
    assert len(about_members(reply.json()["warnings"])) == 20
    status = await pos.post(ONBOARDINGS, {"\x00\r\nSet-Cookie: a": 1, "n" * 5_000: 1})
    assert unquote(status.headers[HEADER]) == f"/\x00\r\nSet-Cookie: a, /{'n' * 199}"


@only_sqlite
@pytest.mark.parametrize("body", [b"[]", b"1", b"{", b'{"a', b"\xff", b'{"name": {"x": 1}}', b"[" * 300_000])
async def test_a_body_of_another_form_is_refused_as_before(pos: Client, body: bytes):
    reply = await pos.call("POST", ONBOARDINGS, data=body, headers={"Content-Type": "application/json"})
    assert reply.status == 400
    assert HEADER not in reply.headers


async def test_they_are_listed_without_a_log_of_requests_too(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path, request_log="off") as mercato:
        pos = (await mercato.partner())[1]
        await pos.post(ONBOARDINGS, registration("http://nobody@127.0.0.1/", webhookURL="x"))
        assert [entry["errorCode"] for entry in await stored(mercato, pos)] == ["UNKNOWN_MEMBER"]


def test_every_operation_of_the_specification_that_is_named_here_is_examined():
    examined = {operation.id for operation in GUARDED if operation.names_unknown}
    assert {"registerStore", "updateStore", "setStoreStatus", "setItemAvailability"} < examined
    assert {"updateOrderStatus", "updateOrderStatuses", "setStoreStatuses"} < examined
    assert all(
        operation.names_unknown
        for operation in GUARDED
        if operation.takes is not None and "webhook-endpoints" in operation.path.split("/")
    )
    assert all(operation.access is not Access.ANY for operation in GUARDED if operation.names_unknown)
