"""How long others wait beside hostile catalogs.

`python -m pytest -m long -s tests/processes/test_health_checks.py` prints the table in docs/reliability.md.
"""

import asyncio
import gzip
import json
import sys
import threading
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from uuid import UUID

import pytest
from tests.processes.test_memory import bombs, register_all, served

from mercato.features.catalogs.builder import SMALL
from mercato_catalog.building.build import build
from mercato_catalog.model import BuildRequest

HEALTHZ_FACTOR = 20
"""What a health check beside eight bombs may take, in quiet ones: the 99th percentile of each."""


@dataclass
class Health:
    """Health checks, one after the other from a thread of their own, and how long each took."""

    base: str
    seconds: list[float] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> None:
        host = self.base.removeprefix("http://")
        while not self.ended.wait(0.02):
            started = perf_counter()
            with closing(HTTPConnection(host, timeout=60)) as connection:
                connection.request("GET", "/healthz")
                assert connection.getresponse().status == 200
            self.seconds.append(perf_counter() - started)

    async def beside(self, load: Awaitable[None]) -> list[float]:
        """Return the sorted seconds of the checks beside the load."""
        self.seconds, self.ended = [], threading.Event()
        polling = asyncio.create_task(asyncio.to_thread(self.poll))
        try:
            await load
        finally:
            self.ended.set()
            await polling
        return sorted(self.seconds)


@pytest.mark.long
async def test_a_health_check_beside_the_bombs_of_eight_partners_takes_a_few_times_as_long_as_a_quiet_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    async with served(tmp_path, partners=8) as (_, base, keys, shop):
        health = Health(base)
        quiet = await health.beside(asyncio.sleep(8))
        loaded = await health.beside(bombs(base, keys, shop))
    with capsys.disabled():
        sys.stdout.write(row(quiet, loaded))
    assert loaded[len(loaded) * 99 // 100] < HEALTHZ_FACTOR * quiet[len(quiet) * 99 // 100]


def row(quiet: list[float], loaded: list[float]) -> str:
    cells = [f"{one[len(one) * part // 100] * 1000:.1f} ms" for one in (quiet, loaded) for part in (50, 99)]
    return "\n| " + " | ".join([*cells, f"{loaded[-1] * 1000:.0f} ms"]) + " |\n"


def costly() -> bytes:
    """Return a small document that takes as long to check as any: a section lists items that don't exist."""
    numbers = list(range(9_150))
    document = {
        "items": {"a": {"name": "A", "basePrice": "1"}},
        "sections": {"s": {"name": "S", "itemIds": [f"{number:x}" for number in numbers]}},
    }
    body = json.dumps(document, separators=(",", ":")).encode()
    assert 0.9 * SMALL < len(body) <= SMALL
    return body


def build_seconds(document: bytes) -> float:
    """Return the CPU seconds in which this process builds the document."""
    one, seconds = UUID(int=1), []
    for _ in range(5):
        started = thread_time()
        build(document, BuildRequest(one, one, one, "USD"))
        seconds.append(thread_time() - started)
    return median(seconds)


@pytest.mark.long
async def test_a_health_check_does_not_wait_while_the_small_catalogs_of_eight_partners_are_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    document = costly()
    packed = gzip.compress(document)
    async with served(tmp_path, partners=8) as (_, base, keys, shop):
        health = Health(base)
        quiet = await health.beside(asyncio.sleep(4))
        catalogs = {str(number): packed for number in range(64)}
        loaded = await health.beside(register_all(base, keys, shop, catalogs))
    one = build_seconds(document)
    with capsys.disabled():
        sys.stdout.write(f"{row(quiet, loaded)}one build: {one * 1000:.0f} ms\n")
    assert median(loaded) < one / 4
