"""A running service, and browsers that are signed in to its console."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.api.trade import Time
from tests.service import MerchantServer, Service, merchant, service


@pytest.fixture
async def shop() -> AsyncIterator[MerchantServer]:
    async with merchant() as server:
        yield server


@pytest.fixture
def clock_ahead() -> Time:
    """The service's clock, which a test can put forward."""
    return Time()


@pytest.fixture
async def mercato(
    database_url: str, tmp_path: Path, shop: MerchantServer, clock_ahead: Time
) -> AsyncIterator[Service]:
    # The merchant outlives the service, so that the last pulls end at once rather than time out.
    assert shop.base
    async with service(database_url, tmp_path / "data", now=clock_ahead) as running:
        yield running
