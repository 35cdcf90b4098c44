"""Slots are shared between partners first, then between a partner's ordering keys."""

from collections import Counter

import pytest
from sqlalchemy import insert
from tests.jobs.support import handler, nothing, put, take, texts

from mercato.platform.db.engine import Database
from mercato.platform.db.tables import jobs
from mercato.platform.db.types import now_ms
from mercato.platform.jobs import Job, finish
from mercato.platform.jobs.claim import Rotation


async def backlog(db: Database, group: str, *, keys: int, each: int = 1) -> None:
    """Add `each` ready jobs to each of so many keys of the group."""
    rows = [
        {
            "kind": "note",
            "ordering_key": f"{group}:{key:03}",
            "group_key": group,
            "payload": "{}",
            "state": "ready",
        }
        for _ in range(each)
        for key in range(keys)
    ]
    async with db.write() as tx:
        await tx.execute(insert(jobs).values(run_at=now_ms(), enqueued_at=now_ms()), rows)


class Slots:
    """The slots of one worker, and the jobs that run in them, oldest first."""

    def __init__(self, db: Database, total: int) -> None:
        self.db = db
        self.total = total
        self.running: list[Job[str]] = []
        self.rotation = Rotation()

    @property
    def in_use(self) -> Counter[str]:
        return Counter(job.group for job in self.running)

    async def fill(self) -> list[Job[str]]:
        """Claim jobs for the free slots."""
        free = self.total - len(self.running)
        claimed = await take(self.db, free=free, rotation=self.rotation) if free else []
        self.running += claimed
        return claimed

    async def end_oldest(self) -> None:
        async with self.db.write() as tx:
            await finish(tx, self.running.pop(0))


async def test_one_partner_alone_leaves_half_of_the_slots_free(db: Database) -> None:
    await backlog(db, "big", keys=50)
    slots = Slots(db, 16)
    await slots.fill()
    await slots.fill()
    assert slots.in_use == {"big": 8}


@pytest.mark.parametrize("hanging", [1, 2, 3, 4, 5])
async def test_a_partner_without_a_running_job_gets_a_slot_at_once_however_many_hang(
    db: Database, hanging: int
) -> None:
    slots = Slots(db, 32)
    for number in range(hanging):
        await backlog(db, f"hangs{number}", keys=100)
        await slots.fill()
    await put(db, "healthy", ordering_key="healthy", group="a healthy one")
    assert [job.group for job in await slots.fill()] == ["a healthy one"]


@pytest.mark.parametrize(("total", "partners"), [(8, 1), (8, 3), (8, 7), (32, 4), (32, 15), (64, 5)])
async def test_no_waiting_partner_gets_less_than_its_share(db: Database, total: int, partners: int) -> None:
    slots = Slots(db, total)
    for number in range(partners):
        await backlog(db, f"p{number:02}", keys=4 * total)
        await slots.fill()
    for _ in range(3 * total):
        await slots.end_oldest()
        await slots.fill()
    share = total // (partners + 1)
    assert {group: in_use for group, in_use in slots.in_use.items() if in_use < share} == {}
    assert len(slots.in_use) == partners
    assert len(slots.running) <= total - share


async def test_more_partners_than_slots_take_turns(db: Database) -> None:
    slots = Slots(db, 4)
    for number in range(10):
        await backlog(db, f"p{number}", keys=20)
    claimed = await slots.fill()
    while len(claimed) < 40:
        await slots.end_oldest()
        claimed += await slots.fill()
    turns = Counter(job.group for job in claimed)
    assert len(turns) == 10
    assert max(turns.values()) - min(turns.values()) <= 2


async def test_the_ordering_keys_of_a_partner_take_turns(db: Database) -> None:
    await backlog(db, "big", keys=20, each=5)
    await backlog(db, "other", keys=20, each=5)
    slots = Slots(db, 8)
    claimed = await slots.fill()
    while len(claimed) < 160:
        await slots.end_oldest()
        claimed += await slots.fill()
    for group in ("big", "other"):
        turns = Counter(job.ordering_key for job in claimed if job.group == group)
        assert len(turns) == 20
        assert max(turns.values()) - min(turns.values()) <= 1


async def test_the_limit_of_a_partner_holds_besides_its_share(db: Database) -> None:
    await backlog(db, "big", keys=50)
    limited = handler(nothing, group_concurrency=2)
    assert len(await take(db, limited, free=32)) == 2
    assert await take(db, limited, free=30) == []


async def test_the_partitions_of_a_key_leave_slots_for_the_other_keys_of_their_partner(db: Database) -> None:
    running: list[Job[str]] = []

    async def fill() -> Counter[str]:
        """Claim as long as there are slots; return how many each key got."""
        of_partitions = handler(nothing, group_concurrency=8, partitions=True)
        claimed = await take(db, of_partitions, free=32 - len(running))
        running.extend(claimed)
        return Counter(job.ordering_key[0] for job in claimed)

    async def ready(key: str) -> None:
        for partition in range(4):
            await put(db, "", ordering_key=f"{key}:{partition}", group="big")

    found = []
    for key in "abcde":
        await ready(key)
        found.append(await fill())
    assert found == [{"a": 4}, {"b": 2}, {"c": 1}, {"d": 1}, {}]
    async with db.write() as tx:
        await finish(tx, running.pop(0))
    await ready("a")
    assert await fill() == {"e": 1}


async def test_jobs_without_a_partner_take_every_slot(db: Database) -> None:
    await put(db, *"abcdef")
    assert sorted(texts(await take(db, free=6))) == list("abcdef")
