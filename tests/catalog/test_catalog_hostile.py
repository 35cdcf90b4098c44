"""Documents made to hang a reader or to fill its memory take time and memory in proportion to their size."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from tests.api.examples import example
from tests.calibration import cpu_within
from tests.catalog.documents import built, compiled, faults, outcome

from mercato_catalog.model import BuildFailed

MODULUS = 2**61 - 1
"""Integers that differ by it hash alike."""


def key(number: int) -> str:
    return f"{number:08x}-0000-5000-8000-000000000000"


def test_a_hundred_thousand_colliding_prices_take_linear_time():
    items = {key(n): {"basePrice": n * MODULUS} for n in range(100_000)}
    with cpu_within(700):
        assert isinstance(outcome({"items": items}), BuildFailed)


def test_colliding_combinations_of_catalogs_take_linear_time():
    # Bits 61 apart weigh the same modulo 2^61 - 1, so each choice of one bit from every pair hashes like any other.
    sections = {f"s{n}": {"name": "x", "itemIds": [key(n)]} for n in range(4096)}
    catalogs = [
        {"name": "x", "sectionIds": [f"s{n}" for n in range(4096) if (n >> bit % 61 & 1) == bit // 61]}
        for bit in range(122)
        if bit % 61 < 12
    ]
    document = {"items": {key(n): {"name": "x", "basePrice": "1"} for n in range(4096)}, "sections": sections}
    with cpu_within(70):
        catalog = compiled(document | {"catalogs": catalogs})
    assert len(catalog.reaches) == 4096


def test_a_chain_of_back_references_takes_linear_time():
    size = 60_000
    sections = {f"s{n}": {"name": "x", "sectionIds": [f"s{n + 1}", "s0"]} for n in range(size)}
    sections[f"s{size}"] = {"name": "x", "sectionIds": []}
    with cpu_within(350):
        result = outcome({"items": {}, "sections": sections})
    assert isinstance(result, BuildFailed)
    assert len(result.faults) == 100
    assert all(len(fault.message) < 300 for fault in result.faults)


def test_names_and_ids_of_megabytes_are_cut_in_messages():
    long = "x" * 1_500_000
    document: dict[str, Any] = {
        "items": {long: {"name": long, "basePrice": long, "modifierGroupIds": [long], "itemId": long + "y"}},
        "sections": {long: {"name": long, "itemIds": [long + "z"] * 5, "sectionIds": [long]}},
        "currency": long,
    }
    result = outcome(document)
    assert isinstance(result, BuildFailed)
    assert max(len(fault.message) for fault in result.faults) < 600
    assert {fault.path for fault in result.faults} == {"/items", "/sections", "/currency"}


def test_warnings_of_megabytes_are_cut_too():
    long = "x" * 3_000_000
    result = built(
        {"items": {long: {"name": ""}}, "sections": {"s": {"name": long, "itemIds": [long, long]}}}
    )
    assert result.summary.warnings == 4
    assert max(len(warning.message) for warning in result.warnings) < 600


MEGABYTES: Final[Mapping[str, Callable[[], str]]] = {
    "objects that aren't entities": lambda: (
        '{"items":{' + ",".join(f'"{n}":{{}}' for n in range(100_000)) + "}}"
    ),
    "lists in an unknown member": lambda: '{"items":{},"x":[' + ",".join(["[]"] * 500_000) + "]}",
    "sections as a list": lambda: '{"items":{},"sections":[' + ",".join(["{}"] * 200_000) + "]}",
    "references": lambda: '{"items":{"a":{"modifierGroupIds":[' + ",".join(['"b"'] * 250_000) + "]}}}",
    "escapes": lambda: '{"items":{"a":{"name":"' + "\\u0041" * 500_000 + '"}}}',
    "digits": lambda: '{"items":{"a":{"basePrice":' + "9" * 2_000_000 + "}}}",
    "digits as text": lambda: '{"items":{"a":{"basePrice":"' + "9" * 2_000_000 + '"}}}',
    "an exponent": lambda: '{"items":{"a":{"basePrice":1e' + "9" * 2_000_000 + "}}}",
    "zeros behind the point": lambda: '{"items":{"a":{"maximumQuantity":1.' + "0" * 2_000_000 + "}}}",
    "a member again and again": lambda: "{" + ",".join(['"a":0'] * 170_000) + "}",
    "space after the end": lambda: '{"items":{}' + " " * 3_000_000 + "}",
    "space without an end": lambda: '{"items":{}' + " " * 3_000_000,
    "quotes": lambda: '{"items":{"' + '\\"' * 1_000_000,
}


@pytest.mark.parametrize("kinds", [4, pytest.param(len(MEGABYTES), marks=pytest.mark.long)])
def test_a_megabyte_of_anything_is_judged_within_seconds(kinds: int):
    for kind in random.sample(list(MEGABYTES), kinds):
        document = MEGABYTES[kind]()
        with example(kind), cpu_within(2500):
            outcome(document)


def test_a_fault_deep_inside_an_unknown_member_is_pointed_at():
    nested = '{"a":[' * 150 + '{"k":1,"k":2}' + "]}" * 150
    assert list(faults(f'{{"items":{{}},"x":{nested}}}')) == ["/x" + "/a/0" * 150 + "/k"]


def test_unknown_members_may_be_nested_as_deep_as_the_decoder_allows():
    for depth in (10, 100, 400):
        value: Any = 1
        for _ in range(depth):
            value = [value]
        assert json.loads(built({"items": {}, "x": value}).body)["x"] == value
