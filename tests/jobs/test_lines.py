"""Jobs of one lane that are claimed at once and run one after the other."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text, update
from tests.jobs.support import (
    Log,
    Note,
    handler,
    nothing,
    put,
    rows,
    states,
    take,
    texts,
    until_empty,
    working,
)

from mercato.clock import new_id
from mercato.db.engine import Database
from mercato.db.tables import jobs
from mercato.jobs import Done, Ending, Job, JobLost, Outcome, fence, finish, finish_all
from mercato.jobs.claim import Claimed
from mercato.jobs.moves import move_orphans
from mercato.jobs.run import Line
from mercato.telemetry.acting import Acting, act_for, acting_now

LINE = handler(nothing, in_line=4)


def line_of(claimed: list[Claimed]) -> list[Job[Note]]:
    return [run.job for one in claimed for run in Line(one, LINE).runs]


async def test_a_line_is_a_lanes_oldest_in_their_order_and_is_held_by_its_last(db: Database) -> None:
    await put(db, "a", "b", "c", "d", "e", lane="one")
    await put(db, "x", lane="two")
    line, single = await take(db, LINE, free=8)
    assert texts([*line.ahead, line]) == ["a", "b", "c", "d"]
    assert (texts([single]), single.ahead) == (["x"], [])
    assert await states(db) == ["ready", "ready", "ready", "running", "ready", "running"]
    assert await take(db, LINE, free=8, worker="another") == []


async def test_of_many_lanes_lines_are_shorter(db: Database) -> None:
    await put(db, "a", "b", lane="one")
    [one] = await take(db, LINE, free=200)
    assert one.ahead == []


async def test_those_ahead_are_lost_with_the_hold_of_their_lane(db: Database) -> None:
    await put(db, "a", "b", "c", lane="one")
    first, second, last = line_of(await take(db, LINE, free=8))
    async with db.write() as tx:
        await fence(tx, first)
        await finish(tx, first)
    async with db.write() as tx:
        await move_orphans(tx)
    for job in (second, last):
        with pytest.raises(JobLost):
            async with db.write() as tx:
                await fence(tx, job)
        with pytest.raises(JobLost):
            async with db.write() as tx:
                await finish(tx, job)
    again = await take(db, LINE, free=8, worker="another")
    for job in (second, last):
        with pytest.raises(JobLost):
            async with db.write() as tx:
                await finish(tx, job)
    async with db.write() as tx:
        assert await finish_all(tx, line_of(again))
    # Its worker has vanished, so it has gone by itself.
    assert texts(await take(db, LINE, free=8)) == ["c"]


async def test_a_line_is_finished_together_and_not_without_one_of_it(db: Database) -> None:
    await put(db, "a", "b", "c", lane="one")
    line = line_of(await take(db, LINE, free=8))
    async with db.write() as tx:
        await finish(tx, line[1])
    async with db.write() as tx:
        await tx.execute(text("SAVEPOINT here"))
        assert not await finish_all(tx, line)
        await tx.execute(text("ROLLBACK TO here"))
    async with db.write() as tx:
        assert await finish_all(tx, [line[0], line[2]])
    assert await states(db) == []


async def test_one_whose_worker_vanished_goes_by_itself_so_that_it_bears_no_others_losses(
    db: Database,
) -> None:
    await put(db, "a", "b", "c", lane="one")
    async with db.write() as tx:
        await tx.execute(update(jobs).where(jobs.c.id == (await rows(db))[1].id).values(losses=1))
    for expected in (["a"], ["b"], ["c"]):
        [line] = await take(db, LINE, free=8)
        assert (texts([line]), line.ahead) == (expected, [])
        async with db.write() as tx:
            assert await finish_all(tx, line_of([line]))


async def test_a_line_is_run_in_order_one_at_a_time(db: Database) -> None:
    log, under_way = Log(), 0

    async def told(job: Job[Note]) -> Outcome:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await asyncio.sleep(0.001)
        under_way -= 1
        return await log(job)

    names = [str(number) for number in range(25)]
    await put(db, *names, lane="one")
    async with working(db, {"note": handler(told, in_line=8)}):
        assert await log.wait_for(25) == names
        await until_empty(db)


async def test_what_fails_ends_the_line_and_the_rest_is_run_in_its_order(db: Database) -> None:
    log, failed = Log(), False

    async def told(job: Job[Note]) -> Outcome:
        nonlocal failed
        if job.payload.text == "b" and not failed:
            failed = True
            raise ValueError
        return await log(job)

    await put(db, "a", "b", "c", "d", lane="one")
    again = timedelta(milliseconds=300)
    async with working(db, {"note": handler(told, in_line=4, backoff=lambda _: again)}):
        assert await log.wait_for(4) == ["a", "c", "d", "b"]
        await until_empty(db)


async def test_one_in_line_that_takes_too_long_fails_by_itself(db: Database) -> None:
    log = Log()

    async def told(job: Job[Note]) -> Outcome:
        if job.payload.text == "b":
            await asyncio.sleep(30)
        return await log(job)

    await put(db, "a", "b", "c", lane="one")
    quick = handler(told, in_line=4, timeout=timedelta(milliseconds=200), max_attempts=1)
    async with working(db, {"note": quick}):
        assert await log.wait_for(2) == ["a", "c"]
    (left,) = await rows(db)
    assert (left.state, left.error) == ("dead", "took longer than 0.2 s")


async def test_a_line_that_takes_long_gives_its_place_to_other_lanes(db: Database) -> None:
    log = Log()

    async def slow(job: Job[Note]) -> Outcome:
        await asyncio.sleep(0.15)
        return await log(job)

    await put(db, "a", "b", "c", "d", lane="one")
    await put(db, "x", lane="two")
    async with working(db, {"note": handler(slow, in_line=4, concurrency=1)}):
        assert await log.wait_for(5) == ["a", "b", "x", "c", "d"]
        await until_empty(db)


async def test_the_last_of_a_line_does_not_pay_for_the_time_of_those_ahead(db: Database) -> None:
    left: list[float] = []

    async def slow(job: Job[Note]) -> Outcome:
        left.append(job.deadline - asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        return Done()

    await put(db, "a", "b", lane="one")
    async with working(db, {"note": handler(slow, in_line=4, timeout=timedelta(seconds=60))}):
        await until_empty(db)
    assert len(left) == 2
    assert min(left) > 59.1


async def test_a_worker_that_stops_does_not_begin_the_last_of_a_line(db: Database) -> None:
    log, begun = Log(), asyncio.Event()

    async def told(job: Job[Note]) -> Outcome:
        begun.set()
        await asyncio.sleep(0.05)
        return await log(job)

    await put(db, "a", "b", lane="one")
    async with working(db, {"note": handler(told, in_line=4)}):
        await begun.wait()
    assert log.seen == ["a"]
    assert await states(db) == ["ready"]


async def test_a_worker_that_stops_ends_its_lines_and_leaves_the_rest_ready(db: Database) -> None:
    log, begun = Log(), asyncio.Event()

    async def told(job: Job[Note]) -> Outcome:
        begun.set()
        await asyncio.sleep(0.05)
        return await log(job)

    await put(db, "a", "b", "c", lane="one")
    async with working(db, {"note": handler(told, in_line=4)}):
        await begun.wait()
    assert log.seen == ["a"]
    assert await states(db) == ["ready", "ready"]


async def test_a_line_that_is_cut_off_is_due_again(db: Database) -> None:
    begun = asyncio.Event()

    async def hangs(job: Job[Note]) -> Outcome:
        begun.set()
        await asyncio.sleep(30)
        return Done()

    await put(db, "a", "b", "c", lane="one")
    async with working(db, {"note": handler(hangs, in_line=4)}, grace=timedelta(0)):
        await begun.wait()
    assert await states(db) == ["ready", "ready", "ready"]
    assert {row.failures for row in await rows(db)} == {0}


async def test_a_line_goes_on_while_the_end_of_one_is_written_down_and_ends_once_all_are(
    db: Database,
) -> None:
    seen: list[str] = []
    ends: list[tuple[Job[Note], asyncio.Future[None]]] = []
    last = asyncio.Event()

    async def ending(job: Job[Note]) -> Outcome:
        seen.append(job.payload.text)
        if job.held_by is None:
            asyncio.get_running_loop().call_later(0.05, asyncio.ensure_future, written())
            return Done()
        ends.append((job, asyncio.get_running_loop().create_future()))
        return Ending(ends[-1][1])

    async def written() -> None:
        # The last one's row is there as long as theirs are.
        assert await states(db) == ["ready", "ready", "running"]
        async with db.write() as tx:
            assert await finish_all(tx, [job for job, _ in ends])
        for _, future in ends:
            future.set_result(None)
        last.set()

    await put(db, "a", "b", "c", lane="one")
    async with working(db, {"note": handler(ending, in_line=4)}):
        await last.wait()
        await until_empty(db)
    assert seen == ["a", "b", "c"]


async def test_an_end_that_is_being_written_down_is_not_cut_off_when_the_grace_is_over(db: Database) -> None:
    begun, cut = asyncio.Event(), False

    async def ending(job: Job[Note]) -> Outcome:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def write() -> None:
            nonlocal cut
            await asyncio.sleep(0.2)
            async with db.write() as tx:
                await finish(tx, job)
            cut = future.cancelled()
            if not cut:
                future.set_result(None)

        writing.append(asyncio.ensure_future(write()))
        begun.set()
        await asyncio.sleep(0)
        return Ending(future)

    writing: list[asyncio.Future[None]] = []
    await put(db, "a", "b", lane="one")
    async with working(db, {"note": handler(ending, in_line=4)}, grace=timedelta(milliseconds=50)):
        await begun.wait()
    await asyncio.gather(*writing)
    assert not cut
    assert [row.payload for row in await rows(db)] == ['{"text":"b"}']


async def test_an_end_that_cannot_be_written_down_is_the_jobs_failure(db: Database) -> None:
    log = Log()

    async def told(job: Job[Note]) -> Outcome:
        if job.payload.text == "a":
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.set_exception(ValueError("no"))
            return Ending(future)
        return await log(job)

    await put(db, "a", "b", "c", lane="one")
    async with working(db, {"note": handler(told, in_line=4, max_attempts=1)}):
        await log.wait_for(2)
    (left,) = await rows(db)
    assert (left.state, left.error) == ("dead", "ValueError: no")


async def test_what_one_of_a_line_is_about_is_not_said_of_those_behind_it(db: Database) -> None:
    told: list[Acting | None] = []

    async def tells(_job: Job[Note]) -> Outcome:
        told.append(acting_now())
        act_for(partner_id=new_id(), traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
        return Done()

    await put(db, "a", "b", "c", lane="one")
    async with working(db, {"note": handler(tells, in_line=4)}):
        await until_empty(db)
    assert told == [Acting(action="note")] * 3


async def test_where_a_retry_keeps_its_place_a_line_ends_before_it(db: Database) -> None:
    blocking = handler(nothing, in_line=4, blocks_lane_while_waiting=True)
    await put(db, "a", "b", "c", lane="one")
    async with db.write() as tx:
        waits = update(jobs).where(jobs.c.id == (await rows(db))[1].id)
        await tx.execute(waits.values(state="waiting"))
    [line] = await take(db, blocking, free=8)
    assert (texts([line]), line.ahead) == (["a"], [])
