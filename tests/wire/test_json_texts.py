"""What stands in a text that strict decoders refuse for one byte, and in texts that aren't JSON."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibration import cpu_within

from mercato_contract.decoding import Decoder
from mercato_contract.decoding.unknown import find_unknown
from mercato_contract.json_texts import MAX_DEPTH, MAX_REPAIRED, is_too_deep, name_byte, repair
from mercato_contract.refusals import Problem
from mercato_contract.replies import (
    Acceptance,
    CancelAcceptance,
    CancelRejection,
    InvalidReply,
    Rejection,
    read_cancel,
    read_place,
    read_validate,
)
from mercato_contract.wire import Wire

MARK = b"\xef\xbb\xbf"

halves = st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF) | st.characters(), max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | halves
    | st.sampled_from(["NaN", '"NaN', "\\ud800", "-Infinity"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(halves, below, max_size=3),
)


def as_text(value: Any) -> Any:
    """Return the value with U+FFFD for every half of a pair that has no other half."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [as_text(entry) for entry in value]
    if isinstance(value, dict):
        return {as_text(name): as_text(entry) for name, entry in value.items()}
    return value


def texts_of(value: Any) -> list[str]:
    found: list[str] = re.findall(r"\w|\W", json.dumps(value, ensure_ascii=False))
    return found


@given(values, st.booleans())
def test_every_escape_that_is_not_text_becomes_the_replacement_character(value: Any, marked: bool):
    written = json.dumps(value).encode()
    read = msgspec.json.decode(repair(MARK * marked + written))
    assert read == as_text(json.loads(written))


@given(values, st.sampled_from(["NaN", "Infinity", "-Infinity"]))
def test_what_is_not_a_number_is_out_of_range_where_it_is_read_and_nothing_elsewhere(value: Any, word: str):
    text = repair(json.dumps({"odd": 0, "value": value}).encode().replace(b"0", word.encode(), 1))
    members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    assert msgspec.json.decode(members["value"]) == as_text(json.loads(json.dumps(value)))
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(members["odd"])


@given(values)
def test_json_is_not_changed(value: Any):
    written = msgspec.json.encode(as_text(value))
    assert repair(written) == written


@given(st.binary(max_size=60) | st.text('"\\[]{}:,udD89aN-I', max_size=60).map(str.encode))
def test_nothing_is_raised_for_any_bytes(body: bytes):
    repair(body)
    is_too_deep(body)
    assert name_byte(body, 0).isprintable()
    for read in (read_validate, read_place, read_cancel):
        for status in (200, 409, 500):
            reply = read(status, body)
            assert not isinstance(reply, InvalidReply) or reply.message.isprintable()


@pytest.mark.parametrize(
    "body",
    [
        rb'{"a":"' + rb"\ud800" * 170_000 + b'"}',
        b'{"a":[' + b"NaN," * 250_000 + b"1]}",
        b'{"a":[' + b'"N",' * 250_000 + b"NaN]}",
        rb'{"a":"' + rb"\ud83d\ude00" * 80_000 + b'"}',
        b"\\" * 1_000_000 + rb"\ud800",
        b"-" * 1_000_000 + b"NaN",
        b'"' * 1_000_000 + b"[" * 999,
        b'{"a":' + b'["]",' * 200_000,
        b"[]," * 300_000,
    ],
    ids=["halves", "words", "letters", "pairs", "backslashes", "minuses", "quotes", "hidden", "side by side"],
)
def test_mending_a_mebibyte_costs_a_few_decodings(body: bytes):
    # The worst takes 5 when quiet; what grew with the square of its length would take thousands.
    with cpu_within(20):
        repair(body)
        is_too_deep(body)


def test_a_text_with_a_thousand_faults_is_not_a_text_that_was_cut():
    assert repair(rb'"' + rb"\ud800" * (MAX_REPAIRED + 1) + b'"').count(rb"\ufffd") == MAX_REPAIRED


# --- requests -------------------------------------------------------------------------------------


class Body(Wire):
    name: str
    amount: float | None = None
    note: str | None = None


read = Decoder(Body)

