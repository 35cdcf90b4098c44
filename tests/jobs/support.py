"""A worker that runs while a test looks on, and handlers that tell what they did."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from mercato.db.engine import Database
from mercato.jobs import Done, Handler, Handlers, Job, Outcome, Worker

PATIENCE = 10.0
"""Seconds after which a test gives up waiting; nothing here takes as long."""

SOON = {
    "lease": timedelta(seconds=1),
    "heartbeat": timedelta(milliseconds=200),
    "poll": timedelta(milliseconds=100),
}


class Note(msgspec.Struct):
    text: str = ""


class Log:
    """What has been run, in order, and a way to wait until so much has."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._news = asyncio.Condition()

    async def __call__(self, job: Job[Note]) -> Outcome:
        await self.add(job.payload.text)
        return Done()

    async def add(self, text: str) -> None:
        async with self._news:
            self.seen.append(text)
            self._news.notify_all()

    async def wait_for(self, count: int) -> list[str]:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self.seen) >= count)
        return list(self.seen)


def handler(fn: Callable[[Job[Note]], Awaitable[Outcome]], **options: Any) -> Handler[Note]:
    return Handler(fn=fn, payload=Note, **options)


@asynccontextmanager
async def working(
    db: Database, handlers: Handlers, *, grace: timedelta = timedelta(seconds=5), **options: Any
) -> AsyncIterator[Worker]:
    """Run a worker for the length of the block, and see that it ends well."""
    worker = Worker(db, handlers, **{**SOON, **options})
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.stop(grace=grace)
        async with asyncio.timeout(PATIENCE):
            await running
