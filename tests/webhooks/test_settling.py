"""Attempts that succeeded are written down together; one that is apart keeps nothing from the others."""

import asyncio
from datetime import timedelta
from typing import Any

from sqlalchemy import select, update
from tests.webhooks.house import House

from mercato.db.tables import deliveries as delivery_rows
from mercato.db.tables import delivery_attempts, jobs
from mercato.jobs import Job, JobLost
from mercato.jobs.claim import Rotation, claim
from mercato.jobs.run import Run
from mercato.webhooks import sending
from mercato.webhooks.deliveries import KIND
from mercato.webhooks.model import DeliverJob, Delivery, DeliveryStatus, Outcome, Succeeded
from mercato.webhooks.settling import Ended, Settling

NOWHERE = "http://127.0.0.1:9/hooks"


async def under_way(house: House, count: int) -> list[Ended]:
    """Push deliveries, claim their jobs, and return attempts of them that succeeded."""
    for number in range(count):
        await house.push(f"{NOWHERE}/{number}")
    handler = house.sender().handler(concurrency=count)
    async with house.db.write() as tx:
        claimed = await claim(
            tx, KIND, handler, worker="w", lease=timedelta(seconds=60), free=2 * count, rotation=Rotation()
        )
        runs = [Run(one, handler).job for one in claimed]
        found = await sending.list_small(tx, [run.payload for run in runs])
    assert len(runs) == count
    return [ended(run, one, house) for run, one in zip(runs, found, strict=True)]


def ended(job: Job[DeliverJob], delivery: Delivery | None, house: House) -> Ended:
    assert delivery is not None
    outcome = Outcome(ms=1, status=204)
    return Ended(job=job, delivery=delivery, outcome=outcome, verdict=Succeeded(), at=house.now)


async def settled(house: House, made: list[Ended]) -> list[Any]:
    settling = Settling(house.db, lambda: house.now)
    return await asyncio.gather(*(settling.settle(one) for one in made), return_exceptions=True)


async def stand(house: House) -> tuple[list[str], int, int]:
    """Return the deliveries' states, in order, how many attempts are written down, and how many jobs there are."""
    async with house.db.read() as tx:
        states = await tx.all(select(delivery_rows.c.status).order_by(delivery_rows.c.id))
        attempts = await tx.all(select(delivery_attempts.c.number))
        left = await tx.all(select(jobs.c.id))
    return [row.status for row in states], len(attempts), len(left)


async def test_attempts_that_succeeded_at_the_same_time_are_all_written_down(house: House) -> None:
    made = await under_way(house, 8)
    assert await settled(house, made) == [None] * 8
    assert await stand(house) == ([DeliveryStatus.SUCCEEDED] * 8, 8, 0)


async def test_a_run_that_has_lost_its_job_is_told_so_and_the_others_are_written_down(house: House) -> None:
    made = await under_way(house, 5)
    async with house.db.write() as tx:
        await tx.execute(update(jobs).where(jobs.c.id == made[2].job.id).values(attempt=jobs.c.attempt + 1))
    told = await settled(house, made)
    assert [type(one) for one in told] == [type(None), type(None), JobLost, type(None), type(None)]
    states, attempts, left = await stand(house)
    assert (states.count(DeliveryStatus.SUCCEEDED), states.count(DeliveryStatus.PENDING)) == (4, 1)
    assert (attempts, left) == (4, 1)


async def test_a_redelivery_in_between_counts_and_the_attempt_before_it_does_not(house: House) -> None:
    made = await under_way(house, 4)
    moved = made[1].delivery.id
    async with house.db.write() as tx:
        await tx.execute(update(delivery_rows).where(delivery_rows.c.id == moved).values(round=1))
    assert await settled(house, made) == [None] * 4
    states, attempts, left = await stand(house)
    assert (states.count(DeliveryStatus.SUCCEEDED), states.count(DeliveryStatus.PENDING)) == (3, 1)
    assert (attempts, left) == (3, 0)


async def test_a_batch_is_written_as_one_by_one_would_have(house: House) -> None:
    made = await under_way(house, 3)
    one, rest = made[0], made[1:]
    await settled(house, [one])
    await settled(house, rest)
    async with house.db.read() as tx:
        columns = [
            column
            for column in delivery_rows.c
            if column.name in {"status", "error", "attempts", "next_attempt_at", "updated_at"}
        ]
        found = await tx.all(select(*columns))
        logged = await tx.all(select(*(c for c in delivery_attempts.c if c.name != "delivery_id")))
    assert len({tuple(row) for row in found}) == 1
    assert len({tuple(row) for row in logged}) == 1
