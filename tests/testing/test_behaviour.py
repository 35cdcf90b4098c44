"""A merchant's double does what it is told: right, wrong, late, slowly or not at all; it notes it without secrets."""

import asyncio
import json
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import aiohttp
import pytest
from tests.testing.calls import DRINK, OLD_SECRET, ORDER, SECRET, amounts, deliver, order, signed, tell

from mercato_client.testing import DECLINED_CARD, MerchantDouble, StorefrontDouble, shops


def double(*acts: str, **options: Any) -> MerchantDouble:
    return MerchantDouble(secret=SECRET, catalog=shops.pizzeria(), behaviour=acts, **options)


async def test_amounts_are_worked_out_from_the_hosted_catalog() -> None:
    async with double() as shop:
        status, answer = await tell(shop.webhook_url, "validate", order=order(taxes="0", total="7.40"))
    assert (status, answer["isValid"]) == (200, True)
    assert {name: answer["amounts"][name] for name in ("subTotal", "taxes", "total")} == {
        "subTotal": "6.40",
        "taxes": "0.32",
        "total": "7.72",
    }


@pytest.mark.parametrize(
    ("changed", "code", "pointer"),
    [
        ({"subTotal": "6.39"}, "ITEM_PRICE_CHANGED", "/amounts/subTotal"),
        ({"taxes": "0.31", "total": "7.71"}, "ORDER_TOTAL_DIFFERENT", "/amounts/taxes"),
        ({"total": "7.71"}, "ORDER_TOTAL_DIFFERENT", "/amounts/total"),
        ({"item": ORDER}, "ITEM_UNAVAILABLE", "/cart/lineItems/0/itemId"),
    ],
    ids=["price", "tax", "total", "item"],
)
async def test_an_order_with_wrong_amounts_is_refused(
    changed: dict[str, str], code: str, pointer: str
) -> None:
    async with double() as shop:
        status, answer = await tell(shop.webhook_url, "place", order=order(**changed))
        assert shop.taken == []
    assert (status, answer["accepted"]) == (409, False)
    assert (answer["errors"][0]["code"], answer["errors"][0]["pointer"]) == (code, pointer)


async def test_sold_out_items_are_refused_at_any_depth() -> None:
    async with double(sold_out=[DRINK.upper()]) as shop:
        for operation in ("validate", "place"):
            _, answer = await tell(shop.webhook_url, operation)
            assert [(one["code"], one["pointer"]) for one in answer["errors"]] == [
                ("ITEM_UNAVAILABLE", "/cart/lineItems/0/itemId")
            ]
        inner = {"itemId": DRINK, "quantity": 1}
        nested = {"itemId": ORDER, "quantity": 1, "modifierGroups": [{"lineItems": [inner]}]}
        _, answer = await tell(shop.webhook_url, "validate", order={"cart": {"lineItems": [nested]}})
        assert answer["errors"][0]["pointer"] == "/cart/lineItems/0/modifierGroups/0/lineItems/0/itemId"


async def test_it_declines_with_the_given_code_also_with_an_unknown_one() -> None:
    async with double("place decline:OUT_OF_DOUGH", "validate decline:STORE_CLOSED") as shop:
        status, answer = await tell(shop.webhook_url, "place")
        assert (status, answer["errors"][0]["code"]) == (409, "OUT_OF_DOUGH")
        assert await tell(shop.webhook_url, "place") == (status, answer)
        status, answer = await tell(shop.webhook_url, "validate")
        assert (status, answer["isValid"], answer["errors"][0]["code"]) == (200, False, "STORE_CLOSED")
        assert (await tell(shop.webhook_url, "place", "another"))[0] == 200


@pytest.mark.parametrize("member", ["total", "subTotal", "taxes"])
async def test_wrong_amounts_are_a_unit_too_high(member: str) -> None:
    right = {"subTotal": "6.40", "taxes": "0.32", "total": "7.72"}
    async with double(f"validate wrong:{member}", f"place wrong:{member}") as shop:
        for operation in ("validate", "place"):
            _, answer = await tell(shop.webhook_url, operation)
            assert {name for name in right if answer["amounts"][name] != right[name]} == {member}
        assert shop.taken == [ORDER]


