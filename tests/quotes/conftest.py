"""A trade whose storefront gets quotes; a test can put the service's clock forward."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.api.trade import Time, trade
from tests.quotes.quoting import Quoting
from tests.service import MerchantServer, Service, merchant, service
from tests.waiting import PATIENCE


@pytest.fixture
async def shop() -> AsyncIterator[MerchantServer]:
    async with merchant() as server:
        yield server


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def mercato(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
) -> AsyncIterator[Service]:
    # The merchant outlives the service, so that the last pulls end at once rather than time out.
    assert shop.base
    async with service(database_url, tmp_path / "data", now=time, place_seconds=PATIENCE) as running:
        yield running


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer, time: Time) -> Quoting:
    return Quoting(await trade(mercato, shop), time)
