"""Whatever happens to a request's body, the client can read the answer, and it is a problem."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.examples import in_turn
from tests.databases import only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service, service
from tests.waiting import PATIENCE, loop_timeout

from mercato.features.partners.model import PartnerKind
from mercato.http import body as module

pytestmark = only_sqlite  # independent of the database

NOWHERE = "0190f5fe-7e3b-7ccc-8000-abcdef012345"
STORES = "/v1/commerce/stores"
ONBOARDING = "/v1/commerce/onboarding/stores"
VALIDATION = "/v1/commerce/catalogset-validation"
LARGE = 5_000_000


@pytest.fixture
async def mercato(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    async with service(database_url, tmp_path / "data", body_seconds=0.3) as running:
        yield running


@pytest.fixture
async def patient(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Service]:
    """A service that waits for bodies as long as a busy machine needs."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", PATIENCE)
    async with service(database_url, tmp_path / "data", body_seconds=PATIENCE) as running:
        yield running


async def exchange(mercato: Service, head: str, body: bytes, *, half_close: bool = False) -> tuple[int, Any]:
    """Send a request as blocking clients do, all of it before anything is read; return status and JSON."""
    host, port = mercato.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{head}\r\nHost: x\r\nConnection: close\r\n".encode() + body)
    await writer.drain()
    if half_close:
        writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    top, _, content = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), json.loads(content)


def key_of(client: Client) -> str:
    return f"Authorization: Bearer {client.key}"


@in_turn(
    ("target", "header", "status"),
    [
        (f"{STORES}/{NOWHERE}/status", "X-None: 1", 401),
        (f"{STORES}/{NOWHERE}/status", "", 413),
        ("/nothing", "", 404),
        (STORES, "", 405),
        (f"{ONBOARDING}/x/activate", "", 404),
        (f"{ONBOARDING}/{NOWHERE}/activate", "", 404),
        (f"{STORES}/{NOWHERE}/status", "Content-Encoding: gzip", 415),
    ],
)
async def test_a_client_that_sends_all_of_a_large_body_first_reads_the_refusal(
    patient: Service, target: str, header: str, status: int
):
    _, pos = await patient.partner()
    lines = [f"POST {target} HTTP/1.1", header or "X-Also: 1"]
    if status != 401:
        lines.append(key_of(pos))
    body = b"Content-Length: %d\r\n\r\n" % LARGE + b" " * LARGE
    answered, problem = await exchange(patient, "\r\n".join(lines), body)
    assert (answered, problem["status"]) == (status, status)


async def test_an_operation_without_a_body_accepts_a_large_one(patient: Service, shop: MerchantServer):
    _, pos = await patient.partner()
    ready = await patient.onboard(pos, shop.host(CATALOG))
    head = f"POST {ONBOARDING}/{ready['onboardingId']}/activate HTTP/1.1\r\n{key_of(pos)}"
    status, store = await exchange(patient, head, b"Content-Length: %d\r\n\r\n" % LARGE + b"x" * LARGE)
    assert (status, store["status"]) == (200, "online")


@in_turn(
    "body",
    [
        b'Content-Length: 50\r\n\r\n{"status":',
        b'Transfer-Encoding: chunked\r\n\r\nff\r\n{"status":',
        b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ],
)
async def test_a_body_that_breaks_off_is_400_and_a_problem(mercato: Service, pos: Client, body: bytes):
    head = f"POST {STORES}/{NOWHERE}/status HTTP/1.1\r\n{key_of(pos)}"
    status, problem = await exchange(mercato, head, body, half_close=True)
    assert (status, problem["errorCode"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("path", [f"{STORES}/{NOWHERE}/status", VALIDATION])
async def test_a_body_that_does_not_arrive_is_400_within_the_time_it_has(
    mercato: Service, pos: Client, path: str
):
    head = f"POST {path} HTTP/1.1\r\n{key_of(pos)}"
    async with loop_timeout(5):
        status, problem = await exchange(mercato, head, b"Content-Length: 50\r\n\r\n{")
    assert (status, problem["errorCode"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(("path", "interim"), [(f"{STORES}/{NOWHERE}/status", True), ("/nothing", False)])
async def test_a_body_sent_with_expect_100_continue_is_requested_when_it_is_read(
    mercato: Service, pos: Client, path: str, interim: bool
):
    host, port = mercato.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{key_of(pos)}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    writer.write(head.encode())
    first = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    assert first.startswith(b"HTTP/1.1 100" if interim else b"HTTP/1.1 404")
    writer.write(b"{}")
    if interim:
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).startswith(b"HTTP/1.1 400")
    writer.close()
    await writer.wait_closed()


async def test_clients_that_disconnect_during_a_request_leave_the_service_working(
    mercato: Service, pos: Client
):
    host, port = mercato.base.removeprefix("http://").split(":")
    request = (
        f"POST {STORES}/{NOWHERE}/status HTTP/1.1\r\nHost: x\r\n{key_of(pos)}\r\nContent-Length: 50\r\n\r\n{{"
    )
    for cut in range(0, len(request), 9):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(request[:cut].encode())
        await writer.drain()
        writer.transport.abort()
    assert (await pos.get(STORES)).status == 200


async def test_pipelined_requests_are_answered_in_their_order(mercato: Service, pos: Client):
    host, port = mercato.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for number in range(20):
        head = f"{'GET' if number % 2 else 'POST'} {STORES}/{NOWHERE}/status HTTP/1.1\r\nHost: x\r\n{key_of(pos)}\r\n"
        body = "" if number % 2 else 'Content-Length: 19\r\n\r\n{"status":"online"}'
        writer.write(f"{head}X-Request-Id: n{number}\r\n{body or chr(13) + chr(10)}".encode())
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    ids = [line[14:].decode() for line in answer.split(b"\r\n") if line.startswith(b"x-request-id: n")]
    assert ids == [f"n{number}" for number in range(20)]
    assert answer.count(b"HTTP/1.1 404") == 20
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(("path", "header"), [("validate", {}), ("place", {"Idempotency-Key": "a"})])
async def test_an_order_may_have_64_kib_as_it_is_sent(mercato: Service, path: str, header: dict[str, str]):
    _, front = await mercato.partner(PartnerKind.MARKETFRONT)
    largest = b'{"cart":1}'.ljust(64 * 1024)
    taken = await front.post(f"/v1/marketfront/orders/{path}", largest, headers=header)
    assert (taken.status, taken.json()["errorCode"]) == (400, "INVALID_REQUEST")
    refused = await front.post(f"/v1/marketfront/orders/{path}", largest + b" ", headers=header)
    assert (refused.status, refused.json()["errorCode"]) == (413, "PAYLOAD_TOO_LARGE")
    assert "at most 65536 bytes" in refused.json()["detail"]
