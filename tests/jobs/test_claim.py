import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from sqlalchemy import BigInteger, insert, type_coerce, update
from tests.databases import only_postgresql
from tests.jobs.support import Log, Note, handler, job_of, nothing, put, rows, states, take, texts, working

from mercato.kernel import clock
from mercato.kernel.db.engine import Database, Write
from mercato.kernel.db.tables import jobs
from mercato.kernel.db.types import now_ms
from mercato.kernel.jobs import Job, JobLost, Outcome, fence, finish, maintenance, put_back, settle
from mercato.kernel.jobs.claim import Claimed, Rotation

MANY = 20_000


async def end(db: Database, *claimed: Claimed) -> None:
    async with db.write() as tx:
        for one in claimed:
            await finish(tx, job_of(one))


async def fail(db: Database, claimed: Claimed, delay: timedelta) -> None:
    async with db.write() as tx:
        await settle.settle_failed(tx, job_of(claimed), "no", delay)


async def move_due(db: Database) -> int:
    async with db.write() as tx:
        return await maintenance.move_due(tx)


async def test_of_a_lane_only_the_oldest_is_claimed(db: Database) -> None:
    for text in ("a1", "a2", "a3"):
        await put(db, text, ordering_key="a")
    await put(db, "b1", ordering_key="b")
    assert texts(await take(db)) == ["a1", "b1"]


async def test_while_one_of_a_lane_runs_none_of_it_is_claimed(db: Database) -> None:
    await put(db, "a1", "a2", ordering_key="a")
    (first,) = await take(db)
    assert await take(db) == []
    await end(db, first)
    assert texts(await take(db)) == ["a2"]


async def test_two_kinds_that_share_a_lane_exclude_each_other(db: Database) -> None:
    await put(db, "a", ordering_key="l", kind="one")
    await put(db, "b", ordering_key="l", kind="two")
    (first,) = await take(db, kind="one")
    assert await take(db, kind="two") == []
    await end(db, first)
    assert texts(await take(db, kind="two")) == ["b"]


async def test_a_waiting_retry_blocks_its_lane_when_the_kind_says_so(db: Database) -> None:
    ordered = handler(nothing, blocks_key_while_waiting=True)
    await put(db, "a1", "a2", ordering_key="a")
    await put(db, "b1", ordering_key="b")
    first, other = await take(db, ordered)
    assert texts([other]) == ["b1"]
    await fail(db, first, timedelta(milliseconds=50))
    assert await take(db, ordered) == []
    await asyncio.sleep(0.06)
    assert await take(db, ordered) == []
    assert await move_due(db) == 1
    assert texts(await take(db, ordered)) == ["a1"]


async def test_a_clock_that_is_set_back_holds_no_waiting_job(db: Database) -> None:
    await put(db, "a")
    (claimed,) = await take(db)
    await fail(db, claimed, timedelta(minutes=10))
    async with db.write() as tx:
        assert await maintenance.move_stranded(tx) == 0
        # As if the clock had been an hour ahead until now.
        hour = 3_600_000
        later = {"run_at": jobs.c.run_at + hour, "enqueued_at": jobs.c.enqueued_at + hour}
        await tx.execute(
            update(jobs).values({name: type_coerce(value, BigInteger) for name, value in later.items()})
        )
        assert await maintenance.move_due(tx) == 0
        assert await maintenance.move_stranded(tx) == 1
        assert await maintenance.move_stranded(tx) == 0
    assert texts(await take(db)) == ["a"]


