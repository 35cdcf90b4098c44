"""The tools of merchants: the same rules as the API's, with a Commerce key."""

import json
from typing import Any

import pytest
from tests.agents.agent import Agent
from tests.api.table import ORDER
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service
from tests.sharing import own, shared

from mercato.agents.registry import TOOLS
from mercato.agents.tools import LARGE, SMALL, Tool
from mercato.features.partners.model import PartnerKind, Surface
from mercato.http.operations import Access
from mercato.platform.db.audit import list_entries
from mercato_contract.member_hints import _OTHERS
from mercato_contract.refusals import ValidationFailed
from mercato_contract.wire import as_json

pytestmark = [shared, mostly_sqlite]

UNKNOWN = "0190f5fe-7e3b-7ccc-8000-0000000000ff"


@own()
@on_both
async def test_a_merchants_agent_sees_and_pauses_its_stores(clerk: Agent, agent: Agent, store: str):
    (found,) = (await clerk.call("list_stores"))["stores"]
    assert (found["storeId"], found["status"], found["soldOutItems"]) == (store, "online", 0)
    paused = await clerk.call(
        "set_store_status", storeId=store, status="paused", pauseReason="Kitchen is full"
    )
    assert (paused["status"], paused["pauseReason"]) == ("paused", "Kitchen is full")
    assert (await clerk.call("list_stores", status="paused"))["stores"][0]["pauseReason"] == "Kitchen is full"
    (seen,) = (await agent.call("find_stores"))["stores"]
    assert seen["isOpen"] is False
    assert (await clerk.call("set_store_status", storeId=store, status="online"))["resumeAt"] is None
    text = await clerk.text(
        "set_store_status", storeId=store, status="paused", resumeAt="2099-01-01T00:00:00Z"
    )
    assert text == f"The store {store} is paused until 2099-01-01T00:00:00.000Z."


async def test_a_merchants_agent_marks_items_as_sold_out(clerk: Agent, agent: Agent, store: str):
    found = await clerk.call(
        "set_item_availability", storeId=store, items=[{"itemId": ITEM, "available": False}]
    )
    assert (found["changed"], found["soldOutItems"]) == (1, 1)
    twice = [{"itemId": ITEM, "available": True}, {"partnerItemId": ITEM.upper(), "available": False}]
    found = await clerk.call("set_item_availability", storeId=store, items=twice)
    assert (found["changed"], found["soldOutItems"]) == (1, 1)
    assert (await clerk.call("get_store", storeId=store))["soldOut"] == [{"id": ITEM, "name": "Soup"}]
    assert (await agent.call("get_menu", storeId=store))["items"][0]["soldOut"] is True
    problem = await clerk.refusal(
        "set_item_availability",
        storeId=store,
        items=[{"available": True}, {"itemId": UNKNOWN, "available": True}],
    )
    assert problem["errors"][0]["pointer"].startswith("/items/0")


async def test_a_merchants_agent_reads_and_updates_orders(
    mercato: Service, shop: MerchantServer, clerk: Agent, pos: Client, store: str
):
    await pos.call("PUT", f"/v1/commerce/stores/{store}", {"webhookUrl": shop.base + "/hooks"})
    shop.answers |= {"validate": {"isValid": True}, "place": {"accepted": True}}
    order_id = await _place(mercato, pos, store)
    (listed,) = (await clerk.call("list_orders", state="open"))["orders"]
    assert (listed["orderId"], listed["status"]) == (order_id, "pending")
    order = await clerk.call("get_order", orderId=order_id)
    assert order["lines"][0]["name"] == "Soup"
    assert (order["customer"], order["instructions"]) == ("Ada L", "Ring twice")
    ready = await clerk.call(
        "update_order", orderId=order_id, status="ready", estimatedReadyAt="2099-01-01T00:00:00Z"
    )
    assert (ready["state"], ready["status"]) == ("open", "ready")
    back = await clerk.refusal("update_order", orderId=order_id, status="confirmed")
    assert back["errorCode"] == "INVALID_STATUS_TRANSITION"
    assert (await clerk.call("update_order", orderId=order_id, state="completed"))["state"] == "completed"


async def _place(mercato: Service, pos: Client, store: str) -> str:
    _, client = await mercato.partner(PartnerKind.MARKETFRONT)
    set_id = (await pos.get(f"/v1/commerce/stores/{store}")).json()["catalogSetId"]
    text = json.dumps(ORDER).replace("{storeId}", store).replace("{catalogSetId}", set_id)
    body = json.loads(text) | {"payment": {"type": "external"}, "validatedOrderToken": None}
    placed = await client.post("/v1/marketfront/orders/place", body, headers={"Idempotency-Key": "one"})
    assert placed.status == 201, placed.body
    order_id: str = placed.json()["orderId"]
    return order_id


