"""How long tests wait: for what must happen, and for what must happen soon."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

PATIENCE: Final = 60.0
"""Seconds after which what a test awaits hangs: many times what a busy and slow machine needs."""

_TICK: Final = 0.01


def lengthening(seconds: float) -> Iterator[float]:
    """Yield longer and longer time limits, for what must begin within one and is then cut off by it.

    On a busy machine it may not have begun when the first is over. The last is `PATIENCE`.
    """
    while seconds < PATIENCE:
        yield seconds
        seconds *= 4
    yield PATIENCE


@asynccontextmanager
async def loop_timeout(seconds: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout`, but in time of this event loop: what a busy machine takes from it doesn't count.

    The time is counted in sleeps of 10 ms, which take longer if the loop gets its turn late.
    """

    async def count() -> None:
        for _ in range(round(seconds / _TICK)):
            await asyncio.sleep(_TICK)
        timeout.reschedule(asyncio.get_running_loop().time())

    async with asyncio.timeout(None) as timeout:
        counting = asyncio.create_task(count())
        try:
            yield
        finally:
            counting.cancel()
