"""Quote, place, read, list and cancel: an agent's whole order, by name, within the bounds of its answers."""

import asyncio
import json
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from tests.agents.agent import META, REVISIONS, Agent
from tests.api.agent_keys import assistant
from tests.api.trade import ADDRESS, CUSTOMER, MERCHANT, Trade, trade
from tests.catalog.documents import TEA, cafe
from tests.console.browser import Browser
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.agents.protocol import INITIALIZED, INVALID_PARAMS, MODERN, URL_REQUEST
from mercato.agents.tools import SMALL
from mercato.features.orders.privacy import erase_all
from mercato.features.orders.queries import get_own_order
from mercato.features.orders.service import list_changes
from mercato.features.partners.model import PartnerKind
from mercato.platform.db.engine import Read
from mercato.platform.telemetry.context import current_action

pytestmark = [shared, mostly_sqlite]

TEAS = [
    {
        "item": "tea",
        "quantity": 2,
        "choices": [{"group": "Extras", "option": "Milk"}, {"group": "Extras", "option": "Lemon"}],
        "note": "no sugar",
    }
]
"""Two teas with milk and lemon: 5.80."""

PICKUP = {"mode": "PICKUP"}
DELIVERED = {
    "mode": "DELIVERY_BY_MERCHANT",
    "scheduleType": "ASAP",
    "deliveryType": "DOOR_TO_DOOR",
    "address": ADDRESS,
}


