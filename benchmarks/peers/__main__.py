"""`python -m benchmarks.peers [--rounds N] [--database SQLite]`: carts and orders here, on FastAPI and on Vendure.

The same ones in turns: one process each, on this machine, on the same kind of database, with commits that wait for the
disk. The ratios are of requests a second of processor, PostgreSQL's included, and by the clock.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from benchmarks.hammer import hammer
from benchmarks.load import Load, Processor, started
from benchmarks.peers import vendure
from benchmarks.peers.databases import Database, new_database
from benchmarks.trade import CARTS, PLACE, Trade, trading

DATABASES = ("SQLite", "PostgreSQL")
ROUNDS = 5
SECONDS = 3.0
PLACEMENTS = 20_000
"""More requests to place than a turn can send: each has a key of its own, and is sent once."""

PLAIN, IN_MEMORY, VENDURE = "FastAPI", "FastAPI, catalog in memory", "Vendure"
GOALS = {(PLAIN, "carts"): 7, (PLAIN, "place"): 4, (VENDURE, "carts"): 60, (VENDURE, "place"): 15}

Turn = Callable[[], Load]


@dataclass(frozen=True)
class Row:
    """A line of the table: what of ours was measured in turns with what of a peer's."""

    database: str
    peer: str
    what: str
    ours: Turn
    theirs: Turn

    def measure(self, rounds: int) -> None:
        """Print the medians of the ratios of both, and how many a second each answered."""
        pairs = []
        for number in range(rounds + 1):
            turns = (self.ours, self.theirs) if number % 2 else (self.theirs, self.ours)
            loads = {turn: turn() for turn in turns}
            if number:  # the first warms both
                pairs.append((loads[self.ours], loads[self.theirs]))
        cpu = statistics.median(theirs.cpu_us / ours.cpu_us for ours, theirs in pairs)
        clock = statistics.median(ours.per_second / theirs.per_second for ours, theirs in pairs)
        ours, theirs = (statistics.median(pair[side].per_second for pair in pairs) for side in (0, 1))
        goal = GOALS.get((self.peer, self.what))
        verdict = "" if goal is None else f"{goal}: {'met' if cpu >= goal else 'missed'}"
        print(
            f"| {self.database} | {self.what} | {self.peer} | {cpu:.1f} | {clock:.1f} | "
            f"{ours:,.0f} and {theirs:,.0f} | {verdict} |",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--database", choices=DATABASES, help="both without it")
    chosen = options.parse_args()
    has_node = vendure.is_ready()
    print("| database | what | peer | by processor | by the clock | a second | goal by processor |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for database in (chosen.database,) if chosen.database else DATABASES:
        with ExitStack() as stack:
            ours, plain, in_memory, other = (stack.enter_context(new_database(database)) for _ in range(4))
            trade = stack.enter_context(trading(url=ours.url))
            comparison = Comparison(database, trade, ours.with_server(trade.server.process), chosen.rounds)
            comparison.with_fastapi(plain, PLAIN)
            comparison.with_fastapi(in_memory, IN_MEMORY)
            if has_node:
                comparison.with_vendure(other)
    if not has_node:
        print(f"\nVendure is skipped: {vendure.MISSING}")


@dataclass(frozen=True)
class Comparison:
    """Our side on one kind of database, to be compared with each peer."""

    database: str
    trade: Trade
    processes: Processor
    rounds: int

    def with_fastapi(self, database: Database, peer: str) -> None:
        """Compare the same requests."""
        cart, order = self.trade.add(), self.trade.order()
        add = self.trade.post(CARTS, cart)
        with application(self.trade, database.url, in_memory=peer == IN_MEMORY) as (process, port):
            theirs = database.with_server(process)
            check_equal(self.trade, port, cart, order)
            for what, requests in (
                ("carts", lambda: repeat(add)),
                ("place", lambda: _placements(self.trade, order)),
            ):
                self._measure(peer, what, requests, partial(_load, theirs, port, requests))

    def with_vendure(self, database: Database) -> None:
        """Compare what Vendure's customers do with the same carts."""
        cart, order = self.trade.add(), self.trade.order()
        add = self.trade.post(CARTS, cart)
        priced = self.trade.call(CARTS, cart)
        prices = [Decimal(line["amounts"]["unitPrice"]) for line in priced["lineItems"]]
        with vendure.running(database, prices) as shop:
            shop.check(int(Decimal(priced["amounts"]["total"]) * 100))
            self._measure(VENDURE, "carts", lambda: repeat(add), lambda: shop.carts(SECONDS))
            self._measure(
                VENDURE, "place", lambda: _placements(self.trade, order), lambda: shop.places(SECONDS)
            )

    def _measure(self, peer: str, what: str, requests: Callable[[], Iterable[bytes]], theirs: Turn) -> None:
        ours = partial(_load, self.processes, self.trade.server.port, requests)
        Row(self.database, peer, what, ours, theirs).measure(self.rounds)


def _load(processes: Processor, port: int, requests: Callable[[], Iterable[bytes]]) -> Load:
    return hammer(processes, port, requests(), seconds=SECONDS)


def _placements(trade: Trade, order: Any) -> Iterator[bytes]:
    """Yield requests to place the order without a token: the store validates it, and takes it, in one request."""
    request = trade.post(PLACE, order, **{"Idempotency-Key": str(uuid4())})
    key = request.partition(b"Idempotency-Key: ")[2][:36]
    for _ in range(PLACEMENTS):
        yield request.replace(key, str(uuid4()).encode())


def check_equal(trade: Trade, port: int, cart: Any, order: Any) -> None:
    """Raise unless both price the cart and the order the same."""
    for path, body in ((CARTS, cart), (PLACE, order)):
        totals = []
        for server in (trade.server, replace(trade.server, port=port)):
            key = {"Idempotency-Key": str(uuid4())}
            answered = server.call("POST", path, body, key=trade.front_key, headers=key)
            totals.append(answered["amounts"]["total"])
        if totals[0] != totals[1]:
            raise RuntimeError(f"{path}: {totals[0]} here, {totals[1]} there")


@contextmanager
def application(trade: Trade, url: str | None, *, in_memory: bool) -> Iterator[tuple[psutil.Process, int]]:
    """Run the FastAPI application on a free port, with the trade's catalog and store."""
    with tempfile.TemporaryDirectory() as directory:
        catalog = Path(directory) / "catalog.json"
        catalog.write_text(json.dumps(trade.catalog))
        database = f"sqlite+aiosqlite:///{directory}/orders.db"
        if url is not None:
            database = url.replace("postgresql://", "postgresql+asyncpg://")
        settings = {
            "CATALOG": str(catalog),
            "HOOKS": trade.hooks,
            "DATABASE_URL": database,
            "IN_MEMORY": str(in_memory).lower(),
        }
        command = [sys.executable, "-m", "benchmarks.peers.application"]
        with started(command, settings=settings) as (process, port):
            yield process, port


if __name__ == "__main__":
    main()
