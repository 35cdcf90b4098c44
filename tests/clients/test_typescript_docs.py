"""The TypeScript of the documents passes its types, and does what they say with a real service."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.clients.programs import run
from tests.clients.typescript_project import (
    BUILT,
    PACKAGE,
    compile_project,
    skip_without,
    start_project,
)
from tests.databases import only_sqlite
from tests.docs.documents import ROOT, Block, blocks
from tests.docs.expected import difference
from tests.service import merchant, service

from mercato.features.partners.model import PartnerKind

PAGES = (PACKAGE / "README.md", ROOT / "docs/how-to/use-the-typescript-client.md")
CATALOG = "http://127.0.0.1:9000/catalog.json"
MENU = {
    "currency": "USD",
    "sections": {"mains": {"name": "Mains", "itemIds": ["soup"]}},
    "items": {"soup": {"name": "Tomato soup", "basePrice": "6.50"}},
    "modifierGroups": {},
}


@only_sqlite
async def test_programs_of_the_pages_pass_their_types_and_print_what_is_shown(
    database_url: str, tmp_path: Path
):
    skip_without(BUILT)
    start_project(tmp_path)
    async with merchant() as shop, service(database_url, tmp_path / "data") as mercato:
        url = shop.host(MENU)
        for page in PAGES:
            for block in blocks(page):
                if block.language == "ts":
                    (tmp_path / block.words[0]).write_text(block.text.replace(CATALOG, url))
        await compile_project(tmp_path)
        account, client = await mercato.partner()
        front, _ = await mercato.partner(PartnerKind.MARKETFRONT)
        environment = {"MERCATO_URL": mercato.base, "MERCATO_KEY": account.key, "SHOP_KEY": front.key}
        for page in PAGES:
            for program, output in programs(page):
                compiled = tmp_path / "made" / Path(program.words[0]).with_suffix(".js")
                printed = await run("node", compiled, cwd=tmp_path, **environment)
                fault = difference("text", output.text, printed)
                assert fault is None, f"{page.name}:{program.line}: {fault}"
                # The first program registers the store of the others.
                stores = (await client.get("/v1/commerce/stores")).json()["stores"]
                environment["STORE"] = stores[0]["storeId"]


def programs(page: Path) -> Iterator[tuple[Block, Block]]:
    """Return the programs whose output is shown, with it."""
    for block, after in pairwise(blocks(page)):
        if block.language == "ts" and after.language == "text":
            yield block, after


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_programs_that_are_run(page: Path):
    assert len(list(programs(page))) >= 3
