"""The JSON Schema of a catalog document refuses nothing that a run accepts, and what it can express of the rest."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from tests.carts.random_store import RandomStore
from tests.catalog import hostile
from tests.catalog.documents import TEA, cafe
from tests.catalog.test_catalog_published import MENUS, files
from tests.catalog.test_catalog_random import documents
from tests.generated import examples

from mercato_catalog.model import DAYS
from mercato_catalog.validation.document import CATALOGS, GROUPS, ITEMS, SECTIONS, Form
from mercato_catalog.validation.findings import Rule
from mercato_client.testing.shops import SHOPS
from mercato_contract import catalog_documents
from mercato_contract.catalog_documents import DIALECT, catalog_set_schema
from mercato_tools.lint import lint

SCHEMA = catalog_set_schema("https://network.example.com")
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)

EXPRESSED = {
    rule.id
    for rule in (
        Rule.WRONG_TYPE,
        Rule.ITEMS_MISSING,
        Rule.UNKNOWN_CURRENCY,
        Rule.COUNT_OUT_OF_RANGE,
        Rule.UNKNOWN_DAY,
        Rule.INVALID_TIME,
        Rule.TOO_MANY_CATALOGS,
        Rule.TOO_MANY_GROUPS,
    )
}
"""The rules of lint that the schema has, too."""


def rules_of(document: bytes) -> set[str]:
    """Return the rules that an ingest finds broken; empty if it accepts the document."""
    report, _ = lint(document, default_currency="USD", max_bytes=2**25)
    return {one.rule for one in report.errors}


def check(document: bytes) -> bool:
    """Check that the two agree; return whether lint accepts the document."""
    rules = rules_of(document)
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        # Lint refuses it for its bytes, which no schema sees.
        assert rules
        return False
    try:
        accepts = VALIDATOR.is_valid(value)
    except RecursionError:
        return not rules
    assert accepts or rules, next(VALIDATOR.iter_errors(value)).message
    if rules & EXPRESSED:
        assert not accepts, rules
    return not rules


def test_the_schema_is_one_of_its_dialect_and_names_its_own_address():
    jsonschema_rs.meta.validate(SCHEMA)
    assert SCHEMA["$schema"] == DIALECT
    assert SCHEMA["$id"] == "https://network.example.com/schemas/catalog-set.json"


@pytest.mark.parametrize("kind", [CATALOGS, SECTIONS, ITEMS, GROUPS], ids=lambda kind: kind.member)
def test_the_schema_has_exactly_the_members_that_have_a_meaning_each_described(kind: Any):
    names = {CATALOGS: "Catalog", SECTIONS: "Section", ITEMS: "Item", GROUPS: "ModifierGroup"}
    members = SCHEMA["$defs"][f"{names[kind]}Document"]["properties"]
    assert set(members) == {kind.own_id, *kind.forms}
    assert all(member["description"] for member in members.values())
    types = {
        Form.TEXT: {"string"},
        Form.FLAG: {"boolean"},
        Form.WHOLE: {"integer"},
        Form.LIST: {"array"},
        Form.IDS: {"array"},
        Form.PRICE: {"string", "number"},
        Form.PRICES: {"object"},
    }
    for name, form in kind.forms.items():
        assert {one["type"] for one in members[name]["anyOf"]} == types[form] | {"null"}, name


def test_days_are_those_of_the_rules():
    assert list(catalog_documents.DAYS) == list(DAYS)


@pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS")
def test_lint_and_schema_agree_on_published_menus():
    good, broken = files(broken=False), files(broken=True)
    assert all(check(path.read_bytes()) for path in good)
    assert not any(check(path.read_bytes()) for path in broken)
    assert len(good) + len(broken) >= 12


def test_lint_and_schema_agree_on_the_sandboxes_menus():
    assert all(check(json.dumps(shop.document).encode()) for shop in SHOPS.values())
    assert all(check(json.dumps(RandomStore(seed, careless=1).document).encode()) for seed in range(200))


@settings(max_examples=examples(150), database=None)
@given(documents())
def test_lint_and_schema_agree_on_random_documents(document: Any):
    assert check(json.dumps(document).encode())


@pytest.mark.parametrize("most", [2**17, pytest.param(2**20, marks=pytest.mark.long)])
def test_lint_and_schema_agree_on_hostile_documents(most: int):
    for name, document in hostile.documents().items():
        if len(document) < most and not document.startswith(b"\x1f\x8b"):
            try:
                check(document)
            except AssertionError as error:
                raise AssertionError(name) from error


VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2.0,
        1.5,
        2**31 - 1,
        2**31,
        1e300,
        "",
        "x",
        "12.50",
        "-1",
        "1,5",
        "USD",
        "usd",
    ),
    *([], {}, [None], [1], ["x"], [[]], [{}], {"x": None}, {"x": 1}, {"x": {}}, {"x": []}, {"x": "1"}),
    *("Monday", "monday", "24:00:00", "09:00:00", "9:00:00"),
)


def full() -> dict[str, Any]:
    """Return a document with every member."""
    document = cafe()
    document["sections"] |= {"all": {"name": "All", "sectionIds": [], "imageUrl": "u", "description": "d"}}
    window = {"dayOfWeek": "Monday", "start": "09:00:00", "end": "17:00:00"}
    document["catalogs"] = {"m": {"name": "M", "sectionIds": ["all"], "availability": [window]}}
    document["items"][TEA] |= {"tags": ["hot"], "isAvailable": True, "maximumQuantity": 5, "imageUrl": "u"}
    group = next(iter(document["modifierGroups"].values()))
    group |= {"minimumAllowed": 0, "maximumAllowed": 2, "maximumPerItem": 2, "freeQuantity": 1}
    return document | {"catalogSetId": "x", "storeId": "y", "$schema": "z"}


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    yield ()
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, one in below:
        yield from ((step, *rest) for rest in places(one))


@pytest.mark.parametrize("parts", [3, pytest.param(1, marks=pytest.mark.long)])
def test_lint_and_schema_agree_on_a_document_with_any_of_its_values_replaced(parts: int):
    """`make test` tries one of three values at each place, and another one at the next."""
    whole, first = full(), random.randrange(parts)
    assert check(json.dumps(whole).encode())
    accepted = refused = 0
    for number, path in enumerate(places(whole), first):
        for value in VALUES[number % parts :: parts]:
            document: Any = copy.deepcopy(whole)
            holder = document
            for step in path[:-1]:
                holder = holder[step]
            if path:
                holder[path[-1]] = value
            else:
                document = value
            try:
                good = check(json.dumps(document).encode())
            except AssertionError as error:
                raise AssertionError((path, value)) from error
            accepted, refused = accepted + good, refused + (not good)
    assert min(accepted, refused) > 200 / parts


def test_lint_and_schema_agree_at_the_bounds():
    for count, good in ((500, True), (501, False)):
        document = cafe()
        groups = {f"g{number}": {"name": "g"} for number in range(count)}
        document["modifierGroups"] |= groups
        document["items"][TEA]["modifierGroupIds"] = list(groups)
        assert check(json.dumps(document).encode()) is good
    for count, good in ((1_000, True), (1_001, False)):
        many: Any = {f"c{number}": {"name": "c"} for number in range(count)}
        for catalogs in (many, list(many.values())):
            assert check(json.dumps(cafe() | {"catalogs": catalogs}).encode()) is good
