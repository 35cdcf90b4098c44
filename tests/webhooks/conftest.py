"""The harness of every test of deliveries."""

import math
from collections.abc import AsyncIterator

import pytest
from tests.webhooks.harness import Harness, open_harness

from mercato.features.webhooks import sender
from mercato.platform.db.engine import Database


@pytest.fixture
async def harness(db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    # The clock of pauses is the machine's own: one that answers itself slowly would put off what is due here.
    monkeypatch.setattr(sender, "SLOW_FAILURE_SECONDS", math.inf)
    async with open_harness(db) as made:
        yield made
