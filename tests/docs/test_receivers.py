"""The receivers of the page on signatures accept what the service signs and refuse all else, in each language."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest
from tests.clients.typescript_project import BUILT, compile_project, skip_without, start_project
from tests.docs.documents import ROOT, blocks
from tests.ports import free_port

from mercato_contract.signing import new_secret, webhook_headers

PAGE = ROOT / "docs/how-to/verify-a-webhook.md"
RECEIVERS = {
    block.words[0]: block.text for block in blocks(PAGE) if block.words[:1] and "." in block.words[0]
}
EVENT = b'{"type": "catalog.sync.succeeded", "timestamp": "2026-01-31T18:30:00.000Z", "data": {"n": 1.0}}'
STARTS_WITHIN = 120.0
"""Seconds: Go compiles its library first."""


def python(desk: Path) -> list[str]:
    return [sys.executable, str(desk / "receiver.py")]


def typescript(desk: Path) -> list[str]:
    """Return the command of the TypeScript receiver, compiled with the client that `make test-clients` builds."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js isn't installed")
    skip_without(BUILT)
    start_project(desk)
    asyncio.run(compile_project(desk))
    return [node, str(desk / "made/receiver.js")]


def go(desk: Path) -> list[str]:
    compiler = shutil.which("go")
    if compiler is None:
        pytest.skip("Go isn't installed")
    subprocess.run([compiler, "vet", "receiver.go"], cwd=desk, check=True)
    subprocess.run([compiler, "build", "-o", "receiver", "receiver.go"], cwd=desk, check=True)
    return [str(desk / "receiver")]


START = {"receiver.py": python, "receiver.ts": typescript, "receiver.go": go}


@pytest.fixture(params=START)
async def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """The URL of a running receiver, and its secret."""
    port = free_port()
    secret = new_secret(os.urandom)
    (tmp_path / "partner.json").write_text(json.dumps({"signingSecret": secret}))
    (tmp_path / request.param).write_text(RECEIVERS[request.param].replace("9100", str(port)))
    command = await asyncio.to_thread(START[request.param], tmp_path)
    running = started(command, tmp_path)
    try:
        until = time.monotonic() + STARTS_WITHIN
        while not listens(port):
            assert running.poll() is None, (tmp_path / "receiver.log").read_text()
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/hooks/catalog-sync", secret
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(30)


def started(command: list[str], desk: Path) -> subprocess.Popen[bytes]:
    with (desk / "receiver.log").open("wb") as log:
        return subprocess.Popen(command, cwd=desk, stdout=log, stderr=log, start_new_session=True)


def test_the_page_has_a_receiver_in_each_language():
    assert set(RECEIVERS) == set(START)


async def test_it_accepts_signed_webhooks_and_refuses_everything_else(
    receiver: tuple[str, str], tmp_path: Path
):
    url, secret = receiver
    now, other = datetime.now(UTC), new_secret(os.urandom)
    good = headers(secret, EVENT)
    with_old = good | {
        "webhook-signature": f"{headers(other, EVENT)['webhook-signature']} {good['webhook-signature']}"
    }
    async with aiohttp.ClientSession() as session:

        async def answer(sent: dict[str, str], body: bytes = EVENT) -> int:
            async with session.post(url, data=body, headers=sent) as reply:
                return reply.status

        assert await answer(good) == 204
        assert await answer(good) == 204
        assert await answer(with_old) == 204
        wrong = {
            "another key": headers(other, EVENT),
            "another body": headers(secret, EVENT + b" "),
            "another id": good | {"webhook-id": str(uuid4())},
            "another time": good | {"webhook-timestamp": str(int(now.timestamp()) - 1)},
            "too old": headers(secret, EVENT, at=now - timedelta(minutes=6)),
            "from the future": headers(secret, EVENT, at=now + timedelta(minutes=6)),
            "no number": good | {"webhook-timestamp": "now"},
            "no version": good | {"webhook-signature": good["webhook-signature"].removeprefix("v1,")},
            "another version": good | {"webhook-signature": good["webhook-signature"].replace("v1,", "v2,")},
            "empty": good | {"webhook-signature": "v1,"},
            "no base64": good | {"webhook-signature": "v1,$$$$"},
            "no headers": {},
        }
        assert {name: await answer(sent) for name, sent in wrong.items()} == dict.fromkeys(wrong, 401)
    lines = (tmp_path / "events.log").read_text().splitlines()
    assert lines == [f"{good['webhook-id']} catalog.sync.succeeded"] * 3


def headers(secret: str, body: bytes, *, at: datetime | None = None) -> dict[str, str]:
    """Return the headers of an attempt at that instant."""
    timestamp = int((at or datetime.now(UTC)).timestamp())
    return webhook_headers(
        webhook_id=str(uuid4()),
        timestamp=timestamp,
        body=body,
        secrets=[secret],
        token=None,
        traceparent=None,
    )


def listens(port: int) -> bool:
    with socket.socket() as plug:
        return plug.connect_ex(("127.0.0.1", port)) == 0
