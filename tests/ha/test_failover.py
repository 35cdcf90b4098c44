"""Servers of the database die under trade: nothing acknowledged is lost or doubled, and 503 is the only failure."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Final

import pytest
from tests.calibration import DECODINGS, plain_decoding_seconds
from tests.ha.cluster import TTL, Cluster
from tests.ha.load import EXPECTED, loading
from tests.prove import round as rounds
from tests.prove.calls import Calls
from tests.prove.round import Day, Plan
from tests.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="package")

PLACE: Final = "POST /v1/marketfront/orders/place"

AFTER_TTL: Final = 5.0
"""Seconds after the primary's time is up in which orders must be accepted again, if the machine is at rest."""

CALM: Final = 3
"""Orders that are accepted before an event, and after it while a member is still away."""

LOADED: Final = 150
"""Orders that are accepted before a kill under load."""

ONLY: Final = {HTTPStatus.SERVICE_UNAVAILABLE}
"""The failures of the service that a failover may cause."""


@dataclass(slots=True)
class Report:
    """The longest time after each event in which no order was accepted, and the events after which it was too long."""

    lines: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def note(self, event: str, calls: Calls, began: float) -> None:
        accepted = [one for one in calls.log if one.operation == PLACE and one.status == HTTPStatus.CREATED]
        ends = sorted(one.answered_at for one in accepted if one.answered_at >= began)
        pause = max(b - a for a, b in zip([began, *ends], [*ends, monotonic()], strict=True))
        self.lines.append(f"{event}: accepted again after {pause:.1f} s")
        print(self.lines[-1], flush=True)
        if pause > TTL + AFTER_TTL * waiting_factor():
            self.late.append(self.lines[-1])


async def disturb(cluster: Cluster, report: Report, day: Day) -> None:
    """Kill a member of each kind, one after the other, and wait each time for the cluster to be whole again."""

    async def event(name: str, happen: Callable[[], Awaitable[Callable[[], Awaitable[None]] | None]]) -> None:
        await accepted(day.calls, monotonic(), orders=CALM)
        began = monotonic()
        repair = await happen()
        await accepted(day.calls, began, orders=CALM)
        if repair is not None:
            await repair()
        await cluster.until_synchronous()
        await all_listen(cluster, len(day.fleet.programs))
        report.note(name, day.calls, began)

    async def kill_etcd() -> Callable[[], Awaitable[None]]:
        leader = await cluster.leader_of_etcd()
        await leader.kill()
        return lambda: leader.start(cluster.etcd)

    async def kill_replica() -> Callable[[], Awaitable[None]]:
        replica = await cluster.replica()
        await replica.kill()
        return replica.start

    async def kill_primary() -> Callable[[], Awaitable[None]]:
        primary = await cluster.primary()
        await primary.kill()
        return primary.start

    await event("etcd's leader killed", kill_etcd)
    await event("replica killed", kill_replica)
    await event("switchover", cluster.switch_over)
    await event("primary killed", kill_primary)


async def all_listen(cluster: Cluster, count: int) -> None:
    """Return once every process listens for work on the primary."""
    listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'mercato listen%'"
    async with asyncio.timeout(PATIENCE):
        while await cluster.administer(listening) < count:
            await asyncio.sleep(0.1)


def waiting_factor() -> float:
    """Return how much longer work takes here now than the CPU that it needs: 1 on a machine at rest."""
    began, cpu = monotonic(), plain_decoding_seconds()
    return max(1.0, (monotonic() - began) / (DECODINGS * cpu))


async def accepted(calls: Calls, began: float, *, orders: int) -> None:
    """Return once so many orders were accepted that were sent after an instant."""

    def count() -> int:
        return sum(
            one.operation == PLACE and one.status == HTTPStatus.CREATED and one.sent_at >= began
            for one in calls.log
        )

    async with asyncio.timeout(PATIENCE):
        while count() < orders:
            await asyncio.sleep(0.1)


async def test_no_acknowledged_order_is_lost_or_doubled_when_the_servers_of_the_database_die(
    cluster: Cluster, tmp_path: Path
):
    report = Report()
    calls: list[Calls] = []

    async def disturbance(day: Day) -> None:
        calls.append(day.calls)
        await disturb(cluster, report, day)

    url = await cluster.new_database()
    plan = Plan(database="postgresql", url=url, seed=21, kills=0, directory=tmp_path)
    result = await rounds.run(plan, disturbance)
    print(result.counts)
    failures = {(one.operation, one.status) for one in calls[0].log if one.status >= 500 or one.status == 0}
    assert result.violations == []
    assert {status for _, status in failures} <= ONLY, failures
    assert not report.late


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kill of the primary under load did to the orders."""

    acknowledged: int
    lost: int
    doubled: int
    seconds: float


async def kill_under_load(cluster: Cluster, directory: Path, *, behind: float) -> Outcome:
    """Kill the primary under placements, with the replica so many seconds behind; heal the cluster then."""
    async with loading(cluster, directory) as load:
        await load.accepts(LOADED)
        primary = await cluster.primary()
        if behind:
            # Its log isn't sent meanwhile; a commit that waits for that isn't acknowledged.
            sender = await cluster.administer("SELECT pid FROM pg_stat_replication")
            os.kill(sender, signal.SIGSTOP)
            await asyncio.sleep(behind)
        began = monotonic()
        await primary.kill()
        await cluster.primary()
        # Those that were in flight at the kill don't count.
        await load.accepts(LOADED, after=began + 1)
        again = min(at for at in load.acknowledged.values() if at > began + 1) - began
        assert set(load.statuses) <= EXPECTED, load.statuses
    lost, doubled = await load.lost_and_doubled()
    await primary.start()
    await cluster.configure(synchronous_mode=True)
    await cluster.until_synchronous()
    return Outcome(len(load.acknowledged), lost, doubled, again)


async def test_a_killed_primary_under_load_costs_no_order_if_commits_are_synchronous(
    cluster: Cluster, tmp_path: Path
):
    found = await kill_under_load(cluster, tmp_path, behind=0)
    print(f"synchronous, primary killed under load: {found}")
    assert (found.lost, found.doubled) == (0, 0)
    assert found.seconds < TTL + AFTER_TTL * waiting_factor()


async def test_the_records_show_the_orders_that_asynchronous_commits_lose(cluster: Cluster, tmp_path: Path):
    await cluster.commit_synchronously(on=False)
    found = await kill_under_load(cluster, tmp_path, behind=1.5)
    print(f"asynchronous, the replica 1.5 s behind: {found}")
    assert found.lost > 0
