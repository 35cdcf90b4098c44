"""With a full disk writes get 503 and nothing acknowledged is lost; with space again they succeed."""

import asyncio
import resource
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from tests.processes.test_serve import partner, serving, until_status
from tests.processes.test_workers import workers_of
from tests.service import CATALOG, Client, MerchantServer, merchant

from mercato_client.testing.caller import Answer

STORES = "/v1/commerce/onboarding/stores"
SLACK = 300_000
"""Bytes that the files may still grow: some dozens of writes."""


async def test_a_full_disk_is_503_for_writes_and_loses_nothing_that_was_answered(tmp_path: Path):
    async with merchant() as shop, aiohttp.ClientSession() as session:
        async with serving(tmp_path, MERCATO_LOG_LEVEL="error") as (process, base):
            pos = Client(base, (await partner(tmp_path))["commerceKey"], session)
            store = await live(pos, shop)
            path = f"/v1/commerce/stores/{store}"
            # The system refuses to let any file grow past this, as a full disk does.
            largest = max(file.stat().st_size for file in tmp_path.glob("mercato.db*"))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest + SLACK, resource.RLIM_INFINITY))
            answered: list[str] = []
            refused = await until_refused(pos, shop, answered)
            problem = refused.json()
            assert (refused.status, problem["errorCode"], problem["retryable"]) == (
                503,
                "SERVICE_UNAVAILABLE",
                True,
            )
            assert problem["retryAfter"] == 2
            # Reads go on.
            assert (await pos.get(path)).status == 200
            assert process.returncode is None
            resource.prlimit(
                process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            reply = await pos.post(STORES, body(shop, "after"))
            assert reply.status == 201, reply.body
            await until_status(pos, reply.headers["Location"], {"ready_to_activate"})
            for location in answered:
                assert (await pos.get(location)).status == 200
            process.kill()
            await process.wait()
        with closing(sqlite3.connect(tmp_path / "mercato.db")) as file:
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        async with serving(tmp_path) as (_, base):
            pos = Client(base, pos.key, session)
            for location in answered:
                assert (await pos.get(location)).status == 200


async def until_refused(pos: Client, shop: MerchantServer, answered: list[str]) -> Answer:
    """Register stores until one is refused; record those that were accepted."""
    for number in range(2000):
        reply = await pos.post(STORES, body(shop, str(number)))
        if reply.status != 201:
            return reply
        answered.append(reply.headers["Location"])
    raise AssertionError("the disk was never full")


def body(shop: MerchantServer, name: str) -> dict[str, Any]:
    return {"partnerStoreId": name, "name": name, "address": {}, "catalogCallbackUrl": shop.host(CATALOG)}


async def live(pos: Client, shop: MerchantServer) -> str:
    reply = await pos.post(STORES, body(shop, "first"))
    path = reply.headers["Location"]
    await until_status(pos, path, {"ready_to_activate"})
    store: str = (await pos.post(f"{path}/activate")).json()["storeId"]
    return store


async def test_several_workers_write_to_one_file_at_once_without_refusals(tmp_path: Path):
    writers, each = 16, 15
    async with (
        merchant() as shop,
        serving(tmp_path, MERCATO_WORKERS="3", MERCATO_LOG_LEVEL="error") as (process, base),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        assert len(workers_of(process)) == 3
        pos = Client(base, (await partner(tmp_path))["commerceKey"], session)
        path = f"/v1/commerce/stores/{await live(pos, shop)}"
        seconds: list[float] = []
        statuses: Counter[int] = Counter()
        loop = asyncio.get_running_loop()

        async def write(writer: int) -> None:
            for number in range(each):
                began = loop.time()
                if number % 2:
                    reply = await pos.call("PUT", path, {"name": f"{writer}-{number}"})
                else:
                    reply = await pos.post(STORES, body(shop, f"{writer}-{number}"))
                seconds.append(loop.time() - began)
                statuses[reply.status] += 1

        await asyncio.gather(*map(write, range(writers)))
        assert set(statuses) == {200, 201}, statuses
        # The slowest waits for some others' commits, not for a time-out: SQLite's own queue could starve a writer.
        slowest = sorted(seconds)[int(0.99 * len(seconds))]
        assert slowest < 4.0, f"p99 was {slowest:.2f} s"
        assert psutil.pid_exists(process.pid)
