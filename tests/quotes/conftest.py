"""A trade whose storefront gets quotes."""

import pytest
from tests.api.trade import trade
from tests.quotes.quoting import Quoting
from tests.service import MerchantServer, Service


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Quoting:
    return Quoting(await trade(mercato, shop))
