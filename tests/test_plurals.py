"""A noun in a message agrees with its number."""

import pytest

from mercato_contract.texts import count_of


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 losses"), (1, "1 loss"), (2, "2 losses"), (1000, "1,000 losses")]
)
def test_a_noun_agrees_with_its_number(number: int, expected: str):
    assert count_of(number, "loss", "losses") == expected
