"""The harness of every test of deliveries."""

from collections.abc import AsyncIterator

import pytest
from tests.webhooks.harness import Harness, open_harness

from mercato.platform.db.engine import Database


@pytest.fixture
async def harness(db: Database) -> AsyncIterator[Harness]:
    async with open_harness(db) as made:
        yield made
