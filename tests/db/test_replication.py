"""Doctor, metrics and the start say whether a failover may lose what was acknowledged."""

import asyncio
from typing import Any

from sqlalchemy import text
from structlog.testing import capture_logs
from tests.own_postgres import OwnPostgres, configure, pair
from tests.waiting import PATIENCE

from mercato.features import doctor
from mercato.platform.db.engine import Database
from mercato.platform.db.health import (
    find_replication,
    measure_replication,
    warn_of_asynchronous_commits,
)
from mercato.platform.telemetry import Metrics
from mercato.platform.telemetry.metrics import ReplicaLag, Replication


async def until_caught_up(db: Database) -> Replication:
    async with asyncio.timeout(PATIENCE):
        while True:
            async with db.read() as tx:
                found = await find_replication(tx)
            if found.replicas and found.replicas[0].bytes == 0:
                return found
            await asyncio.sleep(0.05)


def both(primary: OwnPostgres, replica: OwnPostgres, *, user: str = "postgres") -> str:
    return f"postgresql://{user}@/postgres?host={replica.home}&host={primary.home}"


async def checked(db: Database) -> doctor.Check:
    async with db.read() as tx:
        return await doctor._replication(tx)


async def started(url: str) -> list[Any]:
    with capture_logs() as logs:
        await warn_of_asynchronous_commits(url)
    return [one["event"] for one in logs]


async def test_several_hosts_without_synchronous_commits_are_reported_everywhere():
    async with pair() as (primary, replica):
        url = both(primary, replica)
        async with Database.open(url) as db:
            found = await until_caught_up(db)
            assert (found.hosts, found.is_synchronous) == (2, False)
            assert [(one.is_synchronous, one.seconds) for one in found.replicas] == [(False, 0.0)]
            check = await checked(db)
            assert (check.state, "2 hosts" in check.message) == (doctor.State.WRONG, True)
            assert "synchronous_mode" in str(check.advice)
            assert await started(url) == [
                "commits wait for no replica: a failover may lose what was acknowledged"
            ]

            await configure(primary, "synchronous_standby_names", "*")
            found = await until_caught_up(db)
            assert found.is_synchronous
            async with asyncio.timeout(PATIENCE):
                while not (await checked(db)).message.startswith(
                    "2 hosts in the URL, commits wait for a replica"
                ):
                    await asyncio.sleep(0.05)
            assert (await checked(db)).state is doctor.State.OK
            assert await started(url) == []


async def test_one_host_is_no_reason_for_a_warning():
    async with pair() as (primary, _):
        async with Database.open(primary.url) as db:
            assert (await checked(db)).state is doctor.State.OK
        assert await started(primary.url) == []
    assert await started("sqlite:///nowhere.db") == []


async def test_commits_that_wait_for_a_replica_that_is_away_are_reported():
    async with pair() as (primary, replica), Database.open(primary.url) as db:
        await configure(primary, "synchronous_standby_names", "*")
        await replica.stop()
        async with asyncio.timeout(PATIENCE):
            while (check := await checked(db)).state is doctor.State.OK:
                await asyncio.sleep(0.05)
    assert "no commit ends" in str(check.advice)


async def test_a_user_without_the_right_to_see_replicas_is_told_which_one_is_missing():
    async with pair() as (primary, replica):
        async with Database.open(primary.url) as db, db.write() as tx:
            await tx.execute(text("CREATE ROLE plain LOGIN"))
        async with Database.open(both(primary, replica, user="plain")) as db:
            await configure(primary, "synchronous_standby_names", "*")
            async with db.read() as tx:
                found = await find_replication(tx)
            assert [one.bytes for one in found.replicas] == [None]
            check = await checked(db)
    assert (check.state, "pg_monitor" in str(check.advice)) == (doctor.State.NOTE, True)


async def test_the_metrics_have_hosts_lag_and_whether_commits_wait():
    found = Replication(
        hosts=2,
        is_synchronous=True,
        replicas=[
            ReplicaLag(name="two", is_synchronous=True, bytes=4096, seconds=0.25),
            ReplicaLag(name="three", is_synchronous=False, bytes=None, seconds=None),
        ],
    )

    async def read() -> Replication | None:
        return found

    metrics = Metrics()
    metrics.watch_replication(read)
    lines = (await metrics.read()).decode().splitlines()
    assert {
        "mercato_database_hosts 2.0",
        "mercato_database_synchronous 1.0",
        'mercato_database_replica_lag_bytes{replica="two"} 4096.0',
        'mercato_database_replica_lag_seconds{replica="two"} 0.25',
    } <= set(lines)
    assert not any("three" in line for line in lines)


async def test_a_database_that_is_away_or_embedded_has_no_such_metrics(tmp_path: Any):
    for url in (f"sqlite:///{tmp_path / 'x.db'}", f"postgresql://postgres@/x?host={tmp_path}"):
        async with Database.open(url) as db:
            assert await measure_replication(db) is None
