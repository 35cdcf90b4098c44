import asyncio
import time
from datetime import timedelta

import pytest
from sqlalchemy import BigInteger, insert, type_coerce, update
from tests.databases import only_postgresql
from tests.jobs.support import Log, Note, handler, nothing, put, rows, states, take, texts, working
from tests.waiting import PATIENCE

from mercato.platform.db.engine import Database
from mercato.platform.db.tables import jobs
from mercato.platform.db.types import now_ms
from mercato.platform.jobs import Done, Job, JobLost, JobOutcome, fence, finish, maintenance, put_back
from mercato.platform.jobs.claim import Rotation
from mercato.platform.jobs.run import Dead, Failed, Interrupted, Postponed, Result, Unreadable
from mercato.platform.jobs.settle import settle

MANY = 20_000


async def end(db: Database, *claimed: Job[str]) -> None:
    async with db.write() as tx:
        for job in claimed:
            await finish(tx, job)


async def fail(db: Database, claimed: Job[str], delay: timedelta) -> None:
    await settle(db, claimed, handler(nothing, backoff=lambda _failures: delay), Failed("no"))


async def move_due(db: Database) -> int:
    async with db.write() as tx:
        return await maintenance.move_due(tx)


async def test_only_the_oldest_job_of_an_ordering_key_is_claimed(db: Database) -> None:
    for text in ("a1", "a2", "a3"):
        await put(db, text, ordering_key="a")
    await put(db, "b1", ordering_key="b")
    assert texts(await take(db)) == ["a1", "b1"]


async def test_no_job_is_claimed_while_another_of_its_ordering_key_runs(db: Database) -> None:
    await put(db, "a1", "a2", ordering_key="a")
    (first,) = await take(db)
    assert await take(db) == []
    await end(db, first)
    assert texts(await take(db)) == ["a2"]


async def test_two_kinds_that_share_an_ordering_key_exclude_each_other(db: Database) -> None:
    await put(db, "a", ordering_key="l", kind="one")
    await put(db, "b", ordering_key="l", kind="two")
    (first,) = await take(db, kind="one")
    assert await take(db, kind="two") == []
    await end(db, first)
    assert texts(await take(db, kind="two")) == ["b"]


async def test_a_waiting_retry_blocks_its_ordering_key_if_the_kind_does(db: Database) -> None:
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


async def test_a_clock_that_is_set_back_delays_no_waiting_job(db: Database) -> None:
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


async def test_a_clock_that_is_set_back_by_less_than_a_jobs_age_delays_no_retry(db: Database) -> None:
    await put(db, "a")
    hour = 3_600_000
    async with db.write() as tx:
        # It is two hours old.
        long_ago = type_coerce(jobs.c.enqueued_at - 2 * hour, BigInteger)
        await tx.execute(update(jobs).values(enqueued_at=long_ago))
    (claimed,) = await take(db)
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


async def test_a_waiting_retry_otherwise_lets_the_next_job_of_its_key_pass(db: Database) -> None:
    await put(db, "a1", "a2", "a3", ordering_key="a")
    (first,) = await take(db)
    await fail(db, first, timedelta(milliseconds=50))
    (second,) = await take(db)
    assert texts([second]) == ["a2"]
    await asyncio.sleep(0.06)
    assert await move_due(db) == 1
    await end(db, second)
    assert texts(await take(db)) == ["a1"]


async def test_a_group_runs_no_more_than_its_limit_and_blocks_no_other_group(db: Database) -> None:
    limited = handler(nothing, group_concurrency=2)
    for number in range(50):
        await put(db, f"big{number:02}", ordering_key=f"big{number:02}", group="big")
    await put(db, "small1", ordering_key="small1", group="small")
    await put(db, "alone", ordering_key="alone")
    claimed = await take(db, limited, free=8)
    assert sorted(texts(claimed)) == ["alone", "big00", "big01", "small1"]
    assert await take(db, limited, free=8) == []
    await end(db, *[job for job in claimed if job.ordering_key == "big00"])
    assert texts(await take(db, limited, free=8)) == ["big02"]


async def test_the_total_limit_counts_what_other_workers_run(db: Database) -> None:
    limited = handler(nothing, total_concurrency=3)
    await put(db, *"abcde")
    assert len(await take(db, limited, worker="one", free=2)) == 2
    assert len(await take(db, limited, worker="two", free=2)) == 1
    assert await take(db, limited, worker="two", free=2) == []


@only_postgresql
async def test_limits_hold_when_workers_claim_at_the_same_time(db: Database) -> None:
    limited = handler(nothing, total_concurrency=5, group_concurrency=2)
    for number in range(20):
        await put(db, str(number), group=f"g{number % 4}")
    claims = await asyncio.gather(*(take(db, limited, worker=str(number), free=4) for number in range(8)))
    claimed = [job for jobs_of_one in claims for job in jobs_of_one]
    assert len(claimed) == 5
    groups = [job.group for job in claimed]
    assert max(groups.count(group) for group in groups) <= 2


