"""A run ends for its own reasons, never because a process was killed; and none is left behind."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import aiohttp
import psutil
import pytest
from tests.processes.test_serve import partner, serving, until_status
from tests.service import Client, merchant
from tests.waiting import PATIENCE

from mercato.features.catalogs.builder import LARGE as OWN_PROCESS
from mercato.features.catalogs.builder import SMALL, Builder, BuildOverrunError
from mercato.features.catalogs.codings import decompress
from mercato_catalog.model import BuildFailed, BuildRequest, Built
from mercato_outbound.document import Document

LARGE = json.dumps(
    {"items": {str(UUID(int=n)): {"name": "x" * 100, "basePrice": "1.00"} for n in range(2500)}}
).encode()
ONE = UUID(int=1)
REQUEST = BuildRequest(ONE, ONE, ONE, "USD")
WORKER = "mercato.features.catalogs.builder"


async def build(builder: Builder) -> object:
    return await builder.build(Document.of(LARGE), REQUEST)


def workers() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if is_worker(one)]


def is_worker(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # another child of the tests, which has ended
        return WORKER in " ".join(process.cmdline())
    return False


def worker() -> psutil.Process:
    (found,) = workers()
    return found


async def test_a_large_document_is_built_again_when_its_process_is_killed():
    assert len(LARGE) > SMALL
    builder = Builder()
    try:
        assert not isinstance(await build(builder), BuildFailed)
        worker().kill()
        assert not isinstance(await build(builder), BuildFailed)
    finally:
        await builder.close()


async def test_a_document_does_not_wait_for_an_abandoned_one():
    builder = Builder()
    try:
        await build(builder)
        first = worker()
        first.suspend()
        left = asyncio.create_task(build(builder))
        await asyncio.sleep(0.5)
        left.cancel()
        await asyncio.wait([left])
        async with asyncio.timeout(PATIENCE):
            assert not isinstance(await build(builder), BuildFailed)
        assert not first.is_running()
    finally:
        await builder.close()


async def test_a_document_beyond_8_mib_has_a_process_to_itself_and_is_compressed_there():
    builder = Builder()
    try:
        await build(builder)
        first = worker()
        with Document.of(LARGE + b" " * OWN_PROCESS) as document:
            built = await builder.build(document, REQUEST)
        assert isinstance(built, Built)
        assert not first.is_running()
        assert not workers()
        assert built.body == b""
        assert built.bodies is not None
        assert decompress(built.bodies["zstd"], "zstd").endswith(b"}")
        # What a dry run shows needs no compression.
        with Document.of(LARGE) as document:
            shown = await builder.build(document, REQUEST, serves=False)
        assert isinstance(shown, Built)
        assert shown.bodies == {}
    finally:
        await builder.close()
    assert not workers()


async def test_a_document_that_needs_more_memory_than_there_is_says_so():
    builder = Builder(memory=40 << 20)
    try:
        with (
            Document.of(LARGE.replace(b"xx", b"x" * 60)) as document,
            pytest.raises(BuildOverrunError) as refused,
        ):
            await builder.build(document, REQUEST)
        assert "40 MiB of memory" in refused.value.message
    finally:
        await builder.close()


async def test_kill_9_of_the_server_leaves_no_process_behind(tmp_path: Path):
    made = await partner(tmp_path)
    async with merchant() as shop, serving(tmp_path) as (process, base), aiohttp.ClientSession() as session:
        client = Client(base, made["commerceKey"], session)
        body = {"partnerStoreId": "1", "name": "S", "address": {}, "catalogCallbackUrl": shop.host(LARGE)}
        path = (await client.post("/v1/commerce/onboarding/stores", body)).headers["Location"]
        await until_status(client, path, {"ready_to_activate"})
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.kill()
        await process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, 10)
        assert alive == []
