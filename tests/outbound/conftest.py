from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from tests.servers import StubDns

from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.client import Outbound

# 127.0.0.1 plays the public internet, so that 127.0.0.2 can play everything that lies inside.
PUBLIC = AddressPolicy(extra_public=frozenset({ip_network("127.0.0.1/32")}))


class Naps:
    """A sleep that returns at once and remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
async def outbound(naps: Naps) -> AsyncIterator[Outbound]:
    dns = StubDns({"menu.example": [["127.0.0.1"]], "inside.example": [["127.0.0.2"]]})
    async with Outbound(PUBLIC, resolver=dns, sleep=naps, dns_seconds=0) as client:
        yield client
