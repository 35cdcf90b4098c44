"""`/metrics` describes the service by operation, stage, kind and outcome, without naming partners."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.forks import start
from tests.processes.test_serve import environment
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.features.metrics import CommerceMetrics
from mercato.platform.jobs import maintenance
from mercato.platform.telemetry.exposition import serve_metrics
from mercato.platform.telemetry.metrics import QueueDepth

pytestmark = mostly_sqlite

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


def read(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Return each sample by its name and label values."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def figures(mercato: Service) -> dict[str, dict[tuple[str, ...], float]]:
    return read((await mercato.anonymous().get("/metrics")).body.decode())


async def lived(mercato: Service, shop: MerchantServer, pos: Client) -> None:
    """Do a little of everything: a run that succeeds, one that changes nothing, one that fails, and their webhooks."""
    store = await mercato.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
    for document, path in ((CATALOG, "/catalog.json"), (b"{", "/broken.json")):
        await mercato.run(pos, store["storeId"], shop.host(document, path))
        await shop.webhook()
    await pos.get("/v1/commerce/stores/x")
    for _ in range(2):
        await pos.get(f"/v1/commerce/stores/{store['storeId']}")


async def test_every_declared_metric_is_exposed_and_none_names_a_partner(
    mercato: Service, shop: MerchantServer, pos: Client
):
    await lived(mercato, shop, pos)
    text = (await mercato.anonymous().get("/metrics")).body.decode()
    for one in mercato.app.metrics.described():
        assert f"# TYPE {one.name} {one.kind}\n" in text, one.name
        assert f"# HELP {one.name} {one.help}\n" in text, one.name
        # By partner, by its id, is only what is in trouble: see test_alerts.
        assert not {"store", "order", "key"} & set(one.labels)
        assert "partner" not in one.labels or one.name.startswith("mercato_partner_")
    assert not UUID.search(text)
    for told in ("127.0.0.1", "mk_commerce", "Test"):
        assert told not in text


async def test_requests_runs_jobs_deliveries_and_caches_are_counted(
    mercato: Service, shop: MerchantServer, pos: Client
):
    await lived(mercato, shop, pos)

    def settled(now: dict[str, dict[tuple[str, ...], float]]) -> bool:
        return now["mercato_deliveries_total"].get(("succeeded",), 0) >= 2

    async with asyncio.timeout(PATIENCE):
        while not settled(now := await figures(mercato)):
            await asyncio.sleep(0.02)
    assert now["mercato_requests_total"]["getStore", "404"] == 1
    assert now["mercato_requests_total"]["getStore", "200"] == 2
    assert now["mercato_request_seconds_count"]["getStore",] == 3
    assert now["mercato_ingest_runs_total"] == {("succeeded",): 2, ("failed",): 1}
    stages = now["mercato_ingest_stage_seconds_count"]
    assert (stages["pull",], stages["build",], stages["compress",], stages["store",]) == (3, 3, 1, 1)
    assert now["mercato_job_runs_total"]["catalog.ingest", "done"] == 3
    assert now["mercato_delivery_seconds_count"][()] == now["mercato_deliveries_total"]["succeeded",]
    hits = now["mercato_cache_lookups_total"]
    assert hits["callers", "hit"] > hits["callers", "miss"] >= 1
    assert hits["stores", "hit"] >= 1
    assert now["mercato_database_up"] == {(): 1}


@on_both
async def test_the_queue_is_counted_by_kind_and_queried_once_in_five_seconds(db: Any):
    asked = []

    async def queue() -> list[QueueDepth]:
        asked.append(1)
        return [QueueDepth(kind="webhook.deliver", ready=3, waiting=2, running=1, dead=4, oldest=7.5)]

    metrics = CommerceMetrics()
    metrics.watch_queue(queue)
    for _ in range(2):
        now = read((await metrics.read()).decode())
    assert len(asked) == 1
    states = {"ready": 3, "waiting": 2, "running": 1, "dead": 4}
    assert now["mercato_jobs"] == {("webhook.deliver", name): count for name, count in states.items()}
    assert now["mercato_jobs_oldest_seconds"] == {("webhook.deliver",): 7.5}


@only_sqlite
async def test_an_unavailable_database_hides_only_the_queue_metrics(
    mercato: Service, database_kind: str, monkeypatch: pytest.MonkeyPatch
):
    async def away(_tx: Any, **_: Any) -> Any:
        raise TimeoutError

    monkeypatch.setattr(maintenance, "list_depths", away)
    now = await figures(mercato)
    assert now["mercato_database_up"] == {(): 0}
    assert "mercato_jobs" not in now
    assert "process_open_fds" in now


@pytest.fixture
def metrics() -> CommerceMetrics:
    made = CommerceMetrics()
    made.called_store("answered")
    return made


async def ask(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    said = await reader.read()
    writer.close()
    return said


async def test_each_worker_has_its_own_metrics_port(metrics: CommerceMetrics):
    async with (
        serve_metrics(metrics, host="127.0.0.1", port=20_000, token=None) as first,
        serve_metrics(metrics, host="127.0.0.1", port=first, token=None) as second,
    ):
        assert second > first
        for port in (first, second):
            said = await ask(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert said.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b'mercato_store_calls_total{outcome="answered"} 1.0' in said
        assert (await ask(first, b"GET /other HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        # A request that is too long is dropped.
        assert await ask(first, b"x" * 100_000) == b""


async def test_with_a_token_metrics_require_it(metrics: CommerceMetrics):
    async with serve_metrics(metrics, host="127.0.0.1", port=20_100, token="hush") as port:
        for header, status in (
            (b"", b"401"),
            (b"Authorization: Bearer no\r\n", b"401"),
            (b"authorization:  Bearer hush\r\n", b"200"),
        ):
            said = await ask(port, b"GET /metrics HTTP/1.1\r\n" + header + b"\r\n")
            assert said.split()[1] == status
            assert b"hush" not in said


async def test_a_worker_process_has_metrics_of_its_jobs(tmp_path: Path):
    process = await start(
        "worker", "--data-dir", tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(MERCATO_METRICS_PORT="20200", MERCATO_LOG_FORMAT="json"),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            line = json.loads(await process.stderr.readline())
            assert await process.stdout.readline() == b"working\n"
            said = await ask(line["port"], b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"mercato_database_up 1.0" in said
        assert line["event"] == "serving metrics"
    finally:
        process.kill()
        await process.communicate()