async def test_a_merchants_agent_finds_what_is_wrong_with_a_catalog(
    mercato: Service, shop: MerchantServer, clerk: Agent, pos: Client, store: str
):
    assert (await clerk.call("get_catalog_problems", storeId=store))["errors"] == []
    broken = {"items": {"a": {"itemId": "a", "name": "\u202eSoup", "basePrice": "free"}}, "currency": "USD"}
    url = shop.host(broken, "/broken.json")
    await mercato.run(pos, store, url)
    found = await clerk.call("get_catalog_problems", storeId=store)
    assert found["status"] == "failed"
    assert found["errors"][0]["path"] == "/items/a/basePrice"
    checked = await clerk.call("check_catalog", callbackUrl=url, storeId=store)
    assert (checked["status"], checked["errors"]) == ("invalid", found["errors"])
    assert (await clerk.call("check_catalog", document=broken))["status"] == "invalid"
    # Not as if a document needed a callbackUrl.
    refused = await clerk.refusal("check_catalog", document={"sections": {}})
    assert "neither a CatalogSet, which has items" in refused["detail"]
    assert refused["errors"][0]["pointer"] == "/items"
    not_objects: list[Any] = [[], "items", 5]
    for wrong in not_objects:
        refused = await clerk.refusal("check_catalog", document=wrong)
        assert [error["pointer"] for error in refused["errors"]] == ["/document"]
    assert (await clerk.call("check_catalog", callbackUrl=url, document=None))["status"] == "invalid"
    good = await clerk.call("check_catalog", document=CATALOG)
    assert (good["status"], good["summary"]["items"]) == ("valid", 1)
    failed = await mercato.onboard(pos, url, name="other")
    of_onboarding = await clerk.call("get_catalog_problems", onboardingId=failed["onboardingId"])
    assert of_onboarding["status"] == "catalog_failed"
    assert of_onboarding["errors"] == found["errors"]


@only_sqlite
async def test_a_catalog_with_hundreds_of_faults_is_within_the_bound(shop: MerchantServer, clerk: Agent):
    items = {
        f"i{number}": {"itemId": f"i{number}", "name": "x" * 250, "basePrice": "free"}
        for number in range(500)
    }
    url = shop.host({"currency": "USD", "items": items})
    answer = await clerk.send("tools/call", {"name": "check_catalog", "arguments": {"callbackUrl": url}})
    assert len(answer.body) <= SMALL
    found = answer.json()["result"]["structuredContent"]
    assert found["moreErrors"] > 0


async def test_a_merchants_agent_sends_failed_webhooks_again(
    mercato: Service, shop: MerchantServer, clerk: Agent, pos: Client, store: str
):
    assert (await clerk.call("list_failed_webhooks"))["webhooks"] == []
    endpoint = await pos.post(
        "/v1/commerce/webhook-endpoints", {"url": shop.base + "/end", "types": ["endpoint.changed"]}
    )
    tested = await pos.post(f"/v1/commerce/webhook-endpoints/{endpoint.json()['endpointId']}/test")
    await shop.webhook()
    path = f"/v1/commerce/webhook-deliveries/{tested.json()['deliveryId']}"
    await mercato.until(pos, path, lambda found: found["status"] == "succeeded")
    again = await clerk.call("redeliver_webhook", deliveryId=tested.json()["deliveryId"])
    assert again["deliveryId"] == tested.json()["deliveryId"]
    await shop.webhook()
    assert (await clerk.refusal("redeliver_webhook", deliveryId=UNKNOWN))["errorCode"] == "DELIVERY_NOT_FOUND"


# --- rules of the API -----------------------------------------------------------------------------

ARGUMENTS: dict[str, dict[str, Any]] = {
    "get_store": {},
    "set_store_status": {"status": "paused"},
    "set_item_availability": {"items": [{"itemId": ITEM, "available": False}]},
    "get_catalog_problems": {},
    "check_catalog": {"document": {"items": {}}},
}
"""Arguments, beside a storeId, of the tools that take one store."""


@only_sqlite
@pytest.mark.parametrize("tool", sorted(ARGUMENTS))
async def test_another_merchants_store_is_one_that_does_not_exist(mercato: Service, store: str, tool: str):
    stranger = Agent((await mercato.partner())[1])
    theirs = await stranger.refusal(tool, storeId=store, **ARGUMENTS[tool])
    unknown = await stranger.refusal(tool, storeId=UNKNOWN, **ARGUMENTS[tool])
    assert theirs["errorCode"] == unknown["errorCode"] == "STORE_NOT_FOUND"


@only_sqlite
async def test_another_merchants_order_is_one_that_does_not_exist(
    mercato: Service, shop: MerchantServer, pos: Client, store: str
):
    order_id = await _place(mercato, pos, store)
    stranger = Agent((await mercato.partner())[1])
    for tool, more in (("get_order", {}), ("update_order", {"status": "ready"})):
        assert (await stranger.refusal(tool, orderId=order_id, **more))["errorCode"] == "ORDER_NOT_FOUND"
    assert (await stranger.call("list_orders"))["orders"] == []


