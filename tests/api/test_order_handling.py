"""Who accepts a store's orders: its system, the service, or a person, who accepts or refuses each within its time."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update
from tests.api.examples import in_turn
from tests.api.test_feeds import COMMERCE, MARKETFRONT, follow
from tests.api.trade import ADDRESS, CUSTOMER, MERCHANT, ORDERS, Trade, line, trade
from tests.catalog.documents import TEA, cafe
from tests.databases import mostly_sqlite, on_both
from tests.service import Client, MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.orders import by_hand
from mercato.features.orders.privacy import erase_all
from mercato.features.orders.search import SearchKind, find_orders, number_key
from mercato.platform.db.tables import jobs
from mercato_client.testing.caller import Answer
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/commerce/stores"


async def handled(trading: Trade, **change: Any) -> Any:
    reply = await trading.pos.call("PUT", f"{STORES}/{trading.store['storeId']}", change)
    assert reply.status == 200, reply.body
    return reply.json()


@pytest.fixture
async def manual(mercato: Service, shop: MerchantServer) -> Trade:
    """A store without a webhookUrl, whose orders a person accepts."""
    trading = await trade(mercato, shop, webhook=False)
    await handled(trading, orderHandling="manual")
    return trading


async def read(trading: Trade, order: Any) -> Any:
    return (await trading.front.get(f"{ORDERS}/{order['orderId']}")).json()


async def cancel(trading: Trade, order: Any) -> Answer:
    body = {"reason": "CHANGED_MIND"}
    headers = {"Idempotency-Key": str(uuid4())}
    return await trading.front.post(f"{ORDERS}/{order['orderId']}/cancel", body, headers=headers)


async def end_time(trading: Trade) -> None:
    """Let the time in which somebody may accept an order be over."""
    async with trading.mercato.app.db.write() as tx:
        due = update(jobs).where(jobs.c.kind == by_hand.KIND).values(run_at=clock.now(), state="ready")
        await tx.execute(due)


async def ended(trading: Trade, order: Any) -> Any:
    path = f"{ORDERS}/{order['orderId']}"
    return await trading.mercato.until(trading.front, path, lambda now: now["state"] == "cancelled")


async def events(client: Client, path: str, count: int) -> list[Any]:
    found, _ = await follow(client, path, count=count)
    return [event for event in found if event["type"].startswith("order.")]


# --- who accepts ----------------------------------------------------------------------------------


async def test_without_a_choice_a_webhook_url_decides_who_accepts_orders(
    mercato: Service, shop: MerchantServer
):
    trading = await trade(mercato, shop)
    assert trading.store["orderHandling"] == "webhook"
    assert "acceptWithin" not in trading.store
    assert (await handled(trading, webhookUrl=None))["orderHandling"] == "automatic"


async def test_a_choice_at_registration_is_the_stores(mercato: Service, shop: MerchantServer):
    _, pos = await mercato.partner()
    body = {
        "partnerStoreId": "s",
        "name": "S",
        "address": {},
        "catalogCallbackUrl": shop.host({}),
        "orderHandling": "webhook",
    }
    refused = await pos.post("/v1/commerce/onboarding/stores", body)
    assert (refused.status, refused.json()["errors"][0]["pointer"]) == (422, "/orderHandling")
    store = await mercato.live(
        pos, shop.host(cafe()), members={"orderHandling": "manual", "acceptWithin": 25}
    )
    assert (store["orderHandling"], store["acceptWithin"]) == ("manual", 25)
    assert store["warnings"] == [] or all(w["code"] != "ORDERS_UNSEEN" for w in store["warnings"])


@in_turn(
    ("change", "pointer"),
    [
        ({"orderHandling": "fax"}, "/orderHandling"),
        ({"acceptWithin": 0}, "/acceptWithin"),
        ({"acceptWithin": 61}, "/acceptWithin"),
        ({"acceptWithin": 2.5}, "/acceptWithin"),
        ({"orderHandling": "webhook"}, "/orderHandling"),
    ],
)
async def test_a_handling_that_cannot_be_is_refused_where_it_stands(
    manual: Trade, change: dict[str, Any], pointer: str
):
    reply = await manual.pos.call("PUT", f"{STORES}/{manual.store['storeId']}", change)
    assert reply.status in {400, 422}, reply.body
    assert reply.json()["errors"][0]["pointer"] == pointer


@on_both
async def test_a_store_that_wants_its_webhook_keeps_its_url(mercato: Service, shop: MerchantServer):
    trading = await trade(mercato, shop)
    await handled(trading, orderHandling="webhook")
    reply = await trading.pos.call("PUT", f"{STORES}/{trading.store['storeId']}", {"webhookUrl": None})
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (422, "/webhookUrl")
    both = {"webhookUrl": None, "orderHandling": None}
    assert (await handled(trading, **both))["orderHandling"] == "automatic"


@pytest.mark.parametrize("handling", ["automatic", "manual"])
async def test_a_store_that_is_not_asked_is_never_called_though_it_has_a_webhook_url(
    mercato: Service, shop: MerchantServer, handling: str
):
    trading = await trade(mercato, shop)
    await handled(trading, orderHandling=handling)
    token = await trading.token(trading.order())
    order = await trading.placed(trading.order() | {"validatedOrderToken": token})
    assert (order["state"], order["status"]) == ("open", "pending")
    assert (await cancel(trading, order)).status == 200
    assert shop.received.empty()


# --- a person accepts -----------------------------------------------------------------------------


@own()
@on_both
async def test_an_order_waits_for_a_person_who_accepts_it_by_its_status(manual: Trade):
    order = await manual.placed()
    assert (order["state"], order["status"], order["partnerOrderId"]) == ("open", "pending", None)
    ready = "2030-01-31T18:30:00.000Z"
    change = {"status": "confirmed", "partnerOrderId": "T-65", "estimatedReadyAt": ready}
    assert (await manual.update(order, **change)).status == 200
    assert (await manual.update(order, **change)).status == 200
    now = await read(manual, order)
    assert (now["status"], now["partnerOrderId"], now["estimatedReadyAt"]) == ("confirmed", "T-65", ready)
    await end_time(manual)
    assert (await manual.update(order, status="preparing")).status == 200
    assert (await read(manual, order))["state"] == "open"


async def test_a_repeat_of_the_placement_gets_the_first_answer_whatever_the_person_decided(manual: Trade):
    order = manual.order()
    first = await manual.place(order, key="k-1")
    assert first.status == 201
    await manual.update(first.json(), state="cancelled", cancelReason="Out of dough")
    again = await manual.place(order, key="k-1")
    assert (again.status, again.body) == (201, first.body)


@own()
async def test_a_repeat_gets_the_order_of_an_erased_customer_whatever_the_person_decided(manual: Trade):
    order = manual.order()
    first = await manual.place(order, key="k-2")
    await manual.update(first.json(), state="cancelled", cancelReason="Out of dough")
    await erase_all(manual.mercato.app.db, CUSTOMER["email"])
    again = await manual.place(order, key="k-2")
    assert (again.status, again.json()["orderId"]) == (201, first.json()["orderId"])
    assert (again.json()["state"], "customer" in again.json()) == ("cancelled", False)


@on_both
async def test_an_order_that_a_person_refuses_is_cancelled_for_that_reason(manual: Trade):
    order = await manual.placed()
    assert (await manual.update(order, state="cancelled", cancelReason="Out of dough")).status == 200
    now = await read(manual, order)
    assert (now["state"], now["cancelReason"]) == ("cancelled", "Out of dough")


@own()
@pytest.mark.parametrize(
    "change",
    [
        {"partnerOrderId": "T-65"},
        {"estimatedReadyAt": "2030-01-31T18:30:00.000Z"},
        {"courier": {"name": "Grace"}},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_an_order_waits_for_a_person_who_confirms_it_whatever_else_a_system_says_of_it(
    manual: Trade, change: dict[str, Any]
):
    confirmed, left = await manual.placed(), await manual.placed()
    for order in (confirmed, left):
        assert (await manual.update(order, **change)).status == 200
        assert (await read(manual, order))["status"] == "pending"
    assert (await manual.update(confirmed, status="confirmed")).status == 200
    await end_time(manual)
    assert (await ended(manual, left))["cancelReason"] == "NOT_ACCEPTED"
    assert (await read(manual, confirmed))["state"] == "open"
    history = (await manual.pos.get(f"{MERCHANT}/{confirmed['orderId']}/timeline")).json()["entries"]
    [at] = [entry["at"] for entry in history if entry["detail"].get("status") == "confirmed"]
    day = at[:10]
    report = await manual.pos.get(f"/v1/commerce/reports/orders?from={day}&to={day}&timezone=UTC")
    accepted = {row["orderId"]: row["acceptedAt"] for row in report.json()["orders"]}
    assert accepted == {confirmed["orderId"]: at, left["orderId"]: None}


@own()
@on_both
async def test_an_order_that_nobody_accepts_in_time_is_cancelled_once(manual: Trade):
    order = await manual.placed()
    await end_time(manual)
    now = await ended(manual, order)
    assert now["cancelReason"] == "NOT_ACCEPTED"
    late = await manual.update(order, status="confirmed")
    assert (late.status, late.json()["errorCode"]) == (409, "ORDER_CLOSED")
    assert "nobody accepted it in time" in late.json()["detail"]
    assert [event["type"] for event in await events(manual.front, MARKETFRONT, 2)] == [
        "order.created",
        "order.updated",
    ]


@own()
@on_both
async def test_a_storefront_cancels_at_once_what_no_person_has_accepted(manual: Trade):
    order = await manual.placed()
    reply = await cancel(manual, order)
    assert (reply.status, reply.json()["state"]) == (200, "cancelled")
    assert (await manual.update(order, status="confirmed")).status == 409
    await end_time(manual)
    assert (await read(manual, order))["cancelReason"] == "CHANGED_MIND"


async def test_a_person_is_asked_before_an_accepted_order_is_cancelled(manual: Trade):
    order = await manual.placed()
    await manual.update(order, status="preparing")
    asked = await cancel(manual, order)
    assert (asked.status, asked.json()["errorCode"]) == (503, "STORE_UNREACHABLE")
    [seen] = (await manual.pos.get(MERCHANT)).json()["orders"]
    assert (seen["state"], seen["cancellation"]["status"]) == ("open", "requested")
    assert (await manual.update(order, state="cancelled", cancelReason="As you wish")).status == 200
    assert (await read(manual, order))["state"] == "cancelled"


async def asked(trading: Trade) -> Any:
    """Return an order that was accepted, and that its storefront asks to cancel."""
    order = await trading.placed()
    await trading.update(order, status="confirmed")
    assert (await cancel(trading, order)).status == 503
    return order


async def test_a_person_keeps_an_order_that_its_storefront_asks_to_cancel(manual: Trade):
    order = await asked(manual)
    decision = {"accepted": False, "reason": "It is on the grill."}
    for _ in range(2):
        assert (await manual.update(order, cancellation=decision)).status == 200
    now = await read(manual, order)
    assert (now["state"], now["cancellation"]["status"]) == ("open", "refused")
    timeline = (await manual.front.get(f"{ORDERS}/{order['orderId']}/timeline")).json()["entries"]
    assert [(entry["type"], entry["actor"]) for entry in timeline][-1] == ("cancellation.refused", "merchant")
    again = await cancel(manual, order)
    assert again.status == 503, "a new request begins a new cancellation"
    assert (await manual.update(order, state="completed")).status == 200


async def test_the_request_that_asked_learns_that_the_order_is_kept_and_why(manual: Trade):
    order = await manual.placed()
    await manual.update(order, status="confirmed")
    path, headers = f"{ORDERS}/{order['orderId']}/cancel", {"Idempotency-Key": str(uuid4())}
    body = {"reason": "CHANGED_MIND"}
    assert (await manual.front.post(path, body, headers=headers)).status == 503
    await manual.update(order, cancellation={"accepted": False, "reason": "It is on the grill."})
    reply = await manual.front.post(path, body, headers=headers)
    assert (reply.status, reply.json()["errorCode"]) == (409, "CANCELLATION_REFUSED")
    assert "It is on the grill." in reply.json()["detail"]


async def test_a_person_who_accepts_a_cancellation_ends_the_order_for_the_storefronts_reason(manual: Trade):
    order = await asked(manual)
    for _ in range(2):
        assert (await manual.update(order, cancellation={"accepted": True})).status == 200
    now = await read(manual, order)
    assert (now["state"], now["cancelReason"]) == ("cancelled", "CHANGED_MIND")
    assert now["cancellation"]["status"] == "accepted"
    late = await manual.update(order, cancellation={"accepted": False})
    assert (late.status, late.json()["errorCode"]) == (409, "ORDER_CLOSED")


@on_both
async def test_of_two_decisions_about_a_cancellation_the_first_counts(manual: Trade):
    for _ in range(6):
        order = await asked(manual)
        accepted, kept = await asyncio.gather(
            manual.update(order, cancellation={"accepted": True}),
            manual.update(order, cancellation={"accepted": False}),
        )
        assert sorted([accepted.status, kept.status]) == [200, 409]
        state = (await read(manual, order))["state"]
        assert state == ("cancelled" if accepted.status == 200 else "open")
        await manual.update(order, state="completed")


async def test_a_cancellation_that_nobody_asks_for_cannot_be_decided(manual: Trade):
    order = await manual.placed()
    for accepted in (True, False):
        reply = await manual.update(order, cancellation={"accepted": accepted})
        assert (reply.status, reply.json()["errorCode"]) == (409, "CONFLICT")
    assert (await read(manual, order))["state"] == "open"


@in_turn(
    ("update", "pointer"),
    [
        ({"cancellation": {"accepted": False}, "status": "ready"}, "/cancellation"),
        ({"cancellation": {"accepted": True}, "state": "completed"}, "/cancellation"),
        ({"cancellation": {"accepted": True, "reason": "So be it"}}, "/cancellation/reason"),
        ({"cancellation": {"accepted": False, "reason": "a\nb"}}, "/cancellation/reason"),
        ({"cancellation": {"accepted": False, "reason": "a" * 256}}, "/cancellation/reason"),
        ({"cancellation": {"accepted": "no"}}, "/cancellation/accepted"),
    ],
)
async def test_a_decision_that_cannot_be_is_refused_where_it_stands(
    manual: Trade, update: dict[str, Any], pointer: str
):
    order = await asked(manual)
    reply = await manual.update(order, **update)
    assert reply.status in {400, 422}, reply.body
    assert reply.json()["errors"][0]["pointer"] == pointer
    many = {"updates": [{"orderId": order["orderId"], **update}]}
    batch = await manual.pos.post(f"{MERCHANT}/status", many)
    assert batch.status in {400, 422} or "problem" in batch.json()["results"][0], batch.body
    assert (await read(manual, order))["cancellation"]["status"] == "requested"


@own()
@on_both
async def test_of_acceptance_refusal_cancellation_and_the_end_of_the_time_one_wins_and_all_agree(
    manual: Trade,
):
    for _ in range(8):
        order = await manual.placed()
        accepted, refused, cancelled, _ = await asyncio.gather(
            manual.update(order, status="confirmed"),
            manual.update(order, state="cancelled", cancelReason="No"),
            cancel(manual, order),
            end_time(manual),
        )
        now = await read(manual, order)
        if now["state"] == "open":
            assert (accepted.status, now["status"], refused.status) == (200, "confirmed", 409)
        elif now["cancelReason"] == "No":
            assert refused.status == 200
        elif now["cancelReason"] == "CHANGED_MIND":
            # To cancel what is cancelled changes nothing, so a refusal that came later is answered with 200.
            assert (cancelled.status, accepted.status) == (200, 409)
        else:
            assert now["cancelReason"] == "NOT_ACCEPTED"
            assert accepted.status == 409
        pulled = (await manual.pos.get(f"{MERCHANT}/{order['orderId']}")).json()
        same = ("state", "status", "cancelReason")
        assert [pulled[name] for name in same] == [now[name] for name in same]


@on_both
async def test_two_people_who_accept_at_once_both_see_it_accepted(manual: Trade):
    order = await manual.placed()
    replies = await asyncio.gather(*(manual.update(order, status="confirmed") for _ in range(6)))
    assert {reply.status for reply in replies} == {200}
    timeline = (await manual.front.get(f"{ORDERS}/{order['orderId']}/timeline")).json()["entries"]
    assert [entry["type"] for entry in timeline] == ["placed", "pending", "updated"]


# --- orders by pull -------------------------------------------------------------------------------


@pytest.mark.parametrize("handling", ["automatic", "manual"])
async def test_a_merchant_that_is_not_called_reads_its_orders_in_the_feed(
    mercato: Service, shop: MerchantServer, handling: str
):
    trading = await trade(mercato, shop, webhook=False)
    await handled(trading, orderHandling=handling)
    order = await trading.placed()
    created, *_ = await events(trading.pos, COMMERCE, 1)
    as_read = (await trading.pos.get(f"{MERCHANT}/{order['orderId']}")).json()
    assert created["type"] == "order.created"
    assert created["data"]["orderHandling"] == handling
    assert created["data"]["order"] == as_read
    await trading.update(order, status="confirmed")
    await trading.update(order, state="cancelled", cancelReason="Fire")
    _, updated, cancelled = await events(trading.pos, COMMERCE, 3)
    assert (updated["type"], updated["data"]["order"]["status"]) == ("order.updated", "confirmed")
    assert (cancelled["type"], cancelled["data"]["cancelReason"]) == ("order.cancelled", "Fire")


async def test_a_merchant_that_is_called_gets_no_event_beside_its_calls(
    mercato: Service, shop: MerchantServer
):
    trading = await trade(mercato, shop)
    order = await trading.placed()
    await trading.update(order, status="confirmed")
    await events(trading.front, MARKETFRONT, 2)
    page = (await trading.pos.get(COMMERCE)).json()["events"]
    assert [event for event in page if event["type"].startswith("order.")] == []


@own()
async def test_an_erased_customer_is_in_no_event_of_the_merchant(manual: Trade):
    order = await manual.placed()
    await manual.update(order, status="confirmed")
    await events(manual.pos, COMMERCE, 2)
    await erase_all(manual.mercato.app.db, CUSTOMER["email"])
    found = (await manual.pos.get(COMMERCE)).body
    assert CUSTOMER["lastName"].encode() not in found
    assert b'"status":"confirmed"' in found


# --- taxes and fees -------------------------------------------------------------------------------

DELIVERED = {
    "mode": "DELIVERY_BY_MERCHANT",
    "scheduleType": "ASAP",
    "deliveryType": "DOOR_TO_DOOR",
    "address": ADDRESS,
}
CHARGES = [
    {"kind": "fee", "name": "Delivery", "amount": "2.50", "mode": "DELIVERY_BY_MERCHANT"},
    {"kind": "tax", "name": "Sales tax", "rate": "8.875"},
    {"kind": "tax", "name": "VAT", "rate": "7", "included": True, "appliesTo": "all"},
]


@pytest.mark.parametrize("with_token", [True, False])
async def test_a_store_that_is_not_called_charges_its_own_taxes_and_fees(manual: Trade, with_token: bool):
    store = await handled(manual, charges=CHARGES)
    assert [charge["name"] for charge in store["charges"]] == ["Delivery", "Sales tax", "VAT"]
    order = manual.order(fulfillment=DELIVERED)
    if with_token:
        said = await manual.validate(order)
        assert said["order"]["amounts"]["total"] == "8.81"
        order |= {"validatedOrderToken": said["validatedOrderToken"]}
        # What is quoted is what is paid: the token binds it.
        await handled(manual, charges=None)
    amounts = (await manual.placed(order))["amounts"]
    assert (amounts["subTotal"], amounts["fees"], amounts["taxes"], amounts["total"]) == (
        "5.80",
        "2.50",
        "0.51",
        "8.81",
    )
    assert amounts["feesDescription"] == [{"amount": "2.50", "description": "Delivery"}]
    assert amounts["taxesDescription"] == [
        {"amount": "0.51", "description": "Sales tax"},
        {"amount": "0.00", "description": "VAT: 0.54 USD included"},
    ]


async def test_no_order_has_a_negative_total_with_the_stores_charges(mercato: Service, shop: MerchantServer):
    menu = cafe()
    menu["items"][TEA]["basePrice"] = "-1.00"
    trading = await trade(mercato, shop, webhook=False, catalog=menu)
    order = trading.order(line(TEA), amounts={"tip": "1.00"})
    assert (await trading.validate(order))["order"]["amounts"]["total"] == "0.00"
    await handled(trading, charges=[{"kind": "tax", "name": "Tax", "rate": "10"}])
    checked = await trading.validate(order)
    assert (checked["isValid"], checked["order"]["errors"][0]["code"]) == (False, "VALIDATION_FAILED")
    assert (await trading.place(order)).status == 422


async def test_a_total_without_the_stores_charges_is_refused(manual: Trade):
    await handled(manual, charges=[{"kind": "fee", "name": "Service", "rate": "10"}])
    refused = await manual.place(manual.order(amounts={"total": "5.80"}))
    assert (refused.status, refused.json()["errorCode"]) == (400, "ORDER_TOTAL_DIFFERENT")
    assert (await manual.place(manual.order(amounts={"total": "6.38"}))).status == 201


@in_turn(
    ("charge", "at"),
    [
        ({"kind": "tax", "name": "T"}, ""),
        ({"kind": "tax", "name": "T", "rate": "1", "amount": "1"}, ""),
        ({"kind": "tax", "name": "T", "rate": "0"}, "/rate"),
        ({"kind": "tax", "name": "T", "rate": "-1"}, "/rate"),
        ({"kind": "tax", "name": "T", "rate": "100.1"}, "/rate"),
        ({"kind": "tax", "name": "T", "rate": "1.00001"}, "/rate"),
        ({"kind": "tax", "name": "T", "rate": "7 %"}, "/rate"),
        ({"kind": "tax", "name": "T", "rate": 7}, "/rate"),
        ({"kind": "fee", "name": "F", "amount": "-1"}, "/amount"),
        ({"kind": "fee", "name": "F", "amount": "1.005"}, "/amount"),
        ({"kind": "fee", "name": "F", "rate": "5", "included": True}, "/included"),
        ({"kind": "tip", "name": "F", "rate": "5"}, "/kind"),
        ({"kind": "fee", "name": " ", "rate": "5"}, "/name"),
        ({"kind": "fee", "name": "F\nG", "rate": "5"}, "/name"),
        ({"kind": "fee", "name": "F", "rate": "5", "appliesTo": "tip"}, "/appliesTo"),
        ({"kind": "fee", "name": "F", "rate": "5", "mode": "DRONE"}, "/mode"),
    ],
)
async def test_a_charge_that_cannot_be_computed_is_refused_where_it_stands(
    manual: Trade, charge: dict[str, Any], at: str
):
    path = f"{STORES}/{manual.store['storeId']}"
    reply = await manual.pos.call("PUT", path, {"charges": [CHARGES[0], charge]})
    assert reply.status in {400, 422}, reply.body
    assert [error["pointer"] for error in reply.json()["errors"]] == [f"/charges/1{at}"]


async def test_charges_are_at_most_ten(manual: Trade):
    path = f"{STORES}/{manual.store['storeId']}"
    assert (await manual.pos.call("PUT", path, {"charges": [CHARGES[0]] * 10})).status == 200
    assert (await manual.pos.call("PUT", path, {"charges": [CHARGES[0]] * 11})).status in {400, 422}


@on_both
async def test_a_store_that_is_called_sets_its_amounts_itself(mercato: Service, shop: MerchantServer):
    trading = await trade(mercato, shop)
    path = f"{STORES}/{trading.store['storeId']}"
    reply = await trading.pos.call("PUT", path, {"charges": CHARGES})
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (422, "/charges")
    await handled(trading, charges=CHARGES, orderHandling="automatic")
    assert (await trading.placed())["amounts"]["taxes"] == "0.51"
    await handled(trading, orderHandling="webhook")
    assert (await trading.placed())["amounts"]["taxes"] == "0.00"


async def test_an_amount_is_not_charged_in_another_currency_than_it_was_set_in(
    manual: Trade, shop: MerchantServer
):
    fees = [
        {"kind": "fee", "name": "Bag", "amount": "0.10"},
        {"kind": "fee", "name": "Service", "rate": "10"},
    ]
    await handled(manual, charges=fees)
    store_id = manual.store["storeId"]
    run = await manual.mercato.run(
        manual.pos, store_id, shop.host(cafe() | {"currency": "EUR"}, "/euro.json")
    )
    assert run["status"] == "succeeded", run
    manual.store = (await manual.pos.get(f"{STORES}/{store_id}")).json()
    amounts = (await manual.placed())["amounts"]
    assert amounts["feesDescription"] == [{"amount": "0.58", "description": "Service"}]


@own()
@on_both
async def test_a_number_may_change_and_the_order_is_found_by_the_new_one(mercato: Service, manual: Trade):
    order = await manual.placed()
    path = f"{MERCHANT}/{order['orderId']}/status"
    for number in ("T-65", "T-66", "T-66", "T-67"):
        reply = await manual.pos.post(path, {"partnerOrderId": number})
        assert reply.status == 200, reply.body
    async with mercato.app.db.read() as tx:
        for number, found in (("T-67", [UUID(order["orderId"])]), ("T-65", []), ("T-66", [])):
            wanted = [(SearchKind.NUMBER, number_key(number))]
            assert await find_orders(tx, wanted, visible=[], limit=5) == found
