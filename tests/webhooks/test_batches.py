"""Deliveries of one ordering key that one run sends: in order, each recorded, none after a 410."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import BigInteger, select, type_coerce, update
from tests.databases import mostly_sqlite, on_both
from tests.servers import Peer, Request, hang, receiving, reply
from tests.waiting import PATIENCE
from tests.webhooks.harness import Harness, working

from mercato.features.webhooks import attempts, endpoint_health, sender
from mercato.features.webhooks.attempts import LARGE
from mercato.features.webhooks.model import KIND, PARTITIONS, partition_of
from mercato.features.webhooks.tables import deliveries as delivery_rows
from mercato.features.webhooks.tables import delivery_attempts
from mercato.platform.db.engine import Write
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import Worker
from mercato.platform.jobs.maintenance import move_orphans, move_stranded
from mercato.platform.jobs.run import MAX_LOSSES
from mercato_contract.clock import new_id
from mercato_contract.events import SUFFIXES, EventType
from mercato_contract.signing import target
from mercato_contract.webhooks import DeliveryStatus

pytestmark = mostly_sqlite


async def pushed(harness: Harness, base: str, count: int) -> list[UUID]:
    """Push events of one subject, and so of one ordering key."""
    subject = new_id()
    return [await harness.push(base, order_id=subject, data={"number": number}) for number in range(count)]


async def fails(harness: Harness, base: str, *, since: timedelta, disabled: bool = False) -> None:
    """Record that the endpoint has failed for so long."""
    url = target(base, SUFFIXES[EventType.CATALOG_SYNC_SUCCEEDED])
    async with harness.db.write() as tx:
        await endpoint_health.insert_failing(tx, harness.partner.id, url, since=harness.now - since)
        if disabled:
            await endpoint_health.disable(tx, harness.partner.id, url, reason="gone", now=harness.now)


async def ended(harness: Harness, made: list[UUID]) -> list[DeliveryStatus]:
    """Return how they stand once nothing is left to be done at once."""
    # Longer than a lease: what an earlier worker claimed last is due again after it.
    async with asyncio.timeout(PATIENCE):
        while any(job.state in {"ready", "running"} for job in await harness.jobs()):
            await asyncio.sleep(0.01)
    return [(await harness.get(one)).status for one in made]


async def test_a_backlog_of_an_ordering_key_arrives_in_order_and_each_attempt_is_recorded(
    harness: Harness,
) -> None:
    async with receiving() as receiver:
        made = await pushed(harness, receiver.url, 40)
        async with working(harness):
            assert await ended(harness, made) == [DeliveryStatus.SUCCEEDED] * 40
        assert [UUID(request.headers["webhook-id"]) for request in receiver.requests] == [
            (await harness.get(one)).webhook_id for one in made
        ]
    assert await harness.jobs() == []
    assert [len((await harness.get(one)).attempt_log) for one in made] == [1] * 40


@on_both
async def test_a_delivery_that_fails_waits_and_blocks_none_behind_it(harness: Harness) -> None:
    async with receiving(reply(204), reply(503), reply(204)) as receiver:
        made = await pushed(harness, receiver.url, 5)
        async with working(harness):
            states = await ended(harness, made)
    assert states == [DeliveryStatus.SUCCEEDED, DeliveryStatus.PENDING, *[DeliveryStatus.SUCCEEDED] * 3]
    assert [job.state for job in await harness.jobs()] == ["waiting"]


@on_both
async def test_deliveries_before_a_call_that_hangs_are_recorded_meanwhile(harness: Harness) -> None:
    async with receiving(reply(204), reply(204), hang()) as receiver:
        made = await pushed(harness, receiver.url, 3)
        async with working(harness), asyncio.timeout(PATIENCE):
            while [(await harness.get(one)).status for one in made[:2]] != [DeliveryStatus.SUCCEEDED] * 2:
                await asyncio.sleep(0.01)
            assert (await harness.get(made[2])).status is DeliveryStatus.PENDING
            assert [job.state for job in await harness.jobs()] == ["running"]


@on_both
async def test_a_redelivery_during_a_batch_counts_and_the_others_are_recorded_as_sent(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One run sends all and records them together, however slow the machine is.
    monkeypatch.setattr(sender, "_BATCH_SECONDS", 60.0)
    monkeypatch.setattr(sender, "_SLOW_SECONDS", 60.0)
    made: list[UUID] = []

    async def redelivered(request: Request, peer: Peer) -> None:
        async with harness.db.write() as tx:
            await tx.execute(update(delivery_rows).where(delivery_rows.c.id == made[1]).values(round=1))
        await reply(204)(request, peer)

    async with receiving(reply(204), reply(204), redelivered, reply(204)) as receiver:
        made += await pushed(harness, receiver.url, 4)
        await harness.attempt()
    shown = [await harness.get(one) for one in made]
    assert [(one.status, len(one.attempt_log)) for one in shown] == [
        (DeliveryStatus.SUCCEEDED, 1),
        (DeliveryStatus.PENDING, 0),
        (DeliveryStatus.SUCCEEDED, 1),
        (DeliveryStatus.SUCCEEDED, 1),
    ]


@on_both
async def test_a_batch_is_recorded_like_single_deliveries(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_BATCH_SECONDS", 60.0)
    async with receiving() as receiver:
        await pushed(harness, receiver.url, 3)
        await harness.attempt()
        await pushed(harness, receiver.url + "/other", 1)
        await harness.attempt()
    async with harness.db.read() as tx:
        names = {"status", "error", "attempts", "next_attempt_at", "due_at", "faults", "updated_at"}
        found = await tx.all(select(*(column for column in delivery_rows.c if column.name in names)))
        logged = await tx.all(
            select(*(column for column in delivery_attempts.c if column.name not in {"delivery_id", "ms"}))
        )
    assert (len(found), len({tuple(row) for row in found})) == (4, 1)
    assert (len(logged), len({tuple(row) for row in logged})) == (4, 1)


@on_both
async def test_a_delivery_that_kills_its_workers_is_given_up_alone(harness: Harness) -> None:
    async with receiving() as receiver:
        made = await pushed(harness, receiver.url, 3)
        async with harness.db.write() as tx:
            await tx.execute(update(jobs).values(losses=MAX_LOSSES + 1))
        async with working(harness):
            states = await ended(harness, made)
    assert states == [DeliveryStatus.FAILED, DeliveryStatus.SUCCEEDED, DeliveryStatus.SUCCEEDED]


@on_both
async def test_all_events_arrive_that_are_pushed_while_runs_start_and_end(harness: Harness) -> None:
    subject = new_id()

    async def push(writer: int) -> list[UUID]:
        return [
            await harness.push(receiver.url, order_id=subject, data={"number": f"{writer}:{number}"})
            for number in range(25)
        ]

    async with receiving() as receiver, working(harness):
        made = [one for some in await asyncio.gather(*(push(writer) for writer in range(4))) for one in some]
        assert await ended(harness, made) == [DeliveryStatus.SUCCEEDED] * 100


@on_both
async def test_a_clock_that_is_set_back_delays_no_delivery(harness: Harness) -> None:
    async with receiving(reply(503), reply(503), reply(204)) as receiver:
        made = await pushed(harness, receiver.url, 2)
        for _ in made:
            await harness.attempt()
        async with harness.db.write() as tx:
            # As if the clock had been an hour ahead until now.
            for column in (jobs.c.run_at, jobs.c.enqueued_at, delivery_rows.c.due_at):
                later = {column.name: type_coerce(column + 3_600_000, BigInteger)}
                await tx.execute(update(column.table).values(later))
            assert await move_stranded(tx) == 2
        async with working(harness):
            assert await ended(harness, made) == [DeliveryStatus.SUCCEEDED] * 2


async def test_after_a_410_the_rest_of_the_batch_is_not_sent(harness: Harness) -> None:
    async with receiving(reply(204), reply(410)) as receiver:
        made = await pushed(harness, receiver.url, 6)
        async with working(harness):
            states = await ended(harness, made)
        assert len(receiver.requests) == 2
    assert states == [DeliveryStatus.SUCCEEDED, *[DeliveryStatus.FAILED] * 5]


async def test_after_a_410_other_partitions_send_only_what_is_in_flight(
    harness: Harness,
) -> None:
    said, disabled = False, asyncio.Event()

    async def answer(request: Request, peer: Peer) -> None:
        nonlocal said
        if said:
            await disabled.wait()
            await reply(204)(request, peer)
        else:
            said = True
            await reply(410)(request, peer)

    async with receiving(answer) as receiver:
        subjects = {partition_of(one): one for one in (UUID(int=number) for number in range(64))}
        assert len(subjects) == PARTITIONS
        async with harness.db.write() as tx:
            made = [
                await harness.push_in(tx, receiver.url, order_id=subject)
                for subject in subjects.values()
                for _ in range(8)
            ]
        async with working(harness), asyncio.timeout(PATIENCE):
            while not any([(await harness.get(one)).status is DeliveryStatus.FAILED for one in made]):
                await asyncio.sleep(0.001)
            disabled.set()
            states = await ended(harness, made)
        # Each partition sends one, and perhaps a second one in between.
        assert len(receiver.requests) <= 2 * PARTITIONS
    assert states.count(DeliveryStatus.FAILED) >= len(made) - 2 * PARTITIONS


async def test_an_endpoint_that_accepted_one_of_a_batch_is_not_disabled_for_earlier_failures(
    harness: Harness,
) -> None:
    async with receiving(reply(204), reply(503), reply(204)) as receiver:
        made = await pushed(harness, receiver.url, 3)
        await fails(harness, receiver.url, since=timedelta(days=6))
        async with working(harness):
            states = await ended(harness, made)
    assert states == [DeliveryStatus.SUCCEEDED, DeliveryStatus.PENDING, DeliveryStatus.SUCCEEDED]


@on_both
async def test_an_endpoint_that_is_enabled_while_its_batch_fails_gets_the_rest(
    harness: Harness,
) -> None:
    async with receiving() as receiver:
        made = await pushed(harness, receiver.url, 12)
        await fails(harness, receiver.url, since=timedelta(days=1), disabled=True)
        async with working(harness), asyncio.timeout(PATIENCE):
            while (await harness.get(made[0])).status is not DeliveryStatus.FAILED:
                await asyncio.sleep(0.001)
            # It is in flight, so it stays as it is.
            asked = await harness.redeliver(made[-1])
            states = await ended(harness, made)
    assert (asked.status, states[-1]) == (DeliveryStatus.PENDING, DeliveryStatus.SUCCEEDED)
    assert states == sorted(states)


async def test_a_large_delivery_of_a_batch_is_sent_in_order(harness: Harness) -> None:
    subject = new_id()
    async with receiving() as receiver:
        made = [
            await harness.push(receiver.url, order_id=subject, data={"text": "x" * size})
            for size in (1, 2 * LARGE, 2)
        ]
        async with working(harness):
            assert await ended(harness, made) == [DeliveryStatus.SUCCEEDED] * 3
    assert [len(request.body) > LARGE for request in receiver.requests] == [False, True, False]


@on_both
async def test_a_delivery_whose_success_cannot_be_recorded_is_not_sent_more_often_than_counted(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = attempts.insert_attempt_of_each
    bad: list[UUID] = []

    async def refuse(tx: Write, made: Any) -> None:
        if any(delivery.id in bad for delivery, _ in made):
            raise ValueError("it cannot be recorded")
        await insert(tx, made)

    monkeypatch.setattr(attempts, "insert_attempt_of_each", refuse)
    async with receiving() as receiver:
        made = await pushed(harness, receiver.url, 6)
        bad.append(made[1])
        async with working(harness):
            states = await ended(harness, made)
        its = str((await harness.get(bad[0])).webhook_id)
        sent = sum(request.headers["webhook-id"] == its for request in receiver.requests)
    (left,) = await harness.jobs()
    assert states == [DeliveryStatus.SUCCEEDED, DeliveryStatus.PENDING, *[DeliveryStatus.SUCCEEDED] * 4]
    async with harness.db.read() as tx:
        faults = await tx.scalar(select(delivery_rows.c.faults).where(delivery_rows.c.id == bad[0]))
    assert (left.state, faults) == ("waiting", sent)


# Simulated in one process; real crashes are in `tests/jobs/test_chaos.py` and `make prove`.
@pytest.mark.parametrize("sent", [1, 3])
async def test_after_a_crash_the_rest_of_a_batch_is_sent_again_and_nothing_is_lost(
    harness: Harness, sent: int
) -> None:
    class Killed(BaseException):
        """The process ended here."""

    left = sent
    killed = asyncio.Event()

    def chance() -> float:
        nonlocal left
        left -= 1
        if left == 0:
            killed.set()
            raise Killed
        return 0.5

    async with receiving() as receiver:
        made = await pushed(harness, receiver.url, 5)
        worker = Worker(harness.db, {KIND: harness.sender(random=chance).handler(concurrency=8)})
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(PATIENCE):
            await killed.wait()
        # Nothing is released in order: the worker's task has ended as its process would.
        running.cancel()
        await asyncio.wait([running])
        async with harness.db.write() as tx:
            await move_orphans(tx)
        async with working(harness):
            assert await ended(harness, made) == [DeliveryStatus.SUCCEEDED] * 5
        ids = [request.headers["webhook-id"] for request in receiver.requests]
    assert len(set(ids)) == 5
    assert len(ids) <= 5 + sent
