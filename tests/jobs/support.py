"""A worker that runs during a test, and handlers that record what they did."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
from sqlalchemy import select
from tests.waiting import PATIENCE

from mercato.platform.db.engine import AnyRow, Database
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import Done, Handler, Handlers, Job, JobOutcome, Worker, enqueue
from mercato.platform.jobs.claim import Rotation, claim

NEVER = timedelta(hours=1)
"""A pause between polls that no test waits for."""

FAST: dict[str, Any] = {
    "lease": timedelta(seconds=1),
    "heartbeat": timedelta(milliseconds=200),
    "poll": timedelta(milliseconds=100),
}


class Note(msgspec.Struct):
    text: str = ""


class Log:
    """Records what has been run, in order, and waits until a number of runs is reached."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._changed = asyncio.Condition()

    async def __call__(self, job: Job[Note]) -> JobOutcome:
        await self.add(job.payload.text)
        return Done()

    async def add(self, text: str) -> None:
        async with self._changed:
            self.seen.append(text)
            self._changed.notify_all()

    async def wait_for(self, count: int) -> list[str]:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= count)
        return list(self.seen)


def handler(fn: Callable[[Job[Note]], Awaitable[JobOutcome]], **options: Any) -> Handler[Note]:
    return Handler(fn=fn, payload=Note, **options)


async def nothing(job: Job[Note]) -> JobOutcome:
    return Done()


async def put(db: Database, *texts: str, kind: str = "note", **options: Any) -> list[int | None]:
    """Enqueue a note for each text, in one transaction."""
    async with db.write() as tx:
        made = [await enqueue(tx, kind, Note(text), **options) for text in texts]
    return [None if one is None else one.id for one in made]


async def take(
    db: Database,
    handled_by: Handler[Note] | None = None,
    *,
    kind: str = "note",
    worker: str = "w",
    lease: timedelta = timedelta(seconds=60),
    free: int = 100,
    rotation: Rotation | None = None,
) -> list[Job[str]]:
    """Claim as a worker of that name does."""
    rotation = rotation or Rotation()
    async with db.write() as tx:
        claimed = await claim(
            tx, kind, handled_by or handler(nothing), worker=worker, lease=lease, free=free, rotation=rotation
        )
    rotation.advance(claimed, is_full=len(claimed) == free)
    return claimed


def texts(claimed: list[Job[str]]) -> list[str]:
    return [msgspec.json.decode(job.payload, type=Note).text for job in claimed]


async def rows(db: Database) -> list[AnyRow]:
    async with db.read() as tx:
        return list(await tx.all(select(jobs).order_by(jobs.c.id)))


async def states(db: Database) -> list[str]:
    return [row.state for row in await rows(db)]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that only the database shows."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # other processes can't set an event here
            await asyncio.sleep(0.01)


async def until_empty(db: Database) -> None:
    async def empty() -> bool:
        return await states(db) == []

    await until(empty)


@asynccontextmanager
async def working(
    db: Database, handlers: Handlers, *, grace: timedelta = timedelta(seconds=5), **options: Any
) -> AsyncIterator[Worker]:
    """Run a worker for the length of the block, and check that it stops."""
    worker = Worker(db, handlers, **{**FAST, **options})
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.stop(grace=grace)
        async with asyncio.timeout(PATIENCE):
            await running
