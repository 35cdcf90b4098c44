"""`mercato mcp`: an agent's client that speaks stdio, with a real service."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.agents.agent import META, Agent
from tests.databases import only_sqlite
from tests.forks import inherited, program, start
from tests.service import Service
from tests.waiting import PATIENCE

from mercato_client.testing.server import app_of, listening


@dataclass
class Bridge:
    """A running bridge, and what it has answered."""

    process: asyncio.subprocess.Process

    async def send(self, *messages: Any) -> None:
        assert self.process.stdin is not None
        for message in messages:
            text = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(text + b"\n")
        await self.process.stdin.drain()

    async def read(self) -> Any:
        """Return the next message that it writes."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stdout.readline()
        return json.loads(line)

    async def ask(self, method: str, params: dict[str, Any], request_id: Any = 1) -> Any:
        await self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        answer = await self.read()
        assert answer["id"] == request_id
        return answer


@asynccontextmanager
async def bridge(url: str, key: str | None, *arguments: str) -> AsyncIterator[Bridge]:
    environment = {name: text for name, text in os.environ.items() if name != "MERCATO_KEY"}
    if key is not None:
        environment["MERCATO_KEY"] = key
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program(), "mcp", "--url", url, *arguments,
        stdin=pipe, stdout=pipe, stderr=pipe, **inherited(environment),
    )  # fmt: skip
    try:
        yield Bridge(process)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@only_sqlite
async def test_a_client_of_an_older_revision_speaks_through_it(mercato: Service, agent: Agent, store: str):
    async with bridge(mercato.base, agent.client.key) as client:
        begun = await client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
        assert begun["result"]["protocolVersion"] == "2025-06-18"
        await client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        found = await client.ask("tools/call", {"name": "find_stores", "arguments": {}}, "two")
        assert found["result"]["structuredContent"]["stores"][0]["storeId"] == store


@only_sqlite
async def test_a_client_of_the_newest_revision_speaks_through_it(
    mercato: Service, agent: Agent, store: str, tmp_path: Path
):
    file = tmp_path / "key"
    file.write_text(f"{agent.client.key}\n")
    async with bridge(mercato.base + "/mcp", None, "--key-file", str(file)) as client:
        found = await client.ask("tools/call", {"name": "find_stores", "arguments": {}, "_meta": META})
        assert found["result"]["structuredContent"]["stores"][0]["storeId"] == store
        unknown = await client.ask("tools/call", {"name": "k\u00fcche", "_meta": META}, 2)
        assert unknown["error"]["code"] == -32602


@only_sqlite
async def test_what_the_service_refuses_is_an_error_with_its_problem(mercato: Service):
    async with bridge(mercato.base, "mk_wrong") as client:
        refused = await client.ask("tools/list", {"_meta": META}, 7)
        assert refused["error"]["code"] == 401
        assert refused["error"]["data"]["errorCode"] == "UNAUTHENTICATED"
        await client.send(b"{", b"", {"jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": {}})
        assert (await client.read())["id"] == "x"


@only_sqlite
async def test_a_service_that_does_not_answer_is_an_error(agent: Agent):
    async with bridge("http://127.0.0.1:1", agent.client.key) as client:
        refused = await client.ask("tools/list", {"_meta": META})
        assert refused["error"]["code"] == 0
        assert refused["error"]["message"] == (
            "No answer from http://127.0.0.1:1/mcp: Connection refused; is it running, and is this its address?"
        )


async def test_an_answer_without_an_end_is_refused_and_the_next_one_is_read():
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if b"tools/list" in await request.read():
            return web.json_response({"jsonrpc": "2.0", "id": 2, "result": {}})
        reply = web.StreamResponse()
        await reply.prepare(request)
        try:
            while True:
                await reply.write(b" " * 65_536)
        finally:
            ended.set()

    async with listening(app_of(answer)) as base, bridge(base, "mk_marketfront_a") as client:
        refused = await client.ask("tools/call", {"name": "find_stores", "_meta": META})
        assert refused["error"]["code"] == 0
        assert "has more than 1,048,576 bytes" in refused["error"]["message"]
        assert (await client.ask("tools/list", {"_meta": META}, 2))["result"] == {}
        async with asyncio.timeout(PATIENCE):
            await ended.wait()


@pytest.mark.parametrize("params", [None, [], {"name": 1}, {"_meta": None}])
async def test_a_request_whose_params_have_another_form_is_answered_too(params: Any):
    async with bridge("http://127.0.0.1:1", "mk_any") as client:
        refused = await client.ask("tools/list", params, "odd")
        assert refused["error"]["code"] == 0


@only_sqlite
async def test_many_messages_are_answered_each_with_its_id(mercato: Service, agent: Agent):
    async with bridge(mercato.base, agent.client.key) as client:
        names = [f"message {number}" for number in range(30)]
        await client.send(
            *(
                {"jsonrpc": "2.0", "id": name, "method": "tools/list", "params": {"_meta": META}}
                for name in names
            )
        )
        assert {(await client.read())["id"] for _ in names} == set(names)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--url", "https://shop.example.com"), "Set MERCATO_KEY, or name a file with --key-file."),
        (("--url", "shop"), "--url is the address of a service"),
        (("--url", "https://mk_key@shop.example.com"), "--url is the address of a service"),
        (("--url", "https://shop.example.com", "--key", "mk_key"), "--key"),
    ],
)
async def test_a_key_is_never_an_argument(tmp_path: Path, arguments: tuple[str, ...], words: str):
    environment = {name: text for name, text in os.environ.items() if name != "MERCATO_KEY"}
    if "shop" in arguments or "mk_key@" in arguments[1]:
        environment["MERCATO_KEY"] = "mk_key"
    pipe = asyncio.subprocess.PIPE
    process = await start("mcp", *arguments, stderr=pipe, stdout=pipe, env=environment, cwd=tmp_path)
    _, error = await process.communicate()
    assert process.returncode == 2
    assert words in error.decode()
