"""Calls to stores that a request waits for, over real sockets, and their results."""

import asyncio
import tracemalloc
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
import standardwebhooks
from tests.databases import only_sqlite
from tests.ports import free_port
from tests.servers import (
    Peer,
    Request,
    Script,
    by_path,
    drop,
    endless,
    hang,
    head,
    in_turn,
    raw,
    redirect,
    reply,
    serve,
)
from tests.waiting import PATIENCE, lengthening, loop_timeout
from tests.webhooks.harness import TOKEN, TRACE, Harness

from mercato.features.metrics import CommerceMetrics
from mercato.features.partners import accounts
from mercato.features.webhooks.calls import ConcurrencyLimiter, StoreCalls
from mercato.features.webhooks.credentials import WebhookCredentials
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.telemetry import configure_logs
from mercato_contract import clock
from mercato_contract.clock import new_id

pytestmark = (
    only_sqlite  # the database only holds the credentials, and test_webhook_credentials reads them from both
)

BODY = b'{"type":"order.validate","data":{}}'
CARD = "tok_card/4242+secret"


def sensible(status: int, body: bytes) -> str | None:
    """What an order would say: 200 with a document is an answer, anything else the store's fault."""
    if status != 200:
        return f"The store answered {status}."
    return None if body.startswith(b"{") else "The store's answer is no JSON object."


@dataclass
class Stores:
    """Where orders are asked from: calls on a clock that the test moves."""

    calls: StoreCalls
    partner_id: UUID
    secret: str
    metrics: CommerceMetrics
    time: list[float] = field(default_factory=lambda: [0.0])

    def call(self, url: str, **changes: Any) -> StoreCall:
        given = {
            "store_id": new_id(),
            "partner_id": self.partner_id,
            "url": url,
            "webhook_id": new_id(),
            "body": BODY,
            "traceparent": TRACE,
        }
        return StoreCall(**{**given, **changes})

    async def ask(self, url: str, *, seconds: float = PATIENCE, **changes: Any) -> CallResult:
        return await self.calls.post(self.call(url, **changes), seconds=seconds, parser=sensible)

    async def fail(self, url: str, store_id: UUID, times: int = 10) -> None:
        for _ in range(times):
            called = await self.ask(url, store_id=store_id)
            assert called.was_sent
            assert called.error

    def figure(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
async def stores(harness: Harness) -> Stores:
    time, metrics = [0.0], CommerceMetrics()
    calls = StoreCalls(
        outbound=harness.outbound,
        credentials=WebhookCredentials(harness.db, ChangeFeed(harness.db), harness.vault, clock.now),
        clock=clock.now,
        metrics=metrics,
        monotonic=lambda: time[0],
    )
    return Stores(calls, harness.partner.id, harness.partner.signing_secret, metrics, time)


class Gate:
    """A script that keeps every request until the test lets them go, and knows how many it holds."""

    def __init__(self) -> None:
        self.held = 0
        self.changed = asyncio.Condition()
        self.open = asyncio.Event()

    async def __call__(self, _: Request, peer: Peer) -> None:
        async with self.changed:
            self.held += 1
            self.changed.notify_all()
        await self.open.wait()
        await peer.send(head(200, content_length=2) + b"{}")

    async def holds(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE), self.changed:
            await self.changed.wait_for(lambda: self.held >= count)


# --- the request ------------------------------------------------------------------------------------------


async def test_a_call_is_signed_and_carries_the_headers_of_the_contract(
    stores: Stores, harness: Harness
) -> None:
    webhook_id = new_id()
    async with serve(reply(200, b'{"isValid":true}')) as server:
        await harness.bind(server.url)
        called = await stores.ask(server.url + "/hooks/validate?x=1", webhook_id=webhook_id)
    [request] = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/hooks/validate?x=1", BODY)
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["webhook-id"] == request.headers["idempotency-key"] == str(webhook_id)
    assert request.headers["traceparent"] == TRACE
    standardwebhooks.Webhook(stores.secret).verify(request.body, dict(request.headers))
    assert (called.status, called.error, called.body, called.was_sent) == (
        200,
        None,
        b'{"isValid":true}',
        True,
    )
    assert called.reply == '{"isValid":true}'


async def test_a_call_to_another_origin_does_not_carry_the_token(stores: Stores, harness: Harness) -> None:
    await harness.bind("https://pos.example.com/hooks")
    async with serve(reply(200, b"{}")) as server:
        await stores.ask(server.url + "/hooks/place")
    assert "authorization" not in server.requests[0].headers


async def test_during_a_rotation_both_secrets_verify(stores: Stores, harness: Harness) -> None:
    async with harness.db.write() as tx:
        new = await accounts.rotate_signing_secret(tx, harness.vault, stores.partner_id)
    async with serve(reply(200, b"{}")) as server:
        await stores.ask(server.url)
    [request] = server.requests
    for secret in (stores.secret, new):
        standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))


