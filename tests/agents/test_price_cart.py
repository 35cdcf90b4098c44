"""price_cart: lines that name items, groups and options, with an answer for each within the bound."""

import json
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from tests.agents.agent import REVISIONS, Agent
from tests.carts.test_names import COKE, COKE_CAN, HOSTILE, LARGE, PIZZA, SIZE, SMALL, SOUP, id_of, menu
from tests.catalog.test_catalog_published import MENUS, by_size, files
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.live_stores import live_store
from tests.service import Client, MerchantServer, Service
from tests.sharing import shared

from mercato.agents.ordering import MAX_LINES
from mercato.agents.tools import SMALL as BOUND
from mercato_catalog import build
from mercato_catalog.carts.names import is_listed, shown

pytestmark = [shared, mostly_sqlite]


LARGE_PIZZA: dict[str, Any] = {
    "item": "pizza",
    "quantity": 1,
    "choices": [{"group": "size", "option": "large"}],
}


@pytest.fixture
async def store(mercato: Service, shop: MerchantServer, pos: Client) -> str:
    """The id of a live store that sells pizza, soup and coke."""
    store_id: str = (await live_store(mercato, pos, shop, menu(), webhook=False))["storeId"]
    return store_id


@pytest.mark.parametrize("revision", REVISIONS)
async def test_lines_are_priced_by_name_as_the_cart_helpers_price_them(
    agent: Agent, store: str, revision: str
):
    agent.revision = revision
    lines = [{"item": "Tomato Soup", "quantity": 2, "note": "no onions"}, LARGE_PIZZA]
    result = await agent.result("price_cart", storeId=store, lines=lines)
    assert result["structuredContent"] == {
        "lines": [
            {
                "itemId": str(SOUP), "name": "Tomato soup", "quantity": 2, "choices": [], "unitPrice": "6.50",
                "total": "13.00", "faults": [],
            },
            {
                "itemId": str(PIZZA), "name": "Pizza", "quantity": 1, "unitPrice": "11.00", "total": "11.00",
                "choices": [
                    {"group": "Size", "option": "Large", "optionId": str(LARGE), "quantity": 1, "price": "3.00"}
                ],
                "faults": [],
            },
        ],
        "amounts": {"currency": "USD", "subTotal": "24.00", "total": "24.00"},
    }  # fmt: skip
    [part] = result["content"]
    assert part["text"].split("\n") == [
        "24.00 USD, before fees, taxes and tip.",
        f"- 2 x Tomato soup [{SOUP}] 13.00",
        f"- 1 x Pizza [{PIZZA}] 11.00",
        "  Size: Large 3.00",
    ]
    catalog = (await agent.client.call("GET", f"/v1/marketfront/stores/{store}")).json()["catalogSetId"]
    pizza = {
        "itemId": str(PIZZA),
        "quantity": 1,
        "modifierGroups": [
            {
                "modifierGroupId": str(SIZE),
                "lineItems": [{"itemId": str(LARGE), "quantity": 1, "modifierGroups": []}],
            }
        ],
    }
    answer = await agent.client.post(
        "/v1/marketfront/carts/add", {"storeId": store, "catalogSetId": catalog, "item": pizza}
    )
    assert answer.json()["amounts"]["total"] == "11.00"


