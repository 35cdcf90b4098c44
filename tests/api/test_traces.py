"""One trace from the request through the run to the webhook, if spans are exported; log lines with their context."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.api.table import GUARDED, call
from tests.databases import only_sqlite
from tests.logs import log_plainly
from tests.service import CATALOG, MerchantServer, Service, service
from tests.waiting import PATIENCE

from mercato.features.partners.model import PartnerKind
from mercato.platform.telemetry import configure_logs, tracing
from mercato.platform.telemetry.tracing import TracingUnavailableError, export_spans

NOTIFY = "/v1/commerce/catalogset-notification?storeId="
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    with export_spans(None, share=1.0, exporter=exporter):
        yield exporter


@pytest.fixture
async def traced(
    spans: InMemorySpanExporter, database_url: str, tmp_path: Path, shop: MerchantServer
) -> AsyncIterator[Service]:
    async with service(database_url, tmp_path / "data") as running:
        yield running


async def named(spans: InMemorySpanExporter, *names: str) -> list[ReadableSpan]:
    """Wait until the newest spans of these names have ended, and return them."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = {span.name: span for span in spans.get_finished_spans()}
            if found.keys() >= set(names):
                return [found[name] for name in names]
            await asyncio.sleep(0.01)


def ids(span: ReadableSpan) -> tuple[str, str]:
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def parent(span: ReadableSpan) -> str:
    assert span.parent is not None
    return f"{span.parent.span_id:016x}"


async def test_a_trace_goes_from_the_request_through_the_run_to_the_webhook(
    traced: Service, spans: InMemorySpanExporter, shop: MerchantServer
):
    partner, pos = await traced.partner()
    store = await traced.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks?signed=hush")
    spans.clear()
    notified = await pos.post(
        NOTIFY + store["storeId"], {"callbackUrl": shop.host(CATALOG)}, headers={"traceparent": PARENT}
    )
    _, headers, _ = await shop.webhook()
    request, run, webhook = await named(spans, "notifyCatalogUpdate", "catalog.ingest", "webhook.deliver")
    assert {ids(one)[0] for one in (request, run, webhook)} == {TRACE}
    assert parent(request) == "b7ad6b7169203331"
    assert parent(run) == ids(request)[1]
    assert parent(webhook) == ids(run)[1]
    assert headers["traceparent"] == f"00-{TRACE}-{ids(webhook)[1]}-01"
    told = dict(request.attributes or {})
    assert told["http.response.status_code"] == notified.status == 202
    assert told["mercato.partner_id"] == str(partner.id)
    assert told["mercato.request_id"] == notified.headers["X-Request-Id"]
    assert (run.attributes or {})["mercato.run_id"] == notified.json()["catalogIngestId"]
    assert "hush" not in repr([one.to_json() for one in spans.get_finished_spans()])


@only_sqlite
async def test_a_placed_order_calls_its_store_in_the_requests_trace(
    traced: Service, spans: InMemorySpanExporter, shop: MerchantServer
):
    made, pos = await traced.partner(PartnerKind.BOTH)
    store = await traced.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
    shop.answers |= {"validate": {"isValid": True}, "place": {"accepted": True}}
    assert made.marketfront_key is not None
    pos.key = made.marketfront_key.text
    placing = next(operation for operation in GUARDED if operation.id == "placeOrder")
    placed = await call(
        pos, placing, placing.path, {name: store[name] for name in ("storeId", "catalogSetId")}
    )
    assert placed.status == 201, placed.body
    request, called = await named(spans, "placeOrder", "store.call")
    assert parent(called) == ids(request)[1]
    _, headers, _ = await shop.webhook()
    assert headers["traceparent"].split("-")[1] == ids(request)[0]


@only_sqlite
async def test_a_refusal_names_the_trace_that_is_exported(
    traced: Service, spans: InMemorySpanExporter, database_kind: str
):
    refused = await traced.anonymous().get("/v1/commerce/stores")
    (span,) = await named(spans, "GET")
    assert refused.json()["traceId"] == ids(span)[0]
    assert span.parent is None


@only_sqlite
async def test_a_share_of_zero_exports_only_traces_that_others_began(
    database_url: str, database_kind: str, tmp_path: Path
):
    exporter = InMemorySpanExporter()
    with export_spans(None, share=0.0, exporter=exporter):
        async with service(database_url, tmp_path / "data") as running:
            await running.anonymous().get("/healthz")
            await running.anonymous().get("/healthz", headers={"traceparent": PARENT})
    assert [ids(span)[0] for span in exporter.get_finished_spans()] == [TRACE]


def test_without_a_traces_endpoint_nothing_is_imported_or_measured():
    assert not tracing.is_on()
    assert tracing.current("as it was") == "as it was"
    with tracing.span("x", parent=None, kind="CLIENT") as span:
        assert span is None
    script = (
        "import sys; import mercato.asgi, mercato.app; "
        "print([name for name in sys.modules if 'opentelemetry' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_a_traces_endpoint_without_the_exporter_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with (
        pytest.raises(TracingUnavailableError, match=r"mercato\[otel\]"),
        export_spans("http://127.0.0.1:1", share=1.0),
    ):
        pass


# --- log lines ------------------------------------------------------------------------------------


@pytest.fixture
def _as_lines() -> Iterator[None]:
    configure_logs(level="debug", form="json")
    yield
    log_plainly()


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@only_sqlite
@pytest.mark.usefixtures("_as_lines")
async def test_a_log_line_says_whose_request_it_belongs_to(
    mercato: Service,
    shop: MerchantServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    partner, pos = await mercato.partner()
    store = await mercato.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
    capsys.readouterr()

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(type(mercato.app.stores), "set_status", broken)
    path = f"/v1/commerce/stores/{store['storeId']}/status"
    failed = await pos.post(path, {"status": "paused"}, headers={"traceparent": PARENT})
    assert failed.status == 500
    (bug,) = [line for line in lines(capsys.readouterr().err) if line["event"] == "bug"]
    assert bug["request_id"] == failed.headers["X-Request-Id"]
    assert (bug["trace_id"], bug["action"]) == (TRACE, "setStoreStatus")
    assert (bug["partner_id"], bug["store_id"]) == (str(partner.id), store["storeId"])


@only_sqlite
@pytest.mark.usefixtures("_as_lines")
async def test_a_jobs_log_lines_say_whose_they_are(
    mercato: Service, shop: MerchantServer, capsys: pytest.CaptureFixture[str]
):
    partner, pos = await mercato.partner()
    store = await mercato.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
    capsys.readouterr()
    await pos.post(
        NOTIFY + store["storeId"], {"callbackUrl": shop.host(CATALOG)}, headers={"traceparent": PARENT}
    )
    await shop.webhook()
    said: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while not any(line["event"] == "webhook attempt" for line in said):
            await asyncio.sleep(0.01)
            said += lines(capsys.readouterr().err)
    line = next(line for line in said if line["event"] == "webhook attempt")
    assert (line["partner_id"], line["trace_id"], line["action"]) == (
        str(partner.id),
        TRACE,
        "webhook.deliver",
    )
    assert line["delivery_id"]
