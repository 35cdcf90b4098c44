"""`mercato price verify` recomputes an order offline from the CatalogSet that it names."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.api.examples import in_turn
from tests.api.trade import Trade, trade
from tests.catalog.documents import EXTRAS, cafe
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service
from tests.sharing import shared

from mercato_tools.cli import main as cli

pytestmark = [shared, mostly_sqlite]

FEE = {"amount": "1.25", "description": "Delivery"}
PROMOTION = {"amount": "0.50", "description": "Monday"}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MERCATO_DATABASE_URL", raising=False)


async def exported(
    trading: Trade, tmp_path: Path, order: Any, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Return the paths of the order's file and of its CatalogSet's, as a storefront reads them."""
    set_id = order["cart"]["catalogSetId"]
    served = (await trading.front.get(f"/v1/marketfront/catalog-sets/{set_id}")).body
    paths = [tmp_path / "order.json", tmp_path / "set.json"]
    paths[0].write_text(json.dumps(order))
    paths[1].write_bytes(served)
    capsys.readouterr()  # the service's log of slow requests
    return [str(path) for path in paths]


async def test_an_order_with_a_stores_fees_and_a_tip_equals_its_catalog_set_on_both_surfaces(
    mercato: Service, shop: MerchantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trading = await trade(mercato, shop)
    shop.answers["validate"] = {
        "isValid": True,
        "amounts": {
            "fees": "1.25",
            "feesDescription": [FEE],
            "promotions": "0.50",
            "promotionsDescription": [PROMOTION],
        },
    }
    draft = trading.order(amounts={"tip": "1.00"})
    placed = await trading.placed(draft | {"validatedOrderToken": await trading.token(draft)})
    assert placed["amounts"]["total"] == "7.55"
    own = (await trading.pos.get(f"/v1/commerce/orders/{placed['orderId']}")).json()
    for order in (placed, own):
        paths = await exported(trading, tmp_path, order, capsys)
        assert cli.run(["price", "verify", *paths]) == 0
        assert capsys.readouterr().out == (
            f"Equal: 7.55 USD, by CatalogSet {placed['cart']['catalogSetId']}.\n"
        )
        assert cli.run(["price", "verify", *paths, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["differences"] == []


async def test_an_order_of_a_release_without_amounts_on_modifiers_equals_its_catalog_set(
    mercato: Service, shop: MerchantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trading = await trade(mercato, shop)
    order = deepcopy(await trading.placed())
    [group] = order["cart"]["lineItems"][0]["modifierGroups"]
    assert group.pop("name") == "Extras"
    for choice in group["lineItems"]:
        assert choice.pop("amounts")
    paths = await exported(trading, tmp_path, order, capsys)
    assert cli.run(["price", "verify", *paths]) == 0


async def test_a_changed_number_of_free_units_is_a_difference(
    mercato: Service, shop: MerchantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    catalog = cafe()
    catalog["modifierGroups"][EXTRAS]["freeQuantity"] = 1
    trading = await trade(mercato, shop, catalog=catalog)
    order = deepcopy(await trading.placed())
    choices = order["cart"]["lineItems"][0]["modifierGroups"][0]["lineItems"]
    assert [(one["amounts"]["total"], one.get("freeQuantity")) for one in choices] == [
        ("0.30", None),
        ("0.00", 1),
    ]
    choices[1]["freeQuantity"] = 0
    paths = await exported(trading, tmp_path, order, capsys)
    assert cli.run(["price", "verify", *paths, "--json"]) == 1
    [found] = json.loads(capsys.readouterr().out)["differences"]
    assert found["path"].endswith("/lineItems/1/freeQuantity")


@in_turn(
    "path",
    [
        "/cart/lineItems/0/amounts/unitPrice",
        "/cart/lineItems/0/amounts/total",
        "/cart/lineItems/0/modifierGroups/0/lineItems/1/amounts/unitPrice",
        "/cart/lineItems/0/modifierGroups/0/lineItems/1/amounts/total",
        "/cart/amounts/subTotal",
        "/amounts/subTotal",
        "/amounts/total",
        "/amounts/totalAfterAdjustments",
    ],
)
async def test_every_amount_that_was_changed_is_named_with_both_values(
    mercato: Service, shop: MerchantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str
):
    trading = await trade(mercato, shop)
    order = deepcopy(await trading.placed())
    *above, member = path.split("/")[1:]
    holder: Any = order
    for step in above:
        holder = holder[int(step) if step.isdigit() else step]
    # An order that wasn't adjusted has no total after adjustments: it would be the total.
    was = holder[member] if member in holder else holder["total"]
    holder[member] = "0.01"
    paths = await exported(trading, tmp_path, order, capsys)
    assert cli.run(["price", "verify", *paths, "--json"]) == 1
    proof = json.loads(capsys.readouterr().out)
    found = {one["path"]: one for one in proof["differences"]}
    assert proof["equal"] is False
    assert list(found) == [path], "one changed amount is one difference"
    assert (found[path]["order"], found[path]["recomputed"]) == ("0.01", was)
    assert cli.run(["price", "verify", *paths]) == 1
    assert path in capsys.readouterr().out


async def test_an_order_of_another_set_and_documents_that_are_neither_exit_with_2(
    mercato: Service, shop: MerchantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trading = await trade(mercato, shop)
    order = await trading.placed()
    paths = await exported(trading, tmp_path, order, capsys)
    other = deepcopy(order)
    other["cart"]["catalogSetId"] = "0190f5fe-7e3b-7ccc-9d3b-00000000000a"
    wrong = {
        "other.json": (json.dumps(other), "Get the set that the order names"),
        "list.json": ("[]", "isn't an order"),
        "empty.json": ("{}", "cart is required."),
        "bare.json": ("{}", "amounts is required."),
        "half.json": ('{"cart": {', "isn't an order"),
        "worth.json": (
            json.dumps(order | {"amounts": order["amounts"] | {"tip": "one"}}), "not a decimal number"
        ),
        "money.json": (
            json.dumps(order | {"amounts": order["amounts"] | {"currency": "XXX"}}), "not an ISO 4217 currency code"
        ),
    }  # fmt: skip
    for name, (text, why) in wrong.items():
        (tmp_path / name).write_text(text)
        assert cli.run(["price", "verify", str(tmp_path / name), paths[1]]) == 2, name
        said = capsys.readouterr().err
        assert why in " ".join(said.split()), name
        assert "see errors" not in said, "a terminal shows no member errors"
    (tmp_path / "draft.json").write_text(json.dumps(cafe()))
    assert cli.run(["price", "verify", paths[0], str(tmp_path / "draft.json")]) == 2
    assert "a document without catalogSetId" in capsys.readouterr().err
    assert cli.run(["price", "verify", "-", "-"]) == 2
    assert "one document" in capsys.readouterr().err


@on_both
async def test_what_a_store_charges_is_recomputed_from_the_store(
    mercato: Service, shop: MerchantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trading = await trade(mercato, shop, webhook=False)
    path = f"/v1/commerce/stores/{trading.store['storeId']}"
    charges = [
        {"kind": "fee", "name": "Service", "rate": "10"},
        {"kind": "tax", "name": "Sales tax", "rate": "8.875", "appliesTo": "all"},
        {"kind": "tax", "name": "VAT", "rate": "7", "included": True},
    ]
    store = (await trading.pos.call("PUT", path, {"charges": charges})).json()
    order = await trading.placed()
    paths = await exported(trading, tmp_path, order, capsys)
    own = tmp_path / "store.json"
    own.write_text(json.dumps(store))
    assert cli.run(["price", "verify", *paths, str(own)]) == 0
    capsys.readouterr()
    store["charges"][1]["rate"] = "8.5"
    own.write_text(json.dumps(store))
    assert cli.run(["price", "verify", *paths, str(own)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "/amounts/taxesDescription/0: The order has 0.57 (Sales tax)" in said
    assert "the store's charges give 0.54 (Sales tax)" in said
    own.write_text("[]")
    assert cli.run(["price", "verify", *paths, str(own)]) == 2


@pytest.mark.parametrize("name", ["fees", "taxes"])
async def test_an_amount_without_entries_that_the_stores_charges_do_not_give_is_a_difference(
    mercato: Service, shop: MerchantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
):
    trading = await trade(mercato, shop, webhook=False)
    order = await trading.placed()
    order["amounts"] |= {name: "5.00", "total": "10.80"}
    paths = await exported(trading, tmp_path, order, capsys)
    assert cli.run(["price", "verify", *paths]) == 0, "a store may give an amount without entries"
    capsys.readouterr()
    own = tmp_path / "store.json"
    own.write_text(json.dumps(trading.store | {"charges": []}))
    assert cli.run(["price", "verify", *paths, str(own)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"/amounts/{name}: The order has 5.00, the store's charges give 0.00." in said


@pytest.mark.parametrize(
    ("part", "member", "value", "words"),
    [
        (
            1,
            "catalogSetId",
            "menu",
            "isn't a CatalogSet that the service served: catalogSetId must be a UUID",
        ),
        (1, "catalogSetId", 5, "isn't a CatalogSet that the service served: catalogSetId must be a string"),
        (0, "currency", "FOO", 'can\'t be recomputed: "FOO" is not an ISO 4217 currency code.'),
        (0, "currency", "", 'can\'t be recomputed: "" is not an ISO 4217 currency code.'),
    ],
)
async def test_a_document_that_no_price_can_be_computed_from_exits_with_2_and_the_reason(
    mercato: Service,
    shop: MerchantServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    part: int,
    member: str,
    value: Any,
    words: str,
):
    trading = await trade(mercato, shop)
    placed = await trading.placed(trading.order())
    paths = await exported(trading, tmp_path, placed, capsys)
    documents = [json.loads(Path(path).read_text()) for path in paths]
    # A merchant's own document needs no currency: then the order's is used.
    documents[1].pop("currency", None)
    (documents[0]["amounts"] if part == 0 else documents[1])[member] = value
    for path, document in zip(paths, documents, strict=True):
        Path(path).write_text(json.dumps(document))
    assert cli.run(["price", "verify", *paths]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
