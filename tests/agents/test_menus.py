"""get_menu and get_item, also over published menus: everything is found, and every answer is within its bound."""

import random
from typing import Any
from uuid import UUID

import pytest
from tests.agents.agent import Agent
from tests.catalog.test_catalog_published import MENUS, by_size, files
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.generated import examples
from tests.service import Client, MerchantServer, Service
from tests.sharing import shared

from mercato.agents.tools import LARGE, SMALL
from mercato.features.stores.menu_index import MenuIndex

pytestmark = [shared, mostly_sqlite]

published = pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS")


def item_id(number: int) -> str:
    return f"0190f5fe-7e3b-7ccc-8000-{number:012x}"


SIZES, EXTRAS, SAUCES = "sizes", "extras", "sauces"
PIZZA: dict[str, Any] = {
    "currency": "USD",
    "catalogs": {"c": {"catalogId": "c", "name": "All day", "sectionIds": ["p", "d"]}},
    "sections": {
        "p": {"sectionId": "p", "name": "Pizza", "itemIds": [item_id(1), item_id(2)]},
        "d": {"sectionId": "d", "name": "Drinks", "itemIds": [item_id(3)]},
    },
    "items": {
        item_id(1): {
            "itemId": item_id(1),
            "name": "Margherita",
            "basePrice": "8.00",
            "description": "Tomato\nand \u202ebasil",
            "modifierGroupIds": [SIZES, EXTRAS],
        },
        item_id(2): {"itemId": item_id(2), "name": "Marinara", "basePrice": "7.00", "isAvailable": False},
        item_id(3): {
            "itemId": item_id(3), "name": "Lemonade", "basePrice": "3.00", "modifierGroupIds": [EXTRAS],
        },
        item_id(4): {"itemId": item_id(4), "name": "Small", "basePrice": "0.00"},
        item_id(5): {
            "itemId": item_id(5), "name": "Large", "basePrice": "2.50", "modifierGroupIds": [EXTRAS],
        },
        item_id(6): {
            "itemId": item_id(6), "name": "Olives", "basePrice": "1.00", "modifierGroupIds": [SAUCES],
        },
        item_id(7): {"itemId": item_id(7), "name": "Pesto", "basePrice": "0.50"},
    },
    "modifierGroups": {
        SIZES: {
            "modifierGroupId": SIZES, "name": "Size", "minimumAllowed": 1, "maximumAllowed": 1,
            "itemIds": [item_id(4), item_id(5)],
        },
        EXTRAS: {
            "modifierGroupId": EXTRAS, "name": "Extras", "maximumAllowed": 3, "freeQuantity": 1,
            "itemIds": [item_id(6)],
        },
        SAUCES: {
            "modifierGroupId": SAUCES, "name": "Sauce", "minimumAllowed": 1, "itemIds": [item_id(7)],
        },
    },
}  # fmt: skip


@pytest.fixture
async def pizzeria(mercato: Service, shop: MerchantServer, pos: Client) -> str:
    store_id: str = (await mercato.live(pos, shop.host(PIZZA)))["storeId"]
    return store_id


async def test_a_small_menu_is_listed_whole(agent: Agent, pizzeria: str):
    menu = await agent.call("get_menu", storeId=pizzeria)
    assert (menu["currency"], menu["totalItems"], menu["nextCursor"]) == ("USD", 3, None)
    assert "sections" not in menu
    assert menu["items"] == [
        {
            "id": item_id(1), "name": "Margherita", "price": "8.00", "section": "Pizza",
            "choices": "required", "soldOut": False,
        },
        {
            "id": item_id(2), "name": "Marinara", "price": "7.00", "section": "Pizza",
            "choices": "none", "soldOut": True,
        },
        {
            "id": item_id(3), "name": "Lemonade", "price": "3.00", "section": "Drinks",
            "choices": "optional", "soldOut": False,
        },
    ]  # fmt: skip
    text = await agent.text("get_menu", storeId=pizzeria)
    assert text.splitlines() == [
        "Test Store: open. 3 items, prices in USD.",
        "Pizza:",
        f"- Margherita [{item_id(1)}] 8.00; choices required",
        f"- Marinara [{item_id(2)}] 7.00; SOLD OUT",
        "Drinks:",
        f"- Lemonade [{item_id(3)}] 3.00; choices optional",
    ]


async def test_what_would_say_nothing_is_refused_instead_of_ignored(agent: Agent, pizzeria: str):
    problem = await agent.refusal("get_item", storeId=pizzeria, item="Margherita", offset=1)
    assert [error["pointer"] for error in problem["errors"]] == ["/offset"]
    problem = await agent.refusal("get_menu", storeId=pizzeria, section="\N{HORIZONTAL ELLIPSIS}")
    assert [error["pointer"] for error in problem["errors"]] == ["/section"]


