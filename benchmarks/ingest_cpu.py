"""CPU and memory of a large catalog's build, as multiples of decoding the same bytes with msgspec.

`python -m benchmarks.ingest_cpu [DOCUMENT]`: without one, the largest of the menus in MERCATO_TEST_MENUS, or a
document of the same shape that is made here.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec

from benchmarks import menus
from benchmarks.report import row
from mercato.features.catalogs.codings import CODINGS, compress_as
from mercato_catalog.building.build import build, pack_search
from mercato_catalog.building.packed import unpack
from mercato_catalog.model import BuildFailed, BuildRequest, Built, Unchanged
from mercato_catalog.validation.validate import validate

ROUNDS: Final = 21
CPU_GOAL: Final = 4.0
MEMORY_GOAL: Final = 12.0
_ID: Final = UUID(int=7)


def main(path: str | None = None) -> None:
    """Print the ratios."""
    document, source = _document(path)
    print(f"{source}: {len(document):,} bytes")
    built = _build(document)
    if not isinstance(built, Built):
        sys.exit(f"the document cannot be built: {built}")
    valid, _ = validate(document, onboarding_id=_ID, default_currency="USD")
    if valid is None:
        sys.exit("the document cannot be validated")
    floor, cpu, words, load = _alternated(
        lambda: msgspec.json.decode(document),
        lambda: _build(document),
        lambda: pack_search(valid),
        lambda: unpack(built.compiled),
    )
    print(f"floor: msgspec.json.decode {floor * 1e3:.1f} ms of CPU (median of {ROUNDS} alternated rounds)")
    ratio = (cpu - words) / floor
    row("validate + serve + compile", ratio, f"<= {CPU_GOAL:g}", ok=ratio <= CPU_GOAL)
    print(f"      {cpu / floor:8.2f}  with the words by which discovery finds the store")
    spent = {coding: _cpu(lambda coding=coding: compress_as(built.body, coding)) for coding in CODINGS}  # type: ignore[misc]  # the loop's own
    print(f"      {(cpu + sum(spent.values())) / floor:8.2f}  with compression", end=": ")
    print(", ".join(f"{coding} {seconds / floor:.1f}" for coding, seconds in spent.items()))
    print(f"      {load / floor:8.2f}  loading the compiled form ({len(built.compiled):,} bytes)")
    peak = _peak(document)
    row(
        "peak memory of a fresh process, over the document",
        peak,
        f"<= {MEMORY_GOAL:g}",
        ok=peak <= MEMORY_GOAL,
    )


def _document(path: str | None) -> tuple[bytes, str]:
    directory = os.environ.get("MERCATO_TEST_MENUS")
    if path is None and directory:
        path = str(max(Path(directory).glob("*.json"), key=lambda file: file.stat().st_size))
    return (menus.large(), "made here") if path is None else (Path(path).read_bytes(), Path(path).name)


def _build(document: bytes) -> Built | BuildFailed | Unchanged:
    return build(document, BuildRequest(_ID, _ID, _ID, "USD"))


def _alternated(*works: Callable[[], Any]) -> list[float]:
    """Return each work's median CPU seconds, what it made being freed included; one of each per round."""
    rounds = [[_cpu(work) for work in works] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def _cpu(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _peak(document: bytes) -> float:
    """Return by how much a process grows that builds the document once, as a multiple of the document."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], input=document, capture_output=True, check=True, timeout=120
    )
    before, after = msgspec.json.decode(done.stdout, type=tuple[int, int])
    return (after - before) * 1024 / len(document)


_CHILD: Final = """
import json, re, sys
from pathlib import Path
from benchmarks.ingest_cpu import _build
_build(b'{"items":{}}')
document = sys.stdin.buffer.read()
# The kernel's high-water mark of this program alone: getrusage's begins with that of whoever started it.
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
result = _build(document)
print(json.dumps([before, peak()]))
"""


if __name__ == "__main__":
    main(*sys.argv[1:2])
