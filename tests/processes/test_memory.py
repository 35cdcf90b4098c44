"""No client can exhaust the memory of the process that serves all others.

`make test-long` runs it and `python -m pytest -m long -s tests/processes/test_memory.py` prints its table, which is
in docs/reliability.md. Memory is the resident set (RSS) of the serving process and all its children, sampled fifty
times a second; pages that they share count twice.
"""

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil
import pytest
from aiohttp import web
from tests.processes.test_serve import mercato, serving, until_status
from tests.service import CATALOG, Client, MerchantServer, merchant

MB = 1_000_000
MiB = 1024 * 1024
ENDED = {"ready_to_activate", "catalog_failed"}
MOST = 600 * MB
PIECE = b"x" * 65_536
SETTLE_SECONDS = 100
"""More than an idle building process is kept for."""

STORES = "/v1/commerce/onboarding/stores"
VALIDATION = "/v1/commerce/catalogset-validation"
STATUS = "/v1/commerce/stores/0190f5fe-7e3b-7ccc-8000-abcdef012345/status"
TOKEN = "/v1/oauth/token"


def bomb(begin: bytes, fill: bytes, end: bytes) -> bytes:
    """Return a gzip body that unpacks to just under 128 MiB."""
    packer = zlib.compressobj(level=6, wbits=31)
    pieces = [packer.compress(begin)]
    pieces += [packer.compress(fill * (MiB // len(fill))) for _ in range(127)]
    return b"".join([*pieces, packer.compress(end), packer.flush()])


def gzip_bombs() -> dict[str, bytes]:
    """Return gzip bodies that unpack to many times what they are."""
    return {
        "endless": gzip.compress(bytes(64 * MiB), compresslevel=1) * 16,
        "spaces": bomb(b'{"items":{}', b" ", b"}"),
        "one string": bomb(b'{"items":{},"x":"', b"x", b'"}'),
        "wide characters": bomb(b'{"items":{},"x":"', "\U0001f600".encode(), b'"}'),
        "colons": bomb(b'{"items":{},"x":"\\u003a', b":", b'"}'),
        "lists": bomb(b'{"items":{},"x":[', b"[],", b"[]]}"),
        "nothing": bomb(b"", b"\0", b""),
        "cut short": bomb(b'{"items":{"a":"', b"x", b""),
    }


@dataclass
class Memory:
    """The resident memory of a process and its children."""

    process: psutil.Process
    peak: int = 0

    def now(self) -> int:
        total = 0
        for one in (self.process, *self.process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
        self.peak = max(self.peak, total)
        return total

    async def watch(self) -> None:
        while True:
            self.now()
            await asyncio.sleep(0.02)

    async def settle(self, goal: float) -> int:
        """Wait until it has fallen to the goal; return the final value."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self.now() > goal:
                    await asyncio.sleep(0.5)
        return self.now()


async def stall(base: str, head: str, length: int, *, seconds: float) -> None:
    """Send all but the last byte of a request's body, and keep the connection for a while."""
    host, port = base.removeprefix("http://").split(":")
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(f"{head}\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
                for start in range(0, length - 1, len(PIECE)):
                    writer.write(PIECE[: length - 1 - start])
                    await writer.drain()
                await asyncio.sleep(seconds)
            finally:
                writer.transport.abort()


async def uploads(base: str, keys: list[str], _shop: MerchantServer) -> None:
    """95 uploads of 32 MiB to Validate CatalogSet, with one key."""
    head = f"POST {VALIDATION} HTTP/1.1\r\nAuthorization: Bearer {keys[0]}"
    await asyncio.gather(*(stall(base, head, 32 * MiB, seconds=20) for _ in range(95)))


async def forms(base: str, _keys: list[str], _shop: MerchantServer) -> None:
    """1,500 forms for a token that stop one byte before their end, without any key."""
    head = f"POST {TOKEN} HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded"
    for length in (MiB, 8 * 1024):
        await asyncio.gather(*(stall(base, head, length, seconds=15) for _ in range(1500)))


async def bodies(base: str, keys: list[str], _shop: MerchantServer) -> None:
    """1,500 bodies of 1 MiB that stop one byte before their end, with the keys of four partners."""
    heads = [f"POST {STATUS} HTTP/1.1\r\nAuthorization: Bearer {key}" for key in keys]
    await asyncio.gather(*(stall(base, heads[n % len(heads)], MiB, seconds=15) for n in range(1500)))


async def bombs(base: str, keys: list[str], shop: MerchantServer) -> None:
    """Eight gzip bombs at once, of all partners in turn, as catalogs of stores that register."""
    await register_all(base, keys, shop, gzip_bombs())


async def register_all(
    base: str, keys: list[str], shop: MerchantServer, catalogs: Mapping[str, bytes]
) -> None:
    """Register a store of the partners in turn for each gzip body, and wait until all runs have ended."""
    async with aiohttp.ClientSession() as session:
        paths = []
        for number, (name, packed) in enumerate(catalogs.items()):
            client = Client(base, keys[number % len(keys)], session)
            url = shop.host(_packed(packed), f"/{name.replace(' ', '-')}.json")
            made = await client.post(
                STORES, {"partnerStoreId": name, "name": name, "address": {}, "catalogCallbackUrl": url}
            )
            assert made.status in {200, 201, 202}, made.body
            paths.append((client, made.headers["Location"]))
        async with asyncio.timeout(400):
            for client, path in paths:
                while (await client.get(path)).json()["status"] not in ENDED:
                    await asyncio.sleep(0.5)


def _packed(body: bytes) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(
            body=body, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"}
        )

    return answer


async def _key(data_dir: Path, name: str) -> str:
    _, out, _ = await mercato(
        "partner", "create", name, "--kind", "commerce", "--json", "--data-dir", data_dir
    )
    key: str = json.loads(out)["commerceKey"]
    return key


@asynccontextmanager
async def served(
    tmp_path: Path, *, partners: int = 4
) -> AsyncIterator[tuple[Memory, str, list[str], MerchantServer]]:
    """Run the service with merchants, of which one has been onboarded: what it imports then is there."""
    keys = [await _key(tmp_path, f"POS {number}") for number in range(partners)]
    async with merchant() as shop, serving(tmp_path) as (process, base):
        async with aiohttp.ClientSession() as session:
            client = Client(base, keys[0], session)
            url = shop.host(CATALOG)
            first = await client.post(
                STORES, {"partnerStoreId": "1", "name": "S", "address": {}, "catalogCallbackUrl": url}
            )
            await until_status(client, first.headers["Location"], {"ready_to_activate"})
            assert (await client.post(VALIDATION, CATALOG)).status == 200
        yield Memory(psutil.Process(process.pid)), base, keys, shop


Load = Callable[[str, list[str], MerchantServer], Awaitable[None]]
LOADS: list[Load] = [uploads, forms, bodies, bombs]
KEPT = 1.5
"""The factor of the idle memory that may remain after a load."""


@pytest.mark.long
@pytest.mark.parametrize("load", LOADS)
async def test_no_load_takes_more_than_600_mb_and_memory_is_returned(
    load: Callable[[str, list[str], MerchantServer], Awaitable[None]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    async with served(tmp_path) as (memory, base, keys, shop):
        await asyncio.sleep(2)
        idle = memory.now()
        watching = asyncio.create_task(memory.watch())
        try:
            await load(base, keys, shop)
        finally:
            watching.cancel()
        after = await memory.settle(KEPT * idle)
        row = [load.__doc__ or "", *(f"{size / MB:.0f}" for size in (idle, memory.peak, after))]
        with capsys.disabled():
            sys.stdout.write("\n| " + " | ".join(row) + " |\n")
        async with aiohttp.ClientSession() as session:
            assert (await Client(base, keys[0], session).get("/healthz")).status == 200
    assert memory.peak <= MOST
    assert after <= KEPT * idle
