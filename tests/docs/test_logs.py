"""The events that docs/reference/logs.md describes are those that the code logs."""

import re
from pathlib import Path
from typing import Final

import pytest

import mercato

ROOT: Final = Path(mercato.__file__).parent
PAGE: Final = Path(__file__).parents[2] / "docs/reference/logs.md"
EVENTS: Final = re.findall(r"^\| `([a-z ]+)` \| (?:info|warning) \|", PAGE.read_text(), re.MULTILINE)
SOURCE: Final = "\n".join(path.read_text() for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("event", ["request", *EVENTS])
def test_an_event_of_the_reference_is_logged(event: str) -> None:
    assert f'"{event}"' in SOURCE


def test_every_milestone_of_an_order_is_in_the_reference() -> None:
    logged = set(re.findall(r'"(order (?:placed|unanswered|resent|given up|refused|cancelled))"', SOURCE))
    assert logged == {event for event in EVENTS if event.startswith("order ")}
    assert len(logged) == 6
