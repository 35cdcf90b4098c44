"""The events that docs/reference/logs.md describes are those that the code logs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import mercato

ROOT: Final = Path(mercato.__file__).parent
PAGE: Final = Path(__file__).parents[2] / "docs/reference/logs.md"
EVENTS: Final = dict(re.findall(r"^\| `([^`]+)` \| (info|warning|error) \|", PAGE.read_text(), re.MULTILINE))
SOURCE: Final = "\n".join(path.read_text() for path in ROOT.rglob("*.py"))
LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "_warn": "warning",
    "error": "error",
    "exception": "error",
}
"""Levels by the name of the function that logs."""


def logged() -> Iterator[tuple[str, str]]:
    """Yield the events in the code with their levels."""
    for node in ast.walk(ast.parse(SOURCE)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        function, event = node.func, node.args[0]
        is_log = function.attr == "_warn" or (
            isinstance(function.value, ast.Name) and function.value.id == "log"
        )
        if is_log and function.attr in LEVELS and isinstance(event, ast.Constant):
            yield str(event.value), LEVELS[function.attr]


@pytest.mark.parametrize("event", ["request", *EVENTS])
def test_an_event_of_the_reference_is_logged(event: str) -> None:
    assert f'"{event}"' in SOURCE


def test_every_event_that_is_logged_is_in_the_reference() -> None:
    found = set(logged())
    assert len(found) > 40
    assert found <= set(EVENTS.items())


def test_every_milestone_of_an_order_is_in_the_reference() -> None:
    logged = set(re.findall(r'"(order (?:placed|unanswered|resent|given up|refused|cancelled))"', SOURCE))
    assert logged == {event for event in EVENTS if re.fullmatch("order (?!submission).*", event)}
    assert len(logged) == 6
