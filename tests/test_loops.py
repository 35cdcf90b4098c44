import asyncio

import aiohttp
import pytest
from tests.loops import LoopbackLoop

OTHER = "192.0.2.1"


async def test_no_test_connects_to_another_address_than_loopback():
    assert isinstance(asyncio.get_running_loop(), LoopbackLoop)
    # The guard warns as it refuses, and a warning is an error.
    with pytest.raises(UserWarning, match=OTHER):
        await asyncio.open_connection(OTHER, 80)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(UserWarning, match=OTHER):
            await session.get(f"http://{OTHER}/")
