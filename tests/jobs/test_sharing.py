"""Decisions §14: places are shared between partners first, then between a partner's ordering keys."""

from collections import Counter

import pytest
from sqlalchemy import insert
from tests.jobs.support import handler, job_of, nothing, put, take, texts

from mercato.kernel.db.engine import Database
from mercato.kernel.db.tables import jobs
from mercato.kernel.db.types import now_ms
from mercato.kernel.jobs import finish
from mercato.kernel.jobs.claim import Claimed, Rotation


async def backlog(db: Database, group: str, *, lanes: int, each: int = 1) -> None:
    """Make so many jobs of so many lanes of the group ready."""
    rows = [
        {
            "kind": "note",
            "ordering_key": f"{group}:{lane:03}",
            "group_key": group,
            "payload": "{}",
            "state": "ready",
        }
        for _ in range(each)
        for lane in range(lanes)
    ]
    async with db.write() as tx:
        await tx.execute(insert(jobs).values(run_at=now_ms(), enqueued_at=now_ms()), rows)


class Places:
    """The places of one worker, and what runs in them, the oldest first."""

    def __init__(self, db: Database, total: int) -> None:
        self.db = db
        self.total = total
        self.running: list[Claimed] = []
        self.rotation = Rotation()

    @property
    def held(self) -> Counter[str]:
        return Counter(one.place.group for one in self.running)

    async def fill(self) -> list[Claimed]:
        """Claim what there is room for."""
        free = self.total - len(self.running)
        claimed = await take(self.db, free=free, rotation=self.rotation) if free else []
        self.running += claimed
        return claimed

    async def end_oldest(self) -> None:
        async with self.db.write() as tx:
            await finish(tx, job_of(self.running.pop(0)))


async def test_a_partner_alone_leaves_half_of_the_places_free(db: Database) -> None:
    await backlog(db, "big", lanes=50)
    places = Places(db, 16)
    await places.fill()
    await places.fill()
    assert places.held == {"big": 8}


@pytest.mark.parametrize("hanging", [1, 2, 3, 4, 5])
async def test_however_many_hang_a_partner_without_a_call_gets_a_place_at_once(
    db: Database, hanging: int
) -> None:
    places = Places(db, 32)
    for number in range(hanging):
        await backlog(db, f"hangs{number}", lanes=100)
        await places.fill()
    await put(db, "healthy", ordering_key="healthy", group="a healthy one")
    assert [one.place.group for one in await places.fill()] == ["a healthy one"]


@pytest.mark.parametrize(("total", "partners"), [(8, 1), (8, 3), (8, 7), (32, 4), (32, 15), (64, 5)])
async def test_of_partners_that_wait_none_gets_less_than_its_share(
    db: Database, total: int, partners: int
) -> None:
    places = Places(db, total)
    for number in range(partners):
        await backlog(db, f"p{number:02}", lanes=4 * total)
        await places.fill()
    for _ in range(3 * total):
        await places.end_oldest()
        await places.fill()
    share = total // (partners + 1)
    assert {group: held for group, held in places.held.items() if held < share} == {}
    assert len(places.held) == partners
    assert len(places.running) <= total - share


async def test_more_partners_than_places_take_turns(db: Database) -> None:
    places = Places(db, 4)
    for number in range(10):
        await backlog(db, f"p{number}", lanes=20)
    claimed = await places.fill()
    while len(claimed) < 40:
        await places.end_oldest()
        claimed += await places.fill()
    turns = Counter(one.place.group for one in claimed)
    assert len(turns) == 10
    assert max(turns.values()) - min(turns.values()) <= 2


async def test_the_ordering_keys_of_a_partner_take_turns(db: Database) -> None:
    await backlog(db, "big", lanes=20, each=5)
    await backlog(db, "other", lanes=20, each=5)
    places = Places(db, 8)
    claimed = await places.fill()
    while len(claimed) < 160:
        await places.end_oldest()
        claimed += await places.fill()
    for group in ("big", "other"):
        turns = Counter(one.place.key for one in claimed if one.place.group == group)
        assert len(turns) == 20
        assert max(turns.values()) - min(turns.values()) <= 1


async def test_a_bound_for_each_partner_holds_beside_its_share(db: Database) -> None:
    await backlog(db, "big", lanes=50)
    bounded = handler(nothing, per_group=2)
    assert len(await take(db, bounded, free=32)) == 2
    assert await take(db, bounded, free=30) == []


async def test_jobs_of_no_partner_take_every_place(db: Database) -> None:
    await put(db, *"abcdef")
    assert sorted(texts(await take(db, free=6))) == list("abcdef")
