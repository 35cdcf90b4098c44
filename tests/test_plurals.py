"""A noun in a message agrees with its number."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from re import compile as compiled

import pytest

import mercato.agents
import mercato.features.quotes
from mercato_contract.texts import count_of

TEXTS_FOR_AGENTS = [
    Path(package.__path__[0], module.name)
    for package in (mercato.agents, mercato.features.quotes)
    for module in sorted(Path(package.__path__[0]).glob("*.py"))
]
AFTER_A_NUMBER = compiled(r" (?:more )?(?!(?:is|has|was|needs|takes)\b)[a-z]+s\b")


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 losses"), (1, "1 loss"), (2, "2 losses"), (1000, "1,000 losses")]
)
def test_a_noun_agrees_with_its_number(number: int, expected: str):
    assert count_of(number, "loss", "losses") == expected


@pytest.mark.parametrize("module", TEXTS_FOR_AGENTS, ids=lambda module: module.stem)
def test_texts_for_agents_count_in_one_way(module: Path):
    assert list(_fixed_plurals(module.read_text())) == []


def _fixed_plurals(source: str) -> Iterator[str]:
    """Yield the f-strings in which a plural follows a value: count_of writes both."""
    for text in ast.walk(ast.parse(source)):
        for value, after in pairwise(text.values if isinstance(text, ast.JoinedStr) else ()):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            is_constant = isinstance(value.value, ast.Name) and value.value.id.isupper()
            is_value = isinstance(value.value, ast.Attribute) and value.value.attr == "value"
            if (
                AFTER_A_NUMBER.match(str(after.value))
                and not is_constant
                and not is_value
                and "count_of" not in ast.unparse(value)
            ):
                yield ast.unparse(text)


def test_a_fixed_plural_is_found():
    assert (
        len(list(_fixed_plurals('f"{n} items"; f"{count_of(n, x)} found"; f"{len(x)} more faults in {y}"')))
        == 2
    )
