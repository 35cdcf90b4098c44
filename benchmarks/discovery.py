"""Discover Stores over 100,000 stores on both databases: the whole operation against its bare SQL, in one run.

The floor is the same statements with the same parameters through the plain driver (sqlite3, asyncpg) in a process that
does nothing else, rows fetched. `discovery_large` makes a million stores, too, and compares their times with those of
100,000, in turns.
"""

import asyncio
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import asyncpg
import msgspec
import psutil
from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect

from benchmarks import fill
from benchmarks.load import LENGTH, environment, started
from benchmarks.report import row
from benchmarks.towns import KINDS, Network
from mercato.features.discovery.service import Discovery
from mercato.platform.db.types import Dialect
from mercato_contract import clock
from mercato_contract.discovery import DiscoverRequest

STORES, LARGE = 100_000, 1_000_000
GOAL, LARGE_GOAL = 2.0, 3.0
ROUNDS = 5
REQUESTS = 60
"""Requests of each kind in a round: with five rounds, p99 is the third worst of three hundred."""

_DIALECT = asyncpg_dialect.dialect()  # type: ignore[no-untyped-call]

Kind = Callable[[Network, random.Random], dict[str, Any]]


def _place(network: Network, chance: random.Random) -> dict[str, Any]:
    town = network.town()
    return {
        "location": {
            "latitude": town.latitude + chance.gauss(0, 0.05),
            "longitude": (town.longitude + chance.gauss(0, 0.05) + 180) % 360 - 180,
        }
    }


def _beginning(word: str, chance: random.Random) -> str:
    return word[: max(4, len(word) - chance.randint(1, 3))]


KINDS_OF_REQUEST: dict[str, Kind] = {
    "place": _place,
    "place, open now": lambda n, c: _place(n, c) | {"openNow": True},
    "place, word": lambda n, c: _place(n, c) | {"query": n.word()},
    "place, category, delivery": lambda n, c: (
        _place(n, c) | {"categories": [c.choice(KINDS)], "fulfillmentType": "DELIVERY_BY_MERCHANT"}
    ),
    "word": lambda n, _c: {"query": n.word()},
    "two words": lambda n, _c: {"query": f"{n.word()} {n.word()}"},
    "beginning of a word": lambda n, c: {"query": _beginning(n.word(), c)},
    "name": lambda n, c: {"query": f"{c.choice(n.words)} {c.choice(KINDS)}"},
    "word, open now": lambda n, _c: {"query": n.word(), "openNow": True},
    "all": lambda _n, c: {"offset": c.randrange(1000)},
    "all, open now": lambda _n, _c: {"openNow": True},
}


def main(*, large: bool = False) -> None:
    for dialect in ("sqlite", "postgresql"):
        print(f"\n{dialect}", flush=True)
        small, *larger = measured(dialect, (STORES, LARGE) if large else (STORES,))
        for name, (ours, bare) in small.items():
            ratio = p99(ours) / p99(bare)
            row(
                f"{name}: p99 {p99(ours):.1f} ms ÷ bare SQL {p99(bare):.1f} ms (p50 {p50(ours):.1f}, {p50(bare):.1f})",
                ratio, f"≤ {GOAL}", ok=ratio <= GOAL,
            )  # fmt: skip
        for times in larger:
            for name, (ours, bare) in times.items():
                before, bare_before = small[name]
                ratio = p99(ours) / p99(before)
                row(
                    f"{name}: p99 {p99(ours):.1f} ms over {LARGE:,} ÷ {p99(before):.1f} ms (p50 {p50(ours):.1f} ÷ "
                    f"{p50(before):.1f}; bare p99 {p99(bare):.1f} ÷ {p99(bare_before):.1f}, p50 {p50(bare):.1f} ÷ "
                    f"{p50(bare_before):.1f})",
                    ratio, f"≤ {LARGE_GOAL}", ok=ratio <= LARGE_GOAL,
                )  # fmt: skip


def p99(times: list[float]) -> float:
    return sorted(times)[int(0.99 * (len(times) - 1))] * 1000


def p50(times: list[float]) -> float:
    return statistics.median(times) * 1000


Times = dict[str, tuple[list[float], list[float]]]
"""The operation's and the bare SQL's times by kind of request."""


def measured(dialect: Dialect, sizes: Sequence[int]) -> list[Times]:
    """Return the times over so many stores, measured in turns."""
    with ExitStack() as stack:
        places = []
        for stores in sizes:
            began = time.perf_counter()
            place = stack.enter_context(filled(dialect, stores))
            print(f"{stores:,} stores in {time.perf_counter() - began:.0f} s", flush=True)
            _process, port, key = stack.enter_context(serving(place))
            places.append((place, port, key))
        return asyncio.run(_rounds(dialect, places))


@dataclass(frozen=True)
class Place:
    """Where the database is: a data directory, and a URL when it is not in it."""

    data_dir: Path
    url: str | None


@contextmanager
def filled(dialect: Dialect, stores: int) -> Iterator[Place]:
    """Make a database with so many stores."""
    with tempfile.TemporaryDirectory() as directory:
        entries = Network().entries(stores)
        if dialect == "sqlite":
            fill.sqlite(Path(directory) / "mercato.db", entries)
            yield Place(Path(directory), None)
            return
        with fill.postgresql_server() as url:
            asyncio.run(fill.postgresql(url, entries))
            yield Place(Path(directory), url)


