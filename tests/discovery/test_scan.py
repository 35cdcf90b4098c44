"""Every kind of search finds what a scan of all stores finds, in the same order, whatever the bound of the count is."""

import random
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text
from tests.discovery.store_index import StoreIndex, haversine

from mercato.features.discovery import index as store_search
from mercato.features.discovery import queries, service
from mercato.features.discovery.tables import FIRST

# Queries are so short that no letter of them is forgiven.
WORDS = ["ram", "rame", "ramen", "pie", "pies", "pit", "sal", "salt", "salty", "tea", "teas"]
ASKED = ["ram", "pie", "pit", "sal", "tea"]
BEGINNINGS = ["ra", "ram", "pi", "pie", "sal", "te", "tea"]
CATEGORIES = ["Food", "Drinks", "Sweets"]
CENTRES = [(48.8, 2.3), (48.9, 2.6), (-17.0, 179.98)]
METRES = 25_000


@dataclass
class Known:
    """What the test knows of a store."""

    named: list[str]
    words: list[str]
    categories: list[str]
    at: tuple[float, float] | None
    modes: dict[str, bool]
    is_open: bool


def _somewhere(rng: random.Random) -> tuple[float, float] | None:
    if rng.random() < 0.1:
        return None
    lat, lng = rng.choice(CENTRES)
    return lat + rng.gauss(0, 0.15), (lng + rng.gauss(0, 0.15) + 180) % 360 - 180


def _store(rng: random.Random, number: int, name: str | None = None) -> tuple[str, Known, dict[str, Any]]:
    name = name or f"{rng.choice(WORDS)} {rng.choice(WORDS)} {number}"
    items, categories = rng.sample(WORDS, rng.randint(0, 4)), rng.sample(CATEGORIES, rng.randint(0, 2))
    modes = {"PICKUP": rng.random() < 0.7, "DELIVERY_BY_MERCHANT": rng.random() < 0.7}
    is_open, at = rng.random() < 0.6, _somewhere(rng)
    options = {
        "items": items,
        "categories": tuple(categories),
        "pickup_allowed": modes["PICKUP"],
        "delivery_allowed": modes["DELIVERY_BY_MERCHANT"],
    }
    if not is_open:
        options |= rng.choice([{"paused": True}, {"spans": ()}])
    named = name.split()
    words = [*named, *items, *map(str.lower, categories)]
    return name, Known(named, words, categories, at, modes, is_open), options


def _request(rng: random.Random) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if rng.random() < 0.7:
        asked["query"] = " ".join([*rng.sample(ASKED, rng.choice((0, 0, 1, 2))), rng.choice(BEGINNINGS)])
    if rng.random() < 0.4:
        asked["categories"] = rng.sample(CATEGORIES, rng.randint(1, 2))
    if rng.random() < 0.5:
        lat, lng = rng.choice(CENTRES)
        asked["location"] = {"lat": lat + rng.gauss(0, 0.1), "lng": lng}
    if rng.random() < 0.3:
        asked["fulfillmentType"] = rng.choice(["PICKUP", "DELIVERY_BY_MERCHANT"])
    if rng.random() < 0.3:
        asked["openNow"] = True
    return asked


def _scan(stores: dict[str, Known], asked: dict[str, Any]) -> list[str]:
    """Return the names of the stores that are searched for, in order."""
    *whole, last = asked["query"].split() if "query" in asked else ("",)
    here = (asked["location"]["lat"], asked["location"]["lng"]) if "location" in asked else None

    def has(words: list[str], *, as_whole: bool = False) -> bool:
        ends = last in words if as_whole else any(word.startswith(last) for word in words)
        return ends and all(word in words for word in whole)

    def metres(store: Known) -> float:
        return haversine(here, store.at) if here and store.at else float("inf")

    def is_found(store: Known) -> bool:
        return (
            ("query" not in asked or has(store.words))
            and ("categories" not in asked or any(one in asked["categories"] for one in store.categories))
            and ("fulfillmentType" not in asked or store.modes[asked["fulfillmentType"]])
            and ("openNow" not in asked or store.is_open)
            and (here is None or metres(store) <= METRES)
        )

    found = [name for name, store in stores.items() if is_found(store)]
    if here:
        return sorted(found, key=lambda name: metres(stores[name]))
    if "query" in asked:
        return sorted(
            found,
            key=lambda name: (
                0 if has(stores[name].named) else 1 if has(stores[name].words, as_whole=True) else 2
            ),
        )
    return sorted(found)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
async def test_every_kind_of_search_finds_what_a_scan_finds(
    index: StoreIndex, seed: int, monkeypatch: pytest.MonkeyPatch
):
    rng = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(queries, "MAX_BEGINNING", 2)
    async with index.db.write() as tx:
        if tx.dialect == "postgresql":  # half of them beyond the first part of the index
            await tx.execute(text(f"SELECT setval('store_search_number_seq', {FIRST - 45})"))
    made = [_store(rng, number) for number in range(90)]
    stores = {name: known for name, known, _ in made}
    await index.put_all((name, known.at, options) for name, known, options in made)
    for name in rng.sample(list(stores), 20):
        _, stores[name], options = _store(rng, 0, name)
        await index.put(name, stores[name].at, **options)
    async with index.db.write() as tx:
        for name in rng.sample(list(stores), 10):
            await store_search.remove(tx, index.ids[name])
            del stores[name]
    for _ in range(60):
        asked, bound, limit = _request(rng), rng.choice([1, 3, 8, 1_000]), rng.choice([1, 4, 20, 100])
        monkeypatch.setattr(service, "EXACT_COUNT", bound)
        expected = _scan(stores, asked)
        for offset in range(0, len(expected) + 1, limit):
            page = await index.find(**asked, limit=limit, offset=offset)
            assert [one["name"] for one in page["stores"]] == expected[offset : offset + limit], asked
            assert page["totalCount"] == min(len(expected), bound), asked
            assert page.get("totalCountIsLowerBound", False) == (len(expected) > bound), asked
            assert page["hasMore"] == (len(expected) > offset + limit), asked
