"""What `mercato_catalog` takes from programs that aren't the service: text as well as bytes, and instants alone."""

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from tests.catalog.documents import cafe

from mercato_catalog import InvalidDocument, build, validate

CHICAGO = ZoneInfo("America/Chicago")


@pytest.mark.parametrize(
    "document",
    [
        json.dumps(cafe()),
        "",
        "[]",
        '{"items": {"a": {"basePrice": "6,50", "name": "Crème brûlée"}}}',
        '{"items": 😀',
    ],
)
def test_a_document_of_text_has_the_findings_of_its_bytes(document: str):
    assert validate(document) == validate(document.encode())
    if validate(document).fault_count:
        with pytest.raises(InvalidDocument):
            build(document)
    else:
        assert build(document).diff(build(document.encode())).items.added.count == 0


@pytest.mark.parametrize(
    "document", [cafe(), {}, {"items": {"a": {"basePrice": "6,50", "name": "Crème brûlée"}}}]
)
def test_a_document_that_is_read_already_has_the_findings_of_its_text(document: dict[str, object]):
    assert validate(document) == validate(json.dumps(document))
    if validate(document).fault_count:
        with pytest.raises(InvalidDocument):
            build(document)
    else:
        assert build(document).diff(build(json.dumps(document))).items.added.count == 0


def test_an_object_with_what_json_lacks_is_a_fault_and_not_an_exception():
    assert validate({"items": {"a": {"name": "Soup", "basePrice": float("nan")}}}).fault_count
    assert [fault.rule for fault in validate({"items": {"\ud800": {}}}).faults()] == ["not-utf-8"]


def test_text_that_no_utf_8_has_is_a_fault_and_not_an_exception():
    (fault,) = validate('{"items": {"\ud800": {}}}').faults()
    assert fault.rule == "not-utf-8"


def test_a_time_without_an_offset_is_no_instant_and_refused():
    catalog = build(json.dumps(cafe()))
    assert catalog.availability(datetime(2026, 3, 1, 12, tzinfo=UTC), CHICAGO).is_open
    with pytest.raises(ValueError, match="give it a time zone"):
        catalog.availability(datetime(2026, 3, 1, 12), CHICAGO)  # noqa: DTZ001  # that is what is refused
