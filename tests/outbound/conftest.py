from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from tests.servers import StubDns

from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import Options

# 127.0.0.1 counts as public, 127.0.0.2 as internal.
PUBLIC = AddressPolicy(extra_public=frozenset({ip_network("127.0.0.1/32")}))


class RecordedSleep:
    """A sleep that returns at once and records its durations."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def sleeps() -> RecordedSleep:
    return RecordedSleep()


@pytest.fixture
async def outbound(sleeps: RecordedSleep) -> AsyncIterator[Outbound]:
    dns = StubDns({"menu.example": [["127.0.0.1"]], "inside.example": [["127.0.0.2"]]})
    async with Outbound(Options(policy=PUBLIC, resolver=dns, sleep=sleeps, dns_seconds=0)) as client:
        yield client
