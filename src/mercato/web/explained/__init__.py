"""What each error code is about: its cause, what to do, an example that provokes it. Read when a page is asked for."""

from functools import cache

from mercato.web.explained import access, changes, missing, orders, requests, stores, trouble
from mercato.web.explained.model import Explained

__all__ = ["Explained", "explained"]


@cache
def explained() -> dict[str, Explained]:
    """Return what is to be said of each code."""
    parts = (
        requests.PAGES,
        access.PAGES,
        missing.PAGES,
        orders.PAGES,
        stores.PAGES,
        changes.PAGES,
        trouble.PAGES,
    )
    return {code: page for part in parts for code, page in part.items()}
