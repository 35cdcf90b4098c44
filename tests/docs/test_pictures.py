"""The pictures of the documents are drawn from their texts, which name what the code has."""

import re
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from tests.docs.documents import ROOT, documents, shown

from mercato_contract.orders import OrderState, OrderStatus

PICTURES = ROOT / "docs/pictures"
TEXTS = sorted(PICTURES.glob("*.dot"))


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_a_picture_is_drawn_from_its_present_text(text: Path):
    drawn = text.with_suffix(".svg").read_text()
    assert sha256(text.read_bytes()).hexdigest() in drawn.partition("\n")[0], "Run: make pictures"


def test_every_picture_has_a_text():
    assert [path.stem for path in TEXTS] == sorted(path.stem for path in PICTURES.glob("*.svg"))


def test_the_life_of_an_order_has_every_state_and_status_in_its_order():
    text = (PICTURES / "order.dot").read_text()
    assert {*OrderStatus, *OrderState} <= {*re.findall(r"\w+", text)}
    statuses = [*OrderStatus]
    for earlier, later in pairwise(statuses):
        assert f"{earlier} -> {later}" in text


@pytest.mark.parametrize("page", documents(), ids=shown)
def test_every_picture_that_a_page_shows_is_there(page: Path):
    sources = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    assert [source for source in sources if not (page.parent / source).is_file()] == []
