"""How much memory request bodies may take, and that a refusal comes before the body."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.databases import only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service, service
from tests.waiting import PATIENCE

from mercato.features.partners.model import PartnerKind
from mercato.http import edge
from mercato.http.body import SHARES, BodyBudget

pytestmark = only_sqlite  # independent of the database

NOWHERE = "0190f5fe-7e3b-7ccc-8000-abcdef012345"
STATUS = f"/v1/commerce/stores/{NOWHERE}/status"
VALIDATION = "/v1/commerce/catalogset-validation"
TOKEN = "/v1/oauth/token"
KiB = 1024
BODY = 64 * KiB


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[BodyBudget]:
    """The budgets of what is started."""
    made: list[BodyBudget] = []

    def kept(total: int, *, largest: int) -> BodyBudget:
        made.append(BodyBudget(total, largest=largest))
        return made[-1]

    monkeypatch.setattr(edge, "BodyBudget", kept)
    return made


@pytest.fixture
async def mercato(
    database_url: str, tmp_path: Path, shop: MerchantServer, budgets: list[BodyBudget]
) -> AsyncIterator[Service]:
    async with service(
        database_url, tmp_path / "data", body_limit=BODY, body_memory=SHARES * BODY, body_seconds=PATIENCE
    ) as running:
        yield running


class Upload:
    """A request whose body is sent by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, size: int) -> None:
        self.writer.write(b" " * size)
        await self.writer.drain()

    async def answer(self) -> tuple[int, Any]:
        """Return status and JSON of the first answer, an interim one included."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            status = int(head.split()[1])
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                ),
                0,
            )
            body = await self.reader.readexactly(length)
        return status, json.loads(body) if body else None


@asynccontextmanager
async def upload(
    mercato: Service, client: Client, path: str, length: int, *, expects: bool = False
) -> AsyncIterator[Upload]:
    host, port = mercato.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}"]
    lines += [f"Authorization: Bearer {client.key}"] if client.key else []
    lines += ["Expect: 100-continue"] if expects else []
    writer.write("\r\n".join([*lines, "", ""]).encode())
    await writer.drain()
    try:
        yield Upload(reader, writer)
    finally:
        writer.transport.abort()


async def until_taken(budget: BodyBudget, size: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while budget.taken != size:
            await asyncio.sleep(0.002)


async def begun(stack: AsyncExitStack, mercato: Service, client: Client, budget: BodyBudget) -> Upload:
    """Begin a body, of which one byte has arrived: the first part alone is not known to be no whole body."""
    before = budget.taken
    request = await stack.enter_async_context(upload(mercato, client, STATUS, BODY))
    await request.send(1)
    await until_taken(budget, before + 1)
    return request


async def held(stack: AsyncExitStack, mercato: Service, client: Client, budget: BodyBudget) -> Upload:
    """Begin a body that never ends, of which all but 1 KiB has arrived."""
    before = budget.taken
    request = await begun(stack, mercato, client, budget)
    await request.send(BODY - KiB - 1)
    await until_taken(budget, before + BODY - KiB)
    return request


@pytest.mark.parametrize("expects", [False, True], ids=["", "Expect: 100-continue"])
@pytest.mark.parametrize(
    ("path", "length"), [(STATUS, BODY + 1), (VALIDATION, 33 * KiB * KiB), (TOKEN, 8 * KiB + 1)]
)
async def test_a_length_over_the_limit_is_413_before_the_body(
    mercato: Service, pos: Client, path: str, length: int, expects: bool
):
    async with upload(mercato, pos, path, length, expects=expects) as request:
        status, problem = await request.answer()
    assert (status, problem["errorCode"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_form_beyond_8_kib_is_refused_as_oauth_clients_read_it(mercato: Service):
    form = "grant_type=client_credentials&padding="
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    longest = form + "x" * (8 * KiB - len(form))
    assert (await mercato.anonymous().post(TOKEN, longest.encode(), headers=headers)).status == 401
    refused = await mercato.anonymous().post(TOKEN, f"{longest}x".encode(), headers=headers)
    assert (refused.status, refused.json()["error"]) == (413, "invalid_request")
    assert refused.json()["errorCode"] == "PAYLOAD_TOO_LARGE"


async def test_a_dry_run_acquires_its_slot_before_its_body_is_read(mercato: Service, pos: Client):
    other, _ = await mercato.partner()
    assert other.commerce_key
    neighbour = Client(mercato.base, other.commerce_key.text, mercato.session)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            request = await stack.enter_async_context(upload(mercato, pos, VALIDATION, BODY))
            await request.send(100)
        async with asyncio.timeout(PATIENCE):
            while mercato.app.dry_runs.slots.in_use < 2:
                await asyncio.sleep(0.002)
        third = await stack.enter_async_context(upload(mercato, pos, VALIDATION, BODY, expects=True))
        status, problem = await third.answer()
        assert (status, problem["errorCode"]) == (429, "RATE_LIMITED")
        assert problem["retryAfter"] > 0
        checked = await neighbour.post(VALIDATION, CATALOG)
        assert (checked.status, checked.json()["valid"]) == (200, True)
    assert (await pos.post(VALIDATION, CATALOG)).status in {200, 429}


async def test_a_partner_that_sends_too_much_at_once_is_429_and_others_are_not(
    mercato: Service, pos: Client, budgets: list[BodyBudget]
):
    other, _ = await mercato.partner()
    assert other.commerce_key
    neighbour = Client(mercato.base, other.commerce_key.text, mercato.session)
    async with AsyncExitStack() as stack:
        await held(stack, mercato, pos, budgets[-1])
        refused = await begun(stack, mercato, pos, budgets[-1])
        await refused.send(BODY - KiB - 1)
        status, problem = await refused.answer()
        assert (status, problem["errorCode"], problem["retryable"]) == (429, "RATE_LIMITED", True)
        assert problem["retryAfter"] > 0
        for client in (pos, neighbour):
            assert (await client.post(STATUS, {"status": "online"})).status == 404
        large = b" " * (BODY // 2) + b'{"status":"online"}'
        assert (await neighbour.post(STATUS, large)).status == 404


async def test_a_process_whose_body_memory_is_full_answers_503_until_bodies_are_released(
    mercato: Service, pos: Client, budgets: list[BodyBudget]
):
    async with AsyncExitStack() as stack:
        for _ in range(SHARES):
            made, _ = await mercato.partner()
            assert made.commerce_key
            sender = Client(mercato.base, made.commerce_key.text, mercato.session)
            await held(stack, mercato, sender, budgets[-1])
        # In whichever parts it arrives, it is too much.
        refused = await stack.enter_async_context(upload(mercato, pos, STATUS, BODY))
        await refused.send(BODY - KiB)
        status, problem = await refused.answer()
        assert (status, problem["errorCode"]) == (503, "SERVICE_UNAVAILABLE")
        assert problem["retryAfter"] > 0
        assert (await pos.post(STATUS, {"status": "online"})).status == 404
    await until_taken(budgets[-1], 0)
    async with AsyncExitStack() as stack:
        last = await held(stack, mercato, pos, budgets[-1])
        await last.send(KiB)
        assert (await last.answer())[0] == 400  # spaces aren't JSON


async def test_declared_lengths_without_bytes_use_no_memory(mercato: Service, pos: Client):
    async with AsyncExitStack() as stack:
        for _ in range(50):
            stalled = await stack.enter_async_context(upload(mercato, pos, STATUS, BODY))
            await stalled.send(10)
        await asyncio.sleep(0.2)
        large = b" " * (BODY // 2) + b'{"status":"online"}'
        assert (await pos.post(STATUS, large)).status == 404


async def test_without_a_key_an_address_has_a_budget_of_its_own(mercato: Service):
    _, storefront = await mercato.partner(PartnerKind.MARKETFRONT)
    assert storefront.key
    async with AsyncExitStack() as stack:
        answers = []
        for _ in range(12):
            request = await stack.enter_async_context(upload(mercato, mercato.anonymous(), TOKEN, 8 * KiB))
            await request.send(1)
            await asyncio.sleep(0.02)
            await request.send(8 * KiB - 2)
            answers.append(asyncio.create_task(request.answer()))
        # The last one, unless a busy machine takes them in another order.
        done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        for answer in waiting:
            answer.cancel()
        status, refusal = await done.pop()
    assert (status, refusal["error"], refusal["errorCode"]) == (
        429,
        "temporarily_unavailable",
        "RATE_LIMITED",
    )
