"""An answer that is a yes only because nothing of it is read: the merchant learns it wherever it looks."""

from typing import Any

import pytest
from tests.api.trade import MERCHANT, Trade, trade
from tests.console.visiting import enter_as_partner
from tests.databases import first_on_postgresql
from tests.service import MerchantServer, Service
from tests.sharing import shared

pytestmark = shared

DELIVERIES = "/v1/commerce/webhook-deliveries"
NO = {"data": {"accepted": False, "isValid": False}}
CARD = {"type": "cardOnFile", "cardToken": "tok_card_4242", "processorType": "stripe"}


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def last_attempt(here: Trade, type_: str) -> Any:
    """Return the attempt of the newest delivery of a type, once it is recorded."""
    path = f"{DELIVERIES}?type={type_}&limit=1"
    page = await here.mercato.until(here.pos, path, lambda page: page["deliveries"])
    (newest,) = page["deliveries"]
    assert (newest["status"], newest["error"]) == ("succeeded", None)
    (attempt,) = (await here.pos.get(f"{DELIVERIES}/{newest['deliveryId']}")).json()["attemptLog"]
    return attempt


async def test_an_order_that_is_refused_in_other_words_is_accepted_with_a_warning_in_the_log(here: Trade):
    here.shop.answers["place"] = NO
    order = await here.placed(here.order(payment=CARD))
    assert (order["state"], order["partnerOrderId"]) == ("open", None)
    attempt = await last_attempt(here, "order.place")
    assert (attempt["status"], attempt["error"]) == (200, None)
    assert "'/data/accepted', '/data/isValid' look like a refusal. Say accepted" in attempt["warning"]
    entries = (await here.pos.get(f"{MERCHANT}/{order['orderId']}/timeline")).json()["entries"]
    calls = [one["detail"] for one in entries if one["type"] == "webhook.attempt"]
    assert [one.get("warning") for one in calls if one["event"] == "order.place"] == [attempt["warning"]]
    path = f"/v1/marketfront/orders/{order['orderId']}/timeline"
    assert b"like a refusal" not in (await here.front.get(path)).body


async def test_a_validation_that_is_refused_in_other_words_is_valid_with_a_warning_in_the_log(here: Trade):
    here.shop.answers["validate"] = NO
    assert (await here.validate(here.order()))["isValid"] is True
    assert "look like a refusal. Say isValid" in (await last_attempt(here, "order.validate"))["warning"]


@first_on_postgresql
@pytest.mark.parametrize("answer", [{}, {"partnerOrderId": "A-1"}, {"accepted": True, "more": 1}])
async def test_an_answer_in_known_words_has_no_warning(here: Trade, answer: Any):
    here.shop.answers["place"] = answer
    await here.placed()
    assert (await last_attempt(here, "order.place"))["warning"] is None


async def test_the_stores_page_says_what_is_odd_about_its_last_answers(here: Trade):
    browser = await enter_as_partner(here.mercato, here.pos)
    page = f"/console/stores/{here.store['storeId']}"
    here.shop.answers["place"] = NO
    await here.placed()
    await last_attempt(here, "order.place")
    shown = await browser.open(page)
    assert "This counted as a yes, because it doesn't say accepted." in shown.text
    delivery = (await here.pos.get(f"{DELIVERIES}?type=order.place")).json()["deliveries"][0]
    assert "like a refusal" in (await browser.open(f"/console/webhooks/{delivery['deliveryId']}")).text
    here.shop.answers["place"] = {"accepted": True}
    await here.placed()
    assert "This counted as a yes" not in (await browser.open(page)).text