@pytest.mark.parametrize("again", [True, False])
async def test_a_clock_that_is_set_back_by_less_than_a_jobs_age_holds_none_that_was_put_back(
    db: Database, again: bool
) -> None:
    await put(db, "a")
    hour = 3_600_000
    async with db.write() as tx:
        # It is two hours old.
        long_ago = type_coerce(jobs.c.enqueued_at - 2 * hour, BigInteger)
        await tx.execute(update(jobs).values(enqueued_at=long_ago))
    (claimed,) = await take(db)
    if again:
        async with db.write() as tx:
            due = clock.now() + timedelta(minutes=10)
            await settle.settle_again(tx, job_of(claimed), due)
    else:
        await fail(db, claimed, timedelta(minutes=10))
    async with db.write() as tx:
        assert await maintenance.move_stranded(tx) == 0
        # As if the clock had been an hour ahead until now.
        later = {"run_at": jobs.c.run_at + hour, "enqueued_at": jobs.c.enqueued_at + hour}
        await tx.execute(
            update(jobs).values({name: type_coerce(value, BigInteger) for name, value in later.items()})
        )
        assert await maintenance.move_stranded(tx) == 1
    assert texts(await take(db)) == ["a"]


async def test_a_waiting_retry_lets_the_next_of_its_lane_pass_otherwise(db: Database) -> None:
    await put(db, "a1", "a2", "a3", ordering_key="a")
    (first,) = await take(db)
    await fail(db, first, timedelta(milliseconds=50))
    (second,) = await take(db)
    assert texts([second]) == ["a2"]
    await asyncio.sleep(0.06)
    assert await move_due(db) == 1
    await end(db, second)
    assert texts(await take(db)) == ["a1"]


async def test_a_group_runs_no_more_than_its_bound_and_hinders_no_other(db: Database) -> None:
    bounded = handler(nothing, per_group=2)
    for number in range(50):
        await put(db, f"big{number:02}", ordering_key=f"big{number:02}", group="big")
    await put(db, "small1", ordering_key="small1", group="small")
    await put(db, "alone", ordering_key="alone")
    claimed = await take(db, bounded, free=8)
    assert sorted(texts(claimed)) == ["alone", "big00", "big01", "small1"]
    assert await take(db, bounded, free=8) == []
    await end(db, *[one for one in claimed if one.place.key == "big00"])
    assert texts(await take(db, bounded, free=8)) == ["big02"]


async def test_a_bound_everywhere_counts_what_other_workers_run(db: Database) -> None:
    bounded = handler(nothing, everywhere=3)
    await put(db, *"abcde")
    assert len(await take(db, bounded, worker="one", free=2)) == 2
    assert len(await take(db, bounded, worker="two", free=2)) == 1
    assert await take(db, bounded, worker="two", free=2) == []


@only_postgresql
async def test_bounds_hold_when_workers_claim_at_the_same_instant(db: Database) -> None:
    bounded = handler(nothing, everywhere=5, per_group=2)
    for number in range(20):
        await put(db, str(number), group=f"g{number % 4}")
    claims = await asyncio.gather(*(take(db, bounded, worker=str(number), free=4) for number in range(8)))
    claimed = [one for some in claims for one in some]
    assert len(claimed) == 5
    groups = [one.place.group for one in claimed]
    assert max(groups.count(group) for group in groups) <= 2


@only_postgresql
async def test_a_row_is_never_claimed_by_two(db: Database) -> None:
    await put(db, *(str(number) for number in range(40)))
    claims = await asyncio.gather(*(take(db, worker=str(number), free=5) for number in range(10)))
    claimed = [one.id for some in claims for one in some]
    assert len(claimed) == len(set(claimed))
    assert len(claimed) >= 5


async def test_every_lane_has_its_turn(db: Database) -> None:
    for lane in "abc":
        await put(db, *(f"{lane}{number}" for number in range(3)), ordering_key=lane)
    rotation, seen = Rotation(), []
    for _ in range(9):
        claimed = await take(db, free=1, rotation=rotation)
        seen += texts(claimed)
        await end(db, *claimed)
    assert seen == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


async def test_twenty_thousand_ready_jobs_of_one_lane_do_not_starve_another(db: Database) -> None:
    await fill_lane(db, "deep")
    log = Log()

    async def slowly(job: Job[Note]) -> Outcome:
        await asyncio.sleep(0.002)
        return await log(job)

    async with working(db, {"note": handler(slowly, concurrency=2)}):
        await log.wait_for(3)
        for number in range(10):
            await put(db, f"other{number}", ordering_key="other")
        begun = time.monotonic()
        while "other9" not in log.seen:
            await log.wait_for(len(log.seen) + 1)
        assert time.monotonic() - begun < 10
    assert log.seen.index("other9") < 200


