"""A store's replies, of any content."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato_contract.amounts import AmountEntry, Sums
from mercato_contract.problems import OrderError
from mercato_contract.replies import (
    Acceptance,
    InvalidReply,
    Quote,
    Rejection,
    ReplyParser,
    quote,
    read_cancel,
    read_place,
    read_validate,
)

SUMS = Sums("USD", 2, 800)


def raw(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def validate(body: Any, status: int = 200) -> Any:
    return read_validate(status, raw(body))


def place(body: Any, status: int = 200) -> Any:
    return read_place(status, raw(body))


def agreement_parser() -> ReplyParser[Quote | Rejection | InvalidReply]:
    return ReplyParser(lambda status, body: quote(SUMS, read_validate(status, body)))


def rejected(body: Any, status: int = 200) -> list[tuple[str, str, str | None]]:
    """Return the errors of the same rejection of both calls."""
    for read in (validate, place):
        reply = read(body, status)
        assert isinstance(reply, Rejection), reply
    return [(one.code, one.message, one.pointer) for one in reply.errors]


def test_an_empty_object_is_an_acceptance():
    assert validate({}) == Acceptance()
    assert place({}, 201) == Acceptance()
    assert validate({"isValid": None, "errors": None, "amounts": None}) == Acceptance()


def test_an_explicit_acceptance_counts_more_than_errors():
    assert validate({"isValid": True, "errors": [{"code": "STORE_CLOSED"}]}) == Acceptance()
    assert place({"accepted": True, "errors": ["x"]}) == Acceptance()


def test_errors_without_a_verdict_are_a_rejection():
    reason = {"code": "STORE_CLOSED", "message": "Back at six", "pointer": "/fulfillment"}
    assert rejected({"errors": [reason]}) == [("STORE_CLOSED", "Back at six", "/fulfillment")]


def test_a_rejection_without_errors_is_other():
    expected = [("OTHER", "The store refused the order for a reason of its own.", None)]
    assert [(e.code, e.message, e.pointer) for e in validate({"isValid": False}).errors] == expected
    assert [
        (e.code, e.message, e.pointer) for e in place({"accepted": False, "errors": []}).errors
    ] == expected


@pytest.mark.parametrize("status", [400, 402, 409, 422])
def test_these_statuses_are_a_rejection(status: int):
    assert rejected({"errors": [{"code": "ADDRESS_OUT_OF_RANGE", "message": "Too far"}]}, status) == [
        ("ADDRESS_OUT_OF_RANGE", "Too far", None)
    ]
    assert rejected({"errorCode": "PAYMENT_DECLINED", "detail": "No funds", "title": "T"}, status) == [
        ("PAYMENT_DECLINED", "No funds", None)
    ]
    assert rejected({"errorCode": "PAYMENT_DECLINED", "errors": []}, status) == [
        ("PAYMENT_DECLINED", "The payment was declined.", None)
    ]
    for unreadable in (b"", b"<html>", b"[1]", b'{"errors": 7}', b'{"errors": {"a": 1}}', b"\xff", {"x": 1}):
        assert [code for code, _, _ in rejected(unreadable, status)] == ["OTHER"]


def test_each_entry_that_cannot_be_read_is_other():
    entries = [1, None, "sold out", {}, {"code": 5, "message": [], "pointer": 3}, {"message": "hm"}]
    assert [code for code, _, _ in rejected({"errors": entries})] == ["OTHER"] * 6
    assert rejected({"errors": entries})[2][1] == "sold out"
    assert rejected({"errors": entries})[5][1] == "hm"


@pytest.mark.parametrize(
    "status", [100, 204, 301, 307, 401, 403, 404, 408, 410, 413, 429, 500, 502, 503, 599]
)
def test_every_other_status_is_an_invalid_reply(status: int):
    body = {"errors": [{"code": "STORE_CLOSED"}]} if status != 204 else b""
    for reply in (validate(body, status), place(body, status)):
        assert isinstance(reply, InvalidReply)
        assert str(status) in reply.message


UNREADABLE = {
    "nothing": b"",
    "white space": b" \n",
    "no JSON": b"OK",
    "a list": b"[]",
    "a truth": b"true",
    "a string": b'"yes"',
    "cut off": b'{"isValid": true',
    "two documents": b"{}{}",
    "too deep": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "no UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_2xx_without_a_json_object_is_an_invalid_reply(body: bytes):
    assert isinstance(validate(body), InvalidReply)
    assert isinstance(place(body), InvalidReply)
    assert ReplyParser(read_validate)(200, body) == ReplyParser(read_place)(200, body) != ""


def test_a_verdict_that_is_not_a_boolean_is_an_invalid_reply():
    value: Any
    for value in ("true", 1, [], {}, "no"):
        assert isinstance(validate({"isValid": value}), InvalidReply)
        assert isinstance(place({"accepted": value}), InvalidReply)
    assert place({"isValid": None}) != validate({"isValid": False})


OTHER_WORDS: dict[str, tuple[Any, str | None]] = {
    "another letter case": ({"Accepted": False, "IsValid": False}, "'/Accepted', '/IsValid'"),
    "an envelope": ({"data": {"accepted": False, "isValid": False}}, "'/data/accepted', '/data/isValid'"),
    "an envelope of an envelope": ({"a": {"b": {"is_valid": False}}}, "'/a/b/is_valid'"),
    "success and error": ({"success": False, "error": "Sold out"}, "'/success', '/error'"),
    "success as a text": ({"success": "false"}, "'/success'"),
    "success as a number": ({"ok": 0}, "'/ok'"),
    "a status": ({"status": "Rejected"}, "'/status'"),
    "two words": ({"order_status": "not accepted"}, "'/order_status'"),
    "a status code": ({"statusCode": 422, "message": "Sold out"}, "'/statusCode'"),
    "a problem in a 200": ({"errorCode": "STORE_CLOSED", "detail": "x"}, "'/errorCode'"),
    "rejected": ({"rejected": True}, "'/rejected'"),
    "a reason": ({"rejection_reason": "Too late"}, "'/rejection_reason'"),
    "nested errors": ({"result": {"errors": [1]}}, "'/result/errors'"),
    "a yes": ({"ok": True, "error": None, "errors_": []}, None),
    "a yes in a word": ({"status": "ok", "code": 200}, None),
    "nothing like it": ({"id": 7, "data": {"status": "new"}}, None),
    "an empty error": ({"error": "", "rejected": False, "failure": {}}, None),
}


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_a_reply_without_known_members_is_an_acceptance_with_a_warning(words: str):
    body, refusals = OTHER_WORDS[words]
    for read, known in ((validate, "isValid, errors, amounts"), (place, "accepted, errors, partnerOrderId")):
        reply = read(body)
        assert isinstance(reply, Acceptance)
        assert reply.warning is not None
        assert f"The service reads {known}" in reply.warning
        assert f"The answer has {next(iter(body))!r}" in reply.warning
        assert ("like a refusal" in reply.warning) is (refusals is not None)
        assert refusals is None or f". {refusals} look" in reply.warning


@pytest.mark.parametrize("words", [name for name, (_, refusals) in OTHER_WORDS.items() if refusals])
def test_a_refusal_in_other_words_beside_known_members_is_a_warning_unless_there_is_a_verdict(words: str):
    body, _ = OTHER_WORDS[words]
    known = {"estimatedReadyAt": "2030-01-31T18:30:00Z"}
    for read, verdict in ((validate, "isValid"), (place, "accepted")):
        assert "like a refusal" in read(known | body).warning
        assert read(body | {verdict: True}).warning is None
        assert isinstance(read(body | {verdict: False}), Rejection)


def test_what_was_answered_in_known_words_has_no_warning():
    value: Any
    for value in (
        {},
        {"isValid": None},
        {"estimatedReadyAt": "x", "note": "Thanks"},
        {"amounts": {}, "id": 7},
    ):
        assert validate(value).warning is None, value
    for value in (
        {},
        {"accepted": None},
        {"partnerOrderId": "A-1", "id": 7},
        {"accepted": True, "success": 0},
    ):
        assert place(value).warning is None, value


def test_a_warning_has_no_values_and_a_bounded_number_of_printable_names():
    secret = "4242424242424242"
    body = {f"{number} error\u200b{'x' * 500}": secret for number in range(1000)}
    warning = place(body | {"error": secret}).warning
    assert len(warning) < 1000
    assert warning.isprintable()
    assert secret not in warning


def test_a_cancellation_that_is_answered_in_other_words_is_no_answer_and_says_what_is_read():
    reply = read_cancel(200, b'{"Accepted": true, "data": {"accepted": false}}')
    assert isinstance(reply, InvalidReply)
    assert "without accepted: true or false. The service reads accepted, reason" in reply.message
    assert "'Accepted', 'data'. '/data/accepted' looks like a refusal." in reply.message
    assert read_cancel(200, b"{}") == InvalidReply("The store answered 200 without accepted: true or false.")


def test_unknown_codes_pass_through_and_codes_that_do_not_apply_are_other():
    expected = {
        "KITCHEN_ON_FIRE": "KITCHEN_ON_FIRE",
        "OTHER": "OTHER",
        "VALIDATION_FAILED": "VALIDATION_FAILED",
        "PAYMENT_FAILED": "PAYMENT_FAILED",
        "UNAUTHENTICATED": "OTHER",
        "RATE_LIMITED": "OTHER",
        "STORE_UNREACHABLE": "OTHER",
        "ORDER_TOKEN_INVALID": "OTHER",
        "INTERNAL_ERROR": "OTHER",
        "A" * 64: "A" * 64,
        "A" * 65: "OTHER",
        "store_closed": "OTHER",
        "A B": "OTHER",
        "A\n": "OTHER",
        "Ä": "OTHER",
        "": "OTHER",
    }
    assert [code for code, _, _ in rejected({"errors": [{"code": code} for code in expected]})] == list(
        expected.values()
    )


def test_texts_of_a_store_are_bounded_and_have_no_control_characters():
    reason = {"code": "X", "message": "a\x00\x1b[31m\r\nb\u2028c\u202ed" + "e" * 999, "pointer": "/a" * 999}
    (reply,) = set(rejected({"errors": [reason] * 500}))
    assert reply[1].startswith("a [31m b c de")
    assert len(reply[1]) == 500
    assert reply[2] is None
    assert len(rejected({"errors": [reason] * 500})) == 100


def test_a_malformed_pointer_is_left_out():
    pointers = {"/a~1b/0": "/a~1b/0", "": None, "a": None, "/a~2": None, "/a\n": None, "#/a": None, "/": "/"}
    assert [at for _, _, at in rejected({"errors": [{"pointer": one} for one in pointers]})] == list(
        pointers.values()
    )


def test_estimated_ready_at_may_have_any_offset_and_is_ignored_if_malformed():
    ready = datetime(2026, 1, 31, 18, 30, tzinfo=UTC)
    assert validate({"estimatedReadyAt": "2026-01-31T19:30:00+01:00"}) == Acceptance(estimated_ready_at=ready)
    assert place({"estimatedReadyAt": "2026-01-31T18:30:00Z"}) == Acceptance(estimated_ready_at=ready)
    text: Any
    for text in ("2026-01-31T18:30:00", "soon", 1769884200, {}, "0001-01-01T00:00:00+14:00"):
        assert validate({"estimatedReadyAt": text}) == Acceptance()


def test_partner_order_id_is_a_text_or_an_integer():
    def number(body: Any) -> Any:
        return place(body).partner_order_id

    assert number({"partnerOrderId": "A-1"}) == "A-1"
    assert number({"partnerOrderId": "ä" * 255}) == "ä" * 255
    assert number({"partnerOrderId": -17}) == "-17"
    assert number(b'{"partnerOrderId": 123456789012345678901234567890}') == "123456789012345678901234567890"
    for other in ("", "x" * 256, "a\x00b", 1.5, True, ["1"], {"id": 1}, None):
        assert number({"partnerOrderId": other}) is None
    assert number(b'{"partnerOrderId": ' + b"9" * 300 + b"}") is None
    assert number(b'{"partnerOrderId": "\xff"}') is None


def test_amounts_that_are_not_an_object_are_invalid_at_validate_and_ignored_at_place():
    amounts: Any
    for amounts in ([], "8.00", 8):
        assert isinstance(validate({"amounts": amounts}), InvalidReply)
        assert place({"amounts": amounts}) == Acceptance()
    assert place({"amounts": {"fees": "1.00"}}).amounts is not None


def test_the_last_of_a_repeated_member_counts():
    assert isinstance(validate(b'{"isValid": true, "isValid": false}'), Rejection)


def test_a_parser_returns_faults_and_keeps_the_last_reply():
    parser = agreement_parser()
    assert parser(500, b"") == "The store answered 500."
    assert parser.reply == InvalidReply("The store answered 500.")
    assert parser(200, raw({"amounts": {"fees": "1.00"}, "estimatedReadyAt": "2026-01-31T18:30:00Z"})) is None
    assert isinstance(parser.reply, Quote)
    assert parser.reply.sums.extras.fees == (AmountEntry(100, "Fees"),)
    assert parser(200, raw({"amounts": {"fees": "1.00", "total": "8.00"}})) == (
        "amounts.total is 8.00, but the amounts add up to 9.00 with the tip and 9.00 without."
    )
    assert parser(200, raw({"amounts": {"subTotal": "9.00"}})) is None
    assert isinstance(parser.reply, Rejection)
    assert parser.reply.errors[0].code == "ITEM_PRICE_CHANGED"
    assert parser(422, b"") is None
    placed = ReplyParser(read_place)
    assert (placed(200, b"{}"), placed.reply) == (None, Acceptance())
    assert (placed(200, b""), type(placed.reply)) != (None, InvalidReply)


def check_any(status: int, body: bytes) -> None:
    for reply in (read_validate(status, body), read_place(status, body)):
        if isinstance(reply, Rejection):
            assert 0 < len(reply.errors) <= 100
            for one in reply.errors:
                assert isinstance(one, OrderError)
                assert 0 < len(one.message) <= 500
                msgspec.json.encode(one)
        elif isinstance(reply, InvalidReply):
            assert reply.message
    parser = agreement_parser()
    assert (parser(status, body) is not None) == isinstance(parser.reply, InvalidReply)


STATUSES = st.sampled_from([200, 201, 204, 302, 400, 402, 404, 409, 422, 429, 500]) | st.integers(100, 599)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["code", "message", "pointer", "amount", "fees", "total"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)
MEMBERS = st.sampled_from(
    ["isValid", "accepted", "amounts", "errors", "errorCode", "detail", "estimatedReadyAt", "partnerOrderId"]
)


@given(STATUSES, st.binary(max_size=100))
def test_no_bytes_raise(status: int, body: bytes) -> None:
    check_any(status, body)


@given(STATUSES, st.dictionaries(MEMBERS, JUNK, max_size=5))
def test_no_document_raises(status: int, body: Any) -> None:
    check_any(status, json.dumps(body).encode())


@given(STATUSES, st.dictionaries(MEMBERS, JUNK, max_size=3), st.data())
def test_no_damaged_document_raises(status: int, body: Any, data: st.DataObject) -> None:
    damaged = bytearray(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    check_any(status, bytes(damaged))


@pytest.mark.parametrize(
    ("said", "keeps"),
    [
        ({}, True),
        ({"error": "Order already exists"}, True),
        ({"status": 409, "code": "DUPLICATE", "success": False}, True),
        ({"status": "confirmed"}, True),
        ({"accepted": True}, True),
        ({"Accepted": False}, False),
        ({"is_accepted": "no"}, False),
        ({"status": "rejected"}, False),
        ({"order-state": "DECLINED"}, False),
        ({"accepted": False}, False),
    ],
)
def test_a_409_that_names_the_stores_order_keeps_the_sale_unless_it_says_no_in_any_words(
    said: dict[str, object], keeps: bool
):
    refused = read_place(409, json.dumps({"partnerOrderId": "77"} | said).encode())
    assert isinstance(refused, Rejection)
    assert (refused.known is not None) == keeps
