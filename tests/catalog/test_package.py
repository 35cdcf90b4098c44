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


def test_text_that_no_utf_8_has_is_a_fault_and_not_an_exception():
    (fault,) = validate('{"items": {"\ud800": {}}}').faults()
    assert fault.rule == "not-utf-8"


def test_a_time_without_an_offset_is_no_instant_and_refused():
    catalog = build(json.dumps(cafe()))
    assert catalog.availability(datetime(2026, 3, 1, 12, tzinfo=UTC), CHICAGO).is_open
    with pytest.raises(ValueError, match="give it a time zone"):
        catalog.availability(datetime(2026, 3, 1, 12), CHICAGO)  # noqa: DTZ001  # that is what is refused
