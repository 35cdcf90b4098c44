"""Deliveries survive the end of a process, and a disabled endpoint isn't called."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select, update
from tests.databases import mostly_sqlite, on_both
from tests.servers import Peer, Request, receiving, reply
from tests.waiting import PATIENCE
from tests.webhooks.harness import Harness, job_of

from mercato.features.webhooks.deliveries import enable_endpoints_below
from mercato.features.webhooks.endpoint_health import enable
from mercato.features.webhooks.model import KIND, MAX_FAULTS, DeliverJob
from mercato.features.webhooks.tables import deliveries as delivery_rows
from mercato.features.webhooks.tables import failing_endpoints
from mercato.platform.jobs import Job, JobLost, JobOutcome, Worker
from mercato.platform.jobs.maintenance import move_orphans
from mercato_contract.clock import new_id
from mercato_contract.events import EventType
from mercato_contract.webhooks import DeliveryStatus

pytestmark = mostly_sqlite

NOWHERE = "http://127.0.0.1:9/hooks"


class Killed(BaseException):
    """The process ended here."""


def killed() -> float:
    raise Killed


async def restart(harness: Harness) -> None:
    """Come back after a crash: what was running is due again."""
    async with harness.db.write() as tx:
        await move_orphans(tx)


# --- durable ------------------------------------------------------------------------------------------


async def test_a_push_that_is_rolled_back_leaves_neither_delivery_nor_job(harness: Harness) -> None:
    async def rolled_back() -> None:
        async with harness.db.write() as tx:
            await harness.push_in(tx, NOWHERE)
            raise Killed

    with pytest.raises(Killed):
        await rolled_back()
    async with harness.db.read() as tx:
        assert await tx.scalar(select(func.count()).select_from(delivery_rows)) == 0
    assert await harness.jobs() == []


async def test_a_crash_between_perform_and_record_sends_again_with_the_same_webhook_id(
    harness: Harness,
) -> None:
    async with receiving() as receiver:
        delivery = await harness.push(receiver.url)
        with pytest.raises(Killed):
            await harness.sender(random=killed).handle(job_of(await harness.claim()))
        await restart(harness)
        await harness.attempt()
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    seen = await harness.get(delivery)
    assert (seen.status, seen.attempts, len(seen.attempt_log)) == (DeliveryStatus.SUCCEEDED, 1, 1)


@pytest.mark.parametrize("status", [204, 500])
async def test_a_crash_after_record_makes_no_early_attempt(harness: Harness, status: int) -> None:
    async with receiving(reply(status)) as receiver:
        await harness.push(receiver.url)
        await harness.sender().handle(job_of(await harness.claim()))
        await restart(harness)
    assert len(receiver.requests) == 1
    # The attempt and its job end in one transaction: the job that is left is the next attempt's, and not due.
    assert [job.state for job in await harness.jobs()] == ([] if status == 204 else ["waiting"])


@on_both
async def test_a_slow_worker_that_lost_its_job_changes_nothing(harness: Harness) -> None:
    answer = asyncio.Event()

    async def late(request: Request, peer: Peer) -> None:
        await answer.wait()
        await reply(500)(request, peer)

    async with receiving(late, reply(204)) as receiver:
        delivery = await harness.push(receiver.url)
        slow = asyncio.create_task(harness.sender().handle(job_of(await harness.claim())))
        await receiver.arrived.wait()
        await restart(harness)
        await harness.attempt()
        answer.set()
        with pytest.raises(JobLost):
            await slow
    seen = await harness.get(delivery)
    assert (seen.status, [a.status for a in seen.attempt_log]) == (DeliveryStatus.SUCCEEDED, [204])


@on_both
async def test_a_delivery_whose_job_dies_fails_visibly_and_can_be_redelivered(harness: Harness) -> None:
    async with receiving() as receiver:
        delivery = await harness.push(receiver.url)
        async with harness.db.write() as tx:
            await tx.execute(update(delivery_rows).values(faults=MAX_FAULTS - 1))
        broken = harness.sender()
        broken._credentials = None  # type: ignore[assignment]  # an internal fault
        await harness.attempt(broken)
        seen = await harness.get(delivery)
        assert (seen.status, seen.attempts) == (DeliveryStatus.FAILED, 0)
        assert seen.error == "A fault on our side kept it from being sent. Redeliver it."
        await harness.redeliver(delivery)
        await harness.attempt()
    assert (await harness.get(delivery)).status is DeliveryStatus.SUCCEEDED


@on_both
async def test_a_worker_delivers_and_a_waiting_retry_blocks_no_other_delivery(harness: Harness) -> None:
    ended: asyncio.Queue[None] = asyncio.Queue()
    sender = harness.sender()

    async def observed(job: Job[DeliverJob]) -> JobOutcome:
        done = await sender.handle(job)
        ended.put_nowait(None)
        return done

    worker = Worker(harness.db, {KIND: replace(sender.handler(concurrency=8, per_partner=4), fn=observed)})
    subject = new_id()
    async with receiving(reply(503), reply(204)) as receiver, asyncio.timeout(PATIENCE):
        running = asyncio.create_task(worker.run())
        failing = await harness.push(receiver.url, order_id=subject)
        await ended.get()
        other = await harness.push(receiver.url, order_id=subject)
        await ended.get()
        await worker.stop(grace=timedelta(seconds=5))
        await running
    assert (await harness.get(failing)).status is DeliveryStatus.PENDING
    assert (await harness.get(other)).status is DeliveryStatus.SUCCEEDED


# --- disabled endpoints ---------------------------------------------------------------------------------


async def test_an_event_for_a_disabled_endpoint_is_recorded_as_failed_and_not_sent(harness: Harness) -> None:
    async with receiving(reply(410)) as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
        delivery = await harness.push(receiver.url)
    assert await harness.jobs() == []
    seen = await harness.get(delivery)
    assert (seen.status, seen.attempts, seen.next_attempt_at) == (DeliveryStatus.FAILED, 0, None)
    assert (seen.error or "").startswith("endpoint disabled: The receiver answered 410 Gone")


async def test_an_endpoint_is_one_url_with_its_suffix(harness: Harness) -> None:
    async with receiving(reply(410), reply(204)) as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
        other = await harness.push(receiver.url, type=EventType.ORDER_CANCELLED)
        await harness.attempt()
    assert (await harness.get(other)).status is DeliveryStatus.SUCCEEDED


async def test_a_retry_that_was_waiting_when_its_endpoint_was_disabled_fails_without_a_call(
    harness: Harness,
) -> None:
    async with receiving(reply(500), reply(410)) as receiver:
        waiting = await harness.push(receiver.url)
        await harness.attempt()
        await harness.push(receiver.url)
        await harness.attempt()
        await harness.wait_for_retry()
        await harness.attempt()
    assert len(receiver.requests) == 2
    seen = await harness.get(waiting)
    assert (seen.status, seen.attempts) == (DeliveryStatus.FAILED, 1)
    assert (seen.error or "").startswith("endpoint disabled: ")


async def test_a_redelivery_enables_the_endpoint(harness: Harness) -> None:
    async with receiving(reply(410), reply(204)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
        assert (await harness.redeliver(delivery)).endpoint_disabled is None
        await harness.attempt()
    assert (await harness.get(delivery)).status is DeliveryStatus.SUCCEEDED


async def test_an_endpoint_can_be_enabled_by_its_address_or_by_the_webhook_url_above_it(
    harness: Harness,
) -> None:
    async with receiving(reply(410)) as receiver:
        for enable_url, path in ((enable, "/catalog-sync"), (enable_endpoints_below, "")):
            delivery = await harness.push(receiver.url)
            await harness.attempt()
            async with harness.db.write() as tx:
                assert await enable_url(tx, harness.partner.id, receiver.url + path)
                assert not await enable_url(tx, harness.partner.id, receiver.url + path)
            assert (await harness.get(delivery)).endpoint_disabled is None


@on_both
async def test_a_success_deletes_the_endpoints_row(harness: Harness) -> None:
    async with receiving(reply(500), reply(204)) as receiver:
        await harness.push(receiver.url)
        await harness.attempt()
        await harness.wait_for_retry()
        await harness.attempt()
    async with harness.db.read() as tx:
        assert await tx.scalar(select(func.count()).select_from(failing_endpoints)) == 0