async def test_a_menu_is_read_by_section_by_word_and_by_page(agent: Agent, pizzeria: str):
    drinks = await agent.call("get_menu", storeId=pizzeria, section="drinks")
    assert [item["name"] for item in drinks["items"]] == ["Lemonade"]
    found = await agent.call("get_menu", storeId=pizzeria, query="mar")
    assert [item["name"] for item in found["items"]] == ["Margherita", "Marinara"]
    assert found["totalItems"] == 2
    # Words of a description, if no name has them.
    found = await agent.call("get_menu", storeId=pizzeria, query="tomato")
    assert [item["name"] for item in found["items"]] == ["Margherita"]
    assert (await agent.call("get_menu", storeId=pizzeria, query="sushi"))["items"] == []
    first = await agent.call("get_menu", storeId=pizzeria, query="mar", limit=1)
    rest = await agent.call("get_menu", storeId=pizzeria, query="mar", limit=1, cursor=first["nextCursor"])
    assert [item["name"] for item in first["items"] + rest["items"]] == ["Margherita", "Marinara"]
    assert rest["nextCursor"] is None


async def test_items_that_do_not_fit_are_sections_with_counts(agent: Agent, pizzeria: str):
    menu = await agent.call("get_menu", storeId=pizzeria, limit=2)
    assert menu["sections"] == [{"name": "Pizza", "items": 2}, {"name": "Drinks", "items": 1}]
    assert "items" not in menu


@on_both
async def test_what_a_merchant_marks_as_sold_out_is_so_at_once(agent: Agent, pos: Client, pizzeria: str):
    path = f"/v1/commerce/stores/{pizzeria}/item-availability"
    body = {"items": [{"itemId": item_id(1), "available": False}, {"itemId": item_id(4), "available": False}]}
    assert (await pos.post(path, body)).status == 200
    menu = await agent.call("get_menu", storeId=pizzeria, query="margherita")
    assert menu["items"][0]["soldOut"] is True
    item = await agent.call("get_item", storeId=pizzeria, item="Margherita")
    small, large = item["groups"][0]["options"]
    assert (small["soldOut"], "soldOut" in large) == (True, False)


@only_sqlite
async def test_a_wrong_store_section_or_cursor_is_a_problem_that_says_what_there_is(
    agent: Agent, pizzeria: str
):
    other = await agent.refusal("get_menu", storeId=item_id(99))
    assert other["errorCode"] == "STORE_NOT_FOUND"
    section = await agent.refusal("get_menu", storeId=pizzeria, section="Drink")
    assert section["errors"][0]["pointer"] == "/section"
    assert "'Drinks'" in section["detail"]
    for cursor in ("x", "i1-00000000"):
        assert (await agent.refusal("get_menu", storeId=pizzeria, cursor=cursor))["errors"][0][
            "pointer"
        ] == "/cursor"


# --- items ----------------------------------------------------------------------------------------


@on_both
async def test_an_item_has_its_choices_two_levels_deep(agent: Agent, pizzeria: str):
    item = await agent.call("get_item", storeId=pizzeria, item=item_id(1))
    assert (item["name"], item["price"], item["currency"]) == ("Margherita", "8.00", "USD")
    assert item["description"] == "Tomato and basil"
    size, extras = item["groups"]
    assert (size["name"], size["minimum"], size["maximum"], size["rule"]) == ("Size", 1, 1, "choose 1")
    assert [(option["name"], option["price"]) for option in size["options"]] == [
        ("Small", "0.00"),
        ("Large", "2.50"),
    ]
    assert (extras["minimum"], extras["maximum"], extras["free"]) == (0, 3, 1)
    (nested,) = size["options"][1]["groups"]
    assert nested["name"] == "Extras"
    # The third level isn't listed: its option says that something must be chosen there.
    assert nested["options"][0]["choices"] == "required"
    assert "choices" not in extras["options"][0]
    assert extras["options"][0]["groups"][0]["name"] == "Sauce"
    text = await agent.text("get_item", storeId=pizzeria, item="margherita")
    assert f"- Large [{item_id(5)}] +2.50" in text
    assert f"  - Olives [{item_id(6)}] +1.00; choices required: ask with path" in text


async def test_a_path_leads_deeper(agent: Agent, pizzeria: str):
    item = await agent.call(
        "get_item", storeId=pizzeria, item="Margherita", path=["size", item_id(5), "Extras", "olives"]
    )
    assert item["path"] == ["Size", "Large", "Extras", "Olives"]
    assert [group["name"] for group in item["groups"]] == ["Sauce"]
    group = await agent.call("get_item", storeId=pizzeria, item="Margherita", path=["Size"])
    assert [option["name"] for option in group["groups"][0]["options"]] == ["Small", "Large"]
    assert group["nextOffset"] is None
    rest = await agent.call("get_item", storeId=pizzeria, item="Margherita", path=["Size"], offset=1)
    assert [option["name"] for option in rest["groups"][0]["options"]] == ["Large"]


