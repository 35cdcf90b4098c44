"""What a server leaves behind that is told to stop while a request takes longer than it waits for."""

import asyncio
from typing import Any

import aiohttp
import pytest

from mercato.web import server


async def test_a_request_that_is_longer_than_a_stop_waits_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0.1)
    began, goes_on = asyncio.Event(), asyncio.Event()
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))

    async def slow(_scope: Any, _receive: Any, send: Any) -> None:
        began.set()
        await goes_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"at last"})

    async with aiohttp.ClientSession() as session:

        async def ask(base: str) -> str:
            async with session.get(base) as answer:
                return await answer.text()

        async with server.serving(slow) as base:
            asked = asyncio.create_task(ask(base))
            await began.wait()
        goes_on.set()
        assert await asked == "at last"
    # The server hears of it from a thread of its own.
    async with asyncio.timeout(5):
        while any(task.get_name() == "granian" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    assert errors == []
