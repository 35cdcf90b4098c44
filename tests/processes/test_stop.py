"""SIGTERM drains, also requests whose clients have disconnected."""

import asyncio
import signal
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import pytest
from aiohttp import web
from tests.api.trade import PLACE
from tests.databases import only_sqlite
from tests.processes.test_placement_killed import opened
from tests.waiting import PATIENCE

from mercato.http import server


@only_sqlite
async def test_a_placement_whose_client_disconnected_is_finished_before_the_server_stops(
    tmp_path: Path, database_kind: str
):
    asked, answers = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        asked.set()
        await answers.wait()
        return web.json_response({"accepted": True, "partnerOrderId": "P-1"})

    async with opened(tmp_path / "data", MERCATO_PLACE_SECONDS="10") as network:
        place: Any = {
            "json": network.order("gone"),
            "headers": {
                "Authorization": f"Bearer {network.keys['marketfrontKey']}",
                "Idempotency-Key": "gone",
            },
        }
        network.system.server.answers["place"] = slowly
        async with network.serving() as (process, base), aiohttp.ClientSession() as session:
            placing = asyncio.create_task(session.post(base + PLACE, **place))
            async with asyncio.timeout(PATIENCE):
                await asked.wait()
            placing.cancel()
            await asyncio.wait([placing])
            process.send_signal(signal.SIGTERM)
            # Long enough for a server that doesn't wait to have ended.
            await asyncio.sleep(0.5)
            answers.set()
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0
        network.system.server.answers["place"] = {"accepted": False}
        async with (
            network.serving() as (_, base),
            aiohttp.ClientSession() as session,
            session.post(base + PLACE, **place) as reply,
        ):
            assert reply.status == 201, await reply.read()
            assert reply.headers["Idempotent-Replayed"] == "true"
            assert (await reply.json())["partnerOrderId"] == "P-1"


async def test_a_request_cut_off_by_a_stop_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0.1)
    began, goes_on = asyncio.Event(), asyncio.Event()
    # Services that tests share run in the same loop.
    others = asyncio.all_tasks()
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))

    class Slow:
        in_flight: ClassVar[set[asyncio.Task[Any]]] = set()

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            began.set()
            await goes_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"at last"})

    async with aiohttp.ClientSession() as session:

        async def ask(base: str) -> str:
            async with session.get(base) as answer:
                return await answer.text()

        async with server.serving(Slow()) as base:
            asked = asyncio.create_task(ask(base))
            await began.wait()
        goes_on.set()
        assert await asked == "at last"
    # The server hears of it from a thread of its own.
    async with asyncio.timeout(PATIENCE):
        while any(task.get_name() == "granian" for task in asyncio.all_tasks() - others):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    assert errors == []