async def test_a_warm_call_reads_nothing_from_the_database(
    stores: Stores, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(reply(200, b"{}")) as server:
        await stores.ask(server.url)

        def closed() -> None:
            raise AssertionError("the database was asked")

        monkeypatch.setattr(harness.db, "read", closed)
        assert (await stores.ask(server.url)).error is None
        assert [request.connection for request in server.requests] == [0, 0]


# --- the reply -------------------------------------------------------------------------------------------


async def test_the_parsers_error_is_the_stores_fault_and_is_returned(stores: Stores) -> None:
    async with serve(reply(200, b"<html>", retry_after="7")) as server:
        called = await stores.ask(server.url)
    assert called.error == "The store's answer is no JSON object."
    assert (called.status, called.reply, called.retry_after) == (200, "<html>", 7.0)


async def test_a_redirect_is_a_fault_and_is_not_followed(stores: Stores) -> None:
    async with serve(reply(200, b"{}")) as elsewhere, serve(redirect(elsewhere.url, 307)) as server:
        called = await stores.ask(server.url)
    assert elsewhere.requests == []
    assert called.error == "The receiver answered 307: redirects are not followed."
    assert stores.figure("mercato_store_calls_total", outcome="redirect") == 1


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(drop(), id="drops the connection"),
        pytest.param(raw(b"\x00\xff garbage\r\n\r\n"), id="speaks no HTTP"),
        pytest.param(raw(head(200, content_length=100) + b"{"), id="breaks off in the middle"),
    ],
)
async def test_a_broken_answer_is_the_stores_fault(stores: Stores, script: Script) -> None:
    async with serve(script) as server:
        called = await stores.ask(server.url)
    assert called.error
    assert called.error.startswith("The server of the webhook URL")
    assert called.was_sent


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(drop(), id="drops the connection"),
        pytest.param(raw(head(200, content_length=100) + b"{"), id="breaks off in the middle"),
        pytest.param(reply(204), id="204"),
        pytest.param(reply(429), id="429"),
        pytest.param(reply(502), id="502"),
    ],
)
async def test_a_call_without_a_usable_answer_may_have_arrived(stores: Stores, script: Script) -> None:
    async with serve(script) as server:
        called = await stores.ask(server.url)
    assert called.error
    assert called.may_have_arrived
    assert not called.repeated


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}/", "https://169.254.169.254/"])
async def test_a_call_that_made_no_connection_has_not_arrived(stores: Stores, url: str) -> None:
    called = await stores.ask(url.format(free_port()))
    assert called.error
    assert not called.may_have_arrived


async def test_a_call_on_a_kept_connection_that_is_closed_was_sent_twice(stores: Stores) -> None:
    """The store may have read it before it closed the connection."""
    store = new_id()
    async with serve(in_turn(reply(200, b"{}"), drop(), reply(409), reply(200, b"{}"))) as server:
        answered = await stores.ask(server.url, store_id=store)
        repeated = await stores.ask(server.url, store_id=store)
        assert len(server.requests) == 3
    assert not answered.repeated
    assert (repeated.status, repeated.repeated, repeated.may_have_arrived) == (409, True, True)


