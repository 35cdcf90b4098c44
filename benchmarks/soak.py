"""Ten minutes of everything at a steady pace: memory stays flat, no queue grows, no connection or file is left open.

`python -m benchmarks.soak [--minutes 10] [--database sqlite|postgresql]`. Exits with 1 when something grew.
"""

import argparse
import asyncio
import itertools
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import aiohttp
import psutil

from benchmarks import menus
from benchmarks.load import bare, encoded
from benchmarks.postgres import Postgres, postgres
from benchmarks.report import row
from benchmarks.scale import worker
from benchmarks.trade import CARTS, PLACE, VALIDATE, Trade, trading

SAMPLE_SECONDS = 10.0
CALM_SECONDS = 120
"""Time for work in progress to finish after the last request; undelivered events are retried meanwhile."""

MEMORY_GROWTH = 1.05
"""The last third ÷ the second. The first fills caches, whose bounds are settings."""

FILES_GROWTH = 5
"""How many more open files, sockets included, once all is calm than in the second third. A leak of one in a thousand
requests would be seventeen. Pools open what is needed at once, within their bounds, and that is over by then."""

JSON = {"Content-Type": "application/json"}

DUE_SECONDS = 30.0
"""The longest that a job may have waited when it was due, at the end."""


@dataclass(frozen=True)
class Sample:
    """What the processes held at one moment. Sums over all of them; memory is what they do not share, in MB."""

    at: float
    memory: float
    files: int
    threads: int
    due: int
    oldest: float
    connections: int


@dataclass
class Soak:
    """One run: who is watched, and what was seen."""

    trade: Trade
    process: psutil.Process
    postgres: Postgres | None
    stop: float = 0.0
    said: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)

    def over(self) -> bool:
        return time.monotonic() >= self.stop


