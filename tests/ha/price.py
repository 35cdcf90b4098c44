"""What synchronous commits cost: `python -m tests.ha.price`, on a cluster whose servers write to the disk.

Both servers are on one machine: between two machines each commit also waits for a round trip of the network.
"""

import asyncio
import tempfile
from pathlib import Path
from statistics import quantiles
from time import monotonic
from typing import Final

from tests.ha.cluster import missing, running
from tests.ha.load import loading

from mercato.platform.db.servers import Servers

TURNS: Final = 4
SECONDS: Final = 10.0
WARM_UP: Final = 3.0
COMMITS: Final = 500


async def commit_seconds(url: str) -> list[float]:
    """Return the times that one session takes for a row and its commit, one after the other."""
    connection = await Servers(url).connect()
    await connection.execute("CREATE TABLE IF NOT EXISTS price (id bigint)")
    found = []
    for number in range(COMMITS):
        began = monotonic()
        await connection.execute("INSERT INTO price VALUES ($1)", number)
        found.append(monotonic() - began)
    await connection.close()
    return found


def show(what: str, seconds: list[float]) -> None:
    cuts = quantiles(seconds, n=100)
    print(f"{what}: p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms", flush=True)


async def main() -> None:
    seconds: dict[bool, list[float]] = {True: [], False: []}
    commits: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as directory:
        async with running(fsync="on") as cluster:
            url = await cluster.new_database()
            async with loading(cluster, Path(directory)) as load:
                for _ in range(TURNS):
                    for is_synchronous in seconds:
                        await cluster.commit_synchronously(on=is_synchronous)
                        await asyncio.sleep(WARM_UP)
                        first = len(load.seconds)
                        await asyncio.sleep(SECONDS)
                        seconds[is_synchronous] += load.seconds[first:]
            for _ in range(TURNS):
                for is_synchronous in seconds:
                    await cluster.commit_synchronously(on=is_synchronous)
                    await asyncio.sleep(WARM_UP)
                    commits[is_synchronous] += await commit_seconds(url)
    for is_synchronous, name in ((True, "synchronous"), (False, "asynchronous")):
        found = seconds[is_synchronous]
        show(f"{name}, {len(found) / TURNS / SECONDS:.1f} placements/s", found)
        show(f"{name}, one commit of one session", commits[is_synchronous])


if __name__ == "__main__":
    if (needed := missing()) is not None:
        raise SystemExit(f"It needs {needed}.")
    asyncio.run(main())
