"""Metrics of the processes of `serve --workers`: prometheus_client keeps them in files, so any process can serve all.

Each process has a slot, a small number, which its successor inherits: counters continue where a killed process
stopped, and there are never more files than slots.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Metric,
    ProcessCollector,
    generate_latest,
    multiprocess,
    values,
)
from prometheus_client.registry import Collector

DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the directory. prometheus_client reads it when it is imported, so the parent sets it."""

_PREFIX: Final = "mercato-metrics-"
_UNLOCKED: Final = "mercato-new-metrics-"

_Mode = Literal["livesum", "livemin", "livemax"]

_MODES: Final[dict[str, _Mode]] = {"process_max_fds": "livemin", "process_start_time_seconds": "livemax"}
"""Gauges of a process that aren't summed over the processes."""

_slot: int | None = None


def join(slot: int) -> None:
    """Keep this process's metrics under its slot, not its process id. Call it before any metric is made."""
    global _slot  # noqa: PLW0603  # like prometheus_client's own choice, it belongs to the process
    _slot = slot
    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]


def is_joined() -> bool:
    """Return whether this process is one of several on one port."""
    return _slot is not None


def owns_metrics_port() -> bool:
    """Return whether this process opens the metrics port: of several processes, only the first does."""
    return _slot in {None, 0}


def mark_dead(slot: int, directory: Path) -> None:
    """Drop the gauges of a process that has ended."""
    multiprocess.mark_process_dead(slot, str(directory))  # type: ignore[no-untyped-call]


def render(*own: Collector) -> bytes:
    """Return the metrics of all processes and of the `own` collectors in Prometheus's text format."""
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    for collector in own:
        registry.register(collector)
    return generate_latest(registry)


def collect() -> Iterable[Metric]:
    """Return the metrics of all processes."""
    found: Iterable[Metric] = multiprocess.MultiProcessCollector(CollectorRegistry()).collect()  # type: ignore[no-untyped-call]
    return found


class ProcessMetrics:
    """The `process_…` metrics as counters and gauges, which are kept in files; a custom collector isn't."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)
        self._metrics: dict[str, Counter | Gauge] = {}
        self._cpu_seconds = 0.0
        for family in self._collector.collect():
            self._metrics[family.name] = self._declare(family)

    @staticmethod
    def _declare(family: Metric) -> Counter | Gauge:
        if family.type == "counter":
            return Counter(family.name, family.documentation, registry=None)
        mode: _Mode = _MODES.get(family.name, "livesum")
        return Gauge(family.name, family.documentation, registry=None, multiprocess_mode=mode)

    def update(self) -> None:
        """Set the current values."""
        for family in self._collector.collect():
            metric, value = self._metrics.get(family.name), family.samples[0].value
            if isinstance(metric, Gauge):
                metric.set(value)
            elif metric is not None:
                metric.inc(max(0.0, value - self._cpu_seconds))
                self._cpu_seconds = value


@contextmanager
def metrics_directory() -> Iterator[Path]:
    """Make a directory for the processes' files; remove it at the end, and those of killed servers at the start."""
    _remove_abandoned()
    new = Path(tempfile.mkdtemp(prefix=_UNLOCKED))
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    # Locked before it gets its final name, under which another server's start would remove an unlocked one.
    fcntl.flock(lock, fcntl.LOCK_EX)
    directory = new.rename(new.with_name(new.name.replace(_UNLOCKED, _PREFIX)))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _remove_abandoned() -> None:
    """Remove our directories that no process has locked: the kernel releases the lock of a killed one."""
    for found in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            handle = os.open(found, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(found)
            finally:
                os.close(handle)