@only_postgresql
async def test_a_job_is_never_claimed_by_two_workers(db: Database) -> None:
    await put(db, *(str(number) for number in range(40)))
    claims = await asyncio.gather(*(take(db, worker=str(number), free=5) for number in range(10)))
    claimed = [job.id for jobs_of_one in claims for job in jobs_of_one]
    assert len(claimed) == len(set(claimed))
    assert len(claimed) >= 5


async def test_every_ordering_key_gets_its_turn(db: Database) -> None:
    for key in "abc":
        await put(db, *(f"{key}{number}" for number in range(3)), ordering_key=key)
    rotation, seen = Rotation(), []
    for _ in range(9):
        claimed = await take(db, free=1, rotation=rotation)
        seen += texts(claimed)
        await end(db, *claimed)
    assert seen == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


async def test_twenty_thousand_ready_jobs_of_one_key_do_not_starve_another(db: Database) -> None:
    await fill_key(db, "deep")
    log = Log()

    async def slowly(job: Job[Note]) -> JobOutcome:
        await asyncio.sleep(0.002)
        return await log(job)

    async with working(db, {"note": handler(slowly, concurrency=2)}):
        await log.wait_for(3)
        for number in range(10):
            await put(db, f"other{number}", ordering_key="other")
        while "other9" not in log.seen:
            await log.wait_for(len(log.seen) + 1)
    assert log.seen.index("other9") < 200


async def test_a_claim_costs_the_same_however_many_jobs_a_key_has(db: Database) -> None:
    async def fastest() -> float:
        """Return the seconds of the fastest of some claims that skip the rows of the key."""
        times = []
        for _ in range(10):
            started_at = time.perf_counter()
            claimed = await take(db, free=4)
            times.append(time.perf_counter() - started_at)
            assert len(claimed) == 4
            await end(db, *claimed)
        return min(times)

    for key in ("b", "c", "d", "e"):
        await put(db, *(str(number) for number in range(30)), ordering_key=key)
    shallow = await fastest()
    await fill_key(db, "a")
    # Reading the whole key once would cost ten times as much.
    assert await fastest() < 4 * shallow


async def fill_key(db: Database, key: str) -> None:
    row = {"kind": "note", "ordering_key": key, "group_key": "", "payload": '{"text":""}', "state": "ready"}
    async with db.write() as tx:
        for _ in range(MANY // 1000):
            await tx.execute(
                insert(jobs).values(run_at=now_ms(), enqueued_at=now_ms()), [row for _ in range(1000)]
            )


async def claim_and_lose(db: Database) -> tuple[Job[str], Job[str]]:
    """Claim a job, let its lease end, and claim it as another worker."""
    await put(db, "x", ordering_key="l")
    (slow,) = await take(db, worker="slow", lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        assert await maintenance.move_expired(tx) == 1
    (quick,) = await take(db, worker="quick")
    return slow, quick


async def test_a_worker_that_lost_its_lease_cannot_settle(db: Database) -> None:
    slow, quick = await claim_and_lose(db)
    for change in (finish, put_back, fence):
        with pytest.raises(JobLost):
            async with db.write() as tx:
                await change(tx, slow)
    results: list[Result] = [
        Done(), Dead("no"), Failed("no"), Postponed("no"), Unreadable("no"), Interrupted.STOPPING, Interrupted.LOST
    ]  # fmt: skip
    for result in results:
        await settle(db, slow, handler(nothing), result)
    (row,) = await rows(db)
    assert (row.state, row.worker, row.attempt) == ("running", "quick", quick.attempt)
    await end(db, quick)


async def test_an_expired_lease_is_lost_even_before_another_worker_claims(db: Database) -> None:
    await put(db, "x")
    (slow,) = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        await maintenance.move_expired(tx)
        assert await maintenance.renew(tx, "w", [slow.id], timedelta(seconds=60)) == set()


async def test_a_renewed_lease_does_not_expire(db: Database) -> None:
    await put(db, "x")
    (claimed,) = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        assert await maintenance.renew(tx, "w", [claimed.id], timedelta(seconds=60)) == {
            (claimed.id, claimed.attempt)
        }
        assert await maintenance.move_expired(tx) == 0


@only_postgresql
async def test_a_heartbeat_skips_a_fenced_job_and_the_worker_keeps_it(db: Database) -> None:
    await put(db, *"ab")
    fenced, free = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as domain:
        await fence(domain, fenced)
        async with asyncio.timeout(PATIENCE), db.write() as tx:
            kept = await maintenance.renew(tx, "w", [fenced.id, free.id], timedelta(seconds=60))
            assert kept == {(job.id, job.attempt) for job in (fenced, free)}
        async with db.write() as tx:
            assert await maintenance.move_expired(tx) == 0


async def test_a_workers_own_runs_can_be_excluded_from_the_expired(db: Database) -> None:
    await put(db, *"ab")
    own, other = await take(db, lease=timedelta(milliseconds=-1))
    async with db.write() as tx:
        assert await maintenance.move_expired(tx, excluded=[own.id]) == 1
    assert sorted(await states(db)) == ["ready", "running"]
    assert other.id != own.id
