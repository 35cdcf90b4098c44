"""A running service and a merchant's web server for every test that needs them."""

import pytest
from tests.api.world import World, make_world
from tests.service import Client, MerchantServer, Service


@pytest.fixture
async def pos(mercato: Service) -> Client:
    """A merchant's system with its Commerce key."""
    return (await mercato.partner())[1]


@pytest.fixture
async def world(mercato: Service, shop: MerchantServer) -> World:
    return await make_world(mercato, shop)
