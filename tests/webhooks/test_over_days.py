"""An endpoint over days, by a clock that the test moves: failing, disabled, with another secret, enabled again."""

from collections import Counter
from datetime import timedelta

import standardwebhooks
from sqlalchemy import update
from tests.servers import Peer, Request, head, receiving, reply
from tests.webhooks.harness import Harness

from mercato.features.partners import accounts
from mercato.features.webhooks.model import DISABLE_AFTER, DISABLE_FROM, KIND, MAX_ATTEMPTS, RETRY_DELAYS
from mercato.features.webhooks.operators import count_redeliverable, redeliver_all
from mercato.features.webhooks.queries import DeliveryFilter
from mercato.platform.db.tables import jobs
from mercato.platform.jobs.claim import Rotation, claim
from mercato.platform.jobs.run import Run
from mercato.platform.jobs.settle import settle
from mercato_contract.webhooks import DeliveryStatus

HOURS = timedelta(hours=1)


def signature(secret: str, request: Request, harness: Harness) -> str:
    """Return what signs the request now: verifiers refuse the clock of these tests."""
    webhook_id = request.headers["webhook-id"]
    return standardwebhooks.Webhook(secret).sign(webhook_id, harness.now, request.body.decode())


async def work(harness: Harness) -> None:
    """Send everything that is due, as a worker does."""
    handler = harness.sender().handler(concurrency=8)
    while True:
        async with harness.db.write() as tx:
            claimed = await claim(
                tx, KIND, handler, worker="w", lease=timedelta(minutes=1), free=8, rotation=Rotation()
            )
        if not claimed:
            return
        for job in claimed:
            run = Run(job, handler)
            await settle(harness.db, run.job, handler, await run.result())


async def pass_time(harness: Harness, delta: timedelta) -> None:
    """Move the clock, and do what has become due."""
    harness.now += delta
    async with harness.db.write() as tx:
        due = update(jobs).where(jobs.c.state == "waiting", jobs.c.run_at <= harness.now)
        await tx.execute(due.values(state="ready"))
    await work(harness)


async def test_an_endpoint_that_fails_for_days_is_disabled_and_gets_everything_once_it_works_again(
    harness: Harness,
) -> None:
    began, pushed, status = harness.now, [], 500

    async def answer(_: Request, peer: Peer) -> None:
        await peer.send(head(status, content_length=0))

    failed = DeliveryFilter(partner_id=harness.partner.id, status=DeliveryStatus.FAILED)
    async with receiving(answer) as receiver:
        disabled = list[bool]()
        while sum(disabled) < 4:
            assert harness.now < began + 2 * DISABLE_AFTER
            pushed.append(await harness.push(receiver.url))
            await work(harness)
            await pass_time(harness, 6 * HOURS)
            disabled.append((await harness.get(pushed[0])).endpoint_disabled is not None)
        attempts, disabling = Counter[str](), list[int]()
        for at, request in enumerate(receiver.requests):
            attempts[request.headers["webhook-id"]] += 1
            after = timedelta(seconds=int(request.headers["webhook-timestamp"]) - int(began.timestamp()))
            if after >= DISABLE_AFTER and attempts[request.headers["webhook-id"]] >= DISABLE_FROM:
                disabling.append(at)
        seen = [await harness.get(delivery) for delivery in pushed]
        assert {one.status for one in seen} == {DeliveryStatus.FAILED}
        assert max(attempts.values()) <= MAX_ATTEMPTS
        # The first attempt after five days that may disable it does. Then nothing is sent, no retry and nothing new.
        assert disabling == [len(receiver.requests) - 1]
        assert [one.attempts for one in seen[-3:]] == [0, 0, 0]
        assert all("Every attempt since" in (one.endpoint_disabled or "") for one in seen)
        async with harness.db.write() as tx:
            newer = await accounts.rotate_signing_secret(
                tx, harness.vault, harness.partner.id, now=lambda: harness.now
            )
            assert [one.count for one in await count_redeliverable(tx, failed)] == [len(pushed)]
        status = 204
        receiver.requests.clear()
        sent = [one async for one in redeliver_all(harness.db, failed, now=lambda: harness.now)]
        await work(harness)
    assert sorted(sent) == sorted(pushed)
    arrived = Counter(request.headers["webhook-id"] for request in receiver.requests)
    assert set(arrived.values()) == {1}
    assert len(arrived) == len(pushed)
    for request in receiver.requests:
        assert set(request.headers["webhook-signature"].split()) == {
            signature(secret, request, harness) for secret in (harness.partner.signing_secret, newer)
        }
    for delivery in pushed:
        assert (await harness.get(delivery)).status is DeliveryStatus.SUCCEEDED


async def test_an_address_with_few_events_isnt_disabled_by_one_failure_weeks_after_the_last(
    harness: Harness,
) -> None:
    async with receiving(*[reply(500)] * (MAX_ATTEMPTS + 1), reply(204)) as receiver:
        first = await harness.push(receiver.url)
        await work(harness)
        for delay in RETRY_DELAYS:
            await pass_time(harness, 1.2 * delay)
        assert (await harness.get(first)).status is DeliveryStatus.FAILED
        await pass_time(harness, timedelta(days=20))
        second = await harness.push(receiver.url)
        await work(harness)
        await pass_time(harness, timedelta(seconds=6))
    found = await harness.get(second)
    assert (found.status, found.attempts) == (DeliveryStatus.SUCCEEDED, 2)
    assert found.endpoint_disabled is None


async def test_a_retry_that_outlives_a_rotations_overlap_is_signed_by_the_new_secret_alone(
    harness: Harness,
) -> None:
    async with receiving(*[reply(500)] * 6, reply(204)) as receiver:
        delivery = await harness.push(receiver.url)
        await work(harness)
        async with harness.db.write() as tx:
            newer = await accounts.rotate_signing_secret(
                tx, harness.vault, harness.partner.id, overlap=HOURS, now=lambda: harness.now
            )
        for wait in (6, 40, 140, 700, 4_000, 24_000):
            await pass_time(harness, timedelta(seconds=wait))
    signatures = [len(request.headers["webhook-signature"].split()) for request in receiver.requests]
    assert signatures == [1, 2, 2, 2, 2, 1, 1]
    last = receiver.requests[-1]
    assert (await harness.get(delivery)).status is DeliveryStatus.SUCCEEDED
    assert last.headers["webhook-signature"] == signature(newer, last, harness)
