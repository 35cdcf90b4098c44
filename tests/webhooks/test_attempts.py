"""The requests that a receiver gets, and the effect of its replies."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
from sqlalchemy import delete, update
from tests.databases import mostly_sqlite, on_both
from tests.servers import Peer, Request, hang, head, receiving, reply
from tests.waiting import PATIENCE, lengthening
from tests.webhooks.harness import TOKEN, TRACE, Harness, open_harness

from mercato.features.partners import accounts
from mercato.features.partners.model import Surface
from mercato.features.partners.webhook_tokens import set_webhook_token
from mercato.features.webhooks import attempts
from mercato.features.webhooks.model import DISABLE_FROM
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Database
from mercato.platform.db.tables import jobs
from mercato.platform.telemetry import configure_logs
from mercato_contract.clock import new_id
from mercato_contract.webhooks import DeliveryStatus

pytestmark = mostly_sqlite


@on_both
async def test_a_delivery_is_posted_at_once_with_the_headers_of_the_contract(harness: Harness) -> None:
    webhook_id = new_id()
    async with receiving() as receiver:
        delivery = await harness.push(receiver.url + "/hooks", webhook_id=webhook_id)
        await harness.attempt()
    [request] = receiver.requests
    assert (request.method, request.path) == ("POST", "/hooks/catalog-sync")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["webhook-id"] == request.headers["idempotency-key"] == str(webhook_id)
    assert request.headers["webhook-timestamp"] == str(int(harness.now.timestamp()))
    assert request.headers["content-type"] == "application/json"
    assert request.headers["traceparent"] == TRACE
    assert request.headers["user-agent"].startswith("Mercato/")
    seen = await harness.get(delivery)
    assert bytes(seen.body) == request.body
    assert seen.status is DeliveryStatus.SUCCEEDED
    assert (seen.attempts, seen.next_attempt_at, seen.error) == (1, None, None)
    assert [(a.number, a.status, a.error, a.reply) for a in seen.attempt_log] == [(1, 204, None, "")]
    assert await harness.jobs() == []


async def test_the_body_is_the_envelope_with_type_timestamp_and_data(harness: Harness) -> None:
    at = datetime(2026, 1, 31, 23, 59, 59, 7000, tzinfo=UTC)
    async with receiving() as receiver:
        await harness.push(receiver.url, data={"status": "succeeded"}, now=at)
        await harness.attempt()
    assert json.loads(receiver.requests[0].body) == {
        "type": "catalog.sync.succeeded",
        "timestamp": "2026-01-31T23:59:59.007Z",
        "data": {"status": "succeeded"},
    }


async def test_the_signature_is_verified_by_standardwebhooks_and_by_svix(harness: Harness) -> None:
    import svix

    async with receiving() as receiver:
        await harness.push(receiver.url, data={"name": "Crème brûlée 🍮"})
        await harness.attempt()
    [request] = receiver.requests
    secret = harness.partner.signing_secret
    for verifier in (standardwebhooks.Webhook(secret), svix.Webhook(secret)):
        verifier.verify(request.body, request.headers)
        with pytest.raises((standardwebhooks.WebhookVerificationError, svix.WebhookVerificationError)):
            verifier.verify(request.body + b" ", request.headers)


async def test_during_a_rotation_both_secrets_verify(harness: Harness) -> None:
    import svix

    async with harness.db.write() as tx:
        second = await accounts.rotate_signing_secret(tx, harness.vault, harness.partner.id)
    async with receiving() as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
    [request] = receiver.requests
    assert len(request.headers["webhook-signature"].split(" ")) == 2
    for secret in (harness.partner.signing_secret, second):
        for verifier in (standardwebhooks.Webhook(secret), svix.Webhook(secret)):
            verifier.verify(request.body, request.headers)


async def test_a_retry_has_the_same_id_and_body_and_a_new_timestamp_and_signature(harness: Harness) -> None:
    async with receiving(reply(503), reply(204)) as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
        await harness.wait_for_retry()
        await harness.attempt()
    first, second = receiver.requests
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 5
    expected = standardwebhooks.Webhook(harness.partner.signing_secret).sign(
        second.headers["webhook-id"], harness.now, second.body.decode()
    )
    assert second.headers["webhook-signature"] == expected != first.headers["webhook-signature"]


async def test_a_receiver_that_always_fails_gets_nine_attempts_on_schedule(harness: Harness) -> None:
    waits = []
    async with receiving(reply(500)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
        for _ in range(8):
            assert (await harness.get(delivery)).status is DeliveryStatus.PENDING
            waits.append(await harness.wait_for_retry())
            await harness.attempt()
    minute = timedelta(minutes=1)
    assert waits == [
        timedelta(seconds=5),
        timedelta(seconds=30),
        2 * minute,
        10 * minute,
        60 * minute,
        360 * minute,
        1440 * minute,
        1440 * minute,
    ]
    seen = await harness.get(delivery)
    assert (seen.status, seen.attempts, seen.next_attempt_at) == (DeliveryStatus.FAILED, 9, None)
    assert seen.error == "All 9 attempts failed. The last error: The receiver answered 500."
    assert seen.endpoint_disabled is None
    assert [attempt.number for attempt in seen.attempt_log] == list(range(1, 10))
    assert await harness.jobs() == []


async def test_the_job_of_a_retry_waits_as_long_as_the_schedule_says(harness: Harness) -> None:
    async with receiving(reply(500)) as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
    [job] = await harness.jobs()
    assert job.state == "waiting"
    assert job.run_at - job.enqueued_at == timedelta(seconds=5)


async def test_retry_after_of_the_receiver_is_honoured(harness: Harness) -> None:
    async with receiving(reply(429, Retry_After="9"), reply(503, Retry_After="3600")) as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
        assert await harness.wait_for_retry() == timedelta(seconds=9)
        await harness.attempt()
        assert await harness.wait_for_retry() == timedelta(seconds=60)


async def test_a_redirect_is_a_failure_and_is_not_followed(harness: Harness) -> None:
    async with receiving() as other, receiving(reply(301, Location=other.url)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
    seen = await harness.get(delivery)
    assert other.requests == []
    assert seen.status is DeliveryStatus.PENDING
    assert seen.error == "The receiver answered 301: redirects are not followed."


async def test_a_receiver_that_does_not_answer_is_a_timeout(harness: Harness) -> None:
    async with receiving(hang()) as receiver:
        for seconds in lengthening(0.2):
            delivery = await harness.push(receiver.url)
            await harness.attempt(harness.sender(seconds=seconds))
            if receiver.requests:
                break
        async with asyncio.timeout(PATIENCE):
            await receiver.dropped.wait()
    [attempt] = (await harness.get(delivery)).attempt_log
    assert (attempt.status, attempt.reply) == (None, None)
    assert attempt.error == f"The server of the webhook URL gave no full answer within {seconds:g} seconds."
    assert 750 * seconds <= attempt.ms


async def test_a_refused_connection_is_described_without_the_systems_message(harness: Harness) -> None:
    async with receiving() as receiver:
        base = receiver.url
    delivery = await harness.push(base)
    await harness.attempt()
    [attempt] = (await harness.get(delivery)).attempt_log
    assert attempt.error is not None
    assert attempt.error.startswith("The server of the webhook URL refused the connection.")
    assert "127.0.0.1" not in attempt.error


async def test_a_reply_of_1_gib_is_cut_at_1_kib_and_the_connection_dropped(harness: Harness) -> None:
    sent = 0

    async def pour(_: Request, peer: Peer) -> None:
        nonlocal sent
        await peer.send(head(content_length=1 << 30))
        while sent < 1 << 30:
            await peer.send(b"x" * 65_536)
            sent += 65_536

    async with receiving(pour) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
        async with asyncio.timeout(PATIENCE):
            await receiver.dropped.wait()
    seen = await harness.get(delivery)
    assert seen.status is DeliveryStatus.SUCCEEDED
    assert seen.attempt_log[0].reply == "x" * 1024
    assert sent < 64 << 20


async def test_an_echoed_token_is_masked_in_the_logged_reply(harness: Harness) -> None:
    said = json.dumps({"bad": "signature\x00", "seen": {"Authorization": f"Bearer {TOKEN}"}}).encode()
    async with receiving(reply(400, said)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
    shown = (await harness.get(delivery)).attempt_log[0].reply
    assert shown == '{"bad": "signature\\u0000", "seen": {"Authorization": "Bearer ***"}}'


async def test_a_reply_of_any_bytes_can_be_stored(harness: Harness) -> None:
    async with receiving(reply(400, b"\x00\xff\xfe" * 600)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
    shown = (await harness.get(delivery)).attempt_log[0].reply
    assert shown is not None
    assert shown.startswith("\ufffd")


async def test_an_event_url_is_called_as_it_is_and_never_gets_the_token(harness: Harness) -> None:
    async with receiving() as receiver:
        delivery = await harness.push(
            receiver.url + "/events?shop=1", surface=Surface.MARKETFRONT, type="order.created"
        )
        await harness.attempt()
    [request] = receiver.requests
    assert request.path == "/events?shop=1"
    assert "authorization" not in request.headers
    assert standardwebhooks.Webhook(harness.partner.signing_secret).verify(request.body, request.headers)
    assert (await harness.get(delivery, Surface.MARKETFRONT)).status is DeliveryStatus.SUCCEEDED


async def test_without_a_token_none_is_sent(harness: Harness) -> None:
    async with harness.db.write() as tx:
        await set_webhook_token(tx, harness.vault, harness.partner.id, None)
    async with receiving() as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
    assert "authorization" not in receiver.requests[0].headers


async def test_the_query_of_the_webhook_url_follows_the_suffix(harness: Harness) -> None:
    async with receiving() as receiver:
        delivery = await harness.push(receiver.url + "/hooks/?key=a%2Fb&x=1")
        await harness.attempt()
    assert receiver.requests[0].path == "/hooks/catalog-sync?key=a%2Fb&x=1"
    assert (await harness.get(delivery)).url == receiver.url + "/hooks/catalog-sync?key=a%2Fb&x=1"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_without_private_networks_a_webhook_goes_to_public_https_addresses_only(
    db: Database, scheme: str
) -> None:
    async with open_harness(db, allow_private=False) as harness, receiving() as receiver:
        delivery = await harness.push(receiver.url.replace("http", scheme, 1))
        await harness.attempt()
        seen = await harness.get(delivery)
    assert receiver.requests == []
    says = {"http": "must begin with https://", "https": "leads to an address that is not public"}[scheme]
    assert says in (seen.error or "")


async def test_410_disables_the_endpoint_and_the_partner_sees_why(harness: Harness) -> None:
    async with receiving(reply(410)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
    seen = await harness.get(delivery)
    assert (seen.status, seen.attempts) == (DeliveryStatus.FAILED, 1)
    assert seen.error == seen.endpoint_disabled == "The receiver answered 410 Gone: the endpoint is disabled."


@on_both
async def test_after_5_days_of_failures_the_endpoint_is_disabled_and_a_success_restarts_them(
    harness: Harness,
) -> None:
    async with receiving(reply(500), reply(204), *[reply(500)] * (1 + DISABLE_FROM)) as receiver:
        for _ in range(2):
            await harness.push(receiver.url)
            await harness.attempt()
            await _drop_retries(harness)
        harness.now += timedelta(days=4)
        third = await harness.push(receiver.url)
        await harness.attempt()
        await _drop_retries(harness)
        assert (await harness.get(third)).endpoint_disabled is None
        since, harness.now = harness.now, harness.now + timedelta(days=5)
        fourth = await harness.push(receiver.url)
        await harness.attempt()
        for _ in range(DISABLE_FROM - 1):
            assert (await harness.get(fourth)).endpoint_disabled is None
            async with harness.db.write() as tx:
                await tx.execute(update(jobs).where(jobs.c.state == "waiting").values(state="ready"))
            await harness.attempt()
    seen = await harness.get(fourth)
    assert seen.status is DeliveryStatus.FAILED
    assert (seen.endpoint_disabled or "").startswith(f"Every attempt since {since:%Y-%m-%dT%H:%M:%S}")


async def _drop_retries(harness: Harness) -> None:
    async with harness.db.write() as tx:
        await tx.execute(delete(jobs).where(jobs.c.state == "waiting"))
        await tx.execute(update(deliveries).values(due_at=None))


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("left", [True, False], ids=["left", "deleted"])
async def test_a_delivery_to_a_partner_who_was_deleted_meanwhile_ends_without_a_fault(
    harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    size: int,
    left: bool,
) -> None:
    configure_logs(level="info", form="json")
    async with receiving() as receiver:
        delivery = await harness.push(receiver.url, data={"text": "x" * size})
        read = attempts.list_due

        async def read_before(*given: Any, **options: Any) -> Any:
            """Return what is due, and delete the partner: as if it had happened between the two."""
            due = await read(*given, **options)
            async with harness.db.write() as tx:
                if not left:
                    await tx.execute(delete(deliveries).where(deliveries.c.id == delivery))
                await accounts.delete_partner(tx, harness.partner.id)
            return due

        monkeypatch.setattr(attempts, "list_due", read_before)
        await harness.attempt()
        monkeypatch.undo()
    assert receiver.requests == []
    assert await harness.jobs() == []
    logged = capfd.readouterr()
    assert "Traceback" not in logged.out + logged.err
    assert "The partner was deleted." in logged.out + logged.err
    if left:
        seen = await harness.get(delivery)
        assert (seen.status, seen.error, seen.next_attempt_at) == (
            DeliveryStatus.FAILED,
            "The partner was deleted.",
            None,
        )
