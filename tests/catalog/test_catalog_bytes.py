"""Bytes that aren't a document: one readable fault, never a library's message."""

import gzip
import io
import json
import zipfile

import pytest
from backports import zstd
from tests.calibration import cpu_within
from tests.catalog.documents import built, cafe, fault, faults, served, warnings

from mercato_tools.imports.spreadsheets.template import xlsx_template


@pytest.mark.parametrize("document", [b"", b" \n\t ", b"\xef\xbb\xbf"])
def test_an_empty_document_is_reported_as_empty(document: bytes):
    assert fault(document) == "The document is empty."


@pytest.mark.parametrize("document", ["<!doctype html><html>", "\n  <?xml version='1.0'?><a/>"])
def test_a_web_page_is_reported_as_one(document: str):
    assert fault(document).startswith("The document is HTML or XML, not JSON.")


@pytest.mark.parametrize(
    ("document", "answer"),
    [("[]", "a list"), ("null", "null"), ('"items"', "a string"), ("1.5", "a number"), ("true", "true")],
)
def test_a_document_must_be_an_object(document: str, answer: str):
    assert fault(document) == f"The document must be an object, not {answer}."


def test_a_truncated_document_is_reported_as_truncated():
    document = json.dumps(cafe())
    assert fault('{"items": {').endswith("it ends in the middle, as if it was truncated.")
    for cut in (len(document) // 3, len(document) // 2, len(document) - 1):
        assert "truncated" in fault(document[:cut]) or "isn't closed" in fault(document[:cut])


@pytest.mark.parametrize(
    ("document", "at", "answer"),
    [
        ('{"items": {}\n "sections": {}}', "line 2, column 2", 'a comma or } was expected, not "'),
        ('{"items": {},}', "line 1, column 14", "a key in double quotes was expected, not }"),
        ("{'items': {}}", "line 1, column 2", "a key in double quotes was expected, not '"),
        ('{"items" {}}', "line 1, column 10", "a colon was expected, not {"),
        ('{"items": {"a": {"x": NaN}}}', "line 1, column 23", 'a value was expected, not "N"'),
        ('{"items": {"a": {"x": -Infinity}}}', "line 1, column 23", "a value was expected, not -"),
        ('{"items": {"ä": [1,]}}', "line 1, column 20", "a value was expected, not ]"),
        ('{"items": {"a": {"x": 01}}}', "line 1, column 24", 'a comma or } was expected, not "1"'),
        ('{"items": {}} {}', "line 1, column 15", "something follows the document's end"),
        ('{"items": {"a": {"name": "x\ny"}}}', "line 1, column 26", "a string isn't closed"),
        ('{"items": {"a": {"name": "\\x41"}}}', "line 1, column 26", "a string isn't closed"),
        ('{"items": {"a": {"name": "\\ud83d"}}}', "line 1, column 26", "half of a surrogate pair"),
        ("{'", "line 1, column 2", "a key in double quotes was expected, not '"),
        ('{"a": \x00}', "line 1, column 7", "a value was expected, not U+0000"),
    ],
)
def test_broken_json_is_named_with_line_and_column(document: str, at: str, answer: str):
    message = fault(document)
    assert message.startswith("The document is not JSON: at " + at), message
    assert answer in message


@pytest.mark.parametrize(
    ("document", "at"),
    [
        (b'{"items": {}, "x": "\xff"}', "line 1, column 21"),
        (b'{"items": {},\n "\xc3\xa4": "\xed\xa0\x80"}', "line 2, column 8"),
        (b'{"items": {}, "x": "' + b"\xc3\xa4" * 70_000 + b'\xc3"}', "line 1, column 70021"),
    ],
)
def test_bytes_that_are_not_utf_8_are_named_with_line_and_column(document: bytes, at: str):
    assert fault(document) == (f"The document is not UTF-8: the byte at {at} is not part of a character.")


PLAIN = b'{"items": {}}'


def _archive(**parts: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


EXCEL = _archive(**{"[Content_Types].xml": "<Types/>", "xl/workbook.xml": "<workbook/>"})
OPEN_DOCUMENT = _archive(mimetype="application/vnd.oasis.opendocument.spreadsheet")

FOREIGN = {
    "gzip": (gzip.compress(PLAIN), "gzip", "Send it with Content-Encoding: gzip, or decompress it."),
    "zstd": (zstd.compress(PLAIN), "zstd", "Send it with Content-Encoding: zstd, or decompress it."),
    "xlsx": (EXCEL, "a spreadsheet", "Convert it: mercato catalog import csv reads it."),
    "template": (xlsx_template(), "a spreadsheet", "Convert it: mercato catalog import csv reads it."),
    "ods": (OPEN_DOCUMENT, "a spreadsheet", "Convert it: mercato catalog import csv reads it."),
    "zip": (b"PK\x03\x04\x14\0menu.json", "a ZIP archive", "Send the file that is in it."),
    "pdf": (b"%PDF-1.7\n%", "a PDF", "Send JSON."),
    "utf-16": (PLAIN.decode().encode("utf-16"), "UTF-16", "Save or send it as UTF-8."),
    "utf-16-le": (PLAIN.decode().encode("utf-16-le"), "UTF-16", "Save or send it as UTF-8."),
    "utf-16-be": (PLAIN.decode().encode("utf-16-be"), "UTF-16", "Save or send it as UTF-8."),
    "utf-32": (PLAIN.decode().encode("utf-32"), "UTF-32", "Save or send it as UTF-8."),
    "utf-32-le": (PLAIN.decode().encode("utf-32-le"), "UTF-32", "Save or send it as UTF-8."),
    "utf-32-be": (PLAIN.decode().encode("utf-32-be"), "UTF-32", "Save or send it as UTF-8."),
}


@pytest.mark.parametrize(("document", "words", "advice"), FOREIGN.values(), ids=FOREIGN)
def test_a_document_in_another_format_is_named_with_what_to_do(document: bytes, words: str, advice: str):
    assert fault(document) == f"The document is {words}, not JSON. {advice}"


def test_a_byte_order_mark_is_only_warned_of():
    document = b"\xef\xbb\xbf" + json.dumps(cafe()).encode()
    assert "byte order mark" in warnings(document)[""]
    assert served(document) == served(cafe())


def test_after_a_byte_order_mark_columns_are_counted_from_the_first_character():
    assert "line 1, column 11," in fault(b'\xef\xbb\xbf{"items": }')


@pytest.mark.parametrize("text", ['"[{"', '"\\\\"', '"\\"["', '"]}"', '"é"'])
@pytest.mark.parametrize(("levels", "is_read"), [(499, True), (500, False)])
def test_unknown_members_are_nested_up_to_500_levels_with_every_python(text: str, levels: int, is_read: bool):
    """The object itself is a level."""
    document = '{"items":{},"x":' + f"[{text}," * levels + "0" + "]" * levels + "}"
    if is_read:
        assert served(document)["x"]
    else:
        assert fault(document) == "The document is nested more than 500 levels deep."


def test_many_entries_side_by_side_are_not_deep():
    assert len(served('{"items":{},"x":[' + '[{}],{"a":[]},' * 10_000 + "0]}")["x"]) == 20_001


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"items":{"a":{"x":[', '{"items":{"a":{"tags":['])
def test_a_document_nested_a_hundred_thousand_times_is_refused_at_once(opening: str):
    nested = opening * 100_000
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(nested) if c in "[{")
    with cpu_within(10):
        for document in (nested, nested + closing, nested + "1" + closing):
            assert fault(document) == "The document is nested more than 500 levels deep."


def test_too_many_values_are_refused_before_they_are_decoded():
    document = '{"items": {}, "x": [' + "0," * 4_500_000 + "0]}"
    assert fault(document) == "The document has more than 2,000,000 values."


def test_items_are_required():
    assert faults({"sections": {}}) == {"": "items is required: an object of items by id."}
    assert faults({"items": None}) == {"/items": "items is required: an object of items by id."}


def test_a_document_of_no_items_is_valid():
    assert built({"items": {}}).summary.items == 0


def test_without_items_references_to_them_are_not_repeated_as_faults():
    document = cafe()
    del document["items"]
    assert list(faults(document)) == [""]
