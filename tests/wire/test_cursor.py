"""Lists have an opaque cursor."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato_contract.decoding.decode import page_of, read_cursor
from mercato_contract.pages import cursor_of
from mercato_contract.refusals import ValidationFailed


@given(st.uuids())
def test_a_cursor_is_read_back_and_needs_no_escaping_in_a_query(last: UUID) -> None:
    assert read_cursor(cursor_of(last)) == last
    assert cursor_of(last).replace("-", "").replace("_", "").isalnum()


def test_the_first_page_needs_no_cursor() -> None:
    assert read_cursor(None) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "A" * 21,
        "A" * 23,
        "A" * 21 + "B",
        "!" * 22,
        "AAAAAAAAAAAAAAAAAAAAA=",
        "é" * 22,
        " " + "A" * 21,
    ],
)
def test_a_malformed_cursor_is_422_without_a_pointer(text: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        read_cursor(text)
    assert [fault.pointer for fault in caught.value.errors] == [None]


@given(st.text(max_size=30))
def test_any_text_is_read_as_a_cursor_or_refused(text: str) -> None:
    try:
        read = read_cursor(text)
    except ValidationFailed:
        return
    assert read is not None
    assert cursor_of(read) == text


def test_a_page_has_a_next_cursor_while_there_is_more() -> None:
    ids = [UUID(int=n) for n in range(3)]
    assert page_of(ids, 2, lambda each: each) == (ids[:2], cursor_of(ids[1]))
    assert page_of(ids, 3, lambda each: each) == (ids, None)
    assert page_of([], 3, lambda each: each) == ([], None)
