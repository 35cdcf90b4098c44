"""`mercato job list|revive`: dead jobs, and reviving them."""

import asyncio
from typing import Any

import pytest
from msgspec import Struct
from sqlalchemy import select, update
from tests.partners.test_commands import Shell, fresh, shell

from mercato.platform.db.engine import Database
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import enqueue

__all__ = ["fresh", "shell"]


class Payload(Struct):
    hidden: str = "a-customers-name"


async def _dead(url: str, kind: str, dedup: str | None) -> int:
    async with Database.open(url) as db, db.write() as tx:
        enqueued = await enqueue(tx, kind, Payload(), dedup=dedup)
        assert enqueued is not None
        gone = {
            "state": "dead",
            "error": "ValueError: it " + "is broken " * 12,
            "attempt": 10,
            "failures": 10,
        }
        await tx.execute(update(jobs).where(jobs.c.id == enqueued.id).values(gone))
        return enqueued.id


def dead(url: str, kind: str = "webhook.deliver", dedup: str | None = None) -> int:
    return asyncio.run(_dead(url, kind, dedup))


def states(url: str) -> dict[int, Any]:
    async def read() -> dict[int, Any]:
        async with Database.open(url) as db, db.read() as tx:
            return {row.id: (row.state, row.failures) for row in await tx.all(select(jobs))}

    return asyncio.run(read())


def test_dead_jobs_are_listed_with_reasons_and_revived_by_number(
    shell: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    number, other = dead(database_url), dead(database_url, "catalog.ingest")
    listed_text = shell("job", "list")
    assert f"10 attempts, job {number}" in listed_text
    assert "a-customers-name" not in listed_text + shell("job", "list", "--json")
    assert all(len(line.rstrip()) <= 80 for line in listed_text.splitlines())
    listed = shell.json("job", "list", "--kind", "catalog.ingest")
    assert [one["id"] for one in listed["dead"]] == [other]
    assert listed["kinds"] == [{"kind": "catalog.ingest", "ready": 0, "waiting": 0, "running": 0, "dead": 1}]
    shell("job", "revive", str(number))
    assert states(database_url) == {number: ("ready", 0), other: ("dead", 10)}
    [entry] = shell.json("audit", "--action", "job revive")["entries"]
    assert (entry["subjectType"], entry["detail"]) == ("job", {"job": number, "kind": "webhook.deliver"})


def test_all_dead_jobs_of_a_kind_are_revived_except_duplicates_of_waiting_jobs(
    shell: Shell, database_url: str
) -> None:
    first, second = dead(database_url, dedup="same"), dead(database_url)

    async def again() -> None:
        async with Database.open(database_url) as db, db.write() as tx:
            assert await enqueue(tx, "webhook.deliver", Payload(), dedup="same") is not None

    asyncio.run(again())
    shell("job", "revive", "--kind", "webhook.deliver")
    assert "another job for the same work is queued already" in shell.err
    assert "Due again: 1 job of webhook.deliver." in shell.err
    assert [states(database_url)[one][0] for one in (first, second)] == ["dead", "ready"]


def test_a_job_that_is_not_dead_and_wrong_arguments_are_reported(shell: Shell) -> None:
    assert "The queue is empty." in shell("job", "list")
    assert "No jobs of the kind x." in shell("job", "list", "--kind", "x")
    shell("job", "revive", "12345", code=1)
    assert "isn't dead, or no longer exists. List dead jobs: mercato job list" in shell.err
    for wrong in ([], ["1", "--kind", "x"], ["one"], ["--bogus"]):
        shell("job", "revive", *wrong, code=2)
        assert shell.err


def test_a_missing_database_is_reported(fresh: Shell) -> None:
    fresh("job", "list", code=2)
    assert "--data-dir" in fresh.err


def test_a_number_that_no_database_can_hold_is_not_a_jobs_number(shell: Shell) -> None:
    shell("job", "revive", str(2**63), "0", code=1)
    assert f"{2**63} isn't a job number. List dead jobs: mercato job list" in shell.err
    assert "0 isn't a job number" in shell.err
