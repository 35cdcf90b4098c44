"""Workers in processes of their own: killed, stopped, and with wrong clocks."""

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.forks import Running, start
from tests.jobs import chaos_worker
from tests.jobs.chaos_worker import KIND, Step
from tests.jobs.support import rows, states, until, until_empty
from tests.waiting import PATIENCE

from mercato.platform.db.engine import AnyRow, Database
from mercato.platform.jobs import enqueue

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
async def _effects(db: Database) -> None:
    async with db.write() as tx:
        await tx.execute(text(chaos_worker.TABLES[db.dialect]))


class Workers:
    """Worker processes on one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.processes: list[Running] = []

    async def start(self, *, skew: float = 0.0, lease: float = chaos_worker.LEASE) -> None:
        arguments = (self._url, "--skew", str(skew), "--lease", str(lease))
        program = "tests.jobs.chaos_worker"
        self.processes.append(await start(*arguments, module=program, env=os.environ, cwd=ROOT))

    async def kill(self, worker: Running) -> None:
        worker.kill()
        await worker.wait()
        self.processes.remove(worker)


@asynccontextmanager
async def workers_of(
    db: Database, *, skews: tuple[float, ...], lease: float = chaos_worker.LEASE
) -> AsyncIterator[Workers]:
    workers = Workers(db.url)
    try:
        for skew in skews:
            await workers.start(skew=skew, lease=lease)
        yield workers
    finally:
        for worker in list(workers.processes):
            await workers.kill(worker)


async def put_steps(db: Database, *, keys: int, each: int, seconds: float) -> None:
    async with db.write() as tx:
        for number in range(each):
            for index in range(keys):
                step = Step(ordering_key=f"key{index}", number=number, seconds=seconds)
                await enqueue(tx, KIND, step, ordering_key=step.ordering_key)


async def effects(db: Database) -> list[AnyRow]:
    async with db.read() as tx:
        return list(
            await tx.all(text("SELECT ordering_key, number, attempt, what, process FROM effects ORDER BY id"))
        )


async def began(db: Database, count: int) -> bool:
    return len(await effects(db)) >= count


def check(happened: list[AnyRow], *, keys: int, each: int) -> int:
    """Assert that nothing was lost, overlapped or out of order. Return how many runs were repeated."""
    by_key: dict[str, list[AnyRow]] = defaultdict(list)
    for row in happened:
        by_key[row.ordering_key].append(row)
    assert len(by_key) == keys
    repeated = 0
    for of_key in by_key.values():
        ended: list[int] = []
        running: AnyRow | None = None
        for row in of_key:
            if row.what == "begin":
                # Only a run whose worker was killed has no end, and then the same job starts again.
                assert running is None or running.number == row.number
                assert row.number in {len(ended), len(ended) - 1}
                running = row
            else:
                assert running is not None
                assert (running.number, running.attempt) == (row.number, row.attempt)
                running = None
                if row.number == len(ended):
                    ended.append(row.number)
                else:
                    repeated += 1
        assert ended == list(range(each))
    return repeated


async def run_with_kills(db: Database, *, keys: int, each: int, kills: int, count: int) -> int:
    rng = random.Random(kills)
    await put_steps(db, keys=keys, each=each, seconds=0.02)
    total = keys * each * 2
    async with workers_of(db, skews=(0.0,) * count) as workers:
        for kill in range(kills):
            # Spread over the whole run by what was done, not by a clock.
            await until(partial(began, db, total * (kill + 1) // (kills + 2)))
            await workers.kill(rng.choice(workers.processes) if kill else workers.processes[0])
            await workers.start()
        async with asyncio.timeout(60):
            await until_empty(db)
    return check(await effects(db), keys=keys, each=each)


async def test_workers_killed_at_any_time_lose_nothing_and_keep_the_order_of_each_key(db: Database) -> None:
    repeated = await run_with_kills(db, keys=8, each=10, kills=3, count=2)
    assert repeated <= 3 * 8


@pytest.mark.long
async def test_workers_killed_again_and_again_lose_nothing(db: Database) -> None:
    repeated = await run_with_kills(db, keys=60, each=25, kills=20, count=3)
    assert repeated <= 20 * 8


async def test_at_sigterm_short_runs_finish_and_long_ones_are_due_at_once(db: Database) -> None:
    async with db.write() as tx:
        for ordering_key, seconds in (("short", 0.1), ("long", 60.0)):
            await enqueue(
                tx,
                KIND,
                Step(ordering_key=ordering_key, number=0, seconds=seconds),
                ordering_key=ordering_key,
            )
    async with workers_of(db, skews=(0.0,)) as workers:
        await until(lambda: began(db, 2))
        (worker,) = workers.processes
        worker.terminate()
        async with asyncio.timeout(PATIENCE):
            assert await worker.wait() == 0
    assert [(row.ordering_key, row.what) for row in await effects(db) if row.what == "end"] == [
        ("short", "end")
    ]
    (row,) = await rows(db)
    assert (row.ordering_key, row.state, row.failures) == ("long", "ready", 0)


async def test_the_jobs_of_a_killed_worker_are_run_again_soon(db: Database) -> None:
    await put_steps(db, keys=1, each=1, seconds=1.0)
    async with workers_of(db, skews=(0.0,)) as workers:
        await until(lambda: began(db, 1))
        await workers.start()
        await workers.kill(workers.processes[0])
        await until(lambda: began(db, 2))
        await until_empty(db)
    assert [row.what for row in await effects(db)] == ["begin", "begin", "end"]


async def test_workers_whose_clocks_are_an_hour_wrong_take_no_jobs_from_each_other(db: Database) -> None:
    await put_steps(db, keys=6, each=2, seconds=0.9)
    async with db.write() as tx:
        early = Step(ordering_key="delayed", number=0, seconds=0.01)
        await enqueue(tx, KIND, early, ordering_key="delayed", run_at=timedelta(minutes=30))
    # None is killed, so each must keep its leases, however busy the machine is.
    async with workers_of(db, skews=(-3600.0, 0.0, 3600.0), lease=PATIENCE):
        await until(lambda: began(db, 6 * 2 * 2))
        await until(lambda: _is(db, ["waiting"]))
    happened = await effects(db)
    assert check(happened, keys=6, each=2) == 0
    assert {row.attempt for row in happened} == {1}


async def _is(db: Database, expected: list[str]) -> bool:
    return await states(db) == expected


async def test_when_a_process_dies_another_runs_its_jobs_and_on_sqlite_only_one_does(
    db: Database,
) -> None:
    await put_steps(db, keys=4, each=3, seconds=0.2)
    async with workers_of(db, skews=(0.0, 0.0)) as workers:
        await until(lambda: began(db, 6))
        first = {row.process for row in await effects(db)}
        if db.dialect == "sqlite":
            assert len(first) == 1
        (holder,) = [worker for worker in workers.processes if worker.pid == next(iter(first))]
        await workers.kill(holder)
        async with asyncio.timeout(PATIENCE):
            await until_empty(db)
    assert {row.process for row in await effects(db)} > {holder.pid}
    assert await states(db) == []
