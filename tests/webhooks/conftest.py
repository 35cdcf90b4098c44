"""What every test of deliveries starts from."""

from collections.abc import AsyncIterator

import pytest
from tests.webhooks.house import House, living

from mercato.kernel.db.engine import Database


@pytest.fixture
async def house(db: Database) -> AsyncIterator[House]:
    async with living(db) as made:
        yield made