async def test_a_late_merchant_accepts_the_order_at_once_and_answers_later() -> None:
    async with double("place late:2", "place decline:ITEM_UNAVAILABLE") as shop:
        assert [(await tell(shop.webhook_url, "place"))[0] for _ in range(2)] == [503, 503]
        assert shop.taken == [ORDER]
        assert await tell(shop.webhook_url, "place") == (
            200,
            {"accepted": True, "partnerOrderId": "A-1001"},
        )
        # A repeat is no new order: what was to be done next is still to be done.
        assert (await tell(shop.webhook_url, "place", "another"))[0] == 409


@pytest.mark.parametrize(
    ("act", "number"), [("duplicate", {}), ("duplicate:number", {"partnerOrderId": "A-1001"})]
)
async def test_a_merchant_that_takes_a_repeat_for_a_mistake_has_accepted_the_order(
    act: str, number: dict[str, str]
) -> None:
    async with double(f"place {act}", "place decline:ITEM_UNAVAILABLE") as shop:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await tell(shop.webhook_url, "place")
        assert (shop.taken, [one.status for one in shop.seen]) == ([ORDER], [0])
        for _ in range(2):
            answer = await tell(shop.webhook_url, "place")
            assert answer == (409, {"message": "Order already exists"} | number)
        # A repeat uses up no act.
        assert (await tell(shop.webhook_url, "place", "another"))[1]["errors"][0][
            "code"
        ] == "ITEM_UNAVAILABLE"


async def test_a_status_act_changes_nothing() -> None:
    async with double("place 500 x2", "catalog 404") as shop:
        assert [(await tell(shop.webhook_url, "place"))[0] for _ in range(2)] == [500, 500]
        assert shop.book == {}
        async with aiohttp.ClientSession() as session:
            for expected in (404, 200):
                async with session.get(shop.catalog_url) as reply:
                    assert reply.status == expected


async def test_bad_json_is_invalid_but_the_order_is_accepted() -> None:
    async with double("place bad-json") as shop:
        status, text = await tell(shop.webhook_url, "place")
        assert (status, shop.taken) == (200, [ORDER])
        with pytest.raises(ValueError, match="Expecting"):
            json.loads(text)
        assert (await tell(shop.webhook_url, "place"))[1]["partnerOrderId"] == "A-1001"


async def test_a_connection_can_be_dropped_before_the_answer_and_in_the_middle_of_it() -> None:
    async with double("place drop", "place drop:7") as shop:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await tell(shop.webhook_url, "place")
        with pytest.raises(aiohttp.ClientPayloadError):
            await tell(shop.webhook_url, "place", "another")
        assert shop.taken == [ORDER, "another"]
        assert [one.status for one in shop.seen] == [0, 200]


async def test_a_slow_answer_is_noted_before_it_is_sent() -> None:
    async with double("place slow:600") as shop:
        waiting = asyncio.create_task(tell(shop.webhook_url, "place"))
        (seen,) = await shop.heard("place")
        assert (seen.act, shop.taken, waiting.done()) == ("slow:600", [ORDER], False)
        waiting.cancel()


async def test_a_genuine_but_unreadable_webhook_is_refused() -> None:
    async with double() as shop:
        assert (await tell(shop.webhook_url, "place", order=None))[0] == 400
        assert (await tell(shop.webhook_url, "validate", order={"amounts": {"subTotal": "x"}}))[0] == 400
        assert (await tell(shop.webhook_url, "place"))[0] == 200


async def test_a_bearer_token_is_required_if_one_is_set() -> None:
    async with double(token="ours") as shop, double(token="theirs") as other:
        assert (await tell(shop.webhook_url, "place"))[0] == 401
        assert (await tell(other.webhook_url, "place"))[0] == 200


async def test_an_event_is_handled_once_and_an_unknown_type_is_accepted() -> None:
    async with double() as shop:
        for _ in range(2):
            assert (await tell(shop.webhook_url, "order-cancelled", order_id=ORDER))[0] == 204
        assert (await tell(shop.webhook_url, "something-new", "another"))[0] == 204
        assert shop.cancelled == set()  # its type says order.order-cancelled
        body = json.dumps({"type": "order.cancelled", "data": {"orderId": ORDER}}).encode()
        url = f"{shop.webhook_url}/order-cancelled"
        assert (await deliver(url, body, signed(body, "third")))[0] == 204
        assert shop.cancelled == {ORDER}


