"""A worker process that tests kill: `python -m tests.jobs.chaos_worker URL [--skew SECONDS] [--lease SECONDS]`.

Each run of a job writes two rows, its begin and its end, numbered by the database.
"""

import argparse
import asyncio
import os
import random
import signal
import time
from datetime import timedelta

import msgspec
from sqlalchemy import text

from mercato.platform.db.engine import Database
from mercato.platform.jobs import Done, Handler, Job, JobOutcome, Worker, fence

KIND = "chaos"
LEASE = 1.0
"""Seconds; a busy machine may keep a process from renewing it."""
HEARTBEAT = timedelta(milliseconds=250)
GRACE = timedelta(seconds=2)


class Step(msgspec.Struct):
    ordering_key: str
    number: int
    seconds: float


TABLES = {
    "sqlite": "CREATE TABLE effects (id INTEGER PRIMARY KEY, ordering_key TEXT, number INTEGER, attempt INTEGER,"
    " what TEXT, process INTEGER)",
    "postgresql": "CREATE TABLE effects (id SERIAL PRIMARY KEY, ordering_key TEXT, number INTEGER, attempt INTEGER,"
    " what TEXT, process INTEGER)",
}

WRITE = text(
    "INSERT INTO effects (ordering_key, number, attempt, what, process)"
    " VALUES (:ordering_key, :number, :attempt, :what, :process)"
)


class Steps:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def __call__(self, job: Job[Step]) -> JobOutcome:
        await self._write(job, "begin")
        await asyncio.sleep(job.payload.seconds * random.uniform(0.5, 1.5))
        await self._write(job, "end")
        return Done()

    async def _write(self, job: Job[Step], what: str) -> None:
        step = job.payload
        row = {"ordering_key": step.ordering_key, "number": step.number, "attempt": job.attempt, "what": what}
        async with self._db.write() as tx:
            await fence(tx, job)
            await tx.execute(WRITE, {**row, "process": os.getpid()})


async def main(url: str, lease: timedelta) -> None:
    async with Database.open(url) as db:
        steps = Handler(fn=Steps(db), payload=Step, concurrency=8, blocks_key_while_waiting=True)
        table = {KIND: steps}
        worker = Worker(db, table, lease=lease, heartbeat=HEARTBEAT, poll=timedelta(milliseconds=200))
        running = asyncio.create_task(worker.run())
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        await worker.stop(grace=GRACE)
        await running


def _skew(seconds: float) -> None:
    """Move this process's clocks."""
    true_time, true_time_ns = time.time, time.time_ns
    time.time = lambda: true_time() + seconds
    time.time_ns = lambda: true_time_ns() + int(seconds * 1_000_000_000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--lease", type=float, default=LEASE)
    options = parser.parse_args()
    _skew(options.skew)
    asyncio.run(main(options.url, timedelta(seconds=options.lease)))
