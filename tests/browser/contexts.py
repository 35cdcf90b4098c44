"""Contexts of the browser: each wait in their pages has the time of the tests, not the library's 30 seconds."""

from typing import Any

from tests.waiting import PATIENCE


async def new_context(chromium: Any, **options: Any) -> Any:
    """Return a context without cookies, with Playwright's options."""
    context = await chromium.new_context(**options)
    context.set_default_timeout(PATIENCE * 1000)
    return context
