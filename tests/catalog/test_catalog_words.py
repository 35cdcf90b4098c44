import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibration import cpu_within

from mercato_catalog.words import MAX_LETTERS, key_of, keys_of, words_of

NAMES = st.lists(
    st.one_of(
        st.text(st.sampled_from("aBz09 '`-_\n\t\0é寿司カフェ"), max_size=12),
        st.text(max_size=12),
        st.just("x" * (MAX_LETTERS + 9)),
    )
)


@given(NAMES)
def test_the_words_of_many_names_are_those_of_each_in_order(names: list[str]):
    each = dict.fromkeys(word for name in names for word in words_of([name]))
    assert words_of(names) == list(each)


def test_words_are_separated_by_other_signs_and_lower_case_without_apostrophes():
    assert words_of(["Chef's 2-Way\tSALAD_bowl", "salad `n' Rice"]) == [
        "chefs",
        "chef",
        "2",
        "way",
        "2way",
        "salad",
        "bowl",
        "n",
        "rice",
    ]


def test_no_word_is_longer_than_the_index_allows():
    assert words_of(["y" * 200, "é" * 200]) == ["y" * MAX_LETTERS, "e" * MAX_LETTERS]


@given(st.lists(st.text(max_size=20), max_size=5))
def test_the_keys_of_many_names_are_those_of_each(names: list[str]):
    assert keys_of(names) == [key_of(name) for name in names]


@pytest.mark.parametrize("name", ["Fried Chicken with Rice", "Chef's Half-Pound Burger", "Crème brûlée"])
def test_the_words_of_a_large_catalog_cost_no_more_than_some_decodings(name: str):
    names = [f"{name} {number}" for number in range(20_000)]
    with cpu_within(30):
        words_of(names)
