"""Every error code has a page with an example that provokes it: each is run unchanged against a real service."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import update
from tests.api.trade import Trade, tea, trade
from tests.databases import only_sqlite, sqlite_template
from tests.ports import free_port
from tests.quotes.quoting import Quoting
from tests.service import CATALOG, MerchantServer, Service, merchant, service
from tests.waiting import PATIENCE

from mercato.features.catalogs import periods
from mercato.features.events.sequencer import number
from mercato.features.events.tables import sequencer
from mercato.features.quotes.tables import quotes
from mercato.http.error_pages import PLACEHOLDERS, error_page
from mercato_contract import clock
from mercato_contract.problems import ORDER_ERROR_CODES, PROBLEMS

PAGES = {code: error_page(code) for code in PROBLEMS}
PREPARED = [code for code, page in PAGES.items() if page.preparation]


def test_every_code_of_an_order_says_which_status_it_has_where():
    """It is an entry of a 200 to Validate order, and the problem of Place order."""
    for code in ORDER_ERROR_CODES:
        places = PAGES[code].places
        status = PROBLEMS[code].status
        assert places is not None, code
        assert "200" in places, code
        assert str(status) in places, code


needs_a_shell = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("bash", "curl", "python3")), reason="needs bash, curl and python3"
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def market(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Trade]:
    """One service for all examples, as `mercato serve` would start it, and one store: each leaves it as it was."""
    data = tmp_path_factory.mktemp("market") / "data"
    data.mkdir()
    shutil.copyfile(await sqlite_template(), data / "mercato.db")
    async with (
        merchant() as shop,
        # One store makes more writes than a partner may in a minute. No machine is so slow that it makes
        # fewer than five discoveries in one.
        service(
            f"sqlite:///{data / 'mercato.db'}",
            data,
            rate_limits=True,
            rate_limit_writes=10_000,
            rate_limit_discovery=5,
        ) as mercato,
    ):
        yield await live(mercato, shop)


@needs_a_shell
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("code", [code for code in PAGES if code not in PREPARED])
async def test_the_example_on_a_codes_page_provokes_that_code(market: Trade, tmp_path: Path, code: str):
    assert await provoked(code, market, tmp_path) == [code]
    assert (await store_of(market)) == market.store
    orders = f"/v1/commerce/orders?storeId={market.store['storeId']}"
    assert (await market.pos.get(orders)).json()["orders"] == []


async def store_of(here: Trade) -> Any:
    """Return the store without members that change with time."""
    now = (await here.pos.get(f"/v1/commerce/stores/{here.store['storeId']}")).json()
    return now | {"updatedAt": here.store["updatedAt"]}


@needs_a_shell
@only_sqlite
async def test_a_busy_database_is_reported_as_its_page_says(
    database_url: str, database_kind: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", database_lock_seconds=0.2) as mercato:
        here = await live(mercato, shop)
        database = Path(database_url.removeprefix("sqlite:///"))
        said = await provoked("SERVICE_UNAVAILABLE", here, tmp_path, DATA=str(database.parent))
        assert said == ["SERVICE_UNAVAILABLE"]


@needs_a_shell
async def test_an_old_cursor_is_refused_as_its_page_says(
    mercato: Service, tmp_path: Path, shop: MerchantServer
):
    here = await live(mercato, shop)
    cursor = (await here.pos.get("/v1/commerce/events")).json()["nextCursor"]
    async with mercato.app.db.write() as tx:
        await number(tx, now=clock.now())
        await tx.execute(update(sequencer).values(events_deleted_to=sequencer.c.last + 1))
    assert await provoked("CURSOR_EXPIRED", here, tmp_path, CURSOR=cursor) == ["CURSOR_EXPIRED"]


@needs_a_shell
@only_sqlite
async def test_a_bug_is_reported_as_its_page_says(
    mercato: Service,
    database_kind: str,
    tmp_path: Path,
    shop: MerchantServer,
    monkeypatch: pytest.MonkeyPatch,
):
    here = await live(mercato, shop)

    async def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(mercato.app.stores), "list", broken)
    assert await provoked("INTERNAL_ERROR", here, tmp_path) == ["INTERNAL_ERROR"]


@needs_a_shell
@only_sqlite
async def test_a_set_that_is_no_longer_kept_is_refused_as_its_page_says(
    mercato: Service, database_kind: str, tmp_path: Path, shop: MerchantServer
):
    here = await live(mercato, shop)
    await mercato.run(here.pos, here.store["storeId"], shop.host(CATALOG, "/other.json"))
    async with mercato.app.db.write() as tx:
        assert await periods.prune_sets(tx, before=clock.now() + timedelta(seconds=1), limit=1) == 1
    assert await provoked("CATALOGSET_EXPIRED", here, tmp_path) == ["CATALOGSET_EXPIRED"]


@needs_a_shell
@only_sqlite
@pytest.mark.parametrize("code", ["QUOTE_DECLINED", "QUOTE_EXPIRED"])
async def test_a_quote_that_is_over_is_refused_as_its_page_says(
    mercato: Service, database_kind: str, tmp_path: Path, shop: MerchantServer, code: str
):
    here = Quoting(await live(mercato, shop))
    quote = await here.quote(here.trade.order(tea()))
    over: dict[str, Any] = {"state": "declined"} if code == "QUOTE_DECLINED" else {"expires_at": clock.now()}
    async with mercato.app.db.write() as tx:
        await tx.execute(update(quotes).values(content=None, **over))
    assert await provoked(code, here.trade, tmp_path, QUOTE=str(quote.id)) == [code]


def test_every_code_has_one_page_and_every_example_is_run():
    folder = resources.files("mercato.http.error_pages")
    pages = {
        file.name.removesuffix(".md"): file.read_text()
        for file in folder.iterdir()
        if file.name.endswith(".md")
    }
    assert sorted(pages) == sorted(PROBLEMS)
    for code, text in pages.items():
        assert f"# {code}\n" in text, f"{code}.md has the title of another code"
    assert set(PREPARED) == {
        "CATALOGSET_EXPIRED",
        "CURSOR_EXPIRED",
        "INTERNAL_ERROR",
        "QUOTE_DECLINED",
        "QUOTE_EXPIRED",
        "SERVICE_UNAVAILABLE",
    }


def test_every_placeholder_is_used_and_explained():
    used = {name for page in PAGES.values() for name in page.placeholders}
    assert used == set(PLACEHOLDERS)


@only_sqlite
async def test_a_page_is_html_for_browsers_and_markdown_for_clients_that_prefer_it(mercato: Service):
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    for accept, media, heading in [
        (browser, "text/html; charset=utf-8", "<h2>Cause</h2>"),
        ("*/*", "text/html; charset=utf-8", "<h2>Cause</h2>"),
        ("text/markdown", "text/markdown; charset=utf-8", "## Cause"),
    ]:
        page = await mercato.anonymous().get("/errors/STORE_CLOSED", headers={"Accept": accept})
        assert (page.status, page.headers["Content-Type"]) == (200, media)
        assert page.headers["Vary"] == "Accept"
        text = page.body.decode()
        assert heading in text
        assert "$STORE/status" in text
        assert mercato.base in text


@only_sqlite
async def test_only_the_page_of_internal_error_mentions_the_log(mercato: Service):
    for code in PAGES:
        page = (
            await mercato.anonymous().get(f"/errors/{code}", headers={"Accept": "text/markdown"})
        ).body.decode()
        assert ("`requestId`" in page) == (code == "INTERNAL_ERROR"), code


async def live(mercato: Service, shop: MerchantServer) -> Trade:
    """Bring a store live that takes every order by itself: no example may change it."""
    return await trade(mercato, shop, webhook=False)


async def provoked(code: str, here: Trade, desk: Path, **more: str) -> list[str]:
    """Run a code's example and return the codes of all refusals that it prints."""
    names = {
        "URL": here.mercato.base,
        "KEY": here.pos.key or "",
        "SHOP_KEY": here.front.key or "",
    }
    assert set(PAGES[code].placeholders) <= (names | more).keys()
    text = PAGES[code].example.replace("9100", str(free_port()))
    # `python3` on the path may be a script that looks for one, which takes longer than Python's own start.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # In a thread: uvloop would copy this large process for each example.
    out = await asyncio.to_thread(run, text, desk, {"PATH": path} | names | more)
    return [one["errorCode"] for one in documents(out.decode()) if "errorCode" in one]


def run(text: str, desk: Path, env: dict[str, str]) -> bytes:
    """Run a script and return its output."""
    with subprocess.Popen(
        ["bash", "-eu", "-o", "pipefail", "-c", text],
        cwd=desk, env=env, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as shell:  # fmt: skip
        try:
            out, err = shell.communicate(timeout=PATIENCE)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, err.decode()
    return out


def documents(text: str) -> list[Any]:
    """Return the consecutive JSON documents in a text."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while (at := len(text) - len(text[at:].lstrip())) < len(text):
        one, at = decoder.raw_decode(text, at)
        found.append(one)
    return found
