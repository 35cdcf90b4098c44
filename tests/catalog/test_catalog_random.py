"""Random documents: those that are valid by construction have no faults, one broken value is one fault, and no
input raises.
"""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.catalog.documents import cafe, faults, outcome

from mercato_catalog.building.packed import unpack
from mercato_catalog.diff import diff
from mercato_catalog.model import BuildFailed, Built, Unchanged
from mercato_catalog.validation.findings import clean

NAMES = st.text(min_size=1, max_size=8)
IDS = st.text(max_size=6) | st.uuids().map(str)
PRICES = st.sampled_from(["0", "1.5", "12.34", "-1", 3, 0, 1.25, "99999999.99"])
EXTRAS = st.dictionaries(
    st.sampled_from(["brand", "", "a:b", "x/y~z"]), st.none() | st.text() | st.lists(st.integers())
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return a valid document: references only lead to earlier entities, so there are no cycles."""
    items: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for _ in range(draw(st.integers(0, 6))):
        items[fresh(draw, items)] = item(draw, groups)
        if items and coin(draw):
            groups[fresh(draw, groups)] = group(draw, items)
    sections: dict[str, Any] = {}
    for _ in range(draw(st.integers(0, 5))):
        sections[fresh(draw, sections)] = {
            "name": draw(NAMES),
            "itemIds": draw(some(items)),
            "sectionIds": draw(some(sections)),
        } | draw(EXTRAS)
    document: dict[str, Any] = {"currency": "USD", "items": items} | draw(EXTRAS)
    if sections or coin(draw):
        document["sections"] = as_list(sections, "sectionId") if coin(draw) else sections
    if groups or coin(draw):
        document["modifierGroups"] = as_list(groups, "modifierGroupId") if coin(draw) else groups
    if coin(draw):
        document["catalogs"] = {draw(IDS): {"name": draw(NAMES), "sectionIds": draw(some(sections))}}
    return document


def coin(draw: st.DrawFn) -> bool:
    return draw(st.booleans())


def fresh(draw: st.DrawFn, table: dict[str, Any]) -> str:
    return draw(
        IDS.filter(lambda text: text not in table and text.lower() not in {key.lower() for key in table})
    )


def some(table: dict[str, Any]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sorted(table)), max_size=4) if table else st.just([])


def item(draw: st.DrawFn, groups: dict[str, Any]) -> dict[str, Any]:
    made = {"name": draw(NAMES), "basePrice": draw(PRICES), "modifierGroupIds": draw(some(groups))}
    optional = {
        "isAvailable": draw(st.booleans()),
        "maximumQuantity": draw(st.integers(0, 9)),
        "tags": draw(st.lists(st.integers())),
    }
    return (
        made
        | {name: optional[name] for name in draw(st.sets(st.sampled_from(sorted(optional))))}
        | draw(EXTRAS)
    )


def group(draw: st.DrawFn, items: dict[str, Any]) -> dict[str, Any]:
    chosen = draw(some(items))
    least = draw(st.integers(0, 3))
    return {
        "name": draw(NAMES),
        "itemIds": chosen,
        "minimumAllowed": least,
        "maximumAllowed": draw(st.none() | st.integers(least, 5)),
        "priceOverrides": {key: draw(PRICES) for key in chosen},
    }


def as_list(table: dict[str, Any], own: str) -> list[Any]:
    return [{own: key} | entity for key, entity in table.items()]


def references(document: dict[str, Any]) -> list[tuple[list[str], str]]:
    """Return every list of references with its pointer."""
    found = []
    for table in ("catalogs", "sections", "items", "modifierGroups"):
        entities = document.get(table, {})
        pairs = enumerate(entities) if isinstance(entities, list) else entities.items()
        for step, entity in pairs:
            escaped = str(step).replace("~", "~0").replace("/", "~1")
            found += [
                (entity[member], f"/{table}/{escaped}/{member}")
                for member in ("sectionIds", "itemIds", "modifierGroupIds")
                if entity.get(member)
            ]
    return found


SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@SLOW
@given(documents())
def test_a_document_that_is_valid_by_construction_has_no_faults(document: dict[str, Any]):
    result = outcome(document)
    assert isinstance(result, Built), result
    copy, catalog = json.loads(result.body), unpack(result.compiled)
    assert len(copy["items"]) == len(catalog.items) == len(document["items"])
    assert list(copy["items"]) == [str(UUID(int=key)) for key in catalog.items]
    assert diff(catalog, catalog).identical
    assert isinstance(outcome(result.body, previous_hash=result.content_hash), Unchanged)


@SLOW
@given(documents().filter(references), st.data())
def test_one_broken_reference_is_exactly_one_fault(document: dict[str, Any], data: st.DataObject):
    broken, pointer = data.draw(st.sampled_from(references(document)))
    index = data.draw(st.integers(0, len(broken) - 1))
    broken[index] = "not the id of an entity"
    result = outcome(document)
    assert isinstance(result, BuildFailed)
    assert [fault.path for fault in result.faults] == [clean(f"{pointer}/{index}")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    [
        "catalogs",
        "sections",
        "items",
        "modifierGroups",
        "currency",
        "name",
        "itemIds",
        "sectionIds",
        "basePrice",
        "availability",
        "start",
        "modifierGroupIds",
        "priceOverrides",
        "minimumAllowed",
        "maximumQuantity",
        "isAvailable",
        "dayOfWeek",
        "tags",
        "itemId",
        "sectionId",
        "partnerItemId",
        "storeId",
    ]
)
LOOKALIKES = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS | st.just("a"), inner, max_size=4),
    max_leaves=30,
)


@SLOW
@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_raise(document: bytes):
    assert isinstance(outcome(document), BuildFailed)


@SLOW
@given(st.dictionaries(MEMBERS, LOOKALIKES) | LOOKALIKES)
def test_no_json_raises(document: Any):
    result = outcome(json.dumps(document).encode())
    assert isinstance(result, BuildFailed | Built)


@SLOW
@given(st.data())
def test_a_valid_document_with_anything_in_the_place_of_anything_does_not_raise(data: st.DataObject):
    document: Any = cafe()
    at = document
    while isinstance(at, dict | list) and at:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            at[key] = data.draw(LOOKALIKES)
            break
        at = at[key]
    result = outcome(json.dumps(document).encode())
    assert isinstance(result, BuildFailed | Built)
    if isinstance(result, Built):
        assert json.loads(result.body)


@SLOW
@given(st.data())
def test_a_valid_document_with_bytes_changed_does_not_raise(data: st.DataObject):
    text = bytearray(json.dumps(cafe()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 5))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b":"])
        )
    assert isinstance(outcome(bytes(text)), BuildFailed | Built)


@pytest.mark.parametrize("path_like", ["/", "~", "~1", "", " ", "\x00"])
def test_faults_point_through_any_key(path_like: str):
    escaped = path_like.replace("~", "~0").replace("/", "~1").replace("\x00", "\ufffd")
    assert list(faults({"items": {path_like: {"basePrice": "x"}}})) == [f"/items/{escaped}/basePrice"]