Asks = Callable[[aiohttp.ClientSession], Awaitable[aiohttp.ClientResponse]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog='make soak ARGS="…"', description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        server = stack.enter_context(postgres()) if options.database == "postgresql" else None
        url = server.url if server is not None else None
        sink = stack.enter_context(bare("static", encoded(b"")))
        workers = ("--workers", "2") if server is not None else ()
        event_url = f"http://127.0.0.1:{sink.port}/events"
        trade = stack.enter_context(trading(url=url, event_url=event_url, arguments=workers))
        stack.enter_context(worker(url, trade.server.data_dir))
        soak = Soak(trade, psutil.Process(), server)
        changing = stack.enter_context(changing_store(trade))
        return asyncio.run(run(soak, changing, options.minutes * 60))


@contextmanager
def changing_store(trade: Trade) -> Iterator[tuple[str, str]]:
    """Bring a second store live whose catalog is another one each time that it is pulled; give its id and URL."""
    numbers = itertools.count()
    with menus.hosting(lambda _path: menus.small(note=f"edition {next(numbers)}")) as url:
        yield trade.server.live(trade.commerce_key, url, "changing")["storeId"], url


async def run(soak: Soak, changing: tuple[str, str], seconds: float) -> int:
    """Load for so long, let it calm down, and tell what was left."""
    orders = await asyncio.to_thread(soak.trade.order)
    base = f"http://127.0.0.1:{soak.trade.server.port}"
    async with aiohttp.ClientSession(base) as session:
        soak.stop = time.monotonic() + seconds
        watching = asyncio.create_task(watch(soak, session))
        await asyncio.gather(*(loop(soak, session, *one) for one in plan(soak.trade, orders, changing)))
        await watching
    async with aiohttp.ClientSession(base) as session:
        after = await calm(soak, session)
    return report(soak, after)


# --- the load -----------------------------------------------------------------------------------------------


def plan(
    trade: Trade, order: dict[str, object], changing: tuple[str, str]
) -> list[tuple[str, float, set[int], Asks]]:
    """Return who asks what, how often a second, and with which answers: some ask wrongly, and some go away."""
    other, pulled = changing
    front = {"Authorization": f"Bearer {trade.front_key}"}
    shop = {"Authorization": f"Bearer {trade.commerce_key}"}
    store = trade.store["storeId"]
    reads = f"/v1/marketfront/catalog-sets/{trade.store['catalogSetId']}"
    found = "/v1/marketfront/stores/discover"
    notified = f"/v1/commerce/catalogset-notification?storeId={other}"
    add = trade.add()
    hours = random.Random(7)

    async def placed(session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        async with session.post(VALIDATE, json=order, headers=front) as checked:
            token = (await checked.json())["validatedOrderToken"]
        key = {"Idempotency-Key": str(uuid4())}
        return await session.post(PLACE, json=order | {"validatedOrderToken": token}, headers=front | key)

    async def went_away(session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        _, writer = await asyncio.open_connection("127.0.0.1", trade.server.port)
        writer.write(b"POST /v1/marketfront/carts/add HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        return await session.get("/healthz")

    def paused(session: aiohttp.ClientSession) -> Awaitable[aiohttp.ClientResponse]:
        body = {"status": hours.choice(["online", "paused"])}
        return session.post(f"/v1/commerce/stores/{other}/status", json=body, headers=shop)

    return [
        ("carts/add", 20, {200}, lambda s: s.post(CARTS, json=add, headers=front)),
        ("validate", 10, {200}, lambda s: s.post(VALIDATE, json=order, headers=front)),
        ("place", 10, {200, 201}, placed),
        ("CatalogSet", 20, {200}, lambda s: s.get(reads, headers=front)),
        ("discovery", 5, {200}, lambda s: s.post(found, json={"query": "dish"}, headers=front)),
        ("store", 10, {200}, lambda s: s.get(f"/v1/commerce/stores/{store}", headers=shop)),
        ("notify", 2, {202}, lambda s: s.post(notified, json={"callbackUrl": pulled}, headers=shop)),
        ("availability", 1, {200}, paused),
        ("no such key", 2, {401}, lambda s: s.post(CARTS, json=add)),
        ("no such store", 2, {404}, lambda s: s.get(f"/v1/commerce/stores/{uuid4()}", headers=shop)),
        ("not JSON", 2, {400}, lambda s: s.post(CARTS, data=b"{", headers=front | JSON)),
        ("goes away", 2, {200}, went_away),
    ]


async def loop(
    soak: Soak, session: aiohttp.ClientSession, name: str, rate: float, good: set[int], ask: Asks
) -> None:
    """Ask at that rate, later when the answers are, and count what is not as it should be."""
    due = time.monotonic()
    while not soak.over():
        async with await ask(session) as answer:
            await answer.read()
        soak.said["asked"] += 1
        if answer.status not in good:
            soak.said[f"{name}: {answer.status}"] += 1
        due = max(due + 1 / rate, time.monotonic() - 1)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


# --- what is watched ----------------------------------------------------------------------------------------


async def watch(soak: Soak, session: aiohttp.ClientSession) -> None:
    began = time.monotonic()
    while not soak.over():
        await asyncio.sleep(SAMPLE_SECONDS)
        soak.samples.append(await sample(soak, session))
        one = soak.samples[-1]
        print(
            f"{one.at - began:6.0f} s  {soak.said['asked']:8,} requests  {one.memory:6.1f} MB  "
            f"{one.files} files  {one.threads} threads  {one.due} due, oldest {one.oldest:.1f} s  "
            f"{one.connections} connections",
            flush=True,
        )


async def calm(soak: Soak, session: aiohttp.ClientSession) -> Sample:
    """Return what is held once nothing is due, or once it had its time."""
    for _ in range(CALM_SECONDS):
        after = await sample(soak, session)
        if not after.due:
            break
        await asyncio.sleep(1)
    return after


async def sample(soak: Soak, session: aiohttp.ClientSession) -> Sample:
    """Return what the service's processes hold: those that serve and the one that works."""
    async with session.get("/metrics") as answer:
        figures = await answer.text()
    processes = [one for one in soak.process.children(recursive=True) if serves(one)]
    return Sample(
        at=time.monotonic(),
        memory=sum(one.memory_full_info().uss for one in processes) / 1e6,
        files=sum(one.num_fds() for one in processes),
        threads=sum(one.num_threads() for one in processes),
        due=int(total(figures, "mercato_jobs{", 'state="ready"')),
        oldest=largest(figures, "mercato_jobs_oldest_seconds{"),
        connections=sum(len(one.net_connections("all")) for one in processes),
    )


def serves(process: psutil.Process) -> bool:
    """Tell whether it is one of the service's."""
    return any(Path(word).name == "mercato" or "mercato.cli" in word for word in process.cmdline())


def total(figures: str, name: str, label: str = "") -> float:
    return sum(_values(figures, name, label))


def largest(figures: str, name: str) -> float:
    return max(_values(figures, name, ""), default=0.0)


def _values(figures: str, name: str, label: str) -> Iterator[float]:
    for line in figures.splitlines():
        if line.startswith(name) and label in line:
            yield float(line.rsplit(" ", 1)[1])


# --- the verdict --------------------------------------------------------------------------------------------


def report(soak: Soak, after: Sample) -> int:
    """Print the figures; return the exit code."""
    third = len(soak.samples) // 3
    second, last = soak.samples[third : 2 * third], soak.samples[-third:]
    grown = statistics.median(one.memory for one in last) / statistics.median(one.memory for one in second)
    oldest = max(one.oldest for one in last)
    left = after.files - max(one.files for one in second)
    wrong = {name: count for name, count in soak.said.items() if name != "asked"}
    seconds = soak.samples[-1].at - soak.samples[0].at + SAMPLE_SECONDS
    print(
        f"\n{soak.said['asked']:,} requests in {seconds:.0f} s; answers that should have been others: {wrong}"
    )
    verdicts = {
        "memory, last third ÷ second": (grown, f"≤ {MEMORY_GROWTH}", grown <= MEMORY_GROWTH),
        "oldest due job in the last third, in s": (oldest, f"≤ {DUE_SECONDS:.0f}", oldest <= DUE_SECONDS),
        "jobs due once all is calm": (after.due, "0", after.due == 0),
        "open files once all is calm, more than in the second third": (
            left,
            f"≤ {FILES_GROWTH}",
            left <= FILES_GROWTH,
        ),
        "answers that should have been others": (sum(wrong.values()), "0", not wrong),
    }
    for name, (value, goal, ok) in verdicts.items():
        row(name, value, goal, ok=ok)
    return 0 if all(ok for _, _, ok in verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