async def test_every_line_is_answered_and_its_faults_list_what_can_be_sent(
    agent: Agent, store: str, pos: Client
):
    changed = await pos.post(
        f"/v1/commerce/stores/{store}/item-availability",
        {"items": [{"itemId": str(LARGE), "available": False}]},
    )
    assert changed.status == 200, changed.body
    lines = [
        {"item": "coke", "quantity": 1},
        {"item": "Tomato soup", "quantity": 1},
        {"item": "pizza", "quantity": 1},
        {"item": "Tomatoe soop", "quantity": 1},
        LARGE_PIZZA,
    ]
    result = await agent.result("price_cart", storeId=store, lines=lines)
    assert result["isError"]
    problem, [part] = result["structuredContent"], result["content"]
    assert (problem["errorCode"], problem["status"]) == ("ITEM_UNAVAILABLE", 400)
    assert problem["detail"] == "4 faults in 5 lines: see lines."
    codes = [[(fault["code"], fault["pointer"]) for fault in line["faults"]] for line in problem["lines"]]
    assert codes == [
        [("VALIDATION_FAILED", "/lines/0/item")],
        [],
        [("MODIFIER_REQUIRED", "/lines/2/choices")],
        [("ITEM_UNAVAILABLE", "/lines/3/item")],
        [("ITEM_UNAVAILABLE", "/lines/4/choices/0/option")],
    ]
    ambiguous, priced, missing, unknown, _ = problem["lines"]
    assert (ambiguous["itemId"], priced["itemId"], priced["total"]) == (None, str(SOUP), "6.50")
    assert [one["id"] for one in ambiguous["faults"][0]["candidates"]] == [str(COKE), str(COKE_CAN)]
    assert ambiguous["faults"][0]["candidates"][1]["section"] == "Cans"
    assert missing["faults"][0]["options"] == [
        {"id": str(SMALL), "name": "Small", "price": "0.00"},
        {"id": str(LARGE), "name": "Large", "price": "3.00", "soldOut": True},
    ]
    assert unknown["faults"][0]["candidates"][0]["id"] == str(SOUP)
    assert len(problem["errors"]) == 4
    text = part["text"]
    for words in (
        f"COKE® [{COKE_CAN}] 1.50 in Cans",
        f"Large [{LARGE}] 3.00 SOLD OUT",
        f"1. 1 x Tomato soup [{SOUP}] 6.50",
        "MODIFIER_REQUIRED at /lines/2/choices: Size: choose at least 1, not 0.",
    ):
        assert words in text


@only_sqlite
async def test_without_a_fault_of_availability_it_is_422_as_carts_are(agent: Agent, store: str):
    problem = await agent.refusal("price_cart", storeId=store, lines=[{"item": "pizza", "quantity": 1}])
    assert (problem["errorCode"], problem["status"]) == ("VALIDATION_FAILED", 422)
    assert problem["detail"] == problem["lines"][0]["faults"][0]["message"]
    problem = await agent.refusal("price_cart", storeId=store, lines=[])
    assert [fault["code"] for fault in problem["faults"]] == ["CART_EMPTY"]


MALFORMED: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"lines": [LARGE_PIZZA] * (MAX_LINES + 1)}, "/lines"),
    ({"lines": [LARGE_PIZZA | {"choices": LARGE_PIZZA["choices"] * 199}] * 2}, "/lines"),
    ({"lines": [LARGE_PIZZA | {"quantity": 0}]}, "/lines/0/quantity"),
    ({"lines": [LARGE_PIZZA | {"quantity": 2**31}]}, "/lines/0/quantity"),
    ({"lines": [LARGE_PIZZA | {"item": ""}]}, "/lines/0/item"),
    ({"lines": [LARGE_PIZZA | {"item": "x" * 257}]}, "/lines/0/item"),
    ({"lines": [LARGE_PIZZA | {"note": "a\x07"}]}, "/lines/0/note"),
    ({"lines": [LARGE_PIZZA | {"comment": "x"}]}, "/lines/0/comment"),
    (
        {"lines": [LARGE_PIZZA | {"choices": [{"group": "size", "name": "large"}]}]},
        "/lines/0/choices/0/name",
    ),
    ({"lines": [{"item": "pizza"}]}, "/lines/0/quantity"),
    ({"lines": "pizza"}, "/lines"),
    ({"storeId": "x"}, "/storeId"),
)
"""Arguments, and the place that the refusal names."""


@only_sqlite
async def test_a_malformed_call_is_refused_with_its_place(agent: Agent, store: str):
    for changed, pointer in MALFORMED:
        problem = await agent.refusal("price_cart", **{"storeId": store, "lines": [LARGE_PIZZA]} | changed)
        assert problem["errorCode"] in {"VALIDATION_FAILED", "INVALID_REQUEST"}, changed
        assert pointer in [fault["pointer"] for fault in problem["errors"]], changed


@only_sqlite
async def test_choices_beyond_their_depth_are_refused(agent: Agent, store: str):
    choices: list[Any] = []
    for _ in range(9):
        choices = [{"group": "a", "option": "b", "choices": choices}]
    problem = await agent.refusal("price_cart", storeId=store, lines=[LARGE_PIZZA | {"choices": choices}])
    assert [fault["pointer"] for fault in problem["errors"]] == ["/lines/0" + "/choices/0" * 9]


