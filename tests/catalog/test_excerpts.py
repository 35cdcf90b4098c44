"""The excerpts of a refused document: what it has at each of its faults."""

import json
import time
from typing import Any

import pytest
from tests.catalog.documents import CAKE, NOWHERE, TEA, cafe, outcome

from mercato_catalog.model import BuildFailed
from mercato_catalog.validation.scan import MARK, MAX_TEXT


def shown(document: Any) -> dict[str, str]:
    """Return the excerpt at each pointer."""
    result = outcome(document)
    assert isinstance(result, BuildFailed)
    assert len(result.excerpts) == len(result.faults)
    return {fault.path: text for fault, text in zip(result.faults, result.excerpts, strict=True)}


def test_a_fault_is_shown_with_the_value_that_contains_it():
    document = cafe()
    document["items"][CAKE]["basePrice"] = "4,00"
    text = shown(document)[f"/items/{CAKE}/basePrice"]
    assert json.loads(text) == document["items"][CAKE]


def test_a_member_of_a_long_value_is_shown_with_the_name_of_the_value():
    document = cafe()
    document["items"][CAKE] |= {"basePrice": "4,00", "description": "é" * 400}
    assert shown(document)[f"/items/{CAKE}/basePrice"] == '{… "name": "Cake" … "basePrice": "4,00" …}'


def test_a_pointer_to_a_missing_member_shows_what_lacks_it():
    document = cafe()
    del document["items"]
    (text,) = (text for path, text in shown(document).items() if not path)
    assert text.startswith('{"currency"')
    assert (len(text), text[-1]) == (MAX_TEXT, "…")


def test_an_entry_of_a_long_list_is_shown_alone():
    document = cafe()
    section = next(iter(document["sections"]))
    document["sections"][section]["itemIds"] = [TEA] * 20 + [NOWHERE]
    result = shown(document)
    (text,) = (text for path, text in result.items() if path.endswith("/20"))
    assert text == f'[… "{NOWHERE}" …]'


@pytest.mark.parametrize("before", ["", "é" * 500, "\ufeff"])
def test_invalid_json_shows_the_text_around_the_place_where_it_breaks(before: str):
    text = f'{{"items": {{}}, "note": "{before}",\n    "more" oops}}'
    if before == "\ufeff":
        text = before + text.replace(before, "")
    excerpt = shown(text.encode())[""]
    assert f'"more" {MARK}oops}}' in excerpt
    assert "\ufffd" not in excerpt
    assert len(excerpt) <= MAX_TEXT


def test_a_page_in_place_of_the_catalog_is_shown_from_its_beginning():
    assert shown(b"<html><title>Sign in</title>")[""] == "<html><title>Sign in</title>"


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b'{"items": "\xff"}',
        b'{"a":' * 50_000,
        b'{"items":{"\\ud83d\\ude00\\u0000/~":{"name":1}}}',
    ],
)
def test_every_fault_has_an_excerpt_that_fits_and_shows_no_control_characters(document: bytes):
    for text in shown(document).values():
        assert len(text) <= MAX_TEXT
        assert text.isprintable()


def test_the_excerpts_of_a_large_document_with_many_faults_take_a_fraction_of_its_check(
    monkeypatch: pytest.MonkeyPatch,
):
    document = cafe()
    key = "44444444-4444-5444-8444-{:012}"
    for number in range(10_000):
        item = {"itemId": key.format(number), "name": "é" * 200, "basePrice": -1, "note": {"a": [number]}}
        document["items"][item["itemId"]] = item | {"maximumQuantity": "many"}
    text = json.dumps(document, ensure_ascii=False).encode()
    took: list[float] = []

    def timed(*args: Any, **options: Any) -> tuple[str, ...]:
        begun = time.process_time()
        made = excerpts(*args, **options)
        took.append(time.process_time() - begun)
        return made

    from mercato_catalog.validation.scan import excerpts

    monkeypatch.setattr("mercato_catalog.building.build.excerpts", timed)
    begun = time.process_time()
    result = outcome(text)
    whole = time.process_time() - begun
    assert isinstance(result, BuildFailed)
    assert len(result.excerpts) == 100
    assert sum(map(len, result.excerpts)) <= 100 * MAX_TEXT
    assert took[0] < whole / 2
