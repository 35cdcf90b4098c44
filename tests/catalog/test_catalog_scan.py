"""The line and column of a pointer in the text."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.calibration import cpu_within
from tests.catalog.documents import EXTRAS, TEA, cafe

from mercato_catalog.validation.findings import clean
from mercato_catalog.validation.scan import Position, locate, scan

TEXT = """{
  "items": {
    "a/b": {"name": "Ä", "tags": [1, {"x": 2}]},
    "": {"": [null]}
  }
}
"""


@pytest.mark.parametrize(
    ("pointer", "line", "column"),
    [
        ("", 1, 1),
        ("/items", 2, 12),
        ("/items/a~1b", 3, 12),
        ("/items/a~1b/name", 3, 21),
        ("/items/a~1b/tags", 3, 34),
        ("/items/a~1b/tags/1/x", 3, 44),
        ("/items/", 4, 9),
        ("/items///0", 4, 15),
        ("/items/a~1b/basePrice", 3, 12),
        ("/items/none/deeper/still", 2, 12),
        ("/nothing", 1, 1),
    ],
)
def test_a_pointer_has_a_line_and_a_column(pointer: str, line: int, column: int):
    assert locate(TEXT.encode(), [pointer]) == {pointer: Position(line, column)}


def test_many_pointers_are_found_in_one_pass():
    document = json.dumps(cafe(), indent=2).encode()
    pointers = [f"/items/{TEA}/basePrice", f"/modifierGroups/{EXTRAS}/itemIds/1", "/currency", ""]
    found = locate(document, pointers)
    lines = document.decode().splitlines()
    assert lines[found[pointers[0]].line - 1][found[pointers[0]].column - 1 :].startswith('"2.50"')
    assert lines[found[pointers[2]].line - 1][found[pointers[2]].column - 1 :].startswith('"USD"')
    assert found[""] == Position(1, 1)


def test_a_broken_document_has_the_position_where_it_breaks():
    text = b'{"a": 1,\n "b": [1, 2'
    assert locate(text, ["/a", "/b/1", "/c", ""]) == {
        "/a": Position(1, 7),
        "/b/1": Position(2, 11),
        "/c": Position(1, 1),
        "": Position(2, 12),
    }


def test_a_byte_order_mark_has_no_column():
    assert locate(b'\xef\xbb\xbf{"a": 1}', ["/a"]) == {"/a": Position(1, 7)}


def test_the_pointer_of_a_repeated_key_has_the_position_of_the_second():
    assert locate(b'{"a": 1,\n"a": 2}', ["/a"]) == {"/a": Position(2, 6)}


def test_the_scan_is_linear_and_without_recursion():
    texts = (
        "[" * 200_000,
        '"' + "\\\\" * 500_000,
        '{"a":' * 15_000,
        "[" + "1," * 300_000,
        '["' + '\\"' * 500_000,
    )
    with cpu_within(500):
        for text in texts:
            assert scan(text.encode()).broken is not None
        assert scan(b"[" * 19_000 + b"]" * 19_000).broken is None


def readable(text: bytes) -> bool:
    try:
        msgspec.json.Decoder(float_hook=str).decode(text)
    except msgspec.ValidationError:
        return True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES.map(lambda value: json.dumps(value).encode()), st.data())
def test_the_scan_and_the_decoder_agree_on_what_is_json(text: bytes, data: st.DataObject):
    assert scan(text).broken is None
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(
        st.sampled_from(
            [
                "",
                '"',
                ",",
                ":",
                "]",
                "}",
                "[",
                "{",
                "\\",
                "0",
                "-",
                ".",
                "e",
                "n",
                "\\u",
                "d",
                " ",
                "\t",
                "\x01",
            ]
        )
    )
    changed = text[:at] + put.encode() + text[at + cut :]
    try:
        changed.decode()
    except UnicodeDecodeError:
        return
    assert (scan(changed).broken is None) is readable(changed), changed


@given(st.text('{}[],:"\\ \n0123456789.-+eEtrufalsn\x00\x1fäd8'))
@example('"\\ud800"')
@example('"\\ud800\\u0041"')
@example('"\\udc00"')
@example('"\\ud83d\\ude00"')
def test_the_scan_and_the_decoder_agree_on_any_text(text: str):
    assert (scan(text.encode()).broken is None) is readable(text.encode()), text


@given(st.dictionaries(st.text(), VALUES, min_size=1))
def test_every_pointer_of_a_document_is_found(document: dict[str, Any]):
    # A pointer has U+FFFD for what can't be shown, so that such names can be the same.
    assume(len(set(map(clean, document))) == len(document))
    text = json.dumps(document, ensure_ascii=False, indent=1)
    lines = text.split("\n")
    for name, value in document.items():
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")
        at = locate(text.encode("utf-8", "surrogatepass") if name.isascii() else text.encode(), [pointer])[
            pointer
        ]
        rest = "\n".join([lines[at.line - 1][at.column - 1 :], *lines[at.line :]])
        assert json.JSONDecoder().raw_decode(rest)[0] == value