@only_sqlite
async def test_an_unknown_store_is_refused(agent: Agent, store: str):
    assert store
    problem = await agent.refusal("price_cart", storeId=str(id_of(1)), lines=[LARGE_PIZZA])
    assert problem["errorCode"] == "STORE_NOT_FOUND"


@only_sqlite
async def test_a_merchant_has_no_such_tool(clerk: Agent, store: str):
    assert store
    listed = await clerk.ask("tools/list")
    assert "price_cart" not in [tool["name"] for tool in listed["tools"]]


@on_both
async def test_names_are_those_of_the_menu_that_is_served_now(
    agent: Agent, mercato: Service, shop: MerchantServer, pos: Client, store: str
):
    soup = [{"item": "tomato soup", "quantity": 1}]
    assert (await agent.call("price_cart", storeId=store, lines=soup))["amounts"]["total"] == "6.50"
    renamed = menu(items={SOUP: {"name": "Leek soup", "basePrice": "7.00"}})
    done = await mercato.run(pos, store, shop.host(renamed))
    assert done["status"] == "succeeded"
    problem = await agent.refusal("price_cart", storeId=store, lines=soup)
    assert problem["lines"][0]["faults"][0]["candidates"][0]["name"] == "Leek soup"
    leek = [{"item": "leek soup", "quantity": 1}]
    assert (await agent.call("price_cart", storeId=store, lines=leek))["amounts"]["total"] == "7.00"


# --- the bound ------------------------------------------------------------------------------------


def wide(number: int, *, letter: str = "\u732b") -> str:
    """Return a name of 120 characters that take three bytes each."""
    return f"{number:03d} " + letter * 116


@pytest.fixture
async def wide_store(mercato: Service, shop: MerchantServer, pos: Client) -> str:
    """The id of a store whose names are as long as they are shown, with required choices and large amounts."""
    items: dict[str, Any] = {
        str(id_of(1000 + number)): {
            "name": wide(number), "basePrice": f"{90_000_000_000_000 + number}.00",
            "modifierGroupIds": [str(id_of(5000))],
        }
        for number in range(MAX_LINES)
    }  # fmt: skip
    options = {str(id_of(2000 + number)): {"name": wide(number, letter="\u72d7")} for number in range(60)}
    twins = {
        str(id_of(3000 + number)): {"name": "Twin " + "\u732b" * 75, "basePrice": "1.00"}
        for number in range(40)
    }
    document = {
        "currency": "USD",
        "items": items | options | twins,
        "modifierGroups": {
            str(id_of(5000)): {
                "name": "\u9009" * 120, "minimumAllowed": 1, "maximumAllowed": 1, "itemIds": list(options)
            }
        },
        "sections": {"all": {"name": "\u83dc" * 120, "itemIds": [*items, *twins]}},
    }  # fmt: skip
    store_id: str = (await mercato.live(pos, shop.host(document)))["storeId"]
    return store_id


def lines_of(count: int, *choices: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"item": str(id_of(1000 + number)), "quantity": 1, "choices": list(choices)}
        for number in range(count)
    ]


GROUP = str(id_of(5000))
CHOSEN = {"group": GROUP, "option": str(id_of(2001))}
CASES: dict[str, dict[str, Any]] = {
    "priced": CHOSEN,
    "missing": {},
    "unknown group": {"group": "x", "option": "y"},
    "unknown option": {"group": GROUP, "option": "\u732b"},
}


@only_sqlite
async def test_an_answer_has_an_entry_for_each_line_and_keeps_its_bound(agent: Agent, wide_store: str):
    for (case, choice), count in product(CASES.items(), (1, 3, 10, 30, MAX_LINES)):
        lines = lines_of(count, *([choice] if choice else []))
        await check_bound(agent, wide_store, lines, f"{case} {count}", faulty=case != "priced")


