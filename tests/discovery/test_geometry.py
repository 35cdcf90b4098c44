"""By place: nearest first, within the radius, everywhere on earth."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.databases import mostly_sqlite
from tests.discovery.store_index import StoreIndex, haversine

from mercato.features.discovery.geometry import RINGS, cell_of, circle_of, metres_of, point_of, zones_of
from mercato_contract.discovery import MAX_RADIUS

pytestmark = mostly_sqlite

latitudes = st.floats(-90, 90) | st.sampled_from([-90.0, -89.999, 0.0, 89.999, 90.0])
longitudes = st.floats(-180, 180) | st.sampled_from([-180.0, -179.999, 0.0, 179.999, 180.0])
near = st.floats(-0.4, 0.4)


def away(one: tuple[float, float], other: tuple[float, float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(point_of(*one), point_of(*other), strict=True))


@given(latitudes, longitudes, near, near, st.floats(0, MAX_RADIUS))
def test_a_circle_has_exactly_the_stores_within_the_haversine_distance(
    lat: float, lng: float, north: float, east: float, radius: float
):
    other = (
        max(-90.0, min(90.0, lat + north * radius / 40_000)),
        (lng + east * radius / 40_000 + 180) % 360 - 180,
    )
    circle = circle_of(lat, lng, radius)
    metres = haversine((lat, lng), other)
    assert metres_of(away((lat, lng), other)) == pytest.approx(metres, abs=0.01)
    if metres <= radius:
        assert away((lat, lng), other) <= circle.most
        assert any(low <= cell_of(*other) <= high for low, high in circle.ranges)
    if metres > radius + 0.01:
        assert away((lat, lng), other) > circle.most


@given(latitudes, longitudes, near, near, st.floats(0, 300_000))
def test_a_zone_inside_a_ring_lies_inside_it_and_zones_do_not_overlap(
    lat: float, lng: float, north: float, east: float, radius: float
):
    other = (
        max(-90.0, min(90.0, lat + north * radius / 40_000)),
        (lng + east * radius / 40_000 + 180) % 360 - 180,
    )
    circle = circle_of(lat, lng, radius)
    inside, edge = zones_of(circle)
    cell = cell_of(*other)
    found = [zone for zone in (*inside, *edge) if zone[0] <= cell <= zone[1]]
    covered = any(low <= cell <= high for low, high in circle.ranges)
    assert len(found) == covered
    for zone in found:
        if zone in inside:
            assert haversine((lat, lng), other) <= radius * RINGS[zone[2]] + 0.001


def anywhere(rng: random.Random) -> tuple[float, float]:
    return rng.choice(
        [
            (rng.uniform(-90, 90), rng.uniform(-180, 180)),
            (rng.uniform(48.7, 49.0), rng.uniform(2.1, 2.6)),
            (rng.uniform(-17, -16), (rng.uniform(179.5, 180.5) + 180) % 360 - 180),
            (90 - rng.expovariate(4), rng.uniform(-180, 180)),
            (-90 + rng.expovariate(4), rng.uniform(-180, 180)),
        ]
    )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_searches_by_place_find_the_same_as_a_scan_of_every_store(index: StoreIndex, seed: int):
    rng = random.Random(seed)
    places = {f"store {number}": anywhere(rng) for number in range(400)}
    await index.put_all((name, at, {"items": ["Soup"]}) for name, at in places.items())
    for _ in range(60):
        here, radius = anywhere(rng), rng.choice([500, 25_000, 60_000, 400_000, MAX_RADIUS])
        metres = {name: haversine(here, at) for name, at in places.items()}
        expected = sorted((name for name in places if metres[name] <= radius), key=metres.__getitem__)
        offset = rng.choice([0, 0, 3])
        words = rng.choice([{}, {"query": "soup"}])
        found = await index.find(
            location={"lat": here[0], "lng": here[1]}, radius=radius, limit=100, offset=offset, **words
        )
        assert [one["name"] for one in found["stores"]] == expected[offset : offset + 100]
        assert found["totalCount"] == len(expected)
        assert found["hasMore"] == (len(expected) > offset + 100)
        for one in found["stores"]:
            assert one["distance"] == pytest.approx(metres[one["name"]], abs=0.06)


async def test_a_store_on_the_edge_of_the_radius_is_found_and_one_beyond_it_is_not(index: StoreIndex):
    await index.put("A", (0, 0.1))
    edge = haversine((0, 0), (0, 0.1))
    here = {"latitude": 0, "longitude": 0}
    assert await index.names(location=here, radius=edge) == ["A"]
    assert await index.names(location=here, radius=edge - 0.1) == []
    assert await index.names(location={"lat": 0, "lng": 0.1}, radius=0) == ["A"]


async def test_the_default_radius_is_25_kilometres(index: StoreIndex):
    await index.put("Inside", (0, 0.224))
    await index.put("Outside", (0, 0.226))
    assert await index.names(location={"lat": 0, "lng": 0}) == ["Inside"]


async def test_across_the_antimeridian_and_around_a_pole(index: StoreIndex):
    await index.put("East", (-17, 179.95))
    await index.put("West", (-17, -179.95))
    await index.put("North", (89.9, 10))
    await index.put("North, other side", (89.95, -170))
    assert await index.names(location={"lat": -17, "lng": 179.99}) == ["East", "West"]
    assert await index.names(location={"lat": -17, "lng": -179.99}) == ["West", "East"]
    assert await index.names(location={"lat": 90, "lng": 0}) == ["North, other side", "North"]


async def test_a_store_without_a_place_is_found_by_words_and_not_by_place(index: StoreIndex):
    await index.put("Somewhere")
    assert await index.names(query="somewhere") == ["Somewhere"]
    assert await index.names(location={"lat": 0, "lng": 0}, radius=MAX_RADIUS) == []


async def test_a_store_that_moves_is_found_where_it_is(index: StoreIndex):
    await index.put("A", (10, 10))
    await index.put("A", (20, 20), items=["Soup"])
    for words in ({}, {"query": "soup"}):
        assert await index.names(location={"lat": 10, "lng": 10}, **words) == []
        assert await index.names(location={"lat": 20, "lng": 20}, **words) == ["A"]
