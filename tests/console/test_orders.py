"""An order's page: every call to either side, as the merchant, the storefront and an operator may each see it."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from aiohttp import web
from sqlalchemy import select, update
from tests.api.trade import ADDRESS, Trade, tea, trade
from tests.catalog.documents import cafe
from tests.console.test_screens import check_frame
from tests.console.visiting import (
    enter_as_operator,
    enter_as_partner,
    enter_as_person,
    enter_whole_account,
)
from tests.databases import mostly_sqlite, on_both
from tests.live_stores import live_store
from tests.service import Client, MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.console.screens import orders as order_screens
from mercato.features.orders import placement, resubmission
from mercato.features.orders.tables import orders
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in.roles import Role
from mercato.features.webhooks.tables import deliveries

pytestmark = [shared, mostly_sqlite]


async def _broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def _calls_of(deal: Trade, order_id: str) -> list[Any]:
    path = f"/v1/commerce/orders/{order_id}/timeline"
    entries = (await deal.pos.get(path)).json()["entries"]
    return [one["detail"] for one in entries if one["type"] == "webhook.attempt"]


async def _until_called(deal: Trade, order_id: str, event: str, to: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(
            (one["event"], one["to"], one["succeeded"]) == (event, to, True)
            for one in await _calls_of(deal, order_id)
        ):
            await asyncio.sleep(0.02)


@on_both
async def test_each_audience_sees_every_call_about_an_order_and_only_its_own_reasons(
    database_url: str, tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(placement, "SLACK", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "RETRY_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "MIN_WAIT", timedelta(seconds=0.05))
    monkeypatch.setattr(resubmission, "POLL_SECONDS", 0.1)
    async with service(database_url, tmp_path / "data", place_seconds=1.4) as mercato:
        deal = await trade(mercato, shop, event_url=shop.base + "/events")
        answer = shop.answers["place"]
        shop.answers["place"] = _broken
        order_id = (await deal.place(deal.order())).json()["orderId"]
        shop.answers["place"] = answer
        await _until_called(deal, order_id, "order.place", "store")
        assert (await deal.update({"orderId": order_id}, status="confirmed")).status == 200
        cancelled = await mercato.app.orders.cancel(UUID(order_id), reason="Fraud")
        assert cancelled.cancel_reason == "Fraud"
        await _until_called(deal, order_id, "order.cancelled", "store")
        await _until_called(deal, order_id, "order.updated", "storefront")
        calls = await _calls_of(deal, order_id)
        for enter, sees_store, sees_storefront in (
            (enter_as_operator(mercato), True, True),
            (enter_as_partner(mercato, deal.pos), True, False),
            (enter_as_partner(mercato, deal.front), False, True),
        ):
            browser = await enter
            page = await browser.open(f"/console/orders/{order_id}")
            rows = page.rows("Timeline")
            assert rows[0][1] == "Placed by the storefront"
            assert {"Accepted by the store", "Confirmed", "Cancelled by an operator"} <= {
                row[1] for row in rows
            }
            shown = [row[1] for row in page.rows("Calls")]
            (folded,) = page.root.all("details")  # among the order's events
            assert folded.all("summary")[0].text.startswith(f"{len(shown)} call")
            assert len(shown) >= len(calls)
            failed = [text for text in shown if "order.place to the store" in text and "HTTP 500" in text]
            assert failed, "the call that failed, with its status"
            assert all(("500" in text.partition(" ms")[2]) == sees_store for text in failed), "and its reason"
            assert any("order.cancelled to the store, attempt 1: HTTP 20" in text for text in shown)
            assert any("order.updated to the storefront, attempt 1: HTTP 20" in text for text in shown)
            own = {"store": sees_store, "storefront": sees_storefront}
            for text in shown:
                to = "storefront" if "to the storefront" in text else "store"
                assert text.endswith("Webhook") == own[to], text
            assert any("Reason: Fraud." in row[2] for row in rows)
            links = [one.text for one in page.root.all("a")]
            assert "Webhooks about this order" in links
            assert (await browser.open(page.link("Webhooks about this order"))).rows("Deliveries")
            assert (await browser.open(page.link(deal.store["name"]))).status == 200
            assert ("Merchant:" in page.text) == (sees_store and sees_storefront)


@on_both
@own()
async def test_whoever_handles_a_merchants_orders_prints_a_ticket_from_the_orders_page(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    order_id = (await deal.placed())["orderId"]
    async with mercato.app.db.read() as tx:
        merchant = await tx.scalar(select(orders.c.partner_id).where(orders.c.id == UUID(order_id)))
    for browser, prints in (
        (await enter_as_partner(mercato, deal.pos), True),
        ((await enter_as_person(mercato, Role.READ_ONLY, merchant))[0], False),
        (await enter_as_partner(mercato, deal.front), False),
        (await enter_as_operator(mercato), False),
    ):
        page = await browser.open(f"/console/orders/{order_id}")
        assert ("Print ticket" in [one.text for one in page.root.all("a")]) == prints
        assert ((await browser.open(f"/console/orders/{order_id}/ticket")).status == 200) == prints


ANYWHERE = {"mode": "DELIVERY_BY_MERCHANT", "scheduleType": "ASAP", "deliveryType": "LEAVE_AT_DOOR"}


@own()
async def test_an_orders_page_says_what_happens_and_shows_its_customer_to_its_partners_alone(
    mercato: Service, shop: MerchantServer
):
    shop.answers["place"] = {"accepted": True}
    deal = await trade(mercato, shop)
    where = ADDRESS
    order = deal.order(fulfillment=ANYWHERE | {"address": where, "instructions": "Ring twice"})
    placed = await deal.placed(order)
    path = f"/console/orders/{placed['orderId']}"
    for who, customer, cancels in (
        (enter_as_partner(mercato, deal.pos), True, True),
        (enter_as_partner(mercato, deal.front), True, True),
        (enter_as_partner(mercato, deal.pos, read_only=True), False, False),
        (enter_as_operator(mercato), False, True),
        (enter_as_operator(mercato, read_only=True), False, False),
    ):
        browser = await who
        page = await browser.open(path)
        check_frame(page)
        assert page.heading == "Test Store A-1"
        assert "Accepted just now by Test Store; not started yet." in page.region("Now")
        assert page.region("Progress").count("\N{EN DASH}") == 3, "preparing, ready and done"
        assert page.rows("Items")[0][1:] == ["2", "5.80"]
        assert page.rows("Amounts") == [["Items", "5.80"], ["Total", "5.80"]]
        assert "left at the door" in page.region("Fulfilment")
        for private in ("Lovelace", "+15550100", "ada@example.com", "1 Main St", "Ring twice"):
            assert (private in page.text) == customer, private
        regions = [one.attributes["aria-label"] for one in page.root.all("section")]
        assert ("Customer" in regions) == customer
        assert ("Cancel order" in page.buttons) == cancels
        assert "Resend" not in page.buttons
        sent = await browser.open(page.link("Webhooks about this order"))
        for delivery in sent.ids("Deliveries"):
            body = (await browser.open(f"/console/webhooks/{delivery}")).text
            assert ("Lovelace" in body) == customer


@own()
async def test_an_order_is_cancelled_on_its_page_after_a_confirmation(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    operator = await enter_as_operator(mercato)
    merchant = await enter_as_partner(mercato, deal.pos)
    both, one = "The storefront and the store are notified.", "The storefront is notified."
    for browser, reason, stored, sentence, notice in (
        (operator, "Fraud", "Fraud", "Cancelled just now by an operator: Fraud.", both),
        (operator, "", "CANCELLED_BY_OPERATOR", "Cancelled just now by an operator.", both),
        (merchant, "", "CANCELLED_BY_STORE", "Cancelled just now by Test Store.", one),
        (merchant, "Oven broken", "Oven broken", "Cancelled just now by Test Store: Oven broken.", one),
    ):
        placed = await deal.placed()
        path = f"/console/orders/{placed['orderId']}"
        question = await browser.press(await browser.open(path), "Cancel order")
        check_frame(question)
        assert notice in question.text
        kept = await browser.open(question.link("Keep the order"))
        assert "Cancel order" in kept.buttons
        order = f"/v1/marketfront/orders/{placed['orderId']}"
        assert (await deal.front.get(order)).json()["state"] == "open"
        done = await browser.press(question, "Confirm", reason=reason)
        assert done.status_region == f"The order is cancelled. {notice}"
        assert sentence in done.region("Now")
        assert "Cancel order" not in done.buttons
        now = (await deal.front.get(order)).json()
        assert (now["state"], now["cancelReason"]) == ("cancelled", stored)
        again = await browser.post(f"{path}/cancel", {"reason": "once more"})
        assert again.status in {200, 409}, again.text
        assert (await deal.front.get(order)).json()["cancelReason"] == stored
    other = await enter_as_partner(mercato, (await mercato.partner())[1])
    _, shopper = await mercato.partner(PartnerKind.MARKETFRONT)
    other_front = await enter_as_partner(mercato, shopper)
    open_order = (await deal.placed())["orderId"]
    for stranger in (other, other_front):
        reply = await stranger.post(f"/console/orders/{open_order}/cancel", {"reason": "mine"})
        assert reply.status == 404
    assert (await deal.front.get(f"/v1/marketfront/orders/{open_order}")).json()["state"] == "open"


SILENT = "has no working address for this event and sees it on reading the order or the events feed."


@own()
async def test_only_who_has_an_address_is_said_to_be_notified(mercato: Service, shop: MerchantServer):
    other = (await trade(mercato, shop, webhook=False)).store["storeId"]
    operator = await enter_as_operator(mercato)
    endpoints: dict[str, Any] = {
        "none": None,
        "event URL": None,
        "endpoint": {"types": ["order.updated"]},
        "other type": {"types": ["order.created"]},
        "other store": {"storeIds": [other]},
        "disabled": {"enabled": False},
    }
    for address, endpoint in endpoints.items():
        own: dict[str, Any] = {"event_url": shop.base + "/events"} if address == "event URL" else {}
        deal = await trade(mercato, shop, webhook=False, **own)
        if endpoint is not None:
            made = await deal.front.post(
                "/v1/marketfront/webhook-endpoints", {"url": shop.base + "/hooks", **endpoint}
            )
            assert made.status == 201, made.body
        path = f"/console/orders/{(await deal.placed())['orderId']}"
        question = await operator.press(await operator.open(path), "Cancel order")
        done = await operator.press(question, "Confirm")
        if address in {"event URL", "endpoint"}:
            told = f"The storefront is notified. The store {SILENT}"
        else:
            both = SILENT.replace("has ", "have ").replace("sees", "see")
            told = f"The storefront and the store {both}"
        assert done.status_region == f"The order is cancelled. {told}", address


@on_both
@own()
@pytest.mark.parametrize("handling", ["automatic", "manual"])
async def test_a_store_that_is_not_called_is_not_said_to_be_notified_at_its_webhook_url(
    mercato: Service, shop: MerchantServer, handling: str
):
    deal = await trade(mercato, shop)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    assert (await deal.pos.call("PUT", path, {"orderHandling": handling})).status == 200
    order = (await deal.placed())["orderId"]
    operator = await enter_as_operator(mercato)
    question = await operator.press(await operator.open(f"/console/orders/{order}"), "Cancel order")
    done = await operator.press(question, "Confirm")
    both = SILENT.replace("has ", "have ").replace("sees", "see")
    assert done.status_region == f"The order is cancelled. The storefront and the store {both}"
    assert shop.received.empty()


async def test_a_pages_times_are_all_in_the_one_zone_that_it_names(mercato: Service, shop: MerchantServer):
    """The sentence was in the store's zone without saying so, the timeline in the browser's."""
    deal = await trade(mercato, shop)
    placed = await deal.placed()
    store = f"/v1/commerce/stores/{deal.store['storeId']}"
    assert (await deal.pos.call("PUT", store, {"timezone": "Asia/Tokyo"})).status == 200
    await deal.pos.post(
        f"/v1/commerce/orders/{placed['orderId']}/status",
        {"status": "confirmed", "estimatedReadyAt": "2999-01-31T23:30:00Z"},
    )
    browser = await enter_as_partner(mercato, deal.pos)
    page = await browser.open(f"/console/orders/{placed['orderId']}")
    assert "Times are in Asia/Tokyo." in page.text
    assert "promised for 08:30 on 1 February" in page.region("Now")
    assert "Ready at 2999-02-01 08:30 Asia/Tokyo." in page.region("Events")
    assert "T23:30:00" not in page.region("Events")
    await browser.press(await browser.open("/console/account"), "Set time zone", timezone="Europe/Rome")
    page = await browser.open(f"/console/orders/{placed['orderId']}")
    assert "promised for 00:30 on 1 February" in page.region("Now")


@on_both
async def test_a_merchant_adjusts_an_order_on_its_page_once_however_often_the_form_is_sent(
    mercato: Service, shop: MerchantServer
):
    shop.answers["place"] = {"accepted": True}
    deal = await trade(mercato, shop)
    placed = await deal.placed(deal.order(tea(), tea(1)))
    path = f"/console/orders/{placed['orderId']}"
    item = placed["cart"]["lineItems"][1]["lineItemId"]
    browser = await enter_as_partner(mercato, deal.pos)
    question = await browser.press(await browser.open(path), "Adjust order")
    check_frame(question)
    assert "The order costs 8.70 USD now." in question.text
    refund = {"type": "refund", "amount": "1.50", "reason": "The <b>tea</b> was cold", "lineItemId": item}
    done = await browser.press(question, "Confirm", **refund)
    assert (
        done.status_region
        == "The order is adjusted. The storefront has no working address for this event and sees it on reading the "
        "order or the events feed. It costs 7.20 USD now."
    )
    assert done.rows("Amounts") == [
        ["Items", "8.70"],
        ["Total", "8.70"],
        ["Refund", "-1.50"],
        ["Tea", ""],
        ["The <b>tea</b> was cold", ""],
        ["Total after adjustments", "7.20"],
    ]
    # A browser that goes back asks for the same address, and may keep what was typed.
    for form in (question, await browser.open(question.url)):
        again = await browser.press(form, "Confirm", **refund)
        assert again.rows("Amounts") == done.rows("Amounts"), "sent twice, recorded once"
        assert again.status_region == "This adjustment was recorded already, once. It costs 7.20 USD now."
        stale = await browser.press(form, "Confirm", **refund | {"amount": "2.00"})
        assert stale.status == 409
        assert "This order was adjusted since you opened this form, so nothing was recorded." in stale.text
    question = await browser.open(f"{path}/adjust")
    less = {"type": "substitution", "amount": "-0.20", "reason": "Green tea"}
    assert "It costs 7.00 USD now." in (await browser.press(question, "Confirm", **less)).status_region
    order = (await deal.pos.get(f"/v1/commerce/orders/{placed['orderId']}")).json()
    assert [one["lineItemIds"] for one in order["adjustments"]] == [[item], []]
    assert order["amounts"]["totalAfterAdjustments"] == "7.00"
    assert ["Refund", "-1.50"] in (await (await enter_as_partner(mercato, deal.front)).open(path)).rows(
        "Amounts"
    )
    for faults, status in (
        ({"type": "gift"}, 422),
        ({"lineItemId": placed["orderId"]}, 422),
        ({"after": "-1"}, 422),
        ({"after": "3"}, 409),
    ):
        question = await browser.open(f"{path}/adjust")
        refused = await browser.press(question, "Confirm", **less | faults)
        assert refused.status == status, (faults, refused.text)
    assert (await browser.post(f"{path}/adjust")).status == 400
    order = (await deal.pos.get(f"/v1/commerce/orders/{placed['orderId']}")).json()
    assert len(order["adjustments"]) == 2


WRONG_ADJUSTMENTS: Final[tuple[tuple[dict[str, str], str], ...]] = (
    ({"amount": "abc"}, "Write a number such as 4.50, with a point and at most 2 decimals."),
    ({"amount": "4,50"}, "Write a number such as 4.50, with a point and at most 2 decimals."),
    ({"amount": "0.005"}, "Write a number such as 4.50, with a point and at most 2 decimals."),
    ({"amount": ""}, "Write a number such as 4.50, with a point and at most 2 decimals."),
    ({"amount": "5.81"}, "The order costs 5.80 USD now: no more can be taken off."),
    (
        {"amount": "-5.81", "type": "substitution"},
        "The order costs 5.80 USD now: no more can be taken off.",
    ),
    ({"amount": "-1"}, "Write an amount above 0: a refund takes it off, a fee adds it."),
    ({"amount": "92233720368547758.07", "type": "fee"}, "This is too much. Write a smaller amount."),
    ({"reason": " "}, "Write why, in one line."),
    ({"reason": "a\tb"}, "Write why, in one line."),
)
"""What may be typed for an adjustment, and what is said of it."""


async def test_a_wrong_adjustment_is_shown_again_as_it_was_typed_with_what_is_wrong_beside_its_field(
    mercato: Service, shop: MerchantServer
):
    shop.answers["place"] = {"accepted": True}
    deal = await trade(mercato, shop)
    placed = await deal.placed()
    path = f"/console/orders/{placed['orderId']}"
    item = placed["cart"]["lineItems"][0]["lineItemId"]
    browser = await enter_as_partner(mercato, deal.pos)
    question = await browser.press(await browser.open(path), "Adjust order")
    for typed, said in WRONG_ADJUSTMENTS:
        sent = {"type": "refund", "amount": "1.50", "reason": "Cold tea", "lineItemId": item} | typed
        again = await browser.press(question, "Confirm", **sent)
        check_frame(again)
        assert (again.status, again.heading) == (422, question.heading), typed
        assert [fault.text for fault in again.root.all("span", **{"class": "fault"})] == [said], typed
        kept = [again.root.all("input", name=name)[0].attributes["value"] for name in ("amount", "reason")]
        assert kept == [sent["amount"], sent["reason"]], typed
        chosen = [one.attributes["value"] for one in again.root.all("option") if "selected" in one.attributes]
        assert chosen == [sent["type"], item], typed
    done = await browser.press(again, "Confirm", **sent | {"amount": "0.50", "reason": "Cold"})
    assert done.status_region.startswith("The order is adjusted")


@on_both
async def test_of_two_people_who_adjust_an_order_at_once_one_is_told_to_look_again(
    mercato: Service, shop: MerchantServer
):
    shop.answers["place"] = {"accepted": True}
    deal = await trade(mercato, shop)
    placed = await deal.placed()
    browser = await enter_as_partner(mercato, deal.pos)
    question = await browser.open(f"/console/orders/{placed['orderId']}/adjust")
    refund = {"type": "refund", "amount": "1.50", "reason": "Cold"}
    pages = await asyncio.gather(
        *(browser.press(question, "Confirm", **refund | {"amount": amount}) for amount in ("1.50", "2.00"))
    )
    assert sorted(page.status for page in pages) == [200, 409]
    order = (await deal.pos.get(f"/v1/commerce/orders/{placed['orderId']}")).json()
    assert len(order["adjustments"]) == 1


@own()
async def test_nobody_adjusts_an_order_but_its_merchant_while_it_can_be_adjusted(
    mercato: Service, shop: MerchantServer
):
    shop.answers["place"] = {"accepted": True}
    deal = await trade(mercato, shop)
    placed = await deal.placed()
    path = f"/console/orders/{placed['orderId']}"
    form = {"after": "0", "type": "fee", "amount": "1", "reason": "Bags"}
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    storefront = await enter_as_partner(mercato, deal.front)
    operator = await enter_as_operator(mercato)
    reader = await enter_as_partner(mercato, deal.pos, read_only=True)
    for browser, status in ((stranger, 404), (storefront, 404), (operator, 404), (reader, 403)):
        assert "Adjust order" not in (await browser.open(path)).buttons
        assert (await browser.open(f"{path}/adjust")).status == status
        assert (await browser.post(f"{path}/adjust", form)).status == status
    merchant = await enter_as_partner(mercato, deal.pos)
    assert (await deal.update(placed, state="cancelled", cancelReason="Oven")).status == 200
    assert "Adjust order" not in (await merchant.open(path)).buttons
    refused = await merchant.post(f"{path}/adjust", form)
    assert (refused.status, "nothing to adjust" in refused.text) == (409, True)
    assert (await merchant.open(f"{path}/adjust")).status == 409


@on_both
async def test_a_storefront_cancels_on_the_orders_page_with_its_stores_consent(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.front)
    placed = await deal.placed()
    path = f"/console/orders/{placed['orderId']}"
    question = await browser.press(await browser.open(path), "Cancel order")
    assert "The store is asked" in question.text
    shop.answers["cancel"] = {"accepted": False, "reason": "In the oven"}
    kept = await browser.press(question, "Confirm", reason="CHANGED_MIND")
    assert "In the oven" in kept.status_region
    assert "Cancel order" in kept.buttons
    refused = await browser.post(f"{path}/cancel", {"reason": "x" * 65})
    assert (refused.status, "at most 64 characters" in refused.text) == (422, True)
    shop.answers["cancel"] = {"accepted": True}
    done = await browser.press(question, "Confirm")
    assert done.status_region == "The order is cancelled."
    assert "Cancel order" not in done.buttons
    now = (await deal.front.get(f"/v1/marketfront/orders/{placed['orderId']}")).json()
    assert (now["state"], now["cancelReason"]) == ("cancelled", "CANCELLED_BY_CUSTOMER")
    assert now["cancellation"]["status"] == "accepted"


async def test_a_merchant_reads_that_its_store_is_notified_if_it_is_called_about_the_cancellation(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos)
    placed = await deal.placed()
    asked, go = asyncio.Event(), asyncio.Event()

    async def refuse_later(_request: web.Request, _body: bytes) -> web.Response:
        asked.set()
        await go.wait()
        return web.json_response({"accepted": False})

    shop.answers["cancel"] = refuse_later
    path = f"/v1/marketfront/orders/{placed['orderId']}/cancel"
    request = asyncio.create_task(
        deal.front.post(path, {"reason": "CHANGED_MIND"}, headers={"Idempotency-Key": "k"})
    )
    await asked.wait()
    page = await browser.open(f"/console/orders/{placed['orderId']}")
    done = await browser.press(await browser.press(page, "Cancel order"), "Confirm")
    go.set()
    assert "The store is notified." in done.status_region
    assert (await request).status == 200
    await _until_called(deal, placed["orderId"], "order.cancelled", "store")


@on_both
async def test_failed_webhooks_about_an_order_are_resent_from_its_page(
    mercato: Service, shop: MerchantServer
):
    shop.answers["events"] = _broken
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    order = (await deal.placed())["orderId"]
    path = "/v1/marketfront/webhook-deliveries"
    pending = await mercato.until(deal.front, path, lambda page: page["deliveries"])
    async with mercato.app.db.write() as tx:
        await tx.execute(
            update(deliveries)
            .where(deliveries.c.id == UUID(pending["deliveries"][0]["deliveryId"]))
            .values(status="failed", due_at=None, next_attempt_at=None, job_id=None)
        )
    shop.answers["events"] = {}
    merchant = await enter_as_partner(mercato, deal.pos)
    assert "Resend" not in (await merchant.open(f"/console/orders/{order}")).buttons, "not its webhook"
    front = await enter_as_partner(mercato, deal.front)
    done = await front.press(await front.open(f"/console/orders/{order}"), "Resend")
    assert done.status_region == "1 webhook sent again."
    await mercato.until(deal.front, path + "?status=failed", lambda page: not page["deliveries"])


async def test_one_press_of_resend_sends_a_bounded_number_of_webhooks_of_both_sides(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(order_screens, "MAX_RESENT", 1)
    shop.answers |= {"validate": {"isValid": True}, "place": {"accepted": True}, "events": _broken}
    made, pos = await mercato.partner(PartnerKind.BOTH, event_url=shop.base + "/events")
    assert made.marketfront_key is not None
    front = Client(pos.base, made.marketfront_key.text, pos.session)
    deal = Trade(mercato, shop, pos, front, await live_store(mercato, pos, shop, cafe(), webhook=True))
    order = (await deal.placed())["orderId"]
    await mercato.app.orders.cancel(UUID(order), reason="Fraud")
    failed = []
    for client, side, kind in ((pos, "commerce", "order.cancelled"), (front, "marketfront", "order.created")):
        path = f"/v1/{side}/webhook-deliveries?type={kind}"
        page = await mercato.until(client, path, lambda page: page["deliveries"])
        failed += [UUID(one["deliveryId"]) for one in page["deliveries"]]
    assert len(failed) == 2
    async with mercato.app.db.write() as tx:
        await tx.execute(
            update(deliveries)
            .where(deliveries.c.id.in_(failed))
            .values(status="failed", due_at=None, next_attempt_at=None, job_id=None)
        )
    browser = await enter_whole_account(mercato, made.id)
    done = await browser.press(await browser.open(f"/console/orders/{order}"), "Resend")
    assert done.status_region == "1 webhook sent again."