async def test_a_claim_costs_the_same_however_deep_a_lane_is(db: Database) -> None:
    async def quickest() -> float:
        """Seconds of the quickest of some claims that jump over the lane."""
        times = []
        for _ in range(10):
            begun = time.perf_counter()
            claimed = await take(db, free=4)
            times.append(time.perf_counter() - begun)
            assert len(claimed) == 4
            await end(db, *claimed)
        return min(times)

    for lane in ("b", "c", "d", "e"):
        await put(db, *(str(number) for number in range(30)), ordering_key=lane)
    shallow = await quickest()
    await fill_lane(db, "a")
    # Reading the whole lane once would cost ten times as much.
    assert await quickest() < 4 * shallow


async def fill_lane(db: Database, lane: str) -> None:
    row = {"kind": "note", "ordering_key": lane, "group_key": "", "payload": '{"text":""}', "state": "ready"}
    async with db.write() as tx:
        for _ in range(MANY // 1000):
            await tx.execute(
                insert(jobs).values(run_at=now_ms(), enqueued_at=now_ms()), [row for _ in range(1000)]
            )


async def lost_and_found(db: Database) -> tuple[Claimed, Claimed]:
    """Let a worker's lease end and another take the job over."""
    await put(db, "x", ordering_key="l")
    (slow,) = await take(db, worker="slow", lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        assert await maintenance.move_expired(tx) == 1
    (quick,) = await take(db, worker="quick")
    return slow, quick


async def test_who_lost_his_lease_cannot_settle(db: Database) -> None:
    slow, quick = await lost_and_found(db)
    job = job_of(slow)
    changes: list[Callable[[Write], Awaitable[None]]] = [
        lambda tx: finish(tx, job),
        lambda tx: put_back(tx, job),
        lambda tx: settle.settle_again(tx, job, timedelta(0)),
        lambda tx: settle.settle_failed(tx, job, "no", timedelta(0)),
        lambda tx: settle.settle_postponed(tx, job, "no", timedelta(0)),
        lambda tx: settle.settle_dead(tx, job, "no"),
        lambda tx: settle.settle_released(tx, job),
        lambda tx: fence(tx, job),
    ]
    for change in changes:
        with pytest.raises(JobLost):
            async with db.write() as tx:
                await change(tx)
    (row,) = await rows(db)
    assert (row.state, row.worker, row.attempt) == ("running", "quick", quick.attempt)
    await end(db, quick)


async def test_a_lease_that_has_ended_is_lost_even_before_another_claims(db: Database) -> None:
    await put(db, "x")
    (slow,) = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        await maintenance.move_expired(tx)
        assert await maintenance.renew(tx, "w", [slow.id], timedelta(seconds=60)) == set()


async def test_a_renewed_lease_is_not_taken(db: Database) -> None:
    await put(db, "x")
    (mine,) = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        assert await maintenance.renew(tx, "w", [mine.id], timedelta(seconds=60)) == {(mine.id, mine.attempt)}
        assert await maintenance.move_expired(tx) == 0


@only_postgresql
async def test_a_heartbeat_does_not_wait_for_a_job_that_is_fenced_and_keeps_it(db: Database) -> None:
    await put(db, *"ab")
    fenced, free = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as domain:
        await fence(domain, job_of(fenced))
        async with asyncio.timeout(2), db.write() as tx:
            kept = await maintenance.renew(tx, "w", [fenced.id, free.id], timedelta(seconds=60))
            assert kept == {(one.id, one.attempt) for one in (fenced, free)}
        async with db.write() as tx:
            assert await maintenance.move_expired(tx) == 0


async def test_the_own_runs_of_one_who_is_alone_are_not_taken_back(db: Database) -> None:
    await put(db, *"ab")
    mine, other = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        assert await maintenance.move_expired(tx, but=[mine.id]) == 1
    assert sorted(await states(db)) == ["ready", "running"]
    assert other.id != mine.id