@own()
async def test_a_change_is_in_the_audit_trail_with_its_tool_and_key(
    mercato: Service, clerk: Agent, store: str
):
    await clerk.call("set_store_status", storeId=store, status="paused")
    async with mercato.app.db.read() as tx:
        entries = await list_entries(tx, action="mcp.set_store_status", limit=5)
    assert [(entry.actor.partition(":")[0], entry.action) for entry in entries][:1] == [
        ("key", "mcp.set_store_status")
    ]


@only_sqlite
async def test_a_refused_call_is_among_the_refused_requests(mercato: Service, clerk: Agent, pos: Client):
    await clerk.refusal("get_store", storeId=UNKNOWN)
    await mercato.app.request_log.flush()
    (refused,) = (await pos.get("/v1/commerce/requests")).json()["requests"]
    assert (refused["path"], refused["errorCode"]) == ("/mcp", "STORE_NOT_FOUND")


@only_sqlite
@pytest.mark.parametrize("tool", ["list_orders", "list_stores", "list_failed_webhooks"])
async def test_a_wrong_cursor_or_instant_is_a_fault_at_its_argument(clerk: Agent, tool: str):
    problem = await clerk.refusal(tool, cursor="x")
    assert [fault["pointer"] for fault in problem["errors"]] == ["/cursor"]
    assert "at /cursor:" in await clerk.text(tool, cursor="x")
    if tool == "list_orders":
        problem = await clerk.refusal(tool, since="yesterday")
        assert [fault["pointer"] for fault in problem["errors"]] == ["/since"]


async def test_lists_end_by_size_and_their_cursors_lead_on(
    mercato: Service, shop: MerchantServer, pos: Client, clerk: Agent
):
    made = set()
    url = shop.host(CATALOG)
    for number in range(12):
        found = await mercato.live(pos, url, name=f"store-{number}")
        made.add(found["storeId"])
        body = {"status": "paused", "pauseReason": "\N{HOT PEPPER}" * 120}
        await pos.post(f"/v1/commerce/stores/{found['storeId']}/status", body)
    seen: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        arguments = {} if cursor is None else {"cursor": cursor}
        answer = await clerk.send("tools/call", {"name": "list_stores", "arguments": arguments})
        assert len(answer.body) <= SMALL
        page = answer.json()["result"]["structuredContent"]
        seen += [each["storeId"] for each in page["stores"]]
        pages += 1
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert (len(seen), set(seen)) == (12, made)
    assert pages > 1
    answer = await clerk.send("tools/call", {"name": "list_stores", "arguments": {"limit": 100}})
    assert SMALL < len(answer.body) <= LARGE


@own()
@pytest.mark.parametrize("blank", ["\u200b", "\u2800", "\u202e\u00ad"], ids=ascii)
async def test_a_text_that_shows_nothing_is_as_if_it_were_not_there(
    clerk: Agent, agent: Agent, pos: Client, store: str, blank: str
):
    changed = {"description": blank, "categories": [blank, "Soup"]}
    assert (await pos.call("PUT", f"/v1/commerce/stores/{store}", changed)).status == 200
    said = await agent.text("find_stores")
    assert said.splitlines()[1].endswith("; Soup"), said
    paused = {"storeId": store, "status": "paused", "pauseReason": blank}
    for text in (
        await clerk.text("set_store_status", **paused),
        await clerk.text("get_store", storeId=store),
        await clerk.text("list_stores"),
    ):
        assert "()" not in text


def test_every_tool_of_merchants_is_there():
    assert set(TOOLS[Surface.COMMERCE]) == {
        "list_stores", "get_store", "set_store_status", "set_item_availability", "list_orders", "get_order",
        "update_order", "get_catalog_problems", "check_catalog", "list_failed_webhooks", "redeliver_webhook",
    }  # fmt: skip


def test_a_tool_carries_out_what_its_key_may():
    access = {Surface.COMMERCE: Access.COMMERCE, Surface.MARKETFRONT: Access.MARKETFRONT}
    for surface, tools in TOOLS.items():
        for tool in tools.values():
            for operation in tool.operations:
                assert operation.access in {access[surface], Access.PUBLIC}, tool.name
                assert operation.for_agents or surface is Surface.COMMERCE, tool.name


@pytest.mark.parametrize(
    "tool", [tool for tools in TOOLS.values() for tool in tools.values()], ids=lambda tool: tool.name
)
def test_an_argument_that_a_tool_lacks_is_answered_with_those_that_it_has(tool: Tool):
    """And with no operation of the API, which an agent can't call."""
    members = set(tool.takes.__struct_encode_fields__)
    others = {name for kind in _OTHERS.values() for name in kind.__struct_encode_fields__} - members
    for name in others | {"zzz"}:
        with pytest.raises(ValidationFailed) as refused:
            tool.decode(as_json({name: 1}))
        (error,) = refused.value.errors
        assert any(member in error.message for member in members), error
        assert not any(operation in error.message for operation in _OTHERS), error
