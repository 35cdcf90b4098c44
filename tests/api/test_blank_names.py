"""Names that show nothing are no names, wherever one is given, and reasons that show nothing no reasons."""

import sys
from typing import Any
from unicodedata import category

import pytest
from tests.api.examples import example, in_turn
from tests.api.trade import Trade, trade
from tests.catalog.documents import CATALOG, DRINKS, EXTRAS, TEA, cafe, outcome
from tests.console.visiting import enter_as_partner
from tests.databases import only_sqlite
from tests.service import CATALOG as MENU
from tests.service import Client, MerchantServer, Service
from tests.sharing import shared

from mercato.features.partners import accounts
from mercato.features.partners.model import AccountError
from mercato_catalog.validation.findings import Rule
from mercato_contract.texts import is_blank

pytestmark = shared

ONBOARDINGS = "/v1/commerce/onboarding/stores"
BLANK = [
    " ",
    "\t\n",
    "\u00a0\u2003\u3000",
    "\u200b",
    "\u200b\u200d \ufeff",
    "\u00ad\u2060",
    "\u3164",
    "\u2800",
    "\ufe0f",
    "\u202e",
]

DRAWN_AS_BLANK = {"\u115f", "\u1160", "\u2800", "\u3164", "\uffa0"}
"""Letters and a symbol, by their category, that show nothing."""


def test_spaces_and_controls_are_blank_and_letters_digits_marks_of_words_and_symbols_are_not():
    for letter in map(chr, range(sys.maxunicode + 1)):
        kind = category(letter)
        if kind in {"Zs", "Zl", "Zp", "Cc"}:
            assert is_blank(letter), ascii(letter)
        elif kind[0] in "LNPS" or kind == "Mc":
            assert is_blank(letter) == (letter in DRAWN_AS_BLANK), ascii(letter)
    assert is_blank("")
    assert not is_blank("\u200b7\u200b")


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await mercato.live(pos, shop.host(MENU))


@only_sqlite
@in_turn("name", BLANK)
async def test_a_store_is_not_registered_or_renamed_with_one(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any, name: str
):
    body = {"partnerStoreId": "s", "name": name, "address": {}, "catalogCallbackUrl": shop.host(MENU)}
    refused = [await pos.post(ONBOARDINGS, body)]
    # Beside another fault, which another reader finds.
    refused.append(await pos.post(ONBOARDINGS, body | {"timezone": "Nowhere"}))
    path = f"/v1/commerce/stores/{store['storeId']}"
    refused += [
        await pos.call("PUT", path, {"name": name}),
        await pos.call("PUT", path, {"name": name, "logoUrl": "x"}),
    ]
    for reply in refused:
        assert reply.status == 422
        assert reply.json()["errors"][0]["pointer"] == "/name"
        assert reply.json()["errors"][0]["message"] == "name must have a character that can be seen."
    assert (await pos.get(path)).json()["name"] == store["name"]


@only_sqlite
async def test_a_partner_and_a_person_are_not_called_by_one(mercato: Service):
    made, client = await mercato.partner()
    owner = await enter_as_partner(mercato, client)
    await owner.open("/console/people")
    for name in BLANK:
        with example(name):
            with pytest.raises(AccountError, match="can be seen"):
                async with mercato.app.db.write() as tx:
                    await accounts.rename_partner(tx, made.id, name)
            page = await owner.post("/console/people", {"name": name, "role": "manager"})
            assert page.status == 422


@pytest.fixture
async def sells(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


@only_sqlite
@in_turn("reason", BLANK)
async def test_an_order_is_not_cancelled_adjusted_or_numbered_with_one(sells: Trade, reason: str):
    order_id = (await sells.placed())["orderId"]
    ours, theirs = f"/v1/marketfront/orders/{order_id}", f"/v1/commerce/orders/{order_id}"
    keyed = {"headers": {"Idempotency-Key": "one"}}
    decision = {"accepted": False, "reason": reason}
    for client, path, body, pointer in (
        (sells.front, f"{ours}/cancel", {"reason": reason}, "/reason"),
        (sells.front, f"{ours}/cancel", {"reason": reason, "message": 1}, "/reason"),
        (sells.pos, f"{theirs}/adjustments", {"type": "fee", "amount": "1.00", "reason": reason}, "/reason"),
        (sells.pos, f"{theirs}/status", {"cancellation": decision}, "/cancellation/reason"),
        (sells.pos, f"{theirs}/status", {"state": "cancelled", "cancelReason": reason}, "/cancelReason"),
        (sells.pos, f"{theirs}/status", {"partnerOrderId": reason}, "/partnerOrderId"),
    ):
        refused = await client.post(path, body, **keyed)
        assert refused.status in {400, 422}, (path, body, refused.body)
        assert pointer in {error["pointer"] for error in refused.json()["errors"]}
    order = (await sells.front.get(ours)).json()
    assert (order["state"], order["partnerOrderId"], order["adjustments"]) == ("open", "A-1", [])


@only_sqlite
async def test_in_the_console_one_is_the_reason_that_says_who_cancelled(sells: Trade):
    people = await enter_as_partner(sells.mercato, sells.pos)
    for reason in BLANK:
        with example(reason):
            order_id = (await sells.placed())["orderId"]
            await people.open(f"/console/orders/{order_id}")
            assert (await people.post(f"/console/orders/{order_id}/cancel", {"reason": reason})).status == 200
            order = (await sells.front.get(f"/v1/marketfront/orders/{order_id}")).json()
            assert (order["state"], order["cancelReason"]) == ("cancelled", "CANCELLED_BY_STORE")


@pytest.mark.parametrize("name", BLANK, ids=ascii)
def test_in_a_catalog_one_is_the_warning_of_a_missing_name(name: str):
    document: dict[str, Any] = cafe()
    for table, key in (
        ("catalogs", CATALOG),
        ("sections", DRINKS),
        ("items", TEA),
        ("modifierGroups", EXTRAS),
    ):
        document[table][key]["name"] = name
    found = [one for one in outcome(document).warnings if one.rule == Rule.NO_NAME.id]
    assert len(found) == 4
    assert {one.message for one in found} == {
        f"The {noun} {key} has no name."
        for noun, key in (
            ("catalog", CATALOG),
            ("section", DRINKS),
            ("item", TEA),
            ("modifier group", EXTRAS),
        )
    }
