"""A running service, and browsers that are signed in to its console."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.service import Merchant, Service, merchant, service


@pytest.fixture
async def shop() -> AsyncIterator[Merchant]:
    async with merchant() as server:
        yield server


@pytest.fixture
async def mercato(database_url: str, tmp_path: Path, shop: Merchant) -> AsyncIterator[Service]:
    # The shop is there for longer, so that the last pulls end at once and not when nobody answers them.
    assert shop.base
    async with service(database_url, tmp_path / "data") as running:
        yield running
