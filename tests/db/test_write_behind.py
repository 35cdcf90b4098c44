"""Rows that nothing waits for are written once, also while their process stops."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from mercato.features.webhooks.tables import failing_endpoints
from mercato.platform.db import write_behind
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.statements import prepared_insert
from mercato.platform.db.write_behind import WriteBehind
from mercato_contract.clock import new_id, now

INSERT = prepared_insert(failing_endpoints, "partner_id", "url", "failing_since")


class SlowCommits:
    """A database whose first commit is acknowledged late."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.committed, self.acknowledge = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Write]:
        async with self.db.write() as tx:
            yield tx
        self.committed.set()
        await self.acknowledge.wait()


async def insert(tx: Write, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        await tx.execute(INSERT, row)


async def test_rows_whose_commit_is_under_way_when_the_process_stops_are_written_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_behind, "FLUSH_SECONDS", 0)
    dropped: list[str] = []
    slow = SlowCommits(db)
    rows: WriteBehind[dict[str, Any]] = WriteBehind(
        cast("Database", slow),
        insert,
        name="rows",
        max_size=10,
        dropped=lambda reason, _: dropped.append(reason),
    )
    rows.put({"partner_id": new_id(), "url": "first", "failing_since": now()})
    running = asyncio.create_task(rows.run())
    await slow.committed.wait()
    rows.put({"partner_id": new_id(), "url": "second", "failing_since": now()})
    running.cancel()
    await asyncio.sleep(0)
    slow.acknowledge.set()
    await asyncio.wait([running])
    async with db.read() as tx:
        assert await tx.scalar(select(func.count()).select_from(failing_endpoints)) == 2
    assert dropped == []
