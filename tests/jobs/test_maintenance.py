import asyncio
from datetime import timedelta

from sqlalchemy import text
from tests.jobs.support import Log, handler, nothing, put, rows, states, take, working

from mercato.platform.db.engine import Database
from mercato.platform.jobs import is_capped, list_dead, list_depths, revive
from mercato.platform.jobs.maintenance import prune
from mercato.platform.jobs.run import Dead
from mercato.platform.jobs.settle import settle
from mercato.platform.telemetry.metrics import QueueDepth


async def kill(db: Database, count: int = 1) -> None:
    for job in (await take(db))[:count]:
        await settle(db, job, handler(nothing), Dead("no hope"))


async def test_depths_count_every_kind_by_state(db: Database) -> None:
    await put(db, *"abcd")
    await kill(db, 1)
    await put(db, *"ef", run_at=timedelta(hours=1))
    await put(db, "g", run_at=timedelta(seconds=-90))
    await put(db, "x", kind="other")
    async with db.read() as tx:
        note, other = await list_depths(tx)
    assert other == QueueDepth(kind="other", ready=1, oldest=other.oldest)
    assert other.oldest < 10
    assert (note.ready, note.waiting, note.running, note.dead) == (1, 2, 3, 1)
    assert 89 < note.oldest < 100


async def test_depths_count_no_more_than_the_cap_of_each_state(db: Database) -> None:
    await put(db, *"abc")
    await kill(db, 1)
    await put(db, *"defg", run_at=timedelta(hours=1))
    await put(db, *"hi", run_at=timedelta(seconds=-90))
    async with db.read() as tx:
        (capped,) = await list_depths(tx, most=2)
        (all_,) = await list_depths(tx, most=5)
    assert (capped.ready, capped.waiting, capped.running, capped.dead) == (2, 2, 2, 1)
    assert capped.oldest > 80
    assert (is_capped([capped], most=2), is_capped([all_], most=5)) == (True, False)


async def test_a_backlog_of_one_kind_hides_no_ready_job_of_another(db: Database) -> None:
    await put(db, *"abc")
    await put(db, "x", kind="other", run_at=timedelta(seconds=-90))
    async with db.read() as tx:
        note, other = await list_depths(tx, most=2)
    assert (note.ready, other.ready) == (2, 1)
    assert 89 < other.oldest < 100
    assert is_capped([note, other], most=2)


async def test_the_dead_are_listed_newest_first_with_their_reasons(db: Database) -> None:
    killed = []
    for text_ in "ab":
        killed += await put(db, text_, ordering_key="l")
        await kill(db)
    async with db.read() as tx:
        newest, oldest = await list_dead(tx)
        assert len(await list_dead(tx, limit=1)) == 1
    assert [oldest.id, newest.id] == killed
    assert (newest.reason, newest.kind, newest.attempt) == ("no hope", "note", 1)
    assert newest.died_at >= oldest.died_at >= oldest.enqueued_at


async def test_a_dead_job_blocks_neither_its_ordering_key_nor_its_dedup_key(db: Database) -> None:
    await put(db, "a", ordering_key="l", dedup="d")
    await kill(db)
    assert await put(db, "b", ordering_key="l", dedup="d") != [None]
    assert len(await take(db, handler(Log(), blocks_key_while_waiting=True))) == 1


async def test_a_dead_job_may_be_revived_once(db: Database) -> None:
    (number,) = await put(db, "x")
    assert number is not None
    await kill(db)
    async with db.write() as tx:
        assert await revive(tx, number)
        assert not await revive(tx, number)
        assert not await revive(tx, number + 1)
    log = Log()
    async with working(db, {"note": handler(log)}):
        await log.wait_for(1)


async def test_only_jobs_that_have_been_dead_for_long_are_pruned(db: Database) -> None:
    await put(db, *(str(number) for number in range(100)))
    await kill(db, 60)
    async with db.write() as tx:
        await tx.execute(text("UPDATE jobs SET run_at = run_at - 3600000 WHERE id <= 20"))
        await tx.execute(text("UPDATE jobs SET run_at = run_at - 3600000 WHERE state = 'running'"))
    dead = [row.id for row in await rows(db) if row.state == "dead" and row.id <= 20]
    assert await prune(db, older_than=timedelta(minutes=30)) == len(dead)
    assert len(await states(db)) == 100 - len(dead)
    assert await prune(db, older_than=timedelta(minutes=30)) == 0


async def test_a_job_that_is_revived_during_the_pruning_stays(db: Database) -> None:
    await put(db, "a")
    await kill(db, 1)
    await asyncio.sleep(0.01)  # the time of death has milliseconds
    (dead,) = [row.id for row in await rows(db)]
    async with db.write() as tx:
        assert await revive(tx, dead)
        # PostgreSQL waits for the row, SQLite for the writer.
        pruning = asyncio.create_task(prune(db, older_than=timedelta(0)))
        await asyncio.sleep(0.3)
    assert await pruning == 0
    assert await states(db) == ["ready"]
