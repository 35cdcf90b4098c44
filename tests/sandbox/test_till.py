"""The sandbox merchant's till takes each order once, whatever happens to its answers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.sandbox.test_merchant import OLD_SECRET, SECRET, signed

from mercato.sandbox import till
from mercato.sandbox.merchant import Merchant, merchant
from mercato.sandbox.till import DECLINED_CARD, tax_on

CARD = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "processorType": "sandbox"}


@pytest.fixture
async def shop() -> AsyncIterator[Merchant]:
    async with merchant() as running:
        running.trust(SECRET)
        yield running


async def told(
    shop: Merchant, kind: str, order_id: str = "01a1", *, secret: str = SECRET, **data: Any
) -> tuple[int, Any]:
    """Send what the service sends, and return status and value of the answer."""
    order = {"amounts": {"subTotal": "36.20", "total": "36.20"}}
    body = json.dumps({"type": f"order.{kind}", "data": {"order": order} | data}).encode()
    headers = signed(secret, body=body, webhook_id=order_id)
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{shop.webhook_url}/{kind}", data=body, headers=headers) as reply,
    ):
        text = await reply.text()
        return reply.status, json.loads(text) if text.startswith("{") else None


@pytest.mark.parametrize(
    ("amount", "tax"),
    [("36.20", "1.81"), ("0.10", "0.01"), ("0.09", "0.00"), ("950", "48"), ("1.250", "0.063")],
)
def test_the_tax_has_the_scale_of_what_is_taxed(amount: str, tax: str) -> None:
    assert tax_on(amount) == tax


async def test_validate_is_answered_with_the_tax_and_leaves_nothing_in_the_book(shop: Merchant) -> None:
    status, said = await told(shop, "validate")
    assert (status, said["isValid"], said["amounts"]["taxes"]) == (200, True, "1.81")
    assert [tax["amount"] for tax in said["amounts"]["taxesDescription"]] == ["1.81"]
    assert shop.till.book == {}


async def test_an_order_told_twice_is_one_order_and_gets_its_first_answer(shop: Merchant) -> None:
    first = await told(shop, "place")
    assert first == (200, {"accepted": True, "partnerOrderId": "A-1001"})
    assert await told(shop, "place") == first
    assert (await told(shop, "place", "01a2"))[1]["partnerOrderId"] == "A-1002"
    assert (shop.till.taken, shop.till.repeats) == (["01a1", "01a2"], 1)


async def test_a_declined_card_is_refused_and_refused_again(shop: Merchant) -> None:
    status, said = await told(shop, "place", payment=CARD)
    assert (status, said["accepted"], said["errors"][0]["code"]) == (402, False, "PAYMENT_DECLINED")
    assert (await told(shop, "place", payment=CARD))[0] == 402
    assert shop.till.taken == []
    assert DECLINED_CARD not in repr(shop.till)


async def test_an_order_that_was_taken_while_it_was_down_is_known_when_it_comes_back(shop: Merchant) -> None:
    shop.till.go_down()
    assert await told(shop, "validate") == (503, None)
    assert await told(shop, "place") == (503, None)
    assert await told(shop, "place") == (503, None)
    assert (shop.till.taken, shop.till.failed, shop.till.repeats) == (["01a1"], 2, 0)
    shop.till.come_back()
    assert await told(shop, "place") == (200, {"accepted": True, "partnerOrderId": "A-1001"})
    assert (shop.till.taken, shop.till.repeats) == (["01a1"], 1)


@pytest.mark.parametrize("kind", ["validate", "place"])
async def test_what_is_not_signed_by_the_service_is_not_answered(shop: Merchant, kind: str) -> None:
    assert await told(shop, kind, secret=OLD_SECRET) == (401, None)
    assert (shop.till.book, shop.till.validated) == ({}, 0)
    assert (shop.till.inbox.came, shop.till.inbox.believed) == (1, 0)


async def test_the_book_is_bounded(shop: Merchant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(till, "MOST_ORDERS", 1)
    assert (await told(shop, "place"))[0] == 200
    assert (await told(shop, "place", "01a2"))[0] == 503
    assert (await told(shop, "place"))[0] == 200
