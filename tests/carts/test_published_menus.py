"""Carts of published menus have the prices of the reference pricing."""

import json
import os
import random
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.carts.random_store import RandomStore
from tests.carts.reference_pricing import verdict
from tests.catalog.documents import outcome

from mercato_catalog.building.packed import unpack
from mercato_catalog.carts.pricing import price
from mercato_catalog.model import Built
from mercato_contract.carts import LineItem
from mercato_contract.clock import new_id
from mercato_contract.money import minor_to_decimal

MENUS = Path(os.environ.get("MERCATO_TEST_MENUS") or Path(__file__).parents[3] / "shared" / "menus")

pytestmark = pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS")

CARTS = 60


class Published(RandomStore):
    """Random lines of a served menu."""

    def __init__(self, document: dict[str, Any], seed: int) -> None:
        self.random = random.Random(seed)
        self.careless = 0.2
        self.document = document
        self.sold_out = set(self.random.sample(list(document["items"]), 1))


def served(path: Path) -> tuple[Built, dict[str, Any]]:
    built = outcome(path.read_bytes())
    assert isinstance(built, Built)
    document: dict[str, Any] = json.loads(built.body)
    for table in ("items", "modifierGroups"):
        document[table] = {
            key: {name: value for name, value in entity.items() if value is not None}
            for key, entity in document.get(table, {}).items()
        }
    return built, document


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(MENUS.glob("*.json")) if not path.stem.endswith("-broken")],
    ids=lambda path: path.stem,
)
def test_carts_of_a_published_menu_have_the_prices_of_the_reference_pricing(path: Path):
    built, document = served(path)
    catalog = unpack(built.compiled)
    bought = 0
    for seed in range(CARTS):
        world = Published(document, seed)
        lines = world.lines()
        expected = verdict(document, world.sold_out, lines)
        items = msgspec.convert(lines, list[LineItem])
        got = price(items, catalog=catalog, sold_out=frozenset(map(UUID, world.sold_out)), new_id=new_id)
        told = [fault.error() for fault in got.faults]
        assert sorted((error.code, str(error.pointer)) for error in told) == sorted(expected.faults)
        assert [one.unavailable is True for one in got.lines] == [cost is None for cost in expected.prices]
        assert (got.total is None) == (expected.total is None)
        if got.total is not None:
            assert Fraction(minor_to_decimal(got.total, catalog.scale)) == expected.total
        bought += not expected.faults
    assert bought > CARTS // 10