@contextmanager
def serving(place: Place) -> Iterator[tuple[psutil.Process, int, str]]:
    """Run the server over it; give a storefront's key."""
    mercato = Path(sys.executable).with_name("mercato")
    made = subprocess.run(
        [
            mercato, "partner", "create", "Bench", "--kind", "marketfront", "--json", "--data-dir", place.data_dir
        ],
        check=True, capture_output=True, env=environment(place.url),
    )  # fmt: skip
    key = json.loads(made.stdout)["marketfrontKey"]
    command = [mercato, "serve", "--port", "0", "--data-dir", place.data_dir]
    with started(command, place.url) as (process, port):
        yield process, port, key


async def _rounds(dialect: Dialect, places: list[tuple[Place, int, str]]) -> list[Times]:
    network, chance = Network(), random.Random(11)
    asked = {
        name: [kind(network, chance) for _ in range(REQUESTS)] for name, kind in KINDS_OF_REQUEST.items()
    }
    times: list[Times] = [{name: ([], []) for name in asked} for _ in places]
    async with AsyncExitStack() as stack:
        sizes = [
            (
                _Client(port, key),
                await stack.enter_async_context(_bare(dialect, place)),
            )
            for place, port, key in places
        ]
        for requests in asked.values():
            for client, floor in sizes:
                # Once unmeasured: statements are prepared, and what is searched is in the file cache.
                await client.times(requests)
                await _times(floor, requests)
        for _ in range(ROUNDS):
            for name, requests in asked.items():
                for (client, floor), found in zip(sizes, times, strict=True):
                    found[name][0].extend(await client.times(requests))
                    found[name][1].extend(await _times(floor, requests))
    return times


async def _times(ask: Callable[[Any], Awaitable[float]], requests: list[Any]) -> list[float]:
    return [await ask(request) for request in requests]


class _Client:
    """One keep-alive connection."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._key = key

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def times(self, requests: list[dict[str, Any]]) -> list[float]:
        """Return how long each took, over a connection of their own: the server closes one that is idle."""
        async with self:
            return await _times(self.ask, requests)

    async def ask(self, body: dict[str, Any]) -> float:
        """Return how long one request took, answer read."""
        data = json.dumps(body).encode()
        head = (
            f"POST /v1/marketfront/stores/discover HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {self._key}\r\n\r\n"
        )
        began = time.perf_counter()
        self._writer.write(head.encode() + data)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = LENGTH.search(answer)
        if not answer.startswith(b"HTTP/1.1 200") or length is None:
            raise RuntimeError(answer.decode())
        await self._reader.readexactly(int(length[1]))
        return time.perf_counter() - began


class _Recorder:
    """A database that writes down what a search asks of it, and asks it of the real one."""

    def __init__(self, dialect: Dialect, run: Callable[[TextClause, dict[str, Any]], Awaitable[Any]]) -> None:
        self.dialect = dialect
        self._run = run

    async def read_replica(self, block: Callable[[Any], Awaitable[Any]]) -> Any:
        return await block(self)

    async def all(self, statement: TextClause, values: dict[str, Any]) -> Any:
        return await self._run(statement, values)


class _bare:  # noqa: N801  # used as a function
    """Ask the plain driver what a request asks of the database; the time is that of its statements alone."""

    def __init__(self, dialect: Dialect, place: Place) -> None:
        self._dialect: Dialect = dialect
        self._place = place
        self._seconds = 0.0
        self._compiled: dict[TextClause, Any] = {}

    async def __aenter__(self) -> Callable[[dict[str, Any]], Awaitable[float]]:
        if self._dialect == "sqlite":
            self._file = sqlite3.connect(self._place.data_dir / "mercato.db", cached_statements=500)
            self._file.execute("PRAGMA cache_size=-16000")
        else:
            self._server = await asyncpg.connect(
                self._place.url,
                statement_cache_size=500,
                server_settings={"jit": "off", "enable_seqscan": "off"},
            )
        return self._ask

    async def __aexit__(self, *_error: object) -> None:
        if self._dialect == "sqlite":
            self._file.close()
        else:
            await self._server.close()

    async def _ask(self, body: dict[str, Any]) -> float:
        self._seconds = 0.0
        recorder: Any = _Recorder(self._dialect, self._run)
        await Discovery(recorder, clock.now).discover(msgspec.convert(body, DiscoverRequest))
        return self._seconds

    async def _run(self, statement: TextClause, values: dict[str, Any]) -> Any:
        if self._dialect == "sqlite":
            began = time.perf_counter()
            rows = self._file.execute(statement.text, values).fetchall()
            self._seconds += time.perf_counter() - began
            return rows
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = self._compiled[statement] = statement.compile(dialect=_DIALECT)
        arguments = [values[name] for name in compiled.positiontup or ()]
        began = time.perf_counter()
        rows = await self._server.fetch(str(compiled), *arguments)
        self._seconds += time.perf_counter() - began
        return rows


if __name__ == "__main__":
    main()
