"""Filters by offer and opening hours, page by page; every count is exact."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select
from tests.databases import mostly_sqlite, on_both
from tests.discovery.store_index import NOW, StoreIndex

from mercato.features.discovery.tables import opening_hours
from mercato.platform.db.engine import Database

pytestmark = mostly_sqlite

HOUR = 3600
DAY = 24 * HOUR
HERE = {"lat": 0.0, "lng": 0.0}
WAYS: list[dict[str, Any]] = [
    {},
    {"query": "soup"},
    {"categories": ["food"]},
    {"location": HERE},
    {"location": HERE, "query": "soup"},
    {"location": HERE, "categories": ["food"]},
]
"""Every kind of search: each filter and page must be right in all of them."""

COMMON: dict[str, Any] = {"items": ["Soup"], "categories": ("Food",)}


@pytest.mark.parametrize("way", WAYS)
@on_both
async def test_fulfilment_and_opening_hours_filter_every_kind_of_search(
    index: StoreIndex, way: dict[str, Any]
):
    await index.put("A", (0, 0.01), **COMMON)
    await index.put("B", (0, 0.02), delivery_allowed=False, **COMMON)
    await index.put("C", (0, 0.03), pickup_allowed=False, **COMMON)
    await index.put("D", (0, 0.04), paused=True, **COMMON)
    await index.put("E", (0, 0.05), spans=((0, HOUR),), **COMMON)
    await index.put("F", (0, 0.06), spans=(), **COMMON)
    assert await index.names(**way) == ["A", "B", "C", "D", "E", "F"]
    assert await index.names(**way, fulfillmentType="Pickup") == ["A", "B", "D", "E", "F"]
    assert await index.names(**way, fulfillmentType="delivery_by_merchant") == ["A", "C", "D", "E", "F"]
    assert await index.names(**way, openNow=True) == ["A", "B", "C"]
    assert await index.names(**way, openNow=True, fulfillmentType="PICKUP") == ["A", "B"]
    assert await index.names(**way, openNow=False) == ["A", "B", "C", "D", "E", "F"]


@pytest.mark.parametrize("opened", [{}, {"openNow": True}])
@pytest.mark.parametrize("way", WAYS)
async def test_pages_follow_each_other_and_their_counts_are_exact(
    index: StoreIndex, way: dict[str, Any], opened: dict[str, Any]
):
    await index.put_all((f"S{number:02}", (0, number / 1000), dict(COMMON)) for number in range(13))
    seen = []
    for offset in range(0, 13, 5):
        found = await index.find(**way, **opened, limit=5, offset=offset)
        seen += [one["name"] for one in found["stores"]]
        assert (found["totalCount"], found["hasMore"]) == (13, offset < 10)
    assert seen == [f"S{number:02}" for number in range(13)]
    for offset in (13, 14, 2**31 - 1):
        beyond = await index.find(**way, **opened, limit=100, offset=offset)
        assert beyond == {"stores": [], "totalCount": 13, "hasMore": False}


async def test_categories_are_any_of_in_any_case_and_whole(index: StoreIndex):
    await index.put("A", categories=("Pizza", "Pasta"))
    await index.put("B", categories=("\uff33\uff35\uff33\uff28\uff29 Bar",))
    await index.put("C", items=["pizza"])
    assert await index.names(categories=["PIZZA"]) == ["A"]
    assert await index.names(categories=["pasta", "sushi  bar"]) == ["A", "B"]
    assert await index.names(categories=["sushi"]) == []
    assert await index.names(categories=[]) == ["A", "B", "C"]
    assert await index.names(categories=["Pizza"], query="pasta") == ["A"]
    assert await index.names(categories=["!", ""]) == []


async def test_an_empty_network_has_no_results_for_any_search(index: StoreIndex):
    for way in WAYS:
        for opened in ({}, {"openNow": True}):
            assert await index.find(**way, **opened) == {"stores": [], "totalCount": 0, "hasMore": False}


@on_both
async def test_a_pause_ends_by_the_clock(index: StoreIndex):
    until = datetime(2026, 1, 5, 13, tzinfo=UTC)
    await index.put("A", paused=True, resume_at=until, items=["Soup"])
    for index.now, opened in ((NOW, False), (until.replace(hour=12, minute=59), False), (until, True)):
        for way in ({}, {"query": "soup"}):
            assert await index.names(**way, openNow=True) == (["A"] if opened else [])
        shown = (await index.find())["stores"][0]
        assert (shown["isOpen"], shown["status"]) == (opened, "online" if opened else "paused")
        opens_at = None if opened else "2026-01-05T13:00:00.000Z"
        assert (shown["opensAt"], shown["closesAt"]) == (opens_at, None)


LATE = ((0, 2 * HOUR), (6 * DAY + 22 * HOUR, 7 * DAY))
"""Saturday 22:00 to Sunday 02:00."""

CLOCKS = {
    # New York goes from 02:00 to 03:00 on Sunday 2026-03-08, and back at 02:00 on 2026-11-01.
    "2026-03-08T02:59:59Z": ("America/New_York", LATE, False),
    "2026-03-08T03:00:00Z": ("America/New_York", LATE, True),
    "2026-03-08T04:59:59Z": ("America/New_York", LATE, True),
    "2026-03-08T06:59:59Z": ("America/New_York", LATE, True),
    "2026-03-08T07:00:00Z": ("America/New_York", LATE, False),
    "2026-11-01T05:30:00Z": ("America/New_York", LATE, True),
    "2026-11-01T06:30:00Z": ("America/New_York", LATE, True),
    "2026-11-01T07:00:00Z": ("America/New_York", LATE, False),
    "2026-01-03T12:59:59Z": ("Asia/Tokyo", LATE, False),
    "2026-01-03T13:00:00Z": ("Asia/Tokyo", LATE, True),
    "2026-01-03T17:00:00Z": ("Asia/Tokyo", LATE, False),
    "2026-01-03T16:30:00Z": ("Asia/Kolkata", LATE, True),
    "2026-01-03T16:29:59Z": ("Asia/Kolkata", LATE, False),
}


@pytest.mark.parametrize("at", CLOCKS)
async def test_open_now_uses_the_stores_local_time(index: StoreIndex, at: str):
    zone, spans, opened = CLOCKS[at]
    index.now = datetime.fromisoformat(at)
    await index.put("A", (0, 0), timezone=zone, spans=spans, items=["Soup"])
    for way in ({}, {"query": "soup"}, {"location": HERE}):
        assert await index.names(**way, openNow=True) == (["A"] if opened else [])
        assert (await index.find(**way))["stores"][0]["isOpen"] is opened


@on_both
async def test_equal_hours_are_stored_once_with_their_number_of_stores(index: StoreIndex, db: Database):
    await index.put("A", spans=((0, HOUR),))
    await index.put("B", spans=((0, HOUR),), delivery_allowed=False)
    await index.put("C", spans=((0, HOUR),), timezone="Europe/Berlin")
    assert await counts(db) == [(1, 1, 1), (2, 2, 1)]
    await index.put("B", spans=((0, HOUR),), pickup_allowed=False)
    await index.put("C", spans=((0, HOUR),))
    assert await counts(db) == [(3, 2, 3)]
    for name in "ABC":
        await index.put(name, spans=((0, 2 * HOUR),))
    assert await counts(db) == [(3, 3, 3)]


async def counts(db: Database) -> list[tuple[int, int, int]]:
    async with db.read() as tx:
        c = opening_hours.c
        return sorted(tuple(row) for row in await tx.all(select(c.stores, c.pickup, c.delivery)))
