"""One live store, and agents of a storefront and of a merchant."""

import pytest
from tests.agents.agent import Agent
from tests.live_stores import live_store
from tests.service import CATALOG, Client, MerchantServer, Service

from mercato.features.partners.model import PartnerKind


@pytest.fixture
async def pos(mercato: Service) -> Client:
    """A merchant's system with its Commerce key."""
    return (await mercato.partner())[1]


@pytest.fixture
async def store(mercato: Service, shop: MerchantServer, pos: Client) -> str:
    """The id of a live store of that merchant, which sells soup."""
    store_id: str = (await live_store(mercato, pos, shop, CATALOG, webhook=False))["storeId"]
    return store_id


@pytest.fixture
async def agent(mercato: Service) -> Agent:
    """An agent with a storefront's key."""
    return Agent((await mercato.partner(PartnerKind.MARKETFRONT))[1])


@pytest.fixture
def clerk(pos: Client) -> Agent:
    """An agent with the merchant's key."""
    return Agent(pos)
