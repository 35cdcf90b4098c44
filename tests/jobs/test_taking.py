"""A worker that is alone: what ends makes room for the next in the same commit, and nothing of that is lost."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.jobs.support import Log, Note, handler, put, rows, until_empty, working

from mercato.db.engine import Database, Read
from mercato.db.sqlite import Connection
from mercato.db.sqlite_backend import Batch, Writer
from mercato.jobs import Done, Job, Outcome


async def test_on_sqlite_the_next_of_a_lane_is_claimed_with_the_commit_that_ends_the_one_before(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.dialect != "sqlite":
        pytest.skip("on PostgreSQL a claim is a transaction by itself")
    commits: list[str] = []
    commit = Writer._commit
    ended = asyncio.Event()

    async def counted(self: Writer, connection: Connection, batch: Batch) -> None:
        if self._batch is batch:  # whoever comes later finds it committed
            commits.append("commit")
        await commit(self, connection, batch)

    async def noted(job: Job[Note]) -> Outcome:
        commits.append(job.payload.text)
        if job.payload.text == "last":
            ended.set()
        return Done()

    await put(db, "first", "second", "last", lane="one")
    monkeypatch.setattr(Writer, "_commit", counted)
    async with working(db, {"note": handler(noted)}):
        await ended.wait()
        await until_empty(db)
    begun = commits.index("first")
    assert commits[begun : commits.index("last") + 1] == ["first", "commit", "second", "commit", "last"]


async def test_what_runs_need_is_read_with_their_claim(db: Database) -> None:
    brought: list[Any] = []
    log = Log()

    async def bring(tx: Read, payloads: Any) -> list[str | None]:
        return [one.text.upper() if one.text != "none" else None for one in payloads]

    async def told(job: Job[Note]) -> Outcome:
        brought.append((job.payload.text, job.brought))
        return await log(job)

    await put(db, "a", "none", "b")
    async with working(db, {"note": handler(told, bring=bring)}):
        await log.wait_for(3)
        await until_empty(db)
    assert sorted(brought) == [("a", "A"), ("b", "B"), ("none", None)]


async def test_runs_whose_needs_cannot_be_read_beforehand_are_begun_without(db: Database) -> None:
    log = Log()

    async def bring(tx: Read, payloads: Any) -> list[None]:
        raise LookupError

    async def told(job: Job[Note]) -> Outcome:
        assert job.brought is None
        return await log(job)

    async with working(db, {"note": handler(told, bring=bring)}):
        await put(db, "a", "b", lane="one")
        await log.wait_for(2)
        await until_empty(db)


async def test_a_worker_that_stops_while_jobs_end_leaves_none_marked_as_running(db: Database) -> None:
    begun = asyncio.Event()

    async def quick(job: Job[Note]) -> Outcome:
        begun.set()
        await asyncio.sleep(0)
        return Done()

    await put(db, *(str(number) for number in range(200)))
    async with working(db, {"note": handler(quick, concurrency=8)}, grace=timedelta(seconds=30)):
        await begun.wait()
    assert {row.state for row in await rows(db)} <= {"ready"}
