"""Single sign-on in a browser, which alone keeps the rules of cookies between two sites."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.browser.accessibility import violations
from tests.console.provider import CLIENT_ID, CLIENT_SECRET, provider
from tests.databases import sqlite_template
from tests.service import service

from mercato_contract.texts import Secret

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_operator_signs_in_with_a_provider_of_another_site(page: Any, tmp_path: Path):
    shutil.copyfile(await sqlite_template(), tmp_path / "mercato.db")
    async with (
        provider() as there,
        service(
            f"sqlite:///{tmp_path / 'mercato.db'}",
            tmp_path,
            oidc_issuer=there.issuer,
            oidc_client_id=CLIENT_ID,
            oidc_client_secret=Secret(CLIENT_SECRET),
            oidc_operators="anna@example.com",
        ) as mercato,
    ):
        await page.goto(mercato.base + "/console")
        await page.get_by_role("link", name="Sign in with single sign-on").click()
        await page.get_by_role("heading", level=1, name="Continue to the console").wait_for()
        assert await violations(page) == []
        await page.get_by_role("button", name="Continue").click()
        await page.get_by_role("heading", level=1, name="Health").wait_for()
        await page.goto(mercato.base + "/console/account")
        await page.get_by_text("oidc:anna@example.com").first.wait_for()
        kept = {cookie["name"]: cookie["sameSite"] for cookie in await page.context.cookies()}
        assert kept["__Host-mercato-session"] == "Strict"
        assert "__Host-mercato-sign-on" not in kept
        await page.goto("about:blank")
