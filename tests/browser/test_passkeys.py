"""Passkeys of operators, with an authenticator that Chromium simulates."""

from typing import Any

import pytest
from tests.browser.accessibility import violations
from tests.console.visiting import operator_link
from tests.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


async def plugged(page: Any) -> None:
    """Give the page an authenticator that approves everything."""
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    await session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})


async def test_an_operators_passkey_signs_in_until_it_is_removed_and_each_answer_once(
    page: Any, mercato: Service
):
    base = mercato.base.replace("127.0.0.1", "localhost")
    await plugged(page)
    await page.goto((await operator_link(mercato)).replace("127.0.0.1", "localhost"))
    await page.get_by_role("button", name="Continue").click()
    await page.goto(base + "/console/account")
    await page.get_by_role("link", name="Add a passkey").click()
    assert await violations(page) == []
    await page.get_by_role("textbox", name="Name").fill("Anna's laptop")
    await page.get_by_role("button", name="Add passkey").click()
    await page.get_by_role("status").get_by_text("The passkey was added").wait_for()
    await page.get_by_role("table", name="Passkeys").get_by_text("Anna's laptop").wait_for()
    await page.get_by_role("button", name="Sign out").click()

    await page.get_by_role("link", name="Sign in with a passkey").click()
    assert await violations(page) == []
    async with page.expect_request(lambda request: request.method == "POST") as sent:
        await page.get_by_role("button", name="Use a passkey").click()
    await page.get_by_role("status").get_by_text("You are signed in").wait_for()
    answer = (await sent.value).post_data
    again = await mercato.session.post(
        mercato.base + "/console/passkey",
        data=answer,
        headers={"Content-Type": "application/x-www-form-urlencoded", "Host": base.removeprefix("http://")},
        allow_redirects=False,
    )
    assert again.status == 403

    await page.goto(base + "/console/account")
    await page.get_by_role("table", name="Passkeys").get_by_role("button", name="Remove").click()
    await page.get_by_role("button", name="Confirm").click()
    # It was the passkey of this session.
    await page.goto(base + "/console/account")
    await page.get_by_role("heading", level=1, name="Sign in").wait_for()
    await page.get_by_role("link", name="Sign in with a passkey").click()
    await page.get_by_role("button", name="Use a passkey").click()
    await page.get_by_text("This passkey is unknown").first.wait_for()


async def test_a_passkey_that_the_browser_refuses_is_explained_on_the_page(page: Any, mercato: Service):
    """Passkeys belong to a host name, and an IP address isn't one."""
    await page.goto(mercato.base + "/console/passkey")
    await page.get_by_role("button", name="Use a passkey").click()
    await page.get_by_role("alert").get_by_text("Passkeys belong to a host name").wait_for()
