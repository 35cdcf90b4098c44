"""The form of requests; every fault is reported at once."""

from functools import partial
from typing import Annotated
from uuid import UUID

import msgspec
import pytest
from msgspec import Meta

from mercato_contract.decoding import Decoder, QueryDecoder
from mercato_contract.json_texts import MAX_DEPTH
from mercato_contract.refusals import InvalidRequest, Problem, ValidationFailed
from mercato_contract.wire import (
    REPEATABLE,
    Objection,
    Wire,
    instant_fault,
    parse_instant,
    parse_uuid,
    validator,
)

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class Line(Wire):
    item_id: UUID
    quantity: Int32


class Pickup(Wire, tag_field="mode", tag="PICKUP"):
    when: str | None = None


class Delivery(Wire, tag_field="mode", tag="DELIVERY"):
    street: str


class Body(Wire):
    name: Annotated[str, Meta(min_length=1, max_length=5)]
    lines: list[Line] = []  # noqa: RUF012  # msgspec copies it for each struct
    note: str | None = None
    fulfillment: Pickup | Delivery | None = None


decode = Decoder(Body)


def refused(body: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        decode(body)
    return caught.value


def test_all_faults_of_a_request_are_listed_at_once_with_pointers():
    problem = refused(b'{"name":"toolong","lines":[{"quantity":"2"},{"itemId":"x","quantity":2147483648}]}')
    assert isinstance(problem, InvalidRequest)
    assert [(fault.code, fault.pointer) for fault in problem.errors] == [
        ("VALIDATION_FAILED", "/name"),
        ("INVALID_REQUEST", "/lines/0/itemId"),
        ("INVALID_REQUEST", "/lines/0/quantity"),
        ("VALIDATION_FAILED", "/lines/1/itemId"),
        ("VALIDATION_FAILED", "/lines/1/quantity"),
    ]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"name":', ": it ends too early"),
        (b'{"name": "a",\n "note": "b",}', ": trailing comma in object at line 2, column 14"),
        ('{"näme" 1}'.encode(), ": expected ':' at line 1, column 9"),
        (b"a=b&c=d", ": invalid character at line 1, column 1"),
        (rb'{"name":"\ud800', ": it ends too early"),
        (rb'{"name":"\\\\ud800"', ": it ends too early"),
    ],
    ids=[
        "cut-off",
        "trailing-comma",
        "no-colon",
        "form",
        "cut-off-in-a-pair",
        "cut-off-after-a-backslash",
    ],
)
def test_a_body_that_is_not_json_is_reported_with_line_and_column(body: bytes, where: str):
    problem = refused(body)
    assert isinstance(problem, InvalidRequest)
    assert [(fault.message, fault.pointer) for fault in problem.errors] == [
        (f"The body is not JSON{where}.", "")
    ]


def _tame(text: str) -> str | None:
    return "word is bad." if text == "bad" else None


def _one_of_two(sent: dict[str, object]) -> Objection | None:
    return None if "a" in sent or "b" in sent else Objection("a or b is needed.", form=True, below="/a")


class Two(Wire):
    a: int | None = None
    b: int | None = None


class Ruled(Wire):
    word: Annotated[str, Meta(max_length=5, extra=validator(_tame))] | None = None
    two: Annotated[Two, Meta(extra=validator(_one_of_two))] | None = None
    number: int = 0


def test_a_fault_of_a_types_rule_is_listed_with_all_other_faults():
    with pytest.raises(InvalidRequest) as caught:
        Decoder(Ruled)(b'{"word":"bad","two":{},"number":"x"}')
    assert [(fault.code, fault.message, fault.pointer) for fault in caught.value.errors] == [
        ("VALIDATION_FAILED", "word is bad.", "/word"),
        ("INVALID_REQUEST", "a or b is needed.", "/two/a"),
        ("INVALID_REQUEST", "number must be an integer, not a string.", "/number"),
    ]


def test_a_rule_is_not_applied_to_a_text_that_has_a_fault():
    for word in (b'"toolong"', b"5"):
        with pytest.raises(Problem) as caught:
            Decoder(Ruled)(b'{"word":' + word + b"}")
        assert len(caught.value.errors) == 1


def test_only_a_value_that_is_not_allowed_is_422():
    assert isinstance(refused(b'{"name":""}'), ValidationFailed)


def test_two_point_zero_is_an_integer():
    body = decode(b'{"name":"a","lines":[{"itemId":"0190F5FE-7E3B-7CCC-8000-ABCDEF012345","quantity":2.0}]}')
    assert body.lines[0].quantity == 2
    assert type(body.lines[0].quantity) is int
    assert str(body.lines[0].item_id) == "0190f5fe-7e3b-7ccc-8000-abcdef012345"


def test_two_point_five_and_true_are_not_integers():
    for value in (b"2.5", b"true", b'"2"', b"null", b"[]"):
        problem = refused(
            b'{"name":"a","lines":[{"itemId":"0190f5fe-7e3b-7ccc-8000-abcdef012345","quantity":%s}]}' % value
        )
        assert problem.status == 400
        assert problem.errors[0].pointer == "/lines/0/quantity"


