"""The comparison of outputs finds differences, so that a document that passes is right."""

import pytest
from tests.docs.expected import difference

ID = "01a1fcb8-3f80-735e-a9f1-a4edbef2d7d4"
OTHER = "01a1fcb9-0000-735e-a9f1-a4edbef2d7d5"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ('{"a": 1}', '{ "a" : 1 }'),
        (f'{{"id": "{ID}"}}', f'{{"id": "{OTHER}"}}'),
        (f'{{"url": "/stores/{ID}/status"}}', f'{{"url": "/stores/{OTHER}/status"}}'),
        ('{"at": "2026-01-31T18:30:00.000Z"}', '{"at": "2027-12-01T01:02:03.004Z"}'),
        ('{"key": "mk_commerce_…"}', '{"key": "mk_commerce_abc"}'),
        ('{"a": 1, "…": "…"}', '{"a": 1, "b": 2}'),
        ('["…"]', '[{"x": 1}]'),
        ('[1, "…"]', "[1, 2, 3]"),
    ],
)
def test_equal_schemas_pass(shown: str, printed: str) -> None:
    assert difference("json", shown, printed) is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ('{"a": 1}', '{"a": 2}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": 1}', '{"a": 1, "b": 2}'),
        ('{"a": 1, "…": "…"}', '{"b": 2}'),
        ('{"a": []}', '{"a": [1]}'),
        ('{"a": [{"b": "x"}]}', '{"a": [{"b": "y"}]}'),
        (f'{{"id": "{ID}"}}', '{"id": "nothing"}'),
        ('{"a": null}', '{"a": "null"}'),
        ('[1, "…"]', "[2, 1]"),
        ('[1, "…"]', "[]"),
        ('{"a": 1}', "<html>"),
    ],
)
def test_what_differs_is_found(shown: str, printed: str) -> None:
    assert difference("json", shown, printed) is not None


def test_texts_are_compared_by_their_words() -> None:
    assert difference("text", f"{ID} done\n", f"{OTHER} done\n") is None
    assert difference("text", "200\n200\n", "200\n401\n") is not None


def test_a_last_line_of_dots_stands_for_what_is_not_shown_if_there_is_anything() -> None:
    for printed in ("VALID\n", "VALID\nnote\nmore\n"):
        assert difference("text", "VALID\n…\n", printed) is None
    for printed in ("VALIDATED\n", "NOT VALID\nnote\n"):
        assert difference("text", "VALID\n…\n", printed) is not None