# --- what is seen -----------------------------------------------------------------------------------


class Words(HTMLParser):
    """Collects what a page refers to and what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.words = ""

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        self.words += data


async def fetched(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        assert reply.status == 200
        return await reply.text()


async def test_page_and_log_show_calls_without_secrets() -> None:
    payment = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "extra": {"pin": 987650123456}}
    async with double("place accept") as shop:
        await tell(shop.webhook_url, "place", payment=payment)
        await tell(
            shop.webhook_url, "place", secret=OLD_SECRET, order=order() | {"name": "<script>x</script>"}
        )
        text, page = await fetched(f"{shop.url}/log"), await fetched(f"{shop.url}/")
        lines = [json.loads(one) for one in text.splitlines()]
        assert [(one["operation"], one["status"]) for one in lines] == [("place", 402), ("place", 401)]
        assert (lines[0]["verdict"], lines[0]["headers"]["Authorization"]) == ("valid", "Bearer [hidden]")
        assert lines[1]["verdict"] == "No matching signature found"
        assert json.loads(lines[0]["body"])["data"]["payment"] == {
            "type": "cardOnFile",
            "cardToken": "[hidden]",
            "extra": {"pin": "[hidden]"},
        }
        for secret in (DECLINED_CARD, "theirs", "987650123456", SECRET):
            assert secret not in text + page
        assert [
            json.loads(one)["number"] for one in (await fetched(f"{shop.url}/log?after=1")).splitlines()
        ] == [2]
        read = Words()
        read.feed(page)
        assert set(read.links) == {"/log", "data:,"}
        assert page.count("<script>") == 1
        for word in ("PAYMENT_DECLINED", "No matching signature found", shop.webhook_url, "valid"):
            assert word in read.words


async def test_waiting_returns_the_call_or_raises_a_timeout() -> None:
    async with double() as shop:
        waiting = asyncio.create_task(shop.heard("place", count=2))
        for order_id in (ORDER, "another"):
            await tell(shop.webhook_url, "place", order_id)
        assert [one.json()["data"]["orderId"] for one in await waiting] == [ORDER, "another"]
        with pytest.raises(TimeoutError, match="0 of 1 calls of validate"):
            await shop.journal.heard("validate", seconds=0.01)


# --- without asyncio, and with one bug ----------------------------------------------------------------


def test_a_program_without_asyncio_runs_it_in_a_thread() -> None:
    with double("place decline:STORE_CLOSED") as shop:
        status, answer = asyncio.run(tell(shop.webhook_url, "place"))
        (seen,) = shop.wait("place")
        assert (status, answer["errors"][0]["code"], seen.believed) == (409, "STORE_CLOSED", True)
        with pytest.raises(TimeoutError):
            shop.journal.wait("validate", seconds=0.01)
    with pytest.raises(aiohttp.ClientConnectorError):
        asyncio.run(tell(shop.webhook_url, "place"))


def test_a_port_in_use_is_reported_and_leaves_no_thread() -> None:
    with double() as shop:
        port = int(shop.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"), double(port=port):
            pass


class Gullible(MerchantDouble):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return None


class Forgetful(MerchantDouble):
    def find_entry(self, webhook: Any) -> None:
        return None


async def test_a_subclass_with_one_method_replaced_has_one_bug() -> None:
    async with Gullible(secret=SECRET) as gullible, Forgetful(secret=SECRET) as forgetful:
        assert (await tell(gullible.webhook_url, "place", secret=OLD_SECRET))[0] == 200
        assert (await tell(forgetful.webhook_url, "place", secret=OLD_SECRET))[0] == 401
        numbers = [(await tell(forgetful.webhook_url, "place"))[1]["partnerOrderId"] for _ in range(2)]
        assert numbers == ["A-1001", "A-1002"]


async def test_a_storefront_can_fail_at_events_too() -> None:
    body = json.dumps({"data": {"orderId": ORDER, "sequence": 1, "order": amounts()}}).encode()
    async with StorefrontDouble(secret=SECRET, behaviour=["event 500", "event accept"]) as front:
        for expected in (500, 204, 204):
            assert (await deliver(front.event_url, body, signed(body, "e")))[0] == expected
        assert (len(front.events[ORDER]), front.repeats) == (1, 1)