@pytest.mark.parametrize("number", [b"1e400", b"-1e999", b"9" * 5000, b"-" + b"1" * 5000, b"0.5e999"])
def test_a_number_that_no_type_holds_is_422_with_its_pointer_and_with_the_other_faults(number: bytes):
    problem = refused(b'{"name":"","lines":[{"itemId":"x","quantity":%s}]}' % number)
    assert problem.status == 422
    assert [fault.pointer for fault in problem.errors] == ["/name", "/lines/0/itemId", "/lines/0/quantity"]


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_is_not_a_number_is_400_with_its_pointer_and_with_the_other_faults(word: bytes):
    problem = refused(b'{"name":"","lines":[{"itemId":"x","quantity":%s}]}' % word)
    assert [(fault.code, fault.pointer) for fault in problem.errors] == [
        ("VALIDATION_FAILED", "/name"),
        ("VALIDATION_FAILED", "/lines/0/itemId"),
        ("INVALID_REQUEST", "/lines/0/quantity"),
    ]
    assert "not NaN or Infinity" in problem.errors[2].message


@pytest.mark.parametrize("number", [b"1e400", b"NaN", b"9" * 5000])
def test_a_number_that_no_type_holds_is_of_the_wrong_type_where_a_text_belongs(number: bytes):
    problem = refused(b'{"name":%s}' % number)
    assert [(f.code, f.pointer, f.message) for f in problem.errors] == [
        ("INVALID_REQUEST", "/name", "name must be a string, not a number.")
    ]


def test_null_on_an_optional_member_is_the_same_as_absent():
    assert decode(b'{"name":"a","note":null}') == decode(b'{"name":"a"}')


def test_unknown_members_are_ignored():
    assert decode(b'{"name":"a","colour":"red"}').name == "a"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"<html>",
        b'{"name":"a"',
        b"[" * 100_000,
        b'{"name":"\xff"}',
        b'{"name":NaN}',
        b'{"x":1e400}',
        b"[]",
    ],
)
def test_a_body_that_is_not_json_or_not_an_object_is_400(body: bytes):
    problem = refused(body)
    assert problem.status == 400
    assert "msgspec" not in problem.detail


def test_a_nul_character_is_refused_with_its_pointer():
    problem = refused(b'{"name":"a\\u0000b"}')
    assert (problem.status, problem.errors[0].pointer) == (422, "/name")


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        (b'{"name":"a","fulfillment":{}}', 400, "/fulfillment/mode"),
        (b'{"name":"a","fulfillment":{"mode":3}}', 400, "/fulfillment/mode"),
        (b'{"name":"a","fulfillment":{"mode":"TELEPORT"}}', 422, "/fulfillment/mode"),
        (b'{"name":"a","fulfillment":{"mode":"DELIVERY"}}', 400, "/fulfillment/street"),
        (b'{"name":"a","fulfillment":[]}', 400, "/fulfillment"),
    ],
)
def test_exactly_one_variant_is_selected_by_mode(body: bytes, status: int, pointer: str):
    problem = refused(body)
    assert (problem.status, problem.errors[0].pointer) == (status, pointer)


class Query(Wire):
    store_id: UUID
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    types: Annotated[str, Meta(extra=REPEATABLE)] | None = None


query = QueryDecoder(Query)


def test_query_parameters_are_decoded_by_type():
    got = query(b"storeId=0190f5fe-7e3b-7ccc-8000-abcdef012345&limit=7&other=1")
    assert (str(got.store_id), got.limit) == ("0190f5fe-7e3b-7ccc-8000-abcdef012345", 7)


STORE = b"storeId=0190f5fe-7e3b-7ccc-8000-abcdef012345"


def test_a_list_may_be_sent_in_several_parameters_and_unknown_ones_are_ignored():
    got = query(STORE + b"&types=a&other=1&types=b%2Cc&other=2&types=a")
    assert got.types == "a,b,c,a"


@pytest.mark.parametrize(
    "text", [b"&limit=1&limit=2", b"&limit=1&limit=1", b"&limit=&limit=2", b"&%6cimit=1&limit=x"]
)
def test_any_other_parameter_is_refused_if_it_is_repeated(text: bytes):
    with pytest.raises(InvalidRequest) as caught:
        query(STORE + text + b"&" + STORE)
    assert [fault.message for fault in caught.value.errors] == [
        "The query parameter storeId is sent 2 times. Send it once.",
        "The query parameter limit is sent 2 times. Send it once.",
    ]


def test_what_is_missing_of_a_query_is_a_parameter_and_of_a_form_a_field():
    for read, said in (
        (partial(query, b"limit=1"), "The query parameter storeId is required."),
        (partial(query.convert, {"limit": "1"}), "The field storeId is required."),
    ):
        with pytest.raises(InvalidRequest) as caught:
            read()
        assert caught.value.detail == said


