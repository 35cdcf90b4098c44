"""A running service and a merchant's web server for every test that needs them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.api.trade import Time
from tests.api.world import World, make_world
from tests.service import Client, MerchantServer, Service, merchant, service


@pytest.fixture
async def shop() -> AsyncIterator[MerchantServer]:
    async with merchant() as server:
        yield server


@pytest.fixture
async def mercato(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[Service]:
    # The merchant outlives the service, so that the last pulls end at once rather than time out.
    assert shop.base
    async with service(database_url, tmp_path / "data") as running:
        yield running


@pytest.fixture
async def pos(mercato: Service) -> Client:
    """A merchant's system with its Commerce key."""
    return (await mercato.partner())[1]


@pytest.fixture
async def world(mercato: Service, shop: MerchantServer) -> World:
    return await make_world(mercato, shop)


@pytest.fixture
def time() -> Time:
    """The service's clock, for tests whose service is started with it."""
    return Time()
