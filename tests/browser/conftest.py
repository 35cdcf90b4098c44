"""A Chromium, and pages in it that fail their test for a report of the content security policy or an error."""

import os
import shutil
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio
from tests.browser.contexts import new_context
from tests.databases import sqlite_template
from tests.service import MerchantServer, Service, merchant, service

# Without a window a page takes a third of the CPU that it takes in the whole browser, which does as well.
CHROMIUM: Final = (
    os.environ.get("MERCATO_TEST_CHROMIUM")
    or shutil.which("chromium-headless-shell")
    or shutil.which("chromium")
)

# No name is resolved, and only the service can be reached.
ARGUMENTS: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)

REPORTS: Final = """
addEventListener('securitypolicyviolation', violation => console.error(
  `CSP: ${violation.violatedDirective} ${violation.blockedURI} ${violation.sourceFile}:${violation.lineNumber}`))
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.nodeid.startswith("tests/browser/")]
    if os.environ.get("MERCATO_TEST_BROWSER") != "1":
        skip = pytest.mark.skip(reason="`make test-browser` runs the console in a browser")
    elif CHROMIUM is None:
        skip = pytest.mark.skip(
            reason="needs Chromium: apt-get install chromium-headless-shell, or MERCATO_TEST_CHROMIUM=path"
        )
    else:
        return
    for item in here:
        item.add_marker(skip)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Any]:
    """The browser, started once."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shop() -> AsyncIterator[MerchantServer]:
    """A merchant's web server."""
    async with merchant() as here:
        yield here


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mercato(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """The whole service on SQLite, for all the tests: what a screen shows is the same on both databases."""
    data = tmp_path_factory.mktemp("data")
    shutil.copyfile(await sqlite_template(), data / "mercato.db")
    async with service(f"sqlite:///{data / 'mercato.db'}", data) as here:
        yield here


@pytest.fixture(
    params=[
        ("light", 1280),
        ("dark", 360),
        pytest.param(("dark", 1280), marks=pytest.mark.long),
        pytest.param(("light", 360), marks=pytest.mark.long),
    ],
    ids=lambda value: f"{value[0]}-{value[1]}",
)
def look(request: pytest.FixtureRequest) -> tuple[str, int]:
    """A colour scheme and the width of a window."""
    look: tuple[str, int] = request.param
    return look


@pytest_asyncio.fixture(loop_scope="session")
async def context(chromium: Any) -> AsyncIterator[Any]:
    """A browser's context without cookies, whose pages must neither raise nor be stopped by their policy."""
    context = await new_context(chromium)
    await context.add_init_script(REPORTS)
    faults: list[str] = []
    context.on("weberror", lambda error: faults.append(str(error.error)))
    context.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    yield context
    await context.close()
    # A page that is refused says so in the console, too.
    assert [fault for fault in faults if "Failed to load resource" not in fault] == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: Any) -> Any:
    return await context.new_page()
