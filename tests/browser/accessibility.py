"""What axe-core finds wrong with a page by WCAG 2.2 AA."""

from typing import Any, Final

RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


async def violations(page: Any) -> list[str]:
    """Return what is wrong, each with the elements it is about."""
    from axe_playwright_python.async_playwright import Axe

    found = await Axe().run(page, options={"runOnly": RULES, "resultTypes": ["violations"]})
    return [
        f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}"
        for one in found.response["violations"]
    ]


async def widest(page: Any) -> int:
    """Return how many pixels the page is wider than its window."""
    wider: int = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wider
