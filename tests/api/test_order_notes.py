"""Notes of an order and its lines: the customer's words, which reach the store and bind the token."""

import json
from typing import Any

import pytest
from tests.api.test_carts import CARTS
from tests.api.trade import MERCHANT, ORDERS, VALIDATE, Trade, tea, trade
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import shared

pytestmark = [shared, mostly_sqlite]

MILK_NOTE = "Oat milk,\nif you have some, danke! 🙏"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


def noted() -> Any:
    line = tea() | {"note": "Very hot"}
    line["modifierGroups"][0]["lineItems"][0] |= {"note": MILK_NOTE}
    return line


def notes(order: Any) -> tuple[Any, ...]:
    line = order["cart"]["lineItems"][0]
    return (order["note"], line["note"], *(one["note"] for one in line["modifierGroups"][0]["lineItems"]))


async def called(here: Trade, path: str) -> Any:
    """Return the data of the next webhook to this path."""
    while True:
        target, _, body = await here.shop.webhook()
        if target == path:
            return json.loads(body)["data"]


async def test_notes_reach_the_store_and_both_sides_read_them(here: Trade):
    asked = here.order(noted(), note="Ring twice")
    expected = ("Ring twice", "Very hot", MILK_NOTE, None)
    said = await here.validate(asked)
    assert notes(said["order"]) == expected
    placed = await here.placed(asked | {"validatedOrderToken": said["validatedOrderToken"]})
    assert notes(placed) == expected
    assert notes((await called(here, "/hooks/place"))["order"]) == expected
    await here.update(placed, status="preparing")
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        assert notes((await client.get(f"{path}/{placed['orderId']}")).json()) == expected
        assert notes((await client.get(path)).json()["orders"][0]) == expected


async def test_an_order_without_notes_says_null(here: Trade):
    placed = await here.placed(here.order(tea() | {"note": ""}, note=""))
    assert notes(placed) == (None, None, None, None)


@pytest.mark.parametrize("pointer", ["/note", "/cart/lineItems/0/note"])
async def test_a_token_is_for_the_notes_it_was_made_for(here: Trade, pointer: str):
    asked = here.order(noted(), note="Ring twice")
    token = await here.token(asked)
    owner = asked if pointer == "/note" else asked["cart"]["lineItems"][0]
    owner["note"] = "Something else"
    refused = await here.place(asked | {"validatedOrderToken": token})
    assert (refused.status, refused.json()["errorCode"]) == (400, "ORDER_TOKEN_INVALID")


@only_sqlite
@pytest.mark.parametrize("note", ["a\u0000b", "a\u0007b", "a\tb", "a\r\nb", "\u0085", "\u009b31m", "x" * 501])
async def test_a_note_with_a_control_character_or_501_characters_is_refused(here: Trade, note: str):
    order = here.order(tea() | {"note": note}, note=note)
    refused = (await here.front.post(VALIDATE, order)).json()
    assert refused["status"] == 422
    assert sorted(one["pointer"] for one in refused["errors"]) == ["/cart/lineItems/0/note", "/note"]
    words = "500 characters" if len(note) > 500 else "NUL" if "\0" in note else "control characters"
    assert all(words in one["message"] for one in refused["errors"])
    added = await here.front.post(
        f"{CARTS}/add", {"item": tea() | {"note": note}} | json.loads(json.dumps(here.order()["cart"]))
    )
    assert (added.status, added.json()["errors"][0]["pointer"]) == (422, "/item/note")


@only_sqlite
@pytest.mark.parametrize("note", [7, ["x"], {"text": "x"}, True])
async def test_a_note_of_another_type_is_malformed(here: Trade, note: Any):
    refused = (await here.front.post(VALIDATE, here.order(note=note))).json()
    assert (refused["status"], refused["errors"][0]["pointer"]) == (400, "/note")


async def test_a_note_has_500_characters_whatever_their_bytes(here: Trade):
    placed = await here.placed(here.order(note="🍵" * 500))
    assert placed["note"] == "🍵" * 500
