"""The screen `Jobs`: the queue in counts, and dead jobs with their last error, which are revived."""

from typing import Any

import pytest
from sqlalchemy import insert
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite
from tests.service import Service

from mercato.platform.db.audit import list_entries
from mercato.platform.db.tables import jobs
from mercato_contract import clock


async def add_dead(mercato: Service, kind: str = "old.kind", *, error: str = "no hope", **values: Any) -> int:
    """Insert a dead job of a kind that no worker runs."""
    now = clock.now()
    row = {
        "kind": kind, "ordering_key": clock.new_id().hex, "group_key": "", "payload": '{"name": "secret"}',
        "state": "dead", "run_at": now, "enqueued_at": now, "attempt": 10, "error": error,
    } | values  # fmt: skip
    async with mercato.app.db.write() as tx:
        added = (await tx.execute(insert(jobs).values(row).returning(jobs.c.id))).first()
    assert added is not None
    number: int = added.id
    return number


@mostly_sqlite
async def test_a_dead_job_is_shown_with_its_last_error_and_revived(mercato: Service):
    number = await add_dead(mercato, error=HOSTILE)
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console/jobs")
    check_frame(page)
    assert ["old.kind", "0", "0", "0", "1"] in page.rows("Queue")
    (row,) = page.rows("Jobs")
    assert row[1:4] == [str(number), "old.kind", "10"]
    assert "<script>alert(1)" in row[4], "as text"
    assert "secret" not in page.text
    done = await browser.press(page, "Revive job")
    assert done.status_region == f"Job {number} is due again."
    assert len(done.rows("Jobs")[0]) == 1, "none"
    async with mercato.app.db.read() as tx:
        entry = (await list_entries(tx, action="console.reviveDeadJob", limit=1))[0]
    assert (entry.actor, entry.subject_type) == ("console:cli:anna", "job")
    assert entry.detail == {"job": number, "kind": "old.kind"}
    again = await browser.post("/console/jobs/revive", {"job": str(number)})
    assert (again.status, "Somebody may have revived it" in again.text) == (404, True)
    assert (await browser.post("/console/jobs/revive", {"job": str(2**62)})).status == 404
    assert (await browser.post("/console/jobs/revive", {"job": "one"})).status in {400, 422}


async def test_a_dead_job_whose_work_waits_again_is_not_revived(mercato: Service):
    number = await add_dead(mercato, dedup="same")
    await add_dead(mercato, dedup="same", state="waiting")
    browser = await enter_as_operator(mercato)
    refused = await browser.post("/console/jobs/revive", {"job": str(number)})
    assert (refused.status, "another job for the same work" in refused.text) == (409, True)


async def test_dead_jobs_of_one_kind_are_listed_and_revived_at_once(mercato: Service):
    for kind in ("old.kind", "other.kind", "old.kind"):
        await add_dead(mercato, kind)
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console/jobs?kind=old.kind")
    assert [row[2] for row in page.rows("Jobs")] == ["old.kind"] * 2
    done = await browser.press(page, "Revive all of this kind")
    assert done.status_region == "Due again: 2 jobs of old.kind."
    assert [row[2] for row in done.rows("Jobs")] == ["other.kind"]


async def test_dead_jobs_come_in_pages(mercato: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mercato.console.screens.operators.administration.PAGE", 2)
    now = clock.now()
    numbers = [await add_dead(mercato, run_at=now) for _ in range(5)]
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console/jobs?kind=old.kind")
    found = page.rows("Jobs")
    while any(link.text == "Next page" for link in page.root.all("a")):
        page = await browser.open(page.link("Next page"))
        found += page.rows("Jobs")
    assert [int(row[1]) for row in found] == numbers[::-1]
    assert "is not a nextCursor" in (await browser.open("/console/jobs?cursor=x")).text


@mostly_sqlite
async def test_a_partner_has_no_jobs(mercato: Service):
    number = await add_dead(mercato)
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert (await browser.open("/console/jobs")).status == 404
    assert (await browser.post("/console/jobs/revive", {"job": str(number)})).status == 404
