"""A merchant changes what an order costs after it was placed: once for each key, and never below nothing."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from tests.api.examples import in_turn
from tests.api.test_database_away import BLOCKED
from tests.api.trade import MERCHANT, ORDERS, Time, Trade, trade
from tests.catalog.documents import cafe
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import first_on_postgresql, mostly_sqlite, on_both, only_postgresql, only_sqlite
from tests.service import Client, MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.orders import queries
from mercato.features.orders.lifecycle import OrderAdjusted
from mercato.features.orders.privacy import erase_all
from mercato.features.orders.record import StoredAdjustment
from mercato_client.testing.caller import Answer
from mercato_contract import clock
from mercato_contract.orders import MAX_ADJUSTMENTS, AdjustmentType

pytestmark = [shared, mostly_sqlite]

REFUND = {"type": "refund", "amount": "1.00", "reason": "The tea was cold"}
UNKNOWN = "0190f5fe-7e3b-7ccc-8000-0000000000ee"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


async def adjust(
    trading: Trade, order: Any, body: Any = None, *, key: str | None = None, by: Client | None = None
) -> Answer:
    headers = {"Idempotency-Key": key or str(uuid4())}
    path = f"{MERCHANT}/{order['orderId']}/adjustments"
    return await (by or trading.pos).post(path, body or REFUND, headers=headers)


async def adjusted(trading: Trade, order: Any, **members: Any) -> Any:
    reply = await adjust(trading, order, REFUND | members)
    assert reply.status == 201, reply.body
    return reply.json()


async def read(trading: Trade, order: Any) -> Any:
    return (await trading.front.get(f"{ORDERS}/{order['orderId']}")).json()


def money(order: Any) -> tuple[str, str | None]:
    return order["amounts"]["total"], order["amounts"].get("totalAfterAdjustments")


async def test_refund_fee_and_substitution_are_listed_and_sum_up_on_both_sides(here: Trade):
    placed = await here.placed()
    assert (placed["adjustments"], money(placed)) == ([], ("5.80", None))
    line = placed["cart"]["lineItems"][0]
    milk = line["modifierGroups"][0]["lineItems"][0]
    ids = [line["lineItemId"], milk["lineItemId"]]
    assert money(await adjusted(here, placed, lineItemIds=[*ids, ids[0]])) == ("5.80", "4.80")
    assert money(await adjusted(here, placed, type="fee", amount="0.5")) == ("5.80", "5.30")
    assert money(await adjusted(here, placed, type="substitution", amount="-0.30")) == ("5.80", "5.00")
    assert money(await adjusted(here, placed, type="substitution", amount="0")) == ("5.80", "5.00")
    last = await adjusted(here, placed, type="substitution", amount="0.05", currency="USD")
    assert money(last) == ("5.80", "5.05")
    kinds = [(one["type"], one["amount"]) for one in last["adjustments"]]
    assert kinds == [
        ("refund", "1.00"),
        ("fee", "0.50"),
        ("substitution", "-0.30"),
        ("substitution", "0.00"),
        ("substitution", "0.05"),
    ]
    assert [one["lineItemIds"] for one in last["adjustments"]] == [ids, [], [], [], []]
    assert len({one["adjustmentId"] for one in last["adjustments"]}) == 5
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        for order in ((await client.get(f"{path}/{placed['orderId']}")).json(), *await listed(client, path)):
            assert order["adjustments"] == last["adjustments"]
            assert order["amounts"] == last["amounts"]
    # What the order was placed for, and is proved by, never changes.
    assert last["amounts"]["adjustments"] == "0.00"
    assert last["cart"]["amounts"]["total"] == "5.80"


async def listed(client: Client, path: str) -> list[Any]:
    found: list[Any] = (await client.get(path)).json()["orders"]
    return found


async def test_the_storefront_reads_the_event_in_its_feed_and_its_event_url_is_not_called(
    here: Trade, shop: MerchantServer
):
    placed = await here.placed()
    await adjusted(here, placed)
    assert (await here.update(placed, status="confirmed")).status == 200
    page: Any = {"events": []}
    async with asyncio.timeout(PATIENCE):
        while len(page["events"]) < 3:
            page = (await here.front.get("/v1/marketfront/events?wait=5")).json()
    created, event, updated = page["events"]
    assert [one["type"] for one in page["events"]] == ["order.created", "order.adjusted", "order.updated"]
    assert [one["data"]["sequence"] for one in page["events"]] == [1, 2, 3]
    [adjustment] = event["data"]["order"]["adjustments"]
    assert (adjustment["type"], adjustment["amount"], adjustment["reason"]) == tuple(REFUND.values())
    assert money(event["data"]["order"]) == ("5.80", "4.80")
    assert created["data"]["order"]["adjustments"] == []
    assert money(updated["data"]["order"]) == ("5.80", "4.80")
    pushed = []
    async with asyncio.timeout(PATIENCE):
        while "order.updated" not in pushed:
            path, _, body = await shop.webhook()
            pushed += [json.loads(body)["type"]] * (path == "/events")
    assert pushed == ["order.created", "order.updated"]
    only = (await here.front.get("/v1/marketfront/events?types=order.adjusted")).json()["events"]
    assert [one["eventId"] for one in only] == [event["eventId"]]
    assert (await here.pos.get("/v1/commerce/events?types=order.adjusted")).json()["events"] == []


async def test_a_webhook_endpoint_that_asks_for_it_gets_the_event(here: Trade, shop: MerchantServer):
    body = {"url": shop.base + "/adjusted", "types": ["order.adjusted"]}
    assert (await here.front.post("/v1/marketfront/webhook-endpoints", body)).status == 201
    placed = await here.placed()
    await here.update(placed, status="confirmed")
    await adjusted(here, placed)
    async with asyncio.timeout(PATIENCE):
        while (sent := await shop.webhook())[0] != "/adjusted":
            pass
    event = json.loads(sent[2])
    assert (event["type"], event["data"]["sequence"]) == ("order.adjusted", 3)
    assert money(event["data"]["order"]) == ("5.80", "4.80")


async def test_the_timeline_and_the_console_show_adjustments(here: Trade, mercato: Service):
    placed = await here.placed()
    await adjusted(here, placed, reason="COLD for Ada Lovelace")
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        entries = (await client.get(f"{path}/{placed['orderId']}/timeline")).json()["entries"]
        [entry] = [one for one in entries if one["type"] == "adjusted"]
        assert (entry["actor"], entry["detail"]) == (
            "merchant",
            {"adjustment": "refund", "amount": "1.00 USD"},
        )
    path = f"/console/orders/{placed['orderId']}"
    for client in (here.pos, here.front):
        browser = await enter_as_partner(mercato, client)
        page = (await browser.open(path)).text
        assert "Total after adjustments" in page
        assert "4.80" in page
        assert "COLD for Ada Lovelace" in page
    operator = await enter_as_operator(mercato)
    page = (await operator.open(path)).text
    assert "4.80" in page
    assert "Lovelace" not in page


@only_sqlite
@in_turn(
    ("change", "status", "pointers"),
    [
        ({"amount": "0.00"}, 422, ["/amount"]),
        ({"amount": "-1.00"}, 422, ["/amount"]),
        ({"type": "fee", "amount": "0"}, 422, ["/amount"]),
        ({"type": "fee", "amount": "-0.01"}, 422, ["/amount"]),
        ({"amount": "5.81"}, 422, ["/amount"]),
        ({"type": "substitution", "amount": "-5.81"}, 422, ["/amount"]),
        ({"type": "fee", "amount": "92233720368547758.07"}, 422, ["/amount"]),
        ({"type": "fee", "amount": "9" * 64}, 422, ["/amount"]),
        ({"amount": "9" * 65}, 422, ["/amount"]),
        ({"amount": "1.001"}, 422, ["/amount"]),
        ({"amount": "1e2"}, 422, ["/amount"]),
        ({"amount": " 1"}, 422, ["/amount"]),
        ({"amount": "\u0661"}, 422, ["/amount"]),
        ({"amount": 1}, 400, ["/amount"]),
        ({"amount": None}, 400, ["/amount"]),
        ({"type": "discount"}, 422, ["/type"]),
        ({"type": 1}, 400, ["/type"]),
        ({"reason": ""}, 422, ["/reason", "/reason"]),
        ({"reason": " "}, 422, ["/reason"]),
        ({"reason": "a\nb"}, 422, ["/reason"]),
        ({"reason": "x" * 256}, 422, ["/reason"]),
        ({"reason": None}, 400, ["/reason"]),
        ({"currency": "EUR"}, 422, ["/currency"]),
        ({"currency": 1}, 400, ["/currency"]),
        ({"lineItemIds": [UNKNOWN]}, 422, ["/lineItemIds/0"]),
        ({"lineItemIds": [UNKNOWN, UNKNOWN]}, 422, ["/lineItemIds/0", "/lineItemIds/1"]),
        ({"lineItemIds": ["x"]}, 422, ["/lineItemIds/0"]),
        ({"lineItemIds": [1]}, 400, ["/lineItemIds/0"]),
        ({"lineItemIds": "x"}, 400, ["/lineItemIds"]),
        ({"lineItemIds": [UNKNOWN] * 201}, 422, ["/lineItemIds"]),
        (
            {"amount": "9.99", "currency": "JPY", "lineItemIds": [UNKNOWN]},
            422,
            ["/amount", "/currency", "/lineItemIds/0"],
        ),
    ],
)
async def test_a_faulty_adjustment_is_refused_with_its_pointers_and_leaves_order_and_key_as_they_are(
    here: Trade, change: Any, status: int, pointers: list[str]
):
    placed, key = await here.placed(), str(uuid4())
    reply = await adjust(here, placed, REFUND | change, key=key)
    assert (reply.status, [one["pointer"] for one in reply.json()["errors"]]) == (status, pointers), (
        reply.body
    )
    assert await read(here, placed) == placed
    assert money((await adjust(here, placed, key=key)).json()) == ("5.80", "4.80")


async def test_a_refund_of_more_than_is_left_says_how_much_is_left(here: Trade):
    placed = await here.placed()
    await adjusted(here, placed, amount="4.00")
    refused = await adjust(here, placed, REFUND | {"amount": "1.81"})
    assert refused.status == 422
    assert "1.80 USD" in refused.json()["detail"]
    assert money(await adjusted(here, placed, amount="1.80")) == ("5.80", "0.00")
    assert money(await adjusted(here, placed, type="fee", amount="0.01")) == ("5.80", "0.01")


async def test_members_that_are_unknown_or_null_are_ignored(here: Trade):
    placed = await here.placed()
    body = REFUND | {"lineItemIds": None, "currency": None, "total": "99.00", "x": [1]}
    assert money((await adjust(here, placed, body)).json()) == ("5.80", "4.80")


async def test_the_key_is_required_and_repeats_get_the_same_bytes(here: Trade):
    placed = await here.placed()
    path = f"{MERCHANT}/{placed['orderId']}/adjustments"
    missing = await here.pos.post(path, REFUND)
    assert (missing.status, missing.json()["errorCode"]) == (400, "MISSING_IDEMPOTENCY_KEY")
    replies = await asyncio.gather(*(adjust(here, placed, key="k") for _ in range(8)))
    assert {reply.status for reply in replies} == {201}
    assert len({reply.body for reply in replies}) == 1
    assert [reply.headers.get("idempotent-replayed") for reply in replies].count(None) == 1
    await adjusted(here, placed, amount="0.10")
    assert (await adjust(here, placed, key="k")).body == replies[0].body
    other = await adjust(here, placed, REFUND | {"amount": "2.00"}, key="k")
    assert (other.status, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    another = await here.placed()
    elsewhere = await adjust(here, another, key="k")
    assert (elsewhere.status, elsewhere.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert other.json()["orderId"] == elsewhere.json()["orderId"] == placed["orderId"]
    assert money(await read(here, placed)) == ("5.80", "4.70")
    assert (await read(here, another))["adjustments"] == []


@first_on_postgresql
@pytest.mark.parametrize(
    "words",
    [{"amount": "1.0"}, {"amount": "1"}, {"currency": None}, {"lineItemIds": None}, {"lineItemIds": []}],
    ids=["1.0", "1", "currency", "lines", "no lines"],
)
async def test_an_adjustment_in_other_words_is_recorded_once(here: Trade, words: Any):
    placed = await here.placed()
    first = await adjust(here, placed, key="k")
    again = await adjust(here, placed, REFUND | words, key="k")
    assert (first.status, again.status, again.body) == (201, 201, first.body)
    assert money(await read(here, placed)) == ("5.80", "4.80")


@on_both
async def test_of_refunds_at_the_same_time_only_those_that_the_order_covers_happen(here: Trade):
    placed = await here.placed()
    replies = await asyncio.gather(
        *(adjust(here, placed, REFUND | {"amount": "2.50"}) for _ in range(6)),
        *(adjust(here, placed, REFUND | {"type": "fee", "amount": "0.10"}) for _ in range(3)),
    )
    refunds, fees = replies[:6], replies[6:]
    assert sorted(reply.status for reply in refunds) == [201, 201, 422, 422, 422, 422]
    assert {reply.status for reply in fees} == {201}
    order = await read(here, placed)
    assert (money(order), len(order["adjustments"])) == (("5.80", "1.10"), 5)


async def test_another_merchants_order_is_not_found_and_a_storefront_adjusts_none(
    here: Trade, mercato: Service
):
    placed = await here.placed()
    stranger = (await mercato.partner())[1]
    unknown = {"orderId": UNKNOWN}
    refusals = [
        await adjust(here, placed, by=stranger),
        await adjust(here, unknown),
        await adjust(here, {"orderId": "x"}),
    ]
    for reply in refusals:
        assert reply.status == 404, reply.body
    assert (await adjust(here, placed, by=here.front)).status == 403
    assert await read(here, placed) == placed


@on_both
async def test_an_open_or_completed_order_can_be_adjusted_and_a_cancelled_one_not(here: Trade):
    done, gone = await here.placed(), await here.placed()
    await here.update(done, state="completed")
    completed = await adjusted(here, done)
    assert (completed["state"], money(completed)) == ("completed", ("5.80", "4.80"))
    await adjusted(here, gone)
    await here.update(gone, state="cancelled", cancelReason="Out of tea")
    refused = await adjust(here, gone, key="k")
    assert (refused.status, refused.json()["errorCode"]) == (409, "ORDER_CLOSED")
    assert money(await read(here, gone)) == ("5.80", "4.80")


@on_both
async def test_an_order_that_its_store_has_not_answered_is_not_adjusted_yet(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", place_seconds=1.0) as mercato:
        trading = await trade(mercato, shop)
        shop.answers["place"] = "no answer"
        waiting = (await trading.place(trading.order())).json()
        refused = await adjust(trading, waiting, key="k")
        assert (refused.status, refused.json()["errorCode"]) == (409, "CONFLICT")
        assert (await trading.update(waiting, status="confirmed")).status == 200
        assert (await adjust(trading, waiting, key="k")).status == 201


async def test_an_order_has_a_bounded_number_of_adjustments(here: Trade):
    placed = await here.placed()
    for _ in range(MAX_ADJUSTMENTS):
        await adjusted(here, placed, type="fee", amount="0.01")
    refused = await adjust(here, placed)
    assert (refused.status, refused.json()["errorCode"]) == (409, "CONFLICT")
    assert len((await read(here, placed))["adjustments"]) == MAX_ADJUSTMENTS


@pytest.mark.parametrize(
    ("currency", "price", "amount", "after", "wrong"),
    [("JPY", "290", "25", "265", "0.5"), ("KWD", "2.905", "0.125", "2.780", "0.0001")],
)
async def test_adjustments_are_exact_in_every_currency(
    mercato: Service, shop: MerchantServer, currency: str, price: str, amount: str, after: str, wrong: str
):
    menu = cafe()
    menu["currency"] = currency
    for item in menu["items"].values():
        item["basePrice"] = "0"
    tea = next(iter(menu["items"]))
    menu["items"][tea]["basePrice"] = price
    for group in menu["modifierGroups"].values():
        group.pop("priceOverrides", None)
    trading = await trade(mercato, shop, catalog=menu)
    line = {"itemId": tea, "quantity": 1, "modifierGroups": []}
    placed = await trading.placed(trading.order(line))
    assert money(await adjusted(trading, placed, amount=amount + ("0" if "." in amount else ".0"))) == (
        price,
        after,
    )
    assert (await adjust(trading, placed, REFUND | {"amount": wrong})).status == 422


@own()
@on_both
async def test_erasing_the_customer_keeps_the_sums_and_drops_the_reasons(here: Trade, mercato: Service):
    placed = await here.placed()
    first = await adjust(here, placed, REFUND | {"reason": "Zqlovelace complained"}, key="k")
    deliveries = "/v1/marketfront/webhook-deliveries?status=pending"
    await mercato.until(here.front, deliveries, lambda page: not page["deliveries"])
    await erase_all(mercato.app.db, "ada@example.com")
    erased = await read(here, placed)
    [adjustment] = erased["adjustments"]
    assert money(erased) == money(first.json()) == ("5.80", "4.80")
    assert adjustment == first.json()["adjustments"][0] | {"reason": None}
    # The answer that named the customer is gone: a repeat gets the order as it is, and adjusts nothing.
    again = await adjust(here, placed, REFUND | {"reason": "Zqlovelace complained"}, key="k")
    assert (again.status, again.json()["adjustments"], money(again.json())) == (
        201,
        [adjustment],
        ("5.80", "4.80"),
    )
    assert (await adjust(here, placed, REFUND | {"reason": "Zqlovelace complained"}, key="k")).body == (
        again.body
    )
    later = await adjusted(here, placed, reason="Zqlovelace again", amount="0.80")
    assert [one["reason"] for one in later["adjustments"]] == [None, None]
    assert money(await read(here, placed)) == ("5.80", "4.00")
    everything = (await here.front.get("/v1/marketfront/events")).body
    everything += (await here.pos.get(f"{MERCHANT}/{placed['orderId']}/timeline")).body
    assert b"Zqlovelace" not in everything


async def waits_for_a_lock(mercato: Service) -> None:
    """Wait until a transaction of this database waits for another's lock."""
    waiting = text(f"SELECT count(*) {BLOCKED}")
    async with asyncio.timeout(PATIENCE):
        while True:
            async with mercato.app.db.read() as tx:
                if await tx.scalar(waiting):
                    return
            await asyncio.sleep(0.01)