UNKNOWN = {
    "half a pair": rb'"Thanks Ana \ud83c"',
    "the other half": rb'"\udf55 thanks"',
    "halves the wrong way": rb'"\udf55\ud83c"',
    "half a pair before a quote": rb'"\ud83c\""',
    "NaN": b"NaN",
    "numbers that are none": b"[NaN, Infinity, -Infinity]",
    "a number beyond every range": b"1e400",
    "an integer of 5,000 digits": b"9" * 5000,
    "the same member twice": b'1, "x": {}',
    "many levels": b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1),
    "bytes that aren't UTF-8": b'"Gra\xe7as"',
}


@pytest.mark.parametrize("value", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("mark", [b"", MARK], ids=["", "marked"])
def test_a_member_that_is_not_known_never_decides(mark: bytes, value: bytes):
    body = mark + b'{"x": %s, "name": "a"}' % value
    assert read(body) == Body(name="a")
    assert find_unknown(body, msgspec.inspect.type_info(Body)) == ("/x",)
    for reads in (read_validate, read_place):
        assert reads(200, mark + b'{"x": %s, "isValid": true, "accepted": true}' % value) == Acceptance()
        refusal = (
            mark + b'{"x": %s, "isValid": false, "accepted": false, "errors": [{"code": "STORE_CLOSED"}]}'
        )
        for status in (200, 409, 422):
            reply = reads(status, refusal % value)
            assert isinstance(reply, Rejection)
            assert [error.code for error in reply.errors] == ["STORE_CLOSED"]
    assert read_cancel(200, mark + b'{"x": %s, "accepted": true}' % value) == CancelAcceptance()
    assert read_cancel(409, mark + b'{"x": %s, "reason": "Cooked"}' % value) == CancelRejection("Cooked")


def test_half_a_pair_in_a_member_that_is_read_becomes_the_replacement_character():
    assert read(rb'{"name":"a","note":"Extra \ud83c"}').note == "Extra \ufffd"
    reply = read_place(200, rb'{"accepted":false,"errors":[{"code":"X","message":"Sold out \ud83c"}]}')
    assert isinstance(reply, Rejection)
    assert reply.errors[0].message == "Sold out \ufffd"


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("member", [b"name", b"amount", b"note"])
def test_what_is_not_a_number_is_a_fault_where_it_is_read(member: bytes, word: bytes):
    with pytest.raises(Problem) as refused:
        read(b'{"name":"a","%s":%s}' % (member, word))
    assert refused.value.status == 400
    for reads in (read_validate, read_place):
        reply = reads(200, b'{"isValid":%s,"accepted":%s}' % (word, word))
        assert isinstance(reply, InvalidReply)
        assert "must be true or false" in reply.message
        assert isinstance(reads(200, b'{"errors":%s}' % word), Rejection)
    assert isinstance(read_cancel(200, b'{"accepted":%s}' % word), InvalidReply)


# --- where a text can't be read ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ('{"accepted":\ufefftrue}'.encode(), "byte 12: U+FEFF BYTE ORDER MARK"),
        ('{"accepted":\u200btrue}'.encode(), "byte 12: U+200B ZERO WIDTH SPACE"),
        ('{"accepted":\u00a0true}'.encode(), "byte 12: U+00A0 NO-BREAK SPACE"),
        (MARK + '{"accepted":\u00a0true}'.encode(), "byte 15: U+00A0 NO-BREAK SPACE"),
        ("{“accepted”: true}".encode(), "byte 1: U+201C LEFT DOUBLE QUOTATION MARK"),
        (b'{"accepted": true\x00}', "byte 17: U+0000 NULL"),
        (b'{"accepted": true, "x": "a\x0bb"}', "byte 26: U+000B CONTROL CHARACTER"),
        (b'{"accepted": true, "x": NaN, "y": \xe7}', "byte 24: U+004E LATIN CAPITAL LETTER N"),
        (b'{"accepted": \xe7}', "byte 13: 0xE7, which isn't UTF-8"),
        (b'{"accepted": true', "byte 17: it ends there"),
        (b'{"accepted": true}}', "byte 18: U+007D RIGHT CURLY BRACKET"),
    ],
)
def test_the_byte_at_which_a_reply_cannot_be_read_is_named_and_never_shown(body: bytes, place: str):
    expected = f"The store answered 200 with something that isn't a JSON object ({place}). A JSON object is expected."
    for read_reply in (read_validate, read_place, read_cancel):
        reply = read_reply(200, body)
        assert isinstance(reply, InvalidReply)
        assert reply.message == expected
