"""More than one process: two that serve and one that works, on PostgreSQL, beside one process on SQLite.

Also how soon a job is found by another process, what four workers ask of a database while there is nothing to do, and
how soon after a crash of PostgreSQL something is written again.
"""

import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.error import URLError

import msgspec

from benchmarks.hammer import hammer
from benchmarks.load import Load, environment
from benchmarks.postgres import Postgres, postgres
from benchmarks.report import row
from benchmarks.trade import CARTS, VALIDATE, Trade, post, trading
from mercato.features.schema import SCHEMA
from mercato.platform.db.engine import Database
from mercato.platform.db.migrate import migrate
from mercato.platform.jobs import Done, Handler, Job, Worker, enqueue

MERCATO = Path(sys.executable).with_name("mercato")

ROUNDS = 3
SECONDS = 1.5
PLACEMENTS = 250
NOTIFICATIONS = 100
CONNECTIONS = 16

WAKES = 300
WAKE_GOAL_MS = 250

IDLE_WORKERS = 4
IDLE_SECONDS = 20.0

RESTARTS = 3
"""Times that PostgreSQL is stopped and started."""

Made = Callable[[Trade], Iterable[bytes]]


def main() -> None:
    with postgres() as server:
        throughput(server)
    with postgres() as server:
        asyncio.run(wake_up(server.url))
    with postgres() as server:
        idle(server)
    with postgres() as server:
        restart(server)


@contextmanager
def worker(url: str | None, data_dir: Path) -> Iterator[None]:
    """Run `mercato worker` while the block runs; in the data directory is the key that all share."""
    command: list[str | Path] = [MERCATO, "worker", "--data-dir", data_dir]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(url)) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the worker did not start")
            yield
        finally:
            process.terminate()
            process.wait(60)


# --- throughput -----------------------------------------------------------------------------------------


def throughput(server: Postgres) -> None:
    """Compare requests a second, in turns."""
    with ExitStack() as stack:
        one = stack.enter_context(trading())
        many = stack.enter_context(trading(url=server.url, arguments=("--workers", "2")))
        stack.enter_context(worker(server.url, many.server.data_dir))
        carts = {id(trade): trade.post(CARTS, trade.add()) for trade in (one, many)}
        orders = {id(trade): trade.order() for trade in (one, many)}
        compare("carts", one, many, lambda trade: repeat(carts[id(trade)]))
        compare("validate", one, many, lambda trade: repeat(trade.post(VALIDATE, orders[id(trade)])))
        compare("place", one, many, lambda trade: trade.placements(orders[id(trade)], PLACEMENTS))
        compare("notify", one, many, notifications, pause=until_idle)


def notifications(trade: Trade) -> list[bytes]:
    """Return requests that say that the catalog has changed, which it has not."""
    path = f"/v1/commerce/catalogset-notification?storeId={trade.store['storeId']}"
    return [post(path, {"callbackUrl": trade.catalog_url}, trade.commerce_key)] * NOTIFICATIONS


def until_idle(trade: Trade) -> None:
    """Wait until no run of the store is under way."""
    path = f"/v1/commerce/stores/{trade.store['storeId']}/catalog-ingest?limit=1"
    while trade.server.call("GET", path, key=trade.commerce_key)["runs"][0]["status"] not in {
        "succeeded",
        "failed",
    }:
        time.sleep(0.1)


def compare(
    name: str, one: Trade, many: Trade, made: Made, *, pause: Callable[[Trade], None] | None = None
) -> None:
    """Print the ratio of requests a second, and how long a request takes."""
    pairs: list[tuple[Load, Load]] = []
    for number in range(ROUNDS + 1):
        turns = [one, many] if number % 2 else [many, one]
        loads = {}
        for trade in turns:
            loads[id(trade)] = hammer(
                trade.server.process, trade.server.port, made(trade), seconds=SECONDS, connections=CONNECTIONS
            )
            if pause is not None:
                pause(trade)
        if number:
            pairs.append((loads[id(one)], loads[id(many)]))
    ratio = statistics.median(mine.per_second / least.per_second for least, mine in pairs)
    rates = [statistics.median(pair[side].per_second for pair in pairs) for side in (0, 1)]
    slow = [statistics.median(pair[side].percentile(0.99) for pair in pairs) for side in (0, 1)]
    row(
        f"{name}: 2 API + 1 worker on PostgreSQL ÷ 1 on SQLite ({rates[1]:.0f} ÷ {rates[0]:.0f} a second, "
        f"p99 {slow[1]:.0f} and {slow[0]:.0f} ms)",
        ratio,
        "-",
        ok=None,
    )


