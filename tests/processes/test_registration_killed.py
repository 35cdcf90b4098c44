"""Kill -9 at every step of registering a store in the console; the person comes back, finishes, and has one store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from tests.console.browser import Browser, Page
from tests.console.test_registration import CHARGES, HOURS, MENU, ORDERS, STORE
from tests.console.visiting import partner_link
from tests.databases import only_postgresql, only_sqlite
from tests.forks import Running
from tests.processes.test_serve import partner, serving
from tests.service import Client
from tests.spreadsheets.sheets import xlsx_of
from tests.waiting import PATIENCE

from mercato.platform.processes import CRASH_VARIABLE

POINTS: Final = (
    "registration.written", "step.written", "menu.written", "onboarding.written", "onboarding.stored",
    "catalog.built", "store.written", "store.stored",
)  # fmt: skip
TYPED: Final = {"store": STORE, "hours": HOURS, "orders": ORDERS, "charges": CHARGES}
BUTTONS: Final = ("Save and continue", "Upload", "Register store", "Activate")
PRESSES: Final = len(TYPED) + len(BUTTONS[1:])


async def finishing(browser: Browser) -> AsyncIterator[str]:
    """Go on with the registration, or begin it, as the pages say, and yield each button after it was pressed."""
    stores = await browser.open("/console/stores")
    if not_live_yet := "Not live yet" in stores.captions:
        assert len(stores.rows("Not live yet")) == 1
    elif STORE["name"] in stores.text:
        return
    page = await browser.open(stores.link("Continue" if not_live_yet else "Register store"))
    while page.heading == "Register store":
        assert page.status == 200, page.text
        button = next((one for one in BUTTONS if one in page.buttons), "")
        if button == "Upload":
            page = await browser.press(page, button, menu=("menu.xlsx", xlsx_of({"menu": MENU})))
            page = await browser.open(page.link("Continue"))
        elif button == "Save and continue":
            page = await browser.press(page, button, **TYPED[step_of(page)])
        elif button:
            page = await browser.press(page, button)
        else:
            assert "The menu is being checked." in page.text
            page = await browser.open(page.url)
        if button:
            yield button


def step_of(page: Page) -> str:
    return page.root.all("input", name="step")[0].attributes["value"]


async def killed_and_finished(
    data_dir: Path, *, point: str | None = None, after: int | None = None, database_url: str | None = None
) -> None:
    """Kill the service at the point, or after so many buttons; then the person finishes. There is one store."""
    settings = {} if database_url is None else {"MERCATO_DATABASE_URL": database_url}
    key = (await partner(data_dir, **settings))["commerceKey"]
    crash = {} if point is None else {CRASH_VARIABLE: point}
    async with aiohttp.ClientSession() as session:
        async with serving(data_dir, **settings, **crash) as (process, base):
            browser = Browser(base, session)
            link = await partner_link(Client(base, key, session))
            await browser.press(await browser.open(link), "Continue")
            with suppress(aiohttp.ClientError):
                await press_until(process, browser, after)
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == -9
        async with serving(data_dir, **settings) as (_, base):
            again = Browser(base, session)
            again.cookies = browser.cookies
            async with asyncio.timeout(PATIENCE):
                async for _ in finishing(again):
                    pass
            await one_store(Client(base, key, session), again)


async def press_until(process: Running, browser: Browser, after: int | None) -> None:
    """Press buttons, and kill the process after so many."""
    pressed = 0
    async with asyncio.timeout(PATIENCE):
        async for _ in finishing(browser):
            pressed += 1
            if pressed == after:
                process.kill()
                return


async def one_store(pos: Client, browser: Browser) -> None:
    (store,) = (await pos.get("/v1/commerce/stores")).json()["stores"]
    assert (store["name"], store["acceptWithin"]) == (STORE["name"], int(ORDERS["acceptWithin"]))
    assert [one["name"] for one in store["charges"]] == [CHARGES["name-0"]]
    (onboarding,) = (await pos.get("/v1/commerce/onboarding/stores")).json()["onboardings"]
    assert (onboarding["status"], onboarding["storeId"]) == ("active", store["storeId"])
    stores = await browser.open("/console/stores")
    assert "Not live yet" not in stores.captions
    page = await browser.open(f"/console/stores/{store['storeId']}")
    assert [row[0] for row in page.rows("Items")] == ["Soup", "Bread"]


@only_sqlite
async def test_killed_before_the_answer_to_register_a_person_comes_back_and_has_one_store(
    tmp_path: Path, database_kind: str
):
    await killed_and_finished(tmp_path, point="onboarding.stored")


@pytest.mark.long
@only_sqlite
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_any_point_of_registering_a_person_comes_back_and_has_one_store(
    tmp_path: Path, database_kind: str, point: str
):
    await killed_and_finished(tmp_path, point=point)


@pytest.mark.long
@only_sqlite
@pytest.mark.parametrize("after", range(1, PRESSES + 1))
async def test_killed_after_any_step_of_registering_a_person_comes_back_and_has_one_store(
    tmp_path: Path, database_kind: str, after: int
):
    await killed_and_finished(tmp_path, after=after)


@pytest.mark.long
@only_postgresql
@pytest.mark.parametrize("point", POINTS)
async def test_killed_on_postgresql_a_person_comes_back_and_has_one_store(
    tmp_path: Path, database_url: str, database_kind: str, point: str
):
    await killed_and_finished(tmp_path, point=point, database_url=database_url)
