"""A repeated key in any object fails the run."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.documents import CAKE, TEA, cafe, faults, outcome

from mercato_catalog.model import BuildFailed
from mercato_catalog.validation.scan import scan
from mercato_catalog.validation.validate import repeats_a_key

REPEATED = "This key is repeated in its object."


def with_raw(place: str, raw: str) -> str:
    """Return the café with a string replaced by raw text."""
    return json.dumps(cafe()).replace(json.dumps(place), raw, 1)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ('{"items": {}, "items": {}}', "/items"),
        ('{"items": {"a/b": {}, "a/b": {}}}', "/items/a~1b"),
        ('{"items": {"a": {"name": "x", "name": "x"}}}', "/items/a/name"),
        ('{"items": {"a": {"name": "x", "n\\u0061me": "x"}}}', "/items/a/name"),
        ('{"items": {"a": {"nutrition": {"kcal": 1, "kcal": 2}}}}', "/items/a/nutrition/kcal"),
        ('{"items": {"a": {"deep": [1, [{"x": {"y": 1, "y": 1}}]]}}}', "/items/a/deep/1/0/x/y"),
        ('{"items": {}, "extra": {"\\u003a": 1, ":": 2}}', "/extra/:"),
        ('{"items": {}, "extra": {"a": "\\u003a", "a": 1}}', "/extra/a"),
        ('{"items": {}, "extra": {"": 1, "": 1}}', "/extra/"),
    ],
)
def test_a_repeated_key_is_reported_with_its_pointer(document: str, path: str):
    assert faults(document)[path] == REPEATED


@pytest.mark.parametrize("zeros", range(16))
def test_a_repeated_key_is_found_beside_a_price_that_is_served_shorter(zeros: int):
    document = f'{{"items":{{"a":{{"basePrice":"12.5{"0" * zeros}","ab":1,"ab":1}}}}}}'
    assert faults(document) == {"/items/a/ab": REPEATED}


def test_every_repeated_key_is_named_beside_the_other_faults():
    document = json.dumps(cafe()).replace('"name": "Tea"', '"name": "Tea", "name": "Tee", "basePrice": "x"')
    document = document.replace('"name": "Cake"', '"name": "Cake", "name": "Cake"')
    found = faults(document)
    assert [path for path, message in found.items() if message == REPEATED] == [
        f"/items/{TEA}/name",
        f"/items/{TEA}/basePrice",
        f"/items/{CAKE}/name",
    ]


@pytest.mark.parametrize(
    "value",
    [
        '"a: b"',
        '"\\u003a"',
        '"\\\\\\":\\""',
        '":"',
        '"x\\":"',
        '{"a:b": {"::": ":"}}',
        "1.50",
        "-0",
        "1e400",
        '" :"',
    ],
)
def test_colons_spaces_and_escapes_in_strings_are_not_repeated_keys(value: str):
    for layout in (f'{{"items":{{"a":{{"x":{value}}}}}}}', f'{{ "items" :\n{{ "a"\t: {{"x" :{value} }}}}}}'):
        assert faults(layout) == {}


def test_more_than_a_hundred_repeated_keys_are_counted():
    repeated = ", ".join('"x": 1' for _ in range(251))
    result = outcome(f'{{"items": {{}}, "extra": {{{repeated}}}}}')
    assert isinstance(result, BuildFailed)
    assert len(result.faults) == 100
    assert result.faults[-1].message.startswith("151 more faults")


class Pairs(list[Any]):
    """An object as pairs, so that keys may repeat."""


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(':"\\ aä😀'),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.tuples(st.text(':"\\ ab', max_size=3), inner), max_size=4).map(Pairs)
    ),
    max_leaves=20,
)


def text(value: Any, *, escaped: bool, spaced: bool) -> str:
    """Return JSON, keys repeated as they come."""
    if isinstance(value, Pairs):
        colon, comma = (" : ", " ,\n") if spaced else (":", ",")
        inner = (
            json.dumps(key, ensure_ascii=escaped) + colon + text(v, escaped=escaped, spaced=spaced)
            for key, v in value
        )
        return "{" + comma.join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text(v, escaped=escaped, spaced=spaced) for v in value) + "]"
    return json.dumps(value, ensure_ascii=escaped)


def repeats(value: Any) -> int:
    """Return how many keys are repeated, by looking."""
    if isinstance(value, Pairs):
        return len(value) - len({key for key, _ in value}) + sum(repeats(v) for _, v in value)
    return sum(map(repeats, value)) if isinstance(value, list) else 0


@given(JSON, st.booleans(), st.booleans())
def test_repeated_keys_are_found_exactly_where_the_text_has_them(
    value: Any, escaped: bool, spaced: bool
):  # hypothesis' own
    document = text(value, escaped=escaped, spaced=spaced).encode()
    expected = repeats(value)
    assert repeats_a_key(document, json.loads(document)) is bool(expected)
    found = scan(document)
    assert found.broken is None
    assert found.duplicate_count == expected
