"""`mercato serve --workers N`: several processes on one port and database, supervised by their parent."""

import asyncio
import errno
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil
import pytest
from aiohttp import web
from tests.forks import Running
from tests.ports import free_port
from tests.processes.test_serve import mercato, partner, serving, until_status
from tests.service import CATALOG, ITEM, Client, MerchantServer, merchant
from tests.waiting import PATIENCE

from mercato.cli.start import Workers
from mercato.settings import Settings
from mercato_client.testing.caller import Answer

STORES = "/v1/commerce/onboarding/stores"


def workers_of(process: Running) -> list[psutil.Process]:
    """Return the worker processes, without builders."""
    return [one for one in psutil.Process(process.pid).children() if _serves(one)]


def _serves(process: psutil.Process) -> bool:
    try:
        return "mercato.cli.start" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            said = condition()
            if said if isinstance(said, bool) else await said:
                return
            await asyncio.sleep(0.05)


async def test_several_workers_serve_one_port_and_one_database(tmp_path: Path, database_url: str):
    options = {"MERCATO_WORKERS": "2"}
    if database_url.startswith("postgresql"):
        options["MERCATO_DATABASE_URL"] = database_url
    async with (
        merchant() as shop,
        serving(tmp_path, **options) as (process, base),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        assert len(workers_of(process)) == 2
        key = (await partner(tmp_path, **options))["commerceKey"]
        pos = Client(base, key, session)
        stores = await asyncio.gather(*(_live(pos, shop, str(number)) for number in range(6)))
        assert len(set(stores)) == 6
        replies = await asyncio.gather(
            *(pos.get(f"/v1/commerce/stores/{store}") for store in stores for _ in range(10))
        )
        assert {reply.status for reply in replies} == {200}
        process.terminate()
        assert await process.wait() == 0


async def _live(pos: Client, shop: MerchantServer, name: str) -> str:
    body = {"partnerStoreId": name, "name": name, "address": {}, "catalogCallbackUrl": shop.host(CATALOG)}
    onboarding = (await pos.post(STORES, body)).json()
    await until_status(pos, f"{STORES}/{onboarding['onboardingId']}", {"ready_to_activate"})
    store: str = (await pos.post(f"{STORES}/{onboarding['onboardingId']}/activate")).json()["storeId"]
    return store


async def test_workers_that_are_killed_are_replaced_while_the_port_listens_and_metrics_cover_them_all(
    tmp_path: Path,
):
    async with (
        serving(tmp_path, MERCATO_WORKERS="2") as (process, base),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        anyone = Client(base, None, session)
        memory = sum(one.memory_info().rss for one in workers_of(process))
        await counters_cover_all_and_never_decrease(process, anyone)
        await killed_and_replaced(process)
        # Gauges of the two that died are not counted.
        said = figure(await anyone.get("/metrics"), "process_resident_memory_bytes")
        assert 0.5 * memory < said < 1.5 * memory
        before = workers_of(process)
        for one in before:
            one.kill()
        # No worker is running: the connection waits for the first one that restarts.
        assert (await anyone.get("/readyz", timeout=aiohttp.ClientTimeout(total=PATIENCE))).status == 200
        await until(lambda: len(workers_of(process)) == 2)
        assert {one.pid for one in workers_of(process)}.isdisjoint(one.pid for one in before)


async def killed_and_replaced(process: Running) -> None:
    killed = workers_of(process)[0]
    killed.kill()
    await until(lambda: len(workers_of(process)) == 2 and killed not in workers_of(process))


async def counters_cover_all_and_never_decrease(process: Running, anyone: Client) -> None:
    async def asked() -> float:
        return figure(
            await anyone.get("/metrics"), 'mercato_requests_total{operation="healthz",status="200"}'
        )

    for _ in range(40):
        assert (await anyone.get("/healthz")).status == 200
    assert {await asked() for _ in range(20)} == {40.0}
    histogram = figure(await anyone.get("/metrics"), 'mercato_request_seconds_count{operation="healthz"}')
    assert histogram == 40.0
    await killed_and_replaced(process)
    for _ in range(20):
        assert (await anyone.get("/healthz")).status == 200
    assert {await asked() for _ in range(20)} == {60.0}
    gauge = figure(await anyone.get("/metrics"), "mercato_store_breakers_open")
    assert gauge == 0


async def test_several_workers_share_one_metrics_port(tmp_path: Path):
    while True:
        port = free_port()
        with suppress(OSError):
            free_port(port + 1)
            break
    async with (
        serving(tmp_path, MERCATO_WORKERS="2", MERCATO_METRICS_PORT=str(port)) as (_, base),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        for _ in range(10):
            assert (await Client(base, None, session).get("/healthz")).status == 200
        alone = Client(f"http://127.0.0.1:{port}", None, session)
        name = 'mercato_requests_total{operation="healthz",status="200"}'
        assert figure(await alone.get("/metrics"), name) == 10
        # Adding up the metrics of all ports would count everything once per worker.
        with pytest.raises(aiohttp.ClientConnectorError):
            await Client(f"http://127.0.0.1:{port + 1}", None, session).get("/metrics")


async def test_calls_that_fail_in_different_processes_are_one_trouble_that_every_process_reports(
    tmp_path: Path, database_url: str
):
    options = {"MERCATO_WORKERS": "2"}
    if database_url.startswith("postgresql"):
        options["MERCATO_DATABASE_URL"] = database_url
    async with (
        merchant() as shop,
        serving(tmp_path, **options) as (_, base),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        pos = Client(base, (await partner(tmp_path, **options))["commerceKey"], session)
        store = await _live(pos, shop, "1")
        body = {"webhookUrl": shop.base + "/hooks"}
        assert (await pos.call("PUT", f"/v1/commerce/stores/{store}", body)).status == 200
        made = await mercato(
            "partner", "create", "Shop", "--kind", "marketfront", "--json", "--data-dir", tmp_path, **options
        )
        front = Client(base, json.loads(made[1])["marketfrontKey"], session)
        catalog_set = (await front.get(f"/v1/marketfront/stores/{store}")).json()["catalogSetId"]
        line = {"itemId": ITEM, "quantity": 1, "modifierGroups": []}
        order = {
            "cart": {"storeId": store, "catalogSetId": catalog_set, "lineItems": [line]},
            "clientContext": {"ip": "203.0.113.7", "userAgent": "shop/1.0"},
            "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
        }
        shop.answers["validate"] = _broken
        # Each connection may reach another process.
        for _ in range(2):
            assert (await front.post("/v1/marketfront/orders/validate", order)).status == 503
        anyone = Client(base, None, session)

        async def reported() -> bool:
            found = {figure(await anyone.get("/metrics"), "mercato_stores_failing") for _ in range(10)}
            return found == {1.0}

        await until(reported)
        code, said, _ = await mercato("store", "list", "--data-dir", tmp_path, **options)
    assert code == 0
    assert "unreachable" in said


async def _broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


def figure(reply: Answer, name: str) -> float:
    """Return one sample of the page."""
    (line,) = [line for line in reply.body.decode().splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


async def test_kill_9_of_the_parent_leaves_no_worker_and_its_metrics_files_only_until_the_next_start(
    tmp_path: Path,
):
    files = tmp_path / "tmp"
    files.mkdir()
    options = {"MERCATO_WORKERS": "2", "TMPDIR": str(files)}
    async with serving(tmp_path / "data", **options) as (process, _):
        (abandoned,) = files.glob("mercato-metrics-*")
        async with serving(tmp_path / "other", **options) as (other, _):
            assert len(list(files.glob("mercato-metrics-*"))) == 2
            other.terminate()
            assert await other.wait() == 0
        assert list(files.glob("mercato-metrics-*")) == [abandoned]
        workers = workers_of(process)
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: not any(one.is_running() and one.status() != "zombie" for one in workers))
        assert list(abandoned.glob("counter_*.db"))
        async with serving(tmp_path / "data", **options) as (other, _):
            assert not abandoned.exists()
            other.terminate()
            assert await other.wait() == 0
    assert not list(files.glob("mercato-*metrics-*"))


@pytest.mark.parametrize("number", ["0", "65", "-1", "two"])
async def test_an_invalid_number_of_workers_is_refused(tmp_path: Path, number: str):
    code, _, told = await mercato("serve", "--workers", number, "--port", "0", "--data-dir", tmp_path)
    assert code == 2
    assert "workers" in told.lower()


async def test_workers_that_cannot_start_end_the_server_with_the_reason(tmp_path: Path):
    (tmp_path / "encryption.key").write_text("no key")
    code, _, told = await mercato("serve", "--workers", "2", "--port", "0", "--data-dir", tmp_path)
    assert code == 1
    assert "encryption.key" in told
    assert "Traceback" not in told


async def test_a_worker_is_retried_while_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tries: list[int] = []

    async def start(_workers: Workers, place: int) -> str:
        tries.append(place)
        if len(tries) == 1:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return "it runs"

    monkeypatch.setattr(Workers, "_start", start)
    with socket.socket() as listener:
        workers = Workers(Settings(), listener, tmp_path)
        assert await workers._start_again(3, 0.01, asyncio.Event()) == "it runs"  # type: ignore[comparison-overlap]
    assert tries == [3, 3]


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_closed_output_does_not_fail_a_drained_stop(tmp_path: Path, workers: str):
    async with serving(tmp_path, MERCATO_WORKERS=workers) as (process, _):
        # The reader of its standard output goes away, as `head -1` does.
        assert process.stdout is not None
        process.stdout._transport.close()  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_closed_terminal_drains_like_sigterm(tmp_path: Path, workers: str):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    async with serving(tmp_path / "data", MERCATO_WORKERS=workers, TMPDIR=str(temporary)) as (process, _):
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert list(temporary.glob("mercato-*")) == []
