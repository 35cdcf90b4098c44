"""The page about failovers does what it says, on a cluster."""

import asyncio
from pathlib import Path

import pytest
from tests.docs.reader import Reader
from tests.docs.test_pages import FAILOVER
from tests.ha.cluster import PATRONI, Cluster

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_how_to_survive_a_failover(cluster: Cluster, tmp_path: Path):
    reader = Reader(tmp_path)
    reader.replaced[
        "postgresql://mercato:secret@db1.example.net,db2.example.net/mercato"
    ] = await cluster.new_database()
    control = f"{PATRONI.with_name('patronictl')} -c {cluster.nodes[0].directory / 'patroni.yaml'}"
    reader.replaced["patronictl -c /etc/patroni.yml"] = control
    await cluster.until_synchronous()
    try:
        await asyncio.to_thread(reader.reads, FAILOVER)
    finally:
        reader.leaves()
    await cluster.until_synchronous()
