"""Published menus, as they are: the good ones go live, the broken ones fail with exactly their broken references."""

import json
import os
import re
from pathlib import Path

import pytest
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import shared

from mercato.features.catalogs import queries

MENUS = Path(os.environ.get("MERCATO_TEST_MENUS") or Path(__file__).parents[3] / "shared" / "menus")

pytestmark = [
    shared,
    mostly_sqlite,
    pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS"),
]


def files(broken: bool) -> list[Path]:
    return [path for path in sorted(MENUS.glob("*.json")) if path.stem.endswith("-broken") is broken]


@pytest.mark.parametrize("path", files(broken=False), ids=lambda path: path.stem)
async def test_a_good_menu_goes_live_and_is_served(mercato: Service, shop: MerchantServer, path: Path):
    _, client = await mercato.partner()
    store = await mercato.live(client, shop.host(path.read_bytes()))
    async with mercato.app.db.read() as tx:
        from uuid import UUID

        from backports import zstd

        body = await queries.find_body(tx, UUID(store["catalogSetId"]), "zstd")
    assert body is not None
    served, sent = json.loads(zstd.decompress(body)), json.loads(path.read_bytes())
    assert (served["catalogSetId"], served["storeId"]) == (store["catalogSetId"], store["storeId"])
    assert len(served["items"]) == len(sent["items"])


def references(name: str) -> set[str]:
    """Return the pointers that the menus' own description lists for a broken file."""
    text = (MENUS / "README.md").read_text()
    part = text.split("## References that do not resolve")[1].split(f"`{name}`")[1].split("\n\n")[1]
    return set(re.findall(r"^\| `(/[^`]+)`", part, re.MULTILINE))


@only_sqlite
@pytest.mark.parametrize("path", files(broken=True), ids=lambda path: path.stem)
async def test_a_broken_menu_fails_with_exactly_its_broken_references(
    mercato: Service, shop: MerchantServer, path: Path
):
    _, client = await mercato.partner()
    status = await mercato.onboard(client, shop.host(path.read_bytes()))
    expected = references(path.name)
    assert expected
    assert status["status"] == "catalog_failed"
    assert {fault["path"] for fault in status["errors"]} == expected
