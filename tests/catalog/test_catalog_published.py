"""Published menus: the good ones are served equal except for the intended changes, the broken ones are
refused with exactly the references that their description lists.
"""

import json
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import iso4217
import pytest
from tests.catalog.documents import SET, STORE, outcome

from mercato_catalog.building.packed import unpack
from mercato_catalog.model import BuildFailed, Built

MENUS = Path(os.environ.get("MERCATO_TEST_MENUS") or Path(__file__).parents[3] / "shared" / "menus")
OWN_IDS = {
    "catalogs": "catalogId",
    "sections": "sectionId",
    "items": "itemId",
    "modifierGroups": "modifierGroupId",
}
DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

pytestmark = pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS")


def files(*, broken: bool) -> list[Path]:
    return [path for path in sorted(MENUS.glob("*.json")) if path.stem.endswith("-broken") is broken]


def by_size(paths: list[Path]) -> list[Any]:
    """Return the parameters of a test that takes as long as its menu is large: `make test` has those up to 1 MiB."""
    return [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stat().st_size > 2**20 else [])
        for path in paths
    ]


def parsed(text: bytes) -> dict[str, Any]:
    """Return the document with every number as it is written, so that 1.1 is not 1.10."""
    document = json.loads(text, parse_float=lambda t: ("number", t), parse_int=lambda t: ("number", t))
    assert isinstance(document, dict)
    return document


def expected(document: dict[str, Any], copy: dict[str, Any]) -> dict[str, Any]:
    """Return what has to be served of a document whose ids are all UUIDs: slowly, one listed change at a time."""
    for table, own in OWN_IDS.items():
        if isinstance(document.get(table), list):
            document[table] = {entry[own]: entry for entry in document[table]}
        for key, entry in (document.get(table) or {}).items():
            entry[own] = key
    scale = {c.code: c.exponent for c in iso4217.Currency}[document.get("currency", "USD")]

    def price(written: Any) -> Any:
        text = written[1] if isinstance(written, tuple) else written
        return None if text is None else f"{Decimal(text):.{scale}f}"

    for item in document["items"].values():
        if "basePrice" in item:
            item["basePrice"] = price(item["basePrice"])
    for group in document.get("modifierGroups", {}).values():
        for key, written in group.get("priceOverrides", {}).items():
            group["priceOverrides"][key] = price(written)
    if not document.get("catalogs"):
        held = {child for section in document["sections"].values() for child in section.get("sectionIds", [])}
        [(key, made)] = copy["catalogs"].items()
        top = [section for section in document["sections"] if section not in held]
        document["catalogs"] = {key: {"catalogId": key, "name": made["name"], "sectionIds": top}}
    for catalog in document["catalogs"].values():
        if catalog.get("availability") is None:
            catalog["availability"] = [
                {"dayOfWeek": day, "start": "00:00:00", "end": "00:00:00"} for day in DAYS
            ]
    return document | {"catalogSetId": str(SET), "storeId": str(STORE)}


@pytest.mark.parametrize("path", files(broken=False), ids=lambda path: path.stem)
def test_a_good_menu_is_served_back_equal_but_for_the_listed_changes(path: Path):
    text = path.read_bytes()
    result = outcome(text)
    assert isinstance(result, Built), result
    copy = parsed(result.body)
    assert copy == expected(parsed(text), copy)


@pytest.mark.parametrize("path", files(broken=False), ids=lambda path: path.stem)
def test_a_valid_menu_is_compiled_as_the_document_has_it(path: Path):
    document = parsed(path.read_bytes())
    result = outcome(path.read_bytes())
    assert isinstance(result, Built)
    catalog = unpack(result.compiled)
    assert [str(UUID(int=key)) for key in catalog.items] == list(document["items"])
    for key, item in document["items"].items():
        made = catalog.items[UUID(key).int]
        written = item.get("basePrice")
        text = written[1] if isinstance(written, tuple) else written
        assert made.price == (None if text is None else Decimal(text).scaleb(catalog.scale))
        assert made.name == item.get("name", "")
        assert [str(UUID(int=group)) for group in made.groups] == item.get("modifierGroupIds", [])
        assert made.available is item.get("isAvailable", True)


@pytest.mark.parametrize("path", files(broken=False), ids=lambda path: path.stem)
def test_a_menu_pulled_again_is_the_same_content(path: Path):
    first = outcome(path.read_bytes())
    laid_out_anew = json.dumps(json.loads(path.read_bytes()), indent=1).encode()
    if b"." not in re.sub(rb'"[^"]*"', b"", path.read_bytes()):
        assert outcome(laid_out_anew, previous_hash=first.content_hash).content_hash == first.content_hash
    assert outcome(path.read_bytes(), previous_hash=first.content_hash).content_hash == first.content_hash


def listed(name: str) -> list[str]:
    """Return the pointers that the menus' own description lists for a broken file."""
    text = (MENUS / "README.md").read_text()
    part = text.split("## References that do not resolve")[1].split(f"`{name}`")[1].split("\n\n")[1]
    return re.findall(r"^\| `(/[^`]+)`", part, re.MULTILINE)


@pytest.mark.parametrize("path", files(broken=True), ids=lambda path: path.stem)
def test_a_broken_menu_fails_with_exactly_the_references_that_are_listed(path: Path):
    result = outcome(path.read_bytes())
    assert isinstance(result, BuildFailed)
    assert listed(path.name)
    assert sorted(fault.path for fault in result.faults) == sorted(listed(path.name))


@pytest.mark.parametrize(
    ("name", "warned"),
    [("bigbasket-grocery", 1), ("dominos-us", 124), ("opendelivery-pizza-plaza", 3), ("saizeriya-jp", 0)],
)
def test_probable_mistakes_in_a_valid_menu_are_warnings(name: str, warned: int):
    result = outcome((MENUS / f"{name}.json").read_bytes())
    assert isinstance(result, Built)
    assert (result.summary.warnings, len(result.warnings)) == (warned, warned)


def test_an_item_without_a_name_is_reported_by_its_pointer():
    result = outcome((MENUS / "bigbasket-grocery.json").read_bytes())
    assert [w.path for w in result.warnings] == ["/items/7d96ff38-b33d-59c2-9406-26d014253f11"]