@pytest.mark.parametrize(
    ("text", "status"), [(b"", 400), (b"storeId=x", 422), (b"storeId=x&limit=a", 400), (b"storeId=%ff", 400)]
)
def test_faults_of_a_query_have_no_pointer(text: bytes, status: int):
    with pytest.raises(Problem) as caught:
        query(text)
    assert caught.value.status == status
    assert all(fault.pointer is None for fault in caught.value.errors)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T18:30:00Z", "2026-01-31 18:30:00+00:00"),
        ("2026-01-31T18:30:00.1239+02:00", "2026-01-31 16:30:00.123000+00:00"),
        ("2026-01-31T18:30:00", "None"),
        ("2026-02-31T18:30:00Z", "None"),
        ("0001-01-01T00:00:00+23:59", "None"),
        ("9999-12-31T23:59:59-23:59", "None"),
        ("2026-01-31T18:30:00+00:60", "None"),
        ("now", "None"),
    ],
)
def test_instants_are_read_with_any_offset_and_never_without(text: str, expected: str):
    assert str(parse_instant(text)) == expected


def test_what_is_wrong_with_an_instant_is_said_truly():
    for text in ("0001-01-01T00:00:00+14:00", "0000-12-31T23:59:59Z"):
        assert instant_fault("at", text) == "at is before the year 1 in UTC. Send a later instant."
    assert instant_fault("at", "9999-12-31T23:59:59-23:59") == (
        "at is after the year 9999 in UTC. Send an earlier instant."
    )
    for text in ("2026-02-31T18:30:00Z", "2026-01-31T18:30:00", "0000-01-01T00:00:00", "now"):
        assert instant_fault("at", text).startswith("at must be an RFC 3339 instant with an offset")


def test_a_uuid_is_its_canonical_text():
    assert parse_uuid("0190F5FE7E3B7CCC8000ABCDEF012345") is None
    assert parse_uuid("{0190f5fe-7e3b-7ccc-8000-abcdef012345}") is None


class Nested(Wire):
    inside: "Nested | None" = None
    number: int = 0


@pytest.mark.parametrize("depth", [50, 100, 150, 200, 201, 300, MAX_DEPTH - 1])
def test_a_deeply_nested_body_with_a_fault_at_its_end_is_400(depth: int):
    body = b'{"inside":' * depth + b'{"number":"x"}' + b"}" * depth
    with pytest.raises(Problem) as caught:
        Decoder(Nested)(body)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("deep", "status", "pointer"),
    [
        (b'{"inside":' * 9000 + b"{}" + b"}" * 9000, 422, "/inside" * 100),
        (b'{"number":1,"x":[1,{"inside":2}],"inside":' * 9000 + b"{}" + b"}" * 9000, 422, "/inside" * 100),
        (b'{"x":[1,2],"other":' * 9000 + b"{}" + b"}" * 9000, 400, ""),
        (b'{"inside":' * 20 + b"[" * 9000 + b"]" * 9000 + b"}" * 20, 400, ""),
        (b"[" * 9000 + b"]" * 9000, 400, ""),
        (b'{"inside":{"}' + b']}:,\\"[{' * 99 + b'":' + b"[" * 9000, 400, ""),
    ],
)
def test_a_body_that_is_nested_too_deeply_is_422_if_its_type_is_that_deep(
    deep: bytes, status: int, pointer: str
):
    with pytest.raises(Problem) as caught:
        Decoder(Nested)(deep)
    assert (caught.value.status, caught.value.errors[0].pointer) == (status, pointer)


def test_a_uuid_without_hyphens_is_accepted_whether_or_not_the_body_has_another_fault():
    line = b'{"itemId":"0190F5FE7E3B7CCC8000ABCDEF012345","quantity":%d}'
    assert str(decode(b'{"name":"a","lines":[%s]}' % (line % 1)).lines[0].item_id) == (
        "0190f5fe-7e3b-7ccc-8000-abcdef012345"
    )
    problem = refused(b'{"name":1,"lines":[%s]}' % (line % 1))
    assert [one.pointer for one in problem.errors] == ["/name"]


def test_a_query_integer_that_is_out_of_range_is_422_however_long_it_is():
    with pytest.raises(Problem) as caught:
        query(b"storeId=0190f5fe-7e3b-7ccc-8000-abcdef012345&limit=" + b"9" * 40)
    assert caught.value.status == 422


class Passed(Wire):
    number: int
    payment: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@pytest.mark.parametrize(
    "payment", ['{"amount": 10.10, "id":12345678901234567890}', "null", '{"a":"\\u0041"}']
)
def test_raw_members_stay_as_they_were_sent_even_if_the_rest_is_converted(payment: str):
    read = Decoder(Passed)(f'{{"number": 2.0, "payment": {payment}}}'.encode())
    assert (read.number, read.payment) == (2, msgspec.Raw(payment.encode()))
