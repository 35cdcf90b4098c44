"""Every command and program in the documents does what they say, in a directory like a reader's."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import postgresql_server, run, with_database
from tests.docs.documents import ROOT, blocks, documents, shown
from tests.docs.reader import Reader, tools

START = ROOT / "docs/start-here.md"
HOW_TO = ROOT / "docs/how-to"
POSTGRESQL = HOW_TO / "go-to-postgresql.md"
FAILOVER = HOW_TO / "survive-a-failover.md"
"""It needs a cluster: tests/ha/test_how_to.py reads it."""
README = ROOT / "README.md"
ERRORS = ROOT / "docs/reference/errors.md"
"""Its examples are refused, as they should be: tests/api/test_error_pages.py runs them one by one."""

PAGES = (
    "check-a-catalog.md",
    "import-a-menu.md",
    "examine-a-url.md",
    "host-a-catalog.md",
    "replace-a-catalog.md",
    "sell-out-an-item.md",
    "pause-a-store.md",
    "use-the-python-client.md",
    "listen-to-webhooks.md",
    "verify-a-webhook.md",
    "find-why-a-signature-fails.md",
    "redeliver-a-webhook.md",
    "find-why-a-request-was-refused.md",
    "rotate-keys-and-secrets.md",
    "use-the-console.md",
    "operate.md",
    "find-stores.md",
    "price-a-cart.md",
    "place-an-order.md",
    "follow-an-order.md",
    "take-orders.md",
    "test-without-the-other-side.md",
    "certify.md",
)
pytestmark = pytest.mark.skipif(
    tools() is not None, reason=f"a reader needs {tools()}, which is not installed"
)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader that has run Start here, with its servers still running."""
    someone = Reader(tmp_path_factory.mktemp("desk"))
    try:
        someone.reads(START)
        yield someone
    finally:
        someone.leaves()


def test_readme(tmp_path: Path) -> None:
    someone = Reader(tmp_path)
    try:
        someone.reads(README)
    finally:
        someone.leaves()


def test_start_here(reader: Reader) -> None:
    assert reader.read[0] == START.name


@pytest.mark.parametrize("page", PAGES)
def test_how_to(reader: Reader, page: str) -> None:
    """Each by itself: in a new shell, with the files that Start here has made and no others."""
    reader.reads_apart(HOW_TO / page)


async def test_how_to_go_to_postgresql(reader: Reader) -> None:
    server, name = await postgresql_server(), f"documents_{os.getpid()}"
    await run(server, f"CREATE DATABASE {name}")
    reader.replaced["postgresql://mercato:secret@db.example.net/mercato"] = f"'{with_database(server, name)}'"
    try:
        await asyncio.to_thread(reader.reads_apart, POSTGRESQL)
    finally:
        await run(server, f"DROP DATABASE {name} WITH (FORCE)")


def test_no_page_with_commands_is_left_out() -> None:
    with_commands = {
        page for page in documents() if any(block.language in {"sh", "python"} for block in blocks(page))
    }
    pages = {README, START, POSTGRESQL, FAILOVER, ERRORS, *(HOW_TO / page for page in PAGES)}
    assert {shown(page) for page in with_commands} == {shown(page) for page in pages}
