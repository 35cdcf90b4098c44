"""The API reference in a browser."""

from typing import Any

import pytest
from tests.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_api_reference_shows_every_operation_and_webhook(page: Any, mercato: Service):
    document = (await mercato.anonymous().get("/openapi.json")).json()
    await page.goto(mercato.base + "/docs")
    await page.get_by_role("heading", name=document["info"]["title"]).wait_for()
    await page.locator(".opblock").first.wait_for()
    assert await page.locator(".opblock").count() == sum(
        len(path) for path in (document["paths"] | document["webhooks"]).values()
    )