@only_postgresql
@own()
@on_both
async def test_an_adjustment_that_commits_while_its_customer_is_erased_is_kept_without_its_reason(
    here: Trade, mercato: Service
):
    placed = await here.placed()
    deliveries = "/v1/marketfront/webhook-deliveries?status=pending"
    await mercato.until(here.front, deliveries, lambda page: not page["deliveries"])
    now = clock.now()
    made = StoredAdjustment(
        id=uuid4(), type=AdjustmentType.REFUND, amount=100, reason="Zqlovelace", line_item_ids=(), at=now
    )
    async with mercato.app.db.write() as tx:
        order = await queries.get_order(tx, UUID(placed["orderId"]), lock=True)
        erasing = asyncio.create_task(erase_all(mercato.app.db, "ada@example.com"))
        await waits_for_a_lock(mercato)
        change = OrderAdjusted(at=now, adjustment=made, currency=order.currency)
        await mercato.app.lifecycle.apply(tx, order, change)
    assert (await erasing)[0] == 1
    erased = await read(here, placed)
    assert money(erased) == ("5.80", "4.80")
    assert [one["reason"] for one in erased["adjustments"]] == [None]
    assert b"Zqlovelace" not in (await here.front.get("/v1/marketfront/events")).body


async def test_a_key_can_be_used_again_after_a_day(database_url: str, shop: MerchantServer, tmp_path: Any):
    time = Time()
    async with service(database_url, tmp_path, now=time) as mercato:
        trading = await trade(mercato, shop)
        placed = await trading.placed()
        await adjust(trading, placed, key="k")
        time.ahead = timedelta(hours=25)
        assert (await adjust(trading, placed, key="k")).status == 201
        assert money(await read(trading, placed)) == ("5.80", "3.80")
