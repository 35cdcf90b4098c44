"""Every command and program in the documents does what they say, in a directory like a reader's."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import create_database, postgresql_server, run, with_database
from tests.docs.documents import ROOT, blocks, documents, shown
from tests.docs.reader import Reader, tools

from mercato.platform.db.url import sqlalchemy_url

START = ROOT / "docs/start-here.md"
HOW_TO = ROOT / "docs/how-to"
POSTGRESQL = HOW_TO / "go-to-postgresql.md"
DIVIDE = HOW_TO / "divide-a-network.md"
FAILOVER = HOW_TO / "survive-a-failover.md"
"""It needs a cluster: tests/ha/test_how_to.py reads it."""
README = ROOT / "README.md"
ERRORS = ROOT / "docs/reference/errors.md"
"""Its examples are refused, as they should be: tests/api/test_error_pages.py runs them one by one."""

PAGES = (
    "check-a-catalog.md",
    "import-a-menu.md",
    "publish-a-spreadsheet.md",
    "examine-a-url.md",
    "host-a-catalog.md",
    "replace-a-catalog.md",
    "sell-out-an-item.md",
    "pause-a-store.md",
    "use-the-python-client.md",
    "use-webhook-endpoints.md",
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
    "limit-an-agent.md",
    "let-an-agent-order.md",
    "let-an-agent-run-a-store.md",
    "follow-an-order.md",
    "read-events.md",
    "take-orders.md",
    "take-orders-on-a-tablet.md",
    "read-reports.md",
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


AS_BEFORE: dict[str, object] = {
    "status": "online",
    "orderHandling": "automatic",
    "charges": [],
    "minimumOrderAmount": None,
    "unavailableItemIds": [],
}
"""What a page that is read next expects of the store. A page says itself which `webhookUrl` it needs."""


def _left_behind(reader: Reader) -> dict[str, object]:
    """Return the store's settings as it has them without a `webhookUrl`."""
    text = (
        '. ./env.sh\ncurl -sf -X PUT "$URL/v1/commerce/stores/$STORE" -H "Authorization: Bearer $KEY" '
        '-H "Content-Type: application/json" -d \'{"webhookUrl": null}\'\n'
    )
    store = json.loads(reader.says(text))
    return {name: store.get(name) for name in AS_BEFORE}


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
    """Each by itself: in a new shell, with the files that Start here has made and no others, and in any order."""
    reader.reads_apart(HOW_TO / page)
    assert _left_behind(reader) == AS_BEFORE, f"{page} leaves the store changed for the next page"


async def test_how_to_go_to_postgresql(reader: Reader) -> None:
    server, name = await postgresql_server(), f"documents_{os.getpid()}"
    await create_database(server, name)
    reader.replaced["postgresql://mercato:secret@db.example.net/mercato"] = f"'{with_database(server, name)}'"
    try:
        await asyncio.to_thread(reader.reads_apart, POSTGRESQL)
    finally:
        await run(server, f"DROP DATABASE {name} WITH (FORCE)")


async def test_how_to_divide_a_network(reader: Reader) -> None:
    server, number = await postgresql_server(), os.getpid()
    database = f"divided_{number}"
    url = await create_database(server, database)
    roles = [f"mercato_{network}_{number}" for network in ("at", "de")]
    try:
        for network, role in zip(("at", "de"), roles, strict=True):
            await run(url, f"CREATE ROLE {role} LOGIN IN ROLE pg_monitor")
            await run(url, f"CREATE SCHEMA {network} AUTHORIZATION {role}")
            own = sqlalchemy_url(url).set(username=role)
            own = own.update_query_dict({"options": f"-csearch_path={network}"})
            written = f"postgresql://mercato_{network}:secret@db.example.net/mercato?options=-csearch_path%3D{network}"
            reader.replaced[written] = own.render_as_string(hide_password=False)
        await asyncio.to_thread(reader.reads_apart, DIVIDE)
    finally:
        await run(server, f"DROP DATABASE {database} WITH (FORCE)")
        for role in roles:
            await run(server, f"DROP ROLE IF EXISTS {role}")


def test_no_page_with_commands_is_left_out() -> None:
    with_commands = {
        page for page in documents() if any(block.language in {"sh", "python"} for block in blocks(page))
    }
    pages = {README, START, POSTGRESQL, DIVIDE, FAILOVER, ERRORS, *(HOW_TO / page for page in PAGES)}
    assert {shown(page) for page in with_commands} == {shown(page) for page in pages}
