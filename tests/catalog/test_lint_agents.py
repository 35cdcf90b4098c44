"""`mercato catalog lint --agents` warns of names that agents can't order by, and counts the items that they can."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.calibration import cpu_within
from tests.carts.test_names import COKE, COKE_CAN, HOSTILE, OLIVES, PIZZA, RIGHT, SIZE, SMALL, SOUP, menu
from tests.catalog.test_catalog_published import MENUS, by_size, files

from mercato_catalog import build
from mercato_catalog.carts.name_findings import NameFindings, check_names
from mercato_catalog.carts.names import is_listed, shown
from mercato_catalog.model import NO_ONBOARDING
from mercato_catalog.validation.findings import MAX_PER_KIND
from mercato_contract.ordering import NamedLine
from mercato_tools.cli import main as cli


def checked(document: Any) -> NameFindings:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return check_names(body, build(body).compiled, onboarding_id=NO_ONBOARDING, default_currency="USD")


def told(found: NameFindings) -> set[tuple[str, str]]:
    return {(warning.rule, warning.path) for warning in found.warnings}


def test_items_groups_and_options_that_share_a_name_are_told():
    document = menu()
    found = checked(document)
    right = document["modifierGroups"][str(RIGHT)]["itemIds"]
    assert {
        ("shared-name", f"/items/{COKE}/name"),
        ("shared-name", f"/items/{COKE_CAN}/name"),
        ("shared-name", f"/items/{OLIVES}/name"),
        ("shared-name", f"/items/{right[2]}/name"),
        ("shared-name", f"/modifierGroups/{RIGHT}/name"),
    } <= told(found)
    assert ("shared-name", f"/items/{SOUP}/name") not in told(found)
    texts = [warning.message for warning in found.warnings if warning.path == f"/items/{COKE}/name"]
    assert texts == [
        f'The item "Coke" ({COKE}) shares its name with others of the menu: "COKE®" ({COKE_CAN}).'
    ]


def test_an_item_counts_if_its_name_and_its_required_choices_fit_nothing_else():
    assert (checked(menu()).items, checked(menu()).by_name) == (6, 4)  # without the two cokes
    document = menu(items={SMALL: {"name": "x"}, COKE_CAN: {"name": "Coke Zero"}})
    assert checked(document).by_name == 6
    size = document["modifierGroups"][str(SIZE)]
    size["itemIds"] = [str(SMALL)]
    document["items"][str(SMALL)]["name"] = "+"
    assert checked(document).by_name == 5  # no size of the pizza can be named
    size["minimumAllowed"] = 0
    assert checked(document).by_name == 6
    size |= {"minimumAllowed": 1, "itemIds": [str(OLIVES)], "name": "toppings"}
    assert checked(document).by_name == 5  # the required group shares its name


@pytest.mark.parametrize("shared", ["items", "options"])
def test_a_menu_whose_things_all_have_one_name_is_checked_in_time_that_grows_with_it_only(shared: str):
    items: Any = {
        str(UUID(int=number)): {"name": "Same", "basePrice": "1.00"} for number in range(1_000, 9_000)
    }
    document: Any = {"items": items}
    if shared == "options":
        bowl = {"name": "Bowl", "basePrice": "1.00", "modifierGroupIds": [str(SIZE)]}
        group = {"name": "Size", "minimumAllowed": 1, "itemIds": list(items)}
        document = {
            "items": items | {str(SOUP): bowl},
            "modifierGroups": {str(SIZE): group},
            "sections": {"s": {"itemIds": [str(SOUP)]}},
        }
    body = json.dumps(document).encode()
    catalog = build(body).compiled
    with cpu_within(60):
        found = check_names(body, catalog, onboarding_id=NO_ONBOARDING, default_currency="USD")
    assert found.by_name == 0


def test_menus_in_other_forms_have_their_pointers():
    document = menu(items={SOUP: {"name": "?!"}})
    document["modifierGroups"] = [
        {"modifierGroupId": key} | group for key, group in document["modifierGroups"].items()
    ]
    document["items"] = {
        "soup/of the day" if key == str(SOUP) else key: item for key, item in document["items"].items()
    }
    document["sections"]["food"]["itemIds"][0] = "soup/of the day"
    found = told(checked(document))
    assert ("wordless-name", "/items/soup~1of the day/name") in found
    assert ("shared-name", "/modifierGroups/2/name") in found


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("?!", {"wordless-name"}),
        ("x" * 120, set()),
        ("x" * 121, {"long-name"}),
        ("x" * 60 + " " * 100 + "y", set()),
        ("So\u200bup", {"unseen-characters"}),
        ("\u202eSoup", {"unseen-characters"}),
        ("Soup\x07", {"unseen-characters"}),
        ("\u202e?", {"wordless-name", "unseen-characters"}),
        ("Soup  of the\nday ", set()),
        ("\U0001f355", set()),
        ("", set()),
        (HOSTILE["long"], {"long-name"}),
        (HOSTILE["invisible tags"], {"unseen-characters"}),
    ],
)
def test_names_that_agents_see_otherwise_or_cannot_send_are_told(name: str, rules: set[str]):
    for table, key in (("items", SOUP), ("items", SMALL), ("modifierGroups", SIZE)):
        document = menu()
        document[table][str(key)]["name"] = name
        found = {rule for rule, path in told(checked(document)) if path == f"/{table}/{key}/name"}
        assert found == rules, table


@pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS")
@pytest.mark.parametrize("path", by_size(files(broken=False)))
def test_every_item_of_a_published_menu_that_has_no_name_of_its_own_is_told(path: Path):
    document = path.read_bytes()
    catalog = build(document)
    found = checked(document)
    compiled = catalog.compiled
    listed = [item for item in compiled.items.values() if is_listed(item, compiled)]
    assert found.items == len(listed)
    lines = [NamedLine(item=shown(item.name) or "?", quantity=1) for item in listed]
    named = sum(catalog.resolve([line]).lines[0].item_id is not None for line in lines)
    if compiled.groups:
        assert 0 < found.by_name <= named
    else:
        assert found.by_name == named
    nameless = sum(not item.name for item in listed)
    assert found.count >= len(listed) - named - nameless
    assert len(found.warnings) <= 10 * (MAX_PER_KIND + 1)


def test_the_command_warns_counts_and_leaves_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "menu.json"
    path.write_text(json.dumps(menu()))
    assert cli.run(["catalog", "lint", str(path)]) == 0
    assert "shared-name" not in capsys.readouterr().out
    assert cli.run(["catalog", "lint", str(path), "--agents"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "warning [shared-name]" in out
    assert "shared-name: Give each a name of its own" in out
    assert out.endswith("Agents can order 4 of 6 items that are sold by name.")
    assert cli.run(["catalog", "lint", str(path), "--agents", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    warnings = [warning for warning in report["warnings"] if warning["code"] == "shared-name"]
    assert report["agents"] == {"items": 6, "byName": 4, "warnings": len(warnings)}
    assert all(warning["line"] == 1 and warning["column"] > 1 for warning in warnings)
    assert cli.run(["catalog", "lint", str(path), "--json"]) == 0
    assert "agents" not in json.loads(capsys.readouterr().out)
    assert cli.run(["catalog", "lint", str(path), "--agents", "--sarif"]) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert "shared-name" in [result["ruleId"] for result in run["results"]]
    path.write_text(json.dumps(menu() | {"currency": "XXXX"}))
    assert cli.run(["catalog", "lint", str(path), "--agents"]) == 1
    assert str(PIZZA) not in capsys.readouterr().out