# --- wake-up --------------------------------------------------------------------------------------------


class Woken(msgspec.Struct):
    """A job that only says when it began."""

    number: int


async def wake_up(url: str) -> None:
    """Print how long after its commit a job begins in another process."""
    await migrate(url, SCHEMA)
    code = "from benchmarks.scale import work; work()"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    took = []
    async with Database.open(url) as db:
        for number in range(WAKES):
            # Long enough for the worker to fall asleep, and at no fixed distance from its looks.
            await asyncio.sleep(0.02 + number % 7 / 100)
            async with db.write() as tx:
                await enqueue(tx, "wake", Woken(number))
            committed = time.monotonic_ns()
            said, began = map(int, (await process.stdout.readline()).split())
            assert said == number
            took.append((began - committed) / 1e6)
    process.terminate()
    await process.wait()
    took.sort()
    row("wake-up in another process, p50 in ms", statistics.median(took), "-", ok=None)
    p99 = took[int(0.99 * (len(took) - 1))]
    row("wake-up in another process, p99 in ms", p99, f"≤ {WAKE_GOAL_MS}", ok=p99 <= WAKE_GOAL_MS)


def work() -> None:
    """Be the other process."""

    async def handle(job: Job[Woken]) -> Done:
        print(job.payload.number, time.monotonic_ns(), flush=True)
        return Done()

    async def run() -> None:
        async with Database.open(sys.argv[1]) as db:
            print("working", flush=True)
            await Worker(db, {"wake": Handler(fn=handle, payload=Woken, timeout=timedelta(seconds=5))}).run()

    asyncio.run(run())


# --- idle -----------------------------------------------------------------------------------------------


def idle(server: Postgres) -> None:
    """Print how many statements a second the workers send while there is nothing to do."""
    asyncio.run(migrate(server.url, SCHEMA))
    asyncio.run(log_statements(server.url))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for _ in range(IDLE_WORKERS):
            stack.enter_context(worker(server.url, directory))
        # Work that is done once at the start is excluded.
        time.sleep(5)
        before = server.log.stat().st_size
        time.sleep(IDLE_SECONDS)
        with server.log.open("rb") as log:
            log.seek(before)
            lines = log.read()
    statements = re.findall(rb"LOG:  (?:statement|execute [^:]*): *(\w+)", lines)
    said = f"statements a second of {IDLE_WORKERS} idle workers"
    row(said, len(statements) / IDLE_SECONDS, "-", ok=None)
    writes = sum(word.upper() not in {b"SELECT", b"WITH"} for word in statements)
    row("of which not SELECT", writes / IDLE_SECONDS, "-", ok=None)


async def log_statements(url: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    await connection.execute("ALTER DATABASE postgres SET log_statement = 'all'")
    await connection.close()


# --- restart --------------------------------------------------------------------------------------------


@dataclass
class Tries:
    """Writes tried over and over, and what came of them."""

    trade: Trade
    others: int = 0

    def once(self) -> bool:
        """Try; return whether it was a success."""
        path = f"/v1/commerce/stores/{self.trade.store['storeId']}"
        try:
            self.trade.server.call("PUT", path, {"name": "Again"}, key=self.trade.commerce_key)
        except RuntimeError as refused:
            problem: Any = json.loads(str(refused))
            if problem["status"] != 503 or not problem["retryAfter"]:
                self.others += 1
            return False
        except (URLError, OSError):
            self.others += 1
            return False
        return True


def restart(server: Postgres) -> None:
    """Print how long after PostgreSQL answers again something is written."""
    with ExitStack() as stack:
        trade = stack.enter_context(trading(url=server.url, arguments=("--workers", "2")))
        stack.enter_context(worker(server.url, trade.server.data_dir))
        took, away, others = [], [], 0
        for _ in range(RESTARTS):
            tries = Tries(trade)
            for _ in range(50):
                tries.once()
            began = time.perf_counter()
            server.stop()
            for _ in range(100):
                tries.once()
            server.start()
            there = time.perf_counter()
            while not tries.once():
                pass
            took.append((time.perf_counter() - there) * 1000)
            away.append(time.perf_counter() - began)
            others += tries.others
    row("first write after PostgreSQL answers again, in ms", statistics.median(took), "-", ok=None)
    row("crash to first write, in s", statistics.median(away), "-", ok=None)
    row("answers meanwhile that were neither a success nor 503 with retryAfter", others, "0", ok=others == 0)


if __name__ == "__main__":
    main()