@only_sqlite
async def test_a_name_that_fits_nothing_or_several_is_a_problem_with_candidates(
    mercato: Service, shop: MerchantServer, pos: Client, agent: Agent
):
    twice = PIZZA | {
        "items": PIZZA["items"] | {item_id(3): PIZZA["items"][item_id(3)] | {"name": "MARGHERITA"}}
    }
    store = (await mercato.live(pos, shop.host(twice)))["storeId"]
    several = await agent.refusal("get_item", storeId=store, item="Margherita")
    assert several["errors"][0]["pointer"] == "/item"
    assert item_id(1) in several["detail"]
    assert item_id(3) in several["detail"]
    none = await agent.refusal("get_item", storeId=store, item="Marinaro")
    assert f"Marinara [{item_id(2)}]" in none["detail"]
    step = await agent.refusal("get_item", storeId=store, item=item_id(1), path=["Size", "Medium"])
    assert step["errors"][0]["pointer"] == "/path/1"
    assert f"Small [{item_id(4)}]" in step["detail"]
    assert (await agent.refusal("get_item", storeId=store, item=item_id(98)))["errors"][0][
        "pointer"
    ] == "/item"


@only_sqlite
async def test_an_item_with_hundreds_of_options_is_within_the_bound_and_all_can_be_read(
    mercato: Service, shop: MerchantServer, pos: Client, agent: Agent
):
    options = {
        item_id(1000 + number): {
            "itemId": item_id(1000 + number),
            "name": f"Option {number} " + "\N{HOT PEPPER}" * 150,
            "basePrice": "0.10",
        }
        for number in range(300)
    }
    groups = {
        f"g{number}": {
            "modifierGroupId": f"g{number}", "name": f"Group {number}", "minimumAllowed": number % 2,
            "itemIds": list(options),
        }
        for number in range(30)
    }  # fmt: skip
    wide = {"itemId": item_id(1), "name": "Wide", "basePrice": "1.00", "modifierGroupIds": list(groups)}
    menu = {
        "currency": "USD",
        "catalogs": {"c": {"catalogId": "c", "sectionIds": ["s"]}},
        "sections": {"s": {"sectionId": "s", "name": "S", "itemIds": [item_id(1)]}},
        "items": options | {item_id(1): wide},
        "modifierGroups": groups,
    }
    store = (await mercato.live(pos, shop.host(menu)))["storeId"]
    answer = await _body(agent, "get_item", storeId=store, item="Wide")
    assert len(answer.body) <= SMALL
    names: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = await _body(agent, "get_item", storeId=store, item="Wide", path=["Group 7"], offset=offset)
        assert len(answer.body) <= SMALL
        facts = answer.json()["result"]["structuredContent"]
        names += [option["id"] for option in facts["groups"][0]["options"]]
        offset = facts["nextOffset"]
    assert names == list(options)


async def _body(agent: Agent, tool: str, **arguments: Any) -> Any:
    answer = await agent.send("tools/call", {"name": tool, "arguments": arguments})
    assert answer.status == 200, answer.body
    return answer


# --- published menus ------------------------------------------------------------------------------


@pytest.fixture
async def published_menu(
    request: pytest.FixtureRequest, mercato: Service, shop: MerchantServer, pos: Client
) -> tuple[str, MenuIndex]:
    store = await mercato.live(pos, shop.host(request.param.read_bytes()))
    return store["storeId"], await mercato.app.menu_indexes.get(UUID(store["catalogSetId"]))


@published
@only_sqlite
@pytest.mark.parametrize(
    "published_menu",
    by_size(files(broken=False)),
    indirect=True,
)
async def test_every_page_of_a_published_menu_is_within_its_bound(
    agent: Agent, published_menu: tuple[str, MenuIndex]
):
    store, index = published_menu
    whole = await _body(agent, "get_menu", storeId=store)
    assert len(whole.body) <= SMALL
    sections = list(await _pages(agent, "sections", SMALL, storeId=store))
    large = await _body(agent, "get_menu", storeId=store, limit=100)
    assert len(large.body) <= LARGE
    if sections:
        assert [section["name"] for section in sections][:5]
        assert len(sections) == len(index.sections)
    # Some sections and items, others in each run.
    chosen = random.sample(range(len(index.sections)), min(len(index.sections), examples(40)))
    for number in chosen:
        section = index.sections[number]
        listed = await _pages(agent, "items", LARGE, storeId=store, section=section.name, limit=100)
        assert {f"{key:032x}" for key in section.items} <= {item["id"].replace("-", "") for item in listed}
    keys = random.sample(sorted(index.names), min(len(index.names), examples(80)))
    for key in keys:
        answer = await _body(agent, "get_item", storeId=store, item=str(UUID(int=key)))
        assert len(answer.body) <= SMALL


async def _pages(agent: Agent, member: str, most: int, **arguments: Any) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        extra = {} if cursor is None else {"cursor": cursor}
        answer = await _body(agent, "get_menu", **arguments, **extra)
        assert len(answer.body) <= most
        facts = answer.json()["result"]["structuredContent"]
        found += facts.get(member, [])
        cursor = facts["nextCursor"]
        if cursor is None:
            return found
