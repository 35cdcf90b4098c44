"""The served copy: the document as fetched, with the few changes that give all copies one shape."""

import gzip
import json
import sys
from typing import Any
from uuid import UUID

import brotli
import pytest
from tests.catalog.documents import (
    CAKE,
    CATALOG,
    DRINKS,
    EXTRAS,
    HOT,
    SET,
    STORE,
    TEA,
    built,
    cafe,
    faults,
    outcome,
    served,
)

from mercato.features.catalogs.codings import CODINGS, compress
from mercato_catalog.model import Built, Unchanged

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OTHER = UUID("0190f5fe-7e3b-7ccc-8000-00000000000f")


def without_ours(copy: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in copy.items() if name not in ("catalogSetId", "storeId")}


def test_the_served_copy_has_the_services_ids_not_the_documents():
    document = cafe() | {"catalogSetId": "theirs", "storeId": {"any": ["thing"]}}
    copy = served(document)
    assert (copy["catalogSetId"], copy["storeId"]) == (str(SET), str(STORE))


def test_everything_else_is_served_unchanged():
    expected = cafe()
    expected["catalogs"][CATALOG]["availability"] = served(cafe())["catalogs"][CATALOG]["availability"]
    assert without_ours(served(cafe())) == expected


def test_unknown_members_are_served_unchanged_at_every_level():
    document = cafe()
    unknown = {"deep": [{"x": None, "y": [True, "ü\n😀\x7f"]}], "": {}, "$": "/", "basePrice": "1"}
    document["unknown"] = unknown
    for table, key in (("catalogs", CATALOG), ("sections", HOT), ("items", TEA), ("modifierGroups", EXTRAS)):
        document[table][key]["unknown"] = unknown
    copy = served(document)
    assert copy["unknown"] == unknown
    for table, key in (("catalogs", CATALOG), ("sections", HOT), ("items", TEA), ("modifierGroups", EXTRAS)):
        assert copy[table][key]["unknown"] == unknown


@pytest.mark.parametrize(
    "number",
    [
        "1.10",
        "1e400",
        "-1E-400",
        "0.1000000000000000055511151231257827",
        "2.0",
        "1E5",
        "123456789012345678901234567890",
        "7" * 5000,
        "-0.0",
    ],
)
def test_numbers_of_unknown_members_keep_their_text(number: str):
    document = '{"items":{"a":{"name":"x","basePrice":"1","weight":[%s,{"g":%s}]}},"x":%s}' % ((number,) * 3)
    body = built(document).body
    assert b'"weight":[%s,{"g":%s}]' % ((number.encode(),) * 2) in body
    assert b'"x":%s' % number.encode() in body


def test_tags_may_be_anything():
    document = cafe()
    document["items"][TEA]["tags"] = [1, "two", None, {"three": 3}, [4.50]]
    assert served(document)["items"][TEA]["tags"] == [1, "two", None, {"three": 3}, [4.5]]


@pytest.mark.parametrize("catalogs", [{}, {"catalogs": None}, {"catalogs": {}}, {"catalogs": []}])
def test_without_catalogs_one_is_added_with_the_top_level_sections_in_order(catalogs: dict[str, Any]):
    document = cafe()
    del document["catalogs"]
    document["sections"] = {
        "z": {"name": "Z"},
        HOT: document["sections"][HOT],
        DRINKS: document["sections"][DRINKS],
    }
    document["sections"]["a"] = {"name": "A"}
    document |= catalogs
    copy = served(document)
    [(key, catalog)] = copy["catalogs"].items()
    assert str(UUID(key)) == key == catalog["catalogId"]
    assert catalog["sectionIds"] == ["z", DRINKS, "a"]
    assert len(catalog["availability"]) == 7
    assert key == next(iter(served(document)["catalogs"]))


def test_tables_of_null_are_served_as_dictionaries_and_absent_ones_stay_absent():
    copy = served({"items": {}, "sections": None, "modifierGroups": None})
    assert (copy["sections"], copy["modifierGroups"]) == ({}, {})
    assert "sections" not in served({"items": {}})


def test_order_is_kept():
    document = cafe()
    document["items"] = dict(reversed(document["items"].items()))
    copy = served(document)
    assert list(copy["items"]) == list(document["items"])
    assert list(copy["items"][TEA]) == list(document["items"][TEA])
    assert list(copy)[:2] == ["catalogSetId", "storeId"]


def test_a_served_copy_fetched_again_is_the_same_content():
    first = built(cafe())
    again = outcome(first.body, previous_hash=first.content_hash)
    assert again == Unchanged(first.content_hash)


def test_identical_content_is_recognised_under_other_ids_and_another_layout():
    first = built(cafe())
    for document in (
        json.dumps(cafe(), indent=4),
        json.dumps(cafe(), ensure_ascii=False, separators=(",", ":")),
        json.dumps(cafe() | {"storeId": "x", "catalogSetId": None}),
        json.dumps(cafe()).replace("Tea", "\\u0054e\\u0061"),
        json.dumps(cafe()).replace('"4.00"', "4"),
    ):
        again = outcome(document, previous_hash=first.content_hash)
        assert isinstance(again, Unchanged)
        assert again.content_hash == first.content_hash


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["items"][TEA].update(basePrice="2.51"),
        lambda d: d["items"][TEA].update(unknown=1),
        lambda d: d["items"][CAKE].update(name="Pie"),
        lambda d: d.update(currency="EUR"),
        lambda d: d["sections"][HOT]["itemIds"].reverse(),
        lambda d: d["catalogs"][CATALOG].update(availability=[]),
    ],
)
def test_any_other_content_has_another_hash(change: Any):
    document, first = cafe(), built(cafe())
    change(document)
    result = outcome(document, previous_hash=first.content_hash)
    assert isinstance(result, Built)
    assert result.content_hash != first.content_hash


def test_content_read_in_another_currency_is_other_content():
    document = {"items": {"tea": {"name": "Tea", "basePrice": "1"}}}
    assert (
        outcome(document, default_currency="USD").content_hash
        != outcome(document, default_currency="EUR").content_hash
    )


def test_each_coding_gives_the_served_bytes_back_and_is_always_the_same():
    body = built(cafe()).body
    for large in (body, body + b" " * 100_000):
        made = compress(large)
        assert tuple(made) == CODINGS
        assert gzip.decompress(made["gzip"]) == large
        assert brotli.decompress(made["br"]) == large
        assert zstd.decompress(made["zstd"]) == large
        assert compress(large) == made
        assert made["gzip"][4:8] == bytes(4), "no time of day"


def test_a_document_with_faults_is_not_served():
    assert faults({"items": {"a": {"basePrice": "x"}}})
