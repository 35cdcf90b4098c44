"""The simulated merchant accepts each order once, whatever happens to its answers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.testing.calls import OLD_SECRET, SECRET, deliver
from tests.testing.test_merchant import signed

from mercato_client.testing import DECLINED_CARD, MerchantDouble
from mercato_client.testing import merchant as module
from mercato_client.testing.prices import tax_on

CARD = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "processorType": "sandbox"}


@pytest.fixture
async def shop() -> AsyncIterator[MerchantDouble]:
    async with MerchantDouble(secret=SECRET) as running:
        yield running


async def send(
    shop: MerchantDouble, kind: str, order_id: str = "01a1", *, secret: str = SECRET, **data: Any
) -> tuple[int, Any]:
    """Send what the service sends, and return status and value of the answer."""
    taxes = "0" if kind == "validate" else "1.81"
    total = "36.20" if kind == "validate" else "38.01"
    order = {"cart": {"lineItems": []}, "amounts": {"subTotal": "36.20", "taxes": taxes, "total": total}}
    body = json.dumps({"type": f"order.{kind}", "data": {"order": order} | data}).encode()
    headers = signed(secret, body=body, webhook_id=order_id)
    return await deliver(f"{shop.webhook_url}/{kind}", body, headers)


@pytest.mark.parametrize(
    ("amount", "tax"),
    [("36.20", "1.81"), ("0.10", "0.01"), ("0.09", "0.00"), ("950", "48"), ("1.250", "0.063")],
)
def test_the_tax_has_the_scale_of_what_is_taxed(amount: str, tax: str) -> None:
    assert tax_on(amount) == tax


async def test_validate_returns_the_tax_and_records_nothing(shop: MerchantDouble) -> None:
    status, response = await send(shop, "validate")
    assert (status, response["isValid"], response["amounts"]["taxes"]) == (200, True, "1.81")
    assert [tax["amount"] for tax in response["amounts"]["taxesDescription"]] == ["1.81"]
    assert shop.book == {}


async def test_a_repeated_order_is_one_order_and_gets_its_first_answer(shop: MerchantDouble) -> None:
    first = await send(shop, "place")
    assert first == (200, {"accepted": True, "partnerOrderId": "A-1001"})
    assert await send(shop, "place") == first
    assert (await send(shop, "place", "01a2"))[1]["partnerOrderId"] == "A-1002"
    assert (shop.taken, shop.repeats) == (["01a1", "01a2"], 1)


async def test_a_declined_card_is_refused_and_refused_again(shop: MerchantDouble) -> None:
    status, response = await send(shop, "place", payment=CARD)
    assert (status, response["accepted"], response["errors"][0]["code"]) == (402, False, "PAYMENT_DECLINED")
    assert (await send(shop, "place", payment=CARD))[0] == 402
    assert shop.taken == []
    assert DECLINED_CARD not in repr(shop.book)


async def test_an_order_accepted_while_it_was_down_is_known_afterwards(
    shop: MerchantDouble,
) -> None:
    shop.go_down()
    assert await send(shop, "validate") == (503, None)
    assert await send(shop, "place") == (503, None)
    assert await send(shop, "place") == (503, None)
    assert (shop.taken, shop.failed, shop.repeats) == (["01a1"], 2, 0)
    shop.come_back()
    assert await send(shop, "place") == (200, {"accepted": True, "partnerOrderId": "A-1001"})
    assert (shop.taken, shop.repeats) == (["01a1"], 1)


@pytest.mark.parametrize("kind", ["validate", "place"])
async def test_an_order_without_a_valid_signature_is_refused(shop: MerchantDouble, kind: str) -> None:
    assert (await send(shop, kind, secret=OLD_SECRET))[0] == 401
    assert (shop.book, shop.validated) == ({}, 0)
    assert (shop.inbox.received, shop.inbox.verified) == (1, 0)


async def test_the_book_is_bounded(shop: MerchantDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ORDERS", 1)
    assert (await send(shop, "place"))[0] == 200
    assert (await send(shop, "place", "01a2"))[0] == 503
    assert (await send(shop, "place"))[0] == 200