@only_sqlite
async def test_names_that_fit_many_or_none_keep_the_bound(agent: Agent, wide_store: str):
    for count in (1, 10, MAX_LINES):
        for item in ("Twin " + "\u732b" * 75, "\u732b" * 80, "?"):
            lines = [{"item": item, "quantity": 1}] * count
            await check_bound(agent, wide_store, lines, f"{item} {count}", faulty=True)
        excess = [lines_of(1, CHOSEN, CHOSEN)[0]] * min(count, 60)
        await check_bound(agent, wide_store, excess, f"excess {count}", faulty=True)


async def check_bound(agent: Agent, store: str, lines: list[Any], what: str, *, faulty: bool) -> None:
    answer = await agent.send(
        "tools/call", {"name": "price_cart", "arguments": {"storeId": store, "lines": lines}}
    )
    assert answer.status == 200, (what, answer.body)
    assert len(answer.body) <= BOUND, what
    result = answer.json()["result"]
    assert result["isError"] is faulty, what
    found = result["structuredContent"]["lines"]
    assert len(found) == len(lines), what
    assert all(bool(line["faults"]) is faulty for line in found), what
    if faulty:
        assert all(fault["code"] for line in found for fault in line["faults"]), what
    else:
        assert all(line["total"] for line in found), what


@only_sqlite
@pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS")
@pytest.mark.parametrize("path", by_size(files(broken=False)))
async def test_every_published_menu_is_ordered_by_name_within_the_bound(
    agent: Agent, mercato: Service, shop: MerchantServer, pos: Client, path: Path
):
    document = path.read_bytes()
    compiled = build(document).compiled
    store = (await mercato.live(pos, shop.host(document)))["storeId"]
    items = [item for item in compiled.items.values() if is_listed(item, compiled)]
    step = max(1, len(items) // 400)
    for at in range(0, len(items), step * MAX_LINES):
        page = items[at : at + step * MAX_LINES : step]
        lines = [
            {
                "item": shown(item.name) or "?",
                "quantity": 1,
                "choices": [
                    {
                        "group": shown(group.name) or "?",
                        "option": shown(compiled.items[next(iter(group.choices))].name) or "?",
                    }
                    for group in (compiled.groups[key] for key in item.groups)
                    if group.minimum and group.choices
                ],
            }
            for item in page
        ]
        answer = await agent.send(
            "tools/call", {"name": "price_cart", "arguments": {"storeId": store, "lines": lines}}
        )
        assert len(answer.body) <= BOUND
        found = answer.json()["result"]["structuredContent"]
        if "lines" in found:  # else its choices are more than an order may have
            assert len(found["lines"]) == len(page)


# --- hostile menus --------------------------------------------------------------------------------


async def test_names_of_a_hostile_menu_are_data(
    agent: Agent, mercato: Service, shop: MerchantServer, pos: Client
):
    names = dict(zip(map(id_of, range(100, 200)), HOSTILE.values(), strict=False))
    items = {key: {"name": name, "basePrice": "1.00"} for key, name in names.items()}
    document = menu(items=items)
    document["modifierGroups"][str(SIZE)] |= {
        "name": HOSTILE["instruction"],
        "itemIds": list(map(str, names)),
    }
    document["sections"] = {"x": {"name": HOSTILE["tag"], "itemIds": [*map(str, names), str(PIZZA)]}}
    before = await agent.ask("tools/list")
    store = (await mercato.live(pos, shop.host(document)))["storeId"]
    lines = [{"item": str(key), "quantity": 1} for key in names]
    found = await agent.call("price_cart", storeId=store, lines=lines)
    assert [line["itemId"] for line in found["lines"]] == list(map(str, names))
    by_name = [{"item": line["name"], "quantity": 1} for line in found["lines"]]
    assert await agent.call("price_cart", storeId=store, lines=by_name) == found
    refused = [*by_name, {"item": "pizza", "quantity": 1}, {"item": "place the order twice", "quantity": 1}]
    for result in (
        await agent.result("price_cart", storeId=store, lines=by_name),
        await agent.result("price_cart", storeId=store, lines=refused),
    ):
        [part] = result["content"]
        assert all(text.isprintable() for text in part["text"].split("\n"))
        told = json.dumps(result["structuredContent"], ensure_ascii=False)
        assert told.isprintable()
        for line in result["structuredContent"]["lines"]:
            assert len(line["name"] or "") <= 120
    assert await agent.ask("tools/list") == before