async def test_a_closed_port_is_the_stores_fault(stores: Stores) -> None:
    called = await stores.ask(f"http://127.0.0.1:{free_port()}/validate")
    assert called.error
    assert "refused the connection" in called.error
    assert stores.figure("mercato_store_calls_total", outcome="connect") == 1


async def test_a_store_that_hangs_times_out_after_the_callers_seconds(stores: Stores) -> None:
    async with serve(hang()) as server:
        for seconds in lengthening(1.0):
            began = asyncio.get_running_loop().time()
            async with loop_timeout(seconds + 9):
                called = await stores.ask(server.url, seconds=seconds)
            took = asyncio.get_running_loop().time() - began
            if called.was_sent:
                break
    assert called.error is not None
    assert called.error.startswith("The server of the webhook URL gave no full answer within ")
    assert took >= 0.9 * seconds


async def test_an_endless_reply_is_cut_at_1_mib_and_never_held_in_memory(stores: Stores) -> None:
    # Warm, so that only the reply is measured.
    async with serve(in_turn(reply(200, b"{}"), endless(start=head(200, content_length=1 << 30)))) as server:
        await stores.ask(server.url)
        tracemalloc.start()
        try:
            called = await stores.ask(server.url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert called.error == (
        "The server of the webhook URL sent more than 1 MiB. Compress or shorten what it sends."
    )
    assert called.body == b""
    assert peak < 8 << 20


async def test_a_reply_of_1_mib_is_read_whole_and_its_first_kib_is_logged(stores: Stores) -> None:
    body = b"{" + b" " * ((1 << 20) - 2) + b"}"
    async with serve(reply(200, body)) as server:
        called = await stores.ask(server.url)
    assert called.error is None
    assert called.body == body
    assert called.reply is not None
    assert len(called.reply) == 1024


# --- logs and excerpts ----------------------------------------------------------------------------------


async def test_the_token_and_hidden_strings_are_masked_in_replies_and_logs(
    stores: Stores,
    harness: Harness,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    configure_logs(level="debug", form="json")
    escaped = CARD.replace("/", "\\/")
    echo = f'{{"got": "{CARD}", "php": "{escaped}", "url": "tok_card%2F4242%2Bsecret", "auth": "{TOKEN}"}}'
    store = new_id()

    def quoting(_status: int, body: bytes) -> str:
        return f"It answered {body.decode()}"

    async with serve(reply(500, echo.encode())) as server:
        await harness.bind(server.url)
        for _ in range(10):
            call = stores.call(server.url + f"/v?key={TOKEN}", store_id=store, hidden=(CARD,))
            called = await stores.calls.post(call, seconds=PATIENCE, parser=quoting)
    assert called.reply == '{"got": "***", "php": "***", "url": "***", "auth": "***"}'
    assert called.error == f"It answered {called.reply}"
    output = capsys.readouterr()
    logged = output.out + output.err + caplog.text + repr(call) + repr(called)
    assert "circuit breaker opened" in output.err
    # No bare digits: an id may hold any four of them.
    for secret in (CARD, "card/4242", "4242+", TOKEN, stores.secret):
        assert secret not in logged.replace(call.url, "")
        assert secret not in output.err


async def test_a_hidden_string_that_the_end_of_the_excerpt_cuts_is_masked_too(
    stores: Stores,
) -> None:
    async with serve(reply(200, b"{" + b"." * 1010 + CARD.encode())) as server:
        called = await stores.ask(server.url, hidden=(CARD,))
    assert called.reply is not None
    assert "tok_" not in called.reply


# --- the breaker -----------------------------------------------------------------------------------------


async def test_after_10_calls_of_which_half_failed_the_store_is_not_called_for_10_seconds(
    stores: Stores,
) -> None:
    store = new_id()
    script = in_turn(*[reply(200, b"{}")] * 5, *[reply(500)] * 5, reply(200, b"{}"))
    async with serve(script) as server:
        for _ in range(10):
            assert (await stores.ask(server.url, store_id=store)).was_sent
        stores.time[0] += 9.9
        called = await stores.ask(server.url, store_id=store)
        assert not called.was_sent
        assert called.status is None
        assert called.error == (
            "The store was not called: half of the latest calls to this address failed. It is tried again soon."
        )
        assert called.retry_after == pytest.approx(0.1)
        assert len(server.requests) == 10
        assert stores.figure("mercato_store_breakers_open") == 1
        assert stores.figure("mercato_store_breaker_openings_total") == 1
        stores.time[0] += 0.1
        assert (await stores.ask(server.url, store_id=store)).error is None
        assert stores.figure("mercato_store_breakers_open") == 0


async def test_during_a_trial_call_the_others_are_refused(stores: Stores) -> None:
    store, gate = new_id(), Gate()
    async with serve(in_turn(*[reply(500)] * 10, gate)) as server:
        await stores.fail(server.url, store)
        stores.time[0] += 10
        trial = asyncio.create_task(stores.ask(server.url, store_id=store))
        await gate.holds(1)
        assert not (await stores.ask(server.url, store_id=store)).was_sent
        gate.open.set()
        assert (await trial).error is None
        assert (await stores.ask(server.url, store_id=store)).was_sent


async def test_a_trial_whose_client_disconnects_does_not_keep_the_breaker_open(
    stores: Stores,
) -> None:
    store, gate = new_id(), Gate()
    async with serve(in_turn(*[reply(500)] * 10, gate, reply(200, b"{}"))) as server:
        await stores.fail(server.url, store)
        stores.time[0] += 10
        trial = asyncio.create_task(stores.ask(server.url, store_id=store))
        await gate.holds(1)
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        assert (await stores.ask(server.url, store_id=store)).error is None
        gate.open.set()


async def test_clients_that_disconnect_cannot_open_a_breaker(stores: Stores) -> None:
    store, gate = new_id(), Gate()
    async with serve(gate) as server:
        calls = [asyncio.create_task(stores.ask(server.url, store_id=store)) for _ in range(15)]
        await gate.holds(15)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        gate.open.set()
        assert (await stores.ask(server.url, store_id=store)).error is None


async def test_each_address_of_a_store_has_its_own_breaker_whatever_the_query(
    stores: Stores,
) -> None:
    store = new_id()
    script = by_path({"/place": reply(200, b"{}")})
    async with serve(script) as server:
        await stores.fail(server.url + "/validate?a", store)
        assert not (await stores.ask(server.url + "/validate?b", store_id=store)).was_sent
        assert (await stores.ask(server.url + "/place", store_id=store)).error is None
        assert (await stores.ask(server.url + "/validate")).was_sent  # another store at the same address


async def test_a_call_with_almost_no_time_left_does_not_count_against_the_store(
    stores: Stores,
) -> None:
    store = new_id()
    async with serve(hang()) as server:
        calls = [stores.ask(server.url, store_id=store, seconds=0.2) for _ in range(12)]
        assert all(called.error for called in await asyncio.gather(*calls))
        assert stores.calls.count_open_breakers() == 0


# --- limits ----------------------------------------------------------------------------------------------


async def test_20_calls_of_a_store_run_at_once_and_the_21st_waits(stores: Stores) -> None:
    store, gate = new_id(), Gate()
    async with serve(gate) as server:
        calls = [asyncio.create_task(stores.ask(server.url, store_id=store)) for _ in range(21)]
        await gate.holds(20)
        for _ in range(20):
            await asyncio.sleep(0)
        assert gate.held == 20
        gate.open.set()
        assert all(called.error is None for called in await asyncio.gather(*calls))
        assert gate.held == 21


async def test_a_call_whose_time_ends_while_it_waits_was_not_sent(stores: Stores) -> None:
    store, gate = new_id(), Gate()
    async with serve(gate) as server:
        calls = [asyncio.create_task(stores.ask(server.url, store_id=store)) for _ in range(20)]
        await gate.holds(20)
        called = await stores.ask(server.url, store_id=store, seconds=0.02)
        assert not called.was_sent
        assert called.error == "The store was not called: the call's time was over before a slot was free."
        assert called.retry_after == 1.0
        gate.open.set()
        await asyncio.gather(*calls)
        assert len(server.requests) == 20
    assert stores.figure("mercato_store_calls_total", outcome="late") == 1


async def test_with_100_waiting_one_more_is_refused_at_once(stores: Stores) -> None:
    store, gate = new_id(), Gate()
    async with serve(gate) as server:
        calls = [asyncio.create_task(stores.ask(server.url, store_id=store)) for _ in range(120)]
        await gate.holds(20)
        called = await stores.ask(server.url, store_id=store)
        assert (called.was_sent, called.ms) == (False, 0)
        gate.open.set()
        assert all(each.was_sent for each in await asyncio.gather(*calls))


async def test_a_client_that_disconnects_frees_its_slot(stores: Stores) -> None:
    store, gate = new_id(), Gate()
    async with serve(gate) as server:
        calls = [asyncio.create_task(stores.ask(server.url, store_id=store)) for _ in range(20)]
        await gate.holds(20)
        waiting = asyncio.create_task(stores.ask(server.url, store_id=store))
        calls[0].cancel()
        await gate.holds(21)
        gate.open.set()
        assert (await waiting).error is None
        await asyncio.gather(*calls, return_exceptions=True)


async def test_waiting_calls_end_at_once_when_the_breaker_opens(stores: Stores) -> None:
    # A call counts if it has half a second left when it is sent, which a busy machine may take from the first ones.
    for seconds in lengthening(1.5):
        store = new_id()
        async with serve(hang()) as server:
            calls = [stores.ask(server.url, store_id=store, seconds=seconds) for _ in range(20)]
            late = [stores.ask(server.url, store_id=store, seconds=2 * seconds) for _ in range(40)]
            done = await asyncio.gather(*calls, *late)
        if stores.calls.count_open_breakers():
            break
    # Some start after a failure before the tenth; the tenth opens the breaker.
    assert len(server.requests) <= 20 + 9
    assert sum(not called.was_sent for called in done) >= 31


async def test_hanging_stores_on_one_host_do_not_delay_another_store_there(stores: Stores) -> None:
    gate = Gate()
    async with serve(by_path({"/hangs": gate, "/works": reply(200, b"{}")})) as server:
        ids = [new_id() for _ in range(10)]
        hanging = [
            asyncio.create_task(stores.ask(server.url + "/hangs", store_id=store))
            for store in ids
            for _ in range(20)
        ]
        await gate.holds(100)
        async with loop_timeout(10):
            assert (await stores.ask(server.url + "/works")).error is None
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        gate.open.set()


async def test_a_store_in_use_stays_in_memory_and_the_rest_is_bounded(
    stores: Stores, harness: Harness
) -> None:
    calls = StoreCalls(
        outbound=harness.outbound,
        credentials=WebhookCredentials(harness.db, ChangeFeed(harness.db), harness.vault, clock.now),
        clock=clock.now,
        metrics=CommerceMetrics(),
        limiter=ConcurrencyLimiter(per_store=1),
        max_stores=3,
    )
    store, gate = new_id(), Gate()
    async with serve(by_path({"/hangs": gate})) as server:

        def ask(path: str, seconds: float = PATIENCE, **changes: Any) -> asyncio.Task[CallResult]:
            call = stores.call(server.url + path, **changes)
            return asyncio.create_task(calls.post(call, seconds=seconds, parser=sensible))

        first = ask("/hangs", store_id=store)
        await gate.holds(1)
        for _ in range(10):
            await ask("/other")
        assert len(calls._stores) == 3
        second = ask("/hangs", 0.1, store_id=store)
        assert not (await second).was_sent  # it waited behind the first, whose store stayed in memory
        gate.open.set()
        await first


async def test_no_connection_is_made_to_an_address_that_is_not_public(stores: Stores) -> None:
    called = await stores.ask("https://169.254.169.254/latest")
    assert called.error == (
        "The webhook URL leads to an address that is not public. "
        "Use a host that can be reached from the public internet."
    )
    assert called.ms < 10_000