@pytest.fixture
async def sells(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


@pytest.fixture
def buyer(sells: Trade) -> Agent:
    """An agent with the storefront's own key."""
    return Agent(sells.front)


def order_of(sells: Trade, **members: Any) -> dict[str, Any]:
    return {
        "storeId": sells.store["storeId"],
        "lines": TEAS,
        "fulfillment": PICKUP,
        "customer": CUSTOMER,
    } | members


@pytest.mark.parametrize("revision", REVISIONS)
@own()
@on_both
async def test_an_agent_goes_from_find_stores_to_a_cancelled_order(
    buyer: Agent, sells: Trade, shop: MerchantServer, revision: str
):
    buyer.revision = revision
    shop.answers["cancel"] = {"accepted": True}
    found = await buyer.call("find_stores", query="test store")
    store_id = found["stores"][0]["storeId"]
    quote = await buyer.call(
        "quote_order", **order_of(sells, storeId=store_id, tip="1.00", note="Ring twice")
    )
    assert (quote["total"], quote["currency"]) == ("6.80", "USD")
    assert quote["amounts"]["tip"] == "1.00"
    (line,) = quote["lines"]
    assert (line["name"], line["total"], line["faults"]) == ("Tea", "5.80", [])
    placed = await buyer.call("place_order", quoteId=quote["quoteId"], total="6.80")
    assert (placed["status"], placed["total"]) == ("placed", "6.80")
    assert placed["sentence"] == "The order A-1 at Test Store is placed. Total 6.80 USD."
    assert placed["order"]["lines"] == [
        {
            "itemId": TEA,
            "name": "Tea",
            "quantity": 2,
            "total": "5.80",
            "choices": "Extras: Milk; Extras: Lemon",
            "note": "no sugar",
        }
    ]
    by_order = await buyer.call("get_order", orderId=placed["order"]["orderId"])
    by_quote = await buyer.call("get_order", quoteId=quote["quoteId"])
    assert by_quote == by_order | {"quoteId": quote["quoteId"]}
    assert by_order["sentence"].startswith("Accepted just now by Test Store")
    listed = await buyer.call("list_orders", state="open")
    assert [order["orderId"] for order in listed["orders"]] == [placed["order"]["orderId"]]
    cancelled = await buyer.call("cancel_order", orderId=placed["order"]["orderId"], reason="CHANGED_MIND")
    assert cancelled["order"]["state"] == "cancelled"
    again = await buyer.call("cancel_order", orderId=placed["order"]["orderId"], reason="CHANGED_MIND")
    assert again == cancelled
    # The first answer of the placement stays.
    assert await buyer.call("place_order", quoteId=quote["quoteId"], total="6.80") == placed


@own()
async def test_an_order_and_its_history_are_read_at_one_moment(
    buyer: Agent, sells: Trade, mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    quote = await buyer.call("quote_order", **order_of(sells))
    placed = await buyer.call("place_order", quoteId=quote["quoteId"], total="5.80")
    statements: list[str | None] = []

    def counted(read: Any) -> Any:
        def counting(*given: Any) -> Any:
            statements.append(current_action())
            return read(*given)

        return counting

    # On PostgreSQL each statement sees another moment.
    for name in ("first", "all", "scalar"):
        monkeypatch.setattr(Read, name, counted(getattr(Read, name)))
    await buyer.call("get_order", orderId=placed["order"]["orderId"])
    assert statements.count("mcp.get_order") == 1


async def test_the_history_of_an_order_is_the_same_alone_and_with_the_order(
    buyer: Agent, sells: Trade, mercato: Service
):
    quote = await buyer.call("quote_order", **order_of(sells))
    placed = await buyer.call("place_order", quoteId=quote["quoteId"], total="5.80")
    order_id = UUID(placed["order"]["orderId"])
    path = f"/v1/commerce/orders/{order_id}/status"
    courier = {
        "name": 'Zoë "Z" \\ \u2028\t',
        "phone": "+15550100",
        "trackingUrl": "https://example.com/?a=1&b='",
    }
    for update in (
        {"status": "confirmed"},
        {"status": "preparing"},
        {"courier": courier},
        {"status": "ready"},
    ):
        assert (await sells.pos.post(path, update)).status == 200
    assert sells.front.key is not None
    caller = await mercato.app.callers.get(sells.front.key.encode())
    order, changes = await mercato.app.orders.get_with_changes(caller, order_id)
    async with mercato.app.db.read() as tx:
        assert changes == await list_changes(tx, await get_own_order(tx, caller, order_id))
        assert order == await get_own_order(tx, caller, order_id)
    assert len(changes) >= 4


async def test_the_lines_of_every_order_have_ids_of_their_own(buyer: Agent, sells: Trade):
    ids: list[str] = []
    for _ in range(2):
        quote = await buyer.call("quote_order", **order_of(sells))
        placed = await buyer.call("place_order", quoteId=quote["quoteId"], total="5.80")
        order = (await sells.front.get(f"/v1/marketfront/orders/{placed['order']['orderId']}")).json()
        ids += [line["lineItemId"] for line in order["cart"]["lineItems"]]
    assert len(set(ids)) == 2


async def test_an_order_is_not_cancelled_for_a_reason_that_nobody_sees(buyer: Agent, sells: Trade):
    quote = await buyer.call("quote_order", **order_of(sells))
    placed = await buyer.call("place_order", quoteId=quote["quoteId"], total="5.80")
    order_id = placed["order"]["orderId"]
    refused = await buyer.refusal("cancel_order", orderId=order_id, reason="\u202e")
    assert [error["pointer"] for error in refused["errors"]] == ["/reason"]
    assert (await buyer.call("get_order", orderId=order_id))["order"]["state"] == "open"


@on_both
@own(place_seconds=1.0)
async def test_a_cancellation_that_its_store_has_not_answered_says_what_an_agent_can_do(
    buyer: Agent, sells: Trade, mercato: Service
):
    quote = await buyer.call("quote_order", **order_of(sells))
    placed = await buyer.call("place_order", quoteId=quote["quoteId"], total="5.80")
    order_id = placed["order"]["orderId"]
    asked = {"orderId": order_id, "reason": "CHANGED_MIND"}
    waits = await buyer.refusal("cancel_order", **asked)
    assert (waits["errorCode"], waits["orderId"]) == ("STORE_UNREACHABLE", order_id)
    assert "Call cancel_order again with the same arguments" in waits["detail"]
    # An agent sends no keys.
    assert "Idempotency-Key" not in waits["detail"]
    assert waits["retryAfter"] > 0


@own()
async def test_a_fault_of_a_quoted_order_names_the_line_that_the_agent_sent(
    buyer: Agent, sells: Trade, shop: MerchantServer
):
    lines = [{"item": "tea", "quantity": 1}, *TEAS]
    quotes = [await buyer.call("quote_order", **order_of(sells, lines=lines)) for _ in range(2)]
    sold_out, refused = ({"quoteId": one["quoteId"], "total": one["total"]} for one in quotes)
    no = {"code": "ITEM_UNAVAILABLE", "message": "No tea", "pointer": "/cart/lineItems/1/modifierGroups/0"}

    async def refuse(_request: web.Request, _body: bytes) -> web.Response:
        return web.json_response({"errors": [no]}, status=409)

    shop.answers["place"] = refuse
    # The second answer is the one that was stored.
    for _ in range(2):
        problem = await buyer.refusal("place_order", **refused)
        assert [(one["code"], one["pointer"]) for one in problem["errors"]] == [
            ("ITEM_UNAVAILABLE", "/lines/1")
        ]
    path = f"/v1/commerce/stores/{sells.store['storeId']}/item-availability"
    gone = {"items": [{"itemId": str(TEA), "available": False}]}
    assert (await sells.pos.post(path, gone)).status == 200
    problem = await buyer.refusal("place_order", **sold_out)
    assert [(one["code"], one["pointer"]) for one in problem["errors"]] == [
        ("ITEM_UNAVAILABLE", "/lines/0"),
        ("ITEM_UNAVAILABLE", "/lines/1"),
    ]


@pytest.mark.parametrize("payment", [[], "cash", 5, True])
async def test_a_payment_that_is_no_object_is_refused_where_it_is(buyer: Agent, sells: Trade, payment: Any):
    quote = await buyer.call("quote_order", **order_of(sells))
    refused = await buyer.refusal("place_order", quoteId=quote["quoteId"], total="5.80", payment=payment)
    assert [error["pointer"] for error in refused["errors"]] == ["/payment"]


@pytest.mark.parametrize("tip", ["1e2", "", "1,00", " 1.00", "+1", "one"])
async def test_an_amount_that_is_no_decimal_is_refused_in_words(buyer: Agent, sells: Trade, tip: str):
    refused = await buyer.refusal("quote_order", **order_of(sells, tip=tip))
    assert refused["detail"] == "tip must be a decimal number like 12.50."


async def test_twenty_calls_at_once_place_one_order_and_get_the_same_answer(buyer: Agent, sells: Trade):
    quote = await buyer.call("quote_order", **order_of(sells))
    answers = await asyncio.gather(
        *(buyer.result("place_order", quoteId=quote["quoteId"], total="5.80") for _ in range(20))
    )
    assert {answer["isError"] for answer in answers} == {False}
    assert len({json.dumps(answer, sort_keys=True) for answer in answers}) == 1
    assert len((await buyer.call("list_orders"))["orders"]) == 1


FAULTS: Final[tuple[tuple[dict[str, Any], str, str | None], ...]] = (
    ({"lines": [{"item": "tee", "quantity": 1}]}, "ITEM_UNAVAILABLE", None),
    ({"tip": "-1.00"}, "VALIDATION_FAILED", "/tip"),
    ({"tip": "1.001"}, "VALIDATION_FAILED", "/tip"),
    ({"scheduledTime": "2001-01-01T00:00:00Z"}, "VALIDATION_FAILED", "/scheduledTime"),
    ({"note": "n" * 501}, "VALIDATION_FAILED", "/note"),
    ({"customer": CUSTOMER | {"email": "e" * 256}}, "VALIDATION_FAILED", "/customer/email"),
    (
        {"fulfillment": {"mode": "DELIVERY_BY_MERCHANT", "address": {"address1": "1 Main St"}}},
        "ADDRESS_INVALID",
        "/fulfillment/address/city",
    ),
    ({"fulfillment": {"mode": "TELEPORT"}}, "VALIDATION_FAILED", "/fulfillment/mode"),
    ({"lines": []}, "VALIDATION_FAILED", "/lines"),
    ({"storeId": str(uuid4())}, "STORE_NOT_FOUND", None),
    ({"surprise": 1}, "VALIDATION_FAILED", "/surprise"),
    ({"fulfillment": PICKUP | {"address": ADDRESS}}, "VALIDATION_FAILED", "/fulfillment/address"),
    (
        {"fulfillment": PICKUP | {"instructions": "Ring"}},
        "VALIDATION_FAILED",
        "/fulfillment/instructions",
    ),
    (
        {"fulfillment": PICKUP | {"deliveryType": "DOOR_TO_DOOR"}},
        "VALIDATION_FAILED",
        "/fulfillment/deliveryType",
    ),
    (
        {"fulfillment": PICKUP | {"scheduleType": "ASAP"}, "scheduledTime": "2101-01-01T00:00:00Z"},
        "VALIDATION_FAILED",
        "/scheduledTime",
    ),
)
"""Arguments of a quote, the code of the refusal, and the place that it names."""


async def test_a_fault_names_the_argument_and_nothing_is_kept(buyer: Agent, sells: Trade):
    for members, code, pointer in FAULTS:
        refused = await buyer.refusal("quote_order", **order_of(sells, **members))
        assert refused["errorCode"] == code, (members, refused)
        if pointer is not None:
            assert pointer in [error["pointer"] for error in refused["errors"]], (members, refused)


async def test_an_adjusted_order_has_what_it_costs_now_and_what_its_amounts_add_up_to(
    buyer: Agent, sells: Trade
):
    order = await sells.placed(sells.order(fulfillment=DELIVERED))
    refund = {"type": "refund", "amount": "2.90", "reason": "One is sold out"}
    path = f"{MERCHANT}/{order['orderId']}/adjustments"
    headers = {"Idempotency-Key": order["orderId"]}
    assert (await sells.pos.post(path, refund, headers=headers)).status == 201
    for reader in (buyer, Agent(sells.pos)):
        told = await reader.call("get_order", orderId=order["orderId"])
        amounts = told.get("order", told)["amounts"]
        assert (amounts["subTotal"], amounts["placedTotal"], amounts["total"]) == ("5.80", "5.80", "2.90")
        text = await reader.text("get_order", orderId=order["orderId"])
        assert "Total 2.90 USD after adjustments; placed for 5.80: items 5.80." in text
    assert "1 Main St, 62701, Springfield, IL" in text


@own()
async def test_a_repeat_without_its_first_answer_says_that_the_order_has_ended(buyer: Agent, sells: Trade):
    quote = await buyer.call("quote_order", **order_of(sells))
    sent = {"quoteId": quote["quoteId"], "total": "5.80"}
    placed = await buyer.call("place_order", **sent)
    order = {"orderId": placed["order"]["orderId"]}
    assert (await sells.update(order, state="cancelled", cancelReason="Fire")).status == 200
    assert await buyer.call("place_order", **sent) == placed
    # The answer that was kept names the customer.
    await erase_all(sells.mercato.app.db, CUSTOMER["email"])
    again = await buyer.call("place_order", **sent)
    assert (again["order"]["orderId"], again["order"]["state"]) == (order["orderId"], "cancelled")
    told = "The order A-1 at Test Store was placed, and is cancelled now. Total 5.80 USD."
    assert again["sentence"] == told


async def test_a_delivery_is_quoted_with_its_address(buyer: Agent, sells: Trade, shop: MerchantServer):
    fulfillment = {"mode": "DELIVERY_BY_MERCHANT", "address": ADDRESS, "instructions": "Ring twice"}
    await buyer.call("quote_order", **order_of(sells, fulfillment=fulfillment))
    path, _, body = await shop.webhook()
    while not path.endswith("/validate"):
        path, _, body = await shop.webhook()
    sent = json.loads(body)["data"]["order"]["fulfillment"]
    assert (sent["deliveryType"], sent["scheduleType"]) == ("DOOR_TO_DOOR", "ASAP")
    assert sent["address"]["address1"] == ADDRESS["address1"]


@only_sqlite
async def test_refusals_of_a_placement_say_what_to_do(buyer: Agent, sells: Trade):
    quote = await buyer.call("quote_order", **order_of(sells))
    other = Agent((await sells.mercato.partner(PartnerKind.MARKETFRONT))[1])
    cases: list[tuple[Agent, dict[str, Any], str, str]] = [
        (buyer, {"total": "5.79"}, "ORDER_TOTAL_DIFFERENT", "5.80 USD"),
        (other, {"total": "5.80"}, "QUOTE_NOT_FOUND", "Quote the order again"),
        (buyer, {"total": "5.80", "payment": 1}, "INVALID_REQUEST", "payment"),
    ]
    for agent, arguments, code, said in cases:
        refused = await agent.refusal("place_order", quoteId=quote["quoteId"], **arguments)
        assert refused["errorCode"] == code
        assert said in refused["detail"]
    assert (await other.refusal("get_order", quoteId=quote["quoteId"]))["errorCode"] == "QUOTE_NOT_FOUND"
    for arguments in ({}, {"quoteId": quote["quoteId"], "orderId": quote["quoteId"]}):
        assert (await buyer.refusal("get_order", **arguments))["errorCode"] == "INVALID_REQUEST"
    assert (await buyer.call("get_order", quoteId=quote["quoteId"]))["status"] == "quoted"


async def test_an_approval_is_asked_for_as_a_result_and_then_given(sells: Trade, mercato: Service):
    lunch = await assistant(sells, {"name": "Lunch", "approval": "always"})
    agent = Agent(lunch.client)
    quote = await agent.call("quote_order", **order_of(sells))
    assert [warning["code"] for warning in quote["warnings"]] == ["APPROVAL_REQUIRED"]
    asked = await agent.call("place_order", quoteId=quote["quoteId"], total="5.80")
    assert asked["status"] == "approval_required"
    assert asked["approvalUrl"].startswith(mercato.base + "/approve/")
    assert asked == await agent.call("place_order", quoteId=quote["quoteId"], total="5.80")
    pending = await agent.call("get_order", quoteId=quote["quoteId"])
    assert (pending["status"], pending["approvalUrl"]) == ("pending_approval", asked["approvalUrl"])
    # The storefront's own key reads what became of it, but doesn't get the address.
    others = await Agent(sells.front).call("get_order", quoteId=quote["quoteId"])
    assert (others["status"], "approvalUrl" in others) == ("pending_approval", False)
    browser = Browser(mercato.base, mercato.session)
    await browser.press(await browser.open(asked["approvalUrl"]), "Place order")
    placed = await agent.call("place_order", quoteId=quote["quoteId"], total="5.80")
    assert placed["status"] == "placed"
    assert (await agent.call("get_order", quoteId=quote["quoteId"]))["status"] == "placed"


async def test_declined_and_expired_quotes_are_told(sells: Trade, mercato: Service):
    agent = Agent((await assistant(sells, {"name": "Lunch", "approval": "always"})).client)
    quote = await agent.call("quote_order", **order_of(sells))
    asked = await agent.call("place_order", quoteId=quote["quoteId"], total="5.80")
    browser = Browser(mercato.base, mercato.session)
    await browser.press(await browser.open(asked["approvalUrl"]), "Decline")
    assert (await agent.call("get_order", quoteId=quote["quoteId"]))["status"] == "declined"
    refused = await agent.refusal("place_order", quoteId=quote["quoteId"], total="5.80")
    assert refused["errorCode"] == "QUOTE_DECLINED"


SHOWS_URLS = META | {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}


async def asking(sells: Trade, meta: Any = SHOWS_URLS) -> tuple[Agent, dict[str, Any]]:
    """Return an agent whose orders need an approval, and its call of place_order."""
    agent = Agent((await assistant(sells, {"name": "Lunch", "approval": "always"})).client)
    quote = await agent.call("quote_order", **order_of(sells))
    arguments = {"quoteId": quote["quoteId"], "total": "5.80"}
    return agent, {"name": "place_order", "arguments": arguments, "_meta": meta}


@on_both
async def test_a_client_that_shows_urls_gets_the_address_once_as_an_elicitation(sells: Trade):
    agent, call = await asking(sells)
    assert agent.revision == MODERN
    asked = await agent.ask("tools/call", call)
    assert set(asked) == {"resultType", "inputRequests", "_meta"}
    assert asked["resultType"] == "input_required"
    ((name, wanted),) = asked["inputRequests"].items()
    assert (wanted["method"], wanted["params"]["mode"]) == ("elicitation/create", "url")
    assert set(wanted["params"]) == {"mode", "message", "url"}
    assert "/approve/" in wanted["params"]["url"]
    # Who has agreed to open it hasn't decided yet: the answer is a result.
    again = await agent.ask("tools/call", call | {"inputResponses": {name: {"action": "accept"}}})
    assert again["structuredContent"]["status"] == "approval_required"
    # A client that hasn't got the response is asked again.
    for other in ({}, {"another": {"roots": []}, "a_number": 5}):
        assert (await agent.ask("tools/call", call | {"inputResponses": other}))["inputRequests"] == asked[
            "inputRequests"
        ]


@only_sqlite
@pytest.mark.parametrize(
    ("action", "next_step"),
    [("accept", "Once they have decided"), ("decline", "said no"), ("cancel", "ready")],
)
async def test_what_a_person_answers_who_was_to_open_the_address_decides_nothing(
    sells: Trade, mercato: Service, action: str, next_step: str
):
    agent, call = await asking(sells)
    await agent.ask("tools/call", call)
    repeat = call | {"inputResponses": {URL_REQUEST: {"action": action, "content": {"approve": True}}}}
    found = (await agent.ask("tools/call", repeat))["structuredContent"]
    assert found["status"] == "approval_required"
    assert next_step in found["sentence"]
    assert (await agent.call("list_orders"))["orders"] == []
    # The page decides, whatever the client said.
    browser = Browser(mercato.base, mercato.session)
    await browser.press(await browser.open(found["approvalUrl"]), "Place order")
    assert (await agent.ask("tools/call", repeat))["structuredContent"]["status"] == "placed"


@only_sqlite
@pytest.mark.parametrize(
    "responses", [[], "open", {URL_REQUEST: "accept"}, {URL_REQUEST: {}}, {URL_REQUEST: {"action": "yes"}}]
)
async def test_a_response_that_is_none_is_an_error_of_json_rpc(sells: Trade, responses: Any):
    agent, call = await asking(sells)
    await agent.ask("tools/call", call)
    message = agent.message("tools/call", call | {"inputResponses": responses})
    answer = await agent.post(message, **agent.headers("tools/call", "place_order"))
    assert (answer.status, answer.json()["error"]["code"]) == (400, INVALID_PARAMS)
    assert (await agent.call("list_orders"))["orders"] == []


@only_sqlite
@pytest.mark.parametrize("elicitation", [{}, {"form": {}}, {"url": None}, "url", ["url"]])
async def test_a_client_that_does_not_declare_urls_gets_the_address_as_a_result(
    sells: Trade, elicitation: Any
):
    agent, call = await asking(
        sells, META | {"io.modelcontextprotocol/clientCapabilities": {"elicitation": elicitation}}
    )
    asked = await agent.ask("tools/call", call)
    assert asked["structuredContent"]["status"] == "approval_required"


@only_sqlite
@pytest.mark.parametrize("revision", INITIALIZED)
async def test_a_client_of_an_older_revision_gets_no_input_request(sells: Trade, revision: str):
    capabilities: dict[str, Any] = {
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}
    }
    agent, call = await asking(sells, capabilities)
    agent.revision = revision
    asked = await agent.ask("tools/call", call | {"inputResponses": 5})
    assert asked["structuredContent"]["status"] == "approval_required"


@only_sqlite
async def test_answers_about_the_largest_order_are_within_the_bound(
    buyer: Agent, sells: Trade, shop: MerchantServer
):
    menu = cafe()
    menu["items"][TEA]["name"] = "T" * 200
    assert (await sells.mercato.run(sells.pos, sells.store["storeId"], shop.host(menu)))[
        "status"
    ] == "succeeded"
    shop.answers["validate"] = {
        "isValid": True,
        "amounts": {
            "fees": "1.00",
            "feesDescription": [{"amount": "0.01", "description": "f" * 255} for _ in range(100)],
        },
    }
    lines = [{"item": TEA, "quantity": 1, "note": f"{n} " + "n" * 490} for n in range(100)]
    result = await buyer.result("quote_order", **order_of(sells, lines=lines))
    assert not result["isError"], result
    assert len(json.dumps(result)) <= SMALL
    quote = result["structuredContent"]
    assert len(quote["lines"]) == 100
    for tool, arguments in [
        ("place_order", {"quoteId": quote["quoteId"], "total": quote["total"]}),
        ("get_order", {"quoteId": quote["quoteId"]}),
        ("list_orders", {}),
    ]:
        result = await buyer.result(tool, **arguments)
        assert not result["isError"], result
        assert len(json.dumps(result)) <= SMALL, tool


@only_sqlite
async def test_orders_are_listed_in_pages(buyer: Agent, sells: Trade):
    made = [(await sells.placed())["orderId"] for _ in range(5)]
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    for _ in range(3):
        page = await buyer.call("list_orders", limit=2, **cursor)
        seen += [order["orderId"] for order in page["orders"]]
        cursor = {"cursor": page["nextCursor"]}
    assert seen == made[::-1]
    assert cursor == {"cursor": None}
    for name, code in (("cursor", "INVALID_CURSOR"), ("since", "VALIDATION_FAILED")):
        problem = await buyer.refusal("list_orders", **{name: "x"})
        assert problem["errorCode"] == code
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/{name}"]


async def test_an_order_beyond_the_agents_limit_is_refused_before_a_person_is_asked(sells: Trade):
    statuses = []
    for limit in ("5.79", "5.80"):
        lunch = await assistant(sells, maximumDay=limit, approval="always")
        buyer = Agent(lunch.client)
        quote = await buyer.call("quote_order", **order_of(sells))
        placing = {"quoteId": quote["quoteId"], "total": "5.80"}
        if limit == "5.79":
            refused = await buyer.refusal("place_order", **placing)
            statuses.append((refused["errorCode"], refused["limit"], refused["spent"]))
        else:
            statuses.append((await buyer.call("place_order", **placing))["status"])
    assert statuses == [("SPEND_LIMIT_EXCEEDED", "5.79", "0.00"), "approval_required"]
