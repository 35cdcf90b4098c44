"""Figures of several processes that share a port: kept in files, so that whichever is asked answers for all.

Each process has a place, a small number, and the one that replaces it takes the same: counters go on where a killed
process left them, and there are as many files as places, however often processes are replaced.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, generate_latest, values
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import MultiProcessCollector

DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which the parent says where, and prometheus_client hears it."""

TELL_SECONDS: Final = 5.0
"""How old may be what another process has not counted here itself: gauges, and what its caches count."""

OWN: Final = {
    "mercato_store_breakers_open": "livesum",
    "process_resident_memory_bytes": "livesum",
    "process_virtual_memory_bytes": "livesum",
    "process_open_fds": "livesum",
    "process_max_fds": "livemin",
    "process_start_time_seconds": "livemax",
}
"""Gauges that each process has for itself, and what all of them are together. The others are the database's."""


class Figures(Protocol):
    """A registry, as far as it is read."""

    def collect(self) -> Iterator[Metric]: ...


def join(place: int) -> None:
    """Keep from now on all figures in the directory that the variable names. To be called before any is made."""
    for left in Path(os.environ[DIRECTORY]).glob(f"gauge_*_{place}.db"):
        # What was true of the process that had the place before.
        left.unlink()
    # The way that prometheus_client offers: by itself it chooses when it is imported, and goes by process ids.
    values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]
    _told.place = place


def is_joined() -> bool:
    """Return whether this process is one of several."""
    return bool(getattr(values.ValueClass, "_multiprocess", False))


def speaks() -> bool:
    """Return whether figures are to be had of this process at a port of their own: of several, the first has all."""
    return _told.place in {None, 0}


def render(registry: CollectorRegistry) -> bytes:
    """Return the figures in the text format of Prometheus: the registry's own, or those of all processes."""
    if not is_joined():
        return generate_latest(registry)
    _told.tell(registry)
    return generate_latest(_OfAll(registry))


async def keep_telling(registry: CollectorRegistry) -> None:
    """Where several processes share a port, write down for the others what is not counted in files, until cancelled."""
    while is_joined():
        _told.tell(registry)
        await asyncio.sleep(TELL_SECONDS)


class _Told:
    """What this process has written down of figures that are read from elsewhere."""

    def __init__(self) -> None:
        self.place: int | None = None
        self._shadows: dict[str, Any] = {}
        self._last: dict[tuple[str, tuple[str, ...]], float] = {}

    def tell(self, registry: CollectorRegistry) -> None:
        for collector in list(registry._collector_to_names):  # noqa: SLF001  # it has no way to list them
            counts_itself = isinstance(collector, MetricWrapperBase) and not isinstance(collector, Gauge)
            if not counts_itself:
                for metric in collector.collect():
                    self._tell(metric)

    def _tell(self, metric: Metric) -> None:
        grows = metric.type == "counter"
        if not grows and metric.name not in OWN:
            return
        for sample in metric.samples:
            if grows and not sample.name.endswith("_total"):
                continue
            shadow = self._shadow(metric, tuple(sample.labels))
            child = shadow.labels(*sample.labels.values()) if sample.labels else shadow
            if grows:
                key = sample.name, tuple(sample.labels.values())
                child.inc(max(sample.value - self._last.get(key, 0.0), 0.0))
                self._last[key] = sample.value
            else:
                child.set(sample.value)

    def _shadow(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        shadow = self._shadows.get(metric.name)
        if shadow is None:
            shadow = (
                Counter(metric.name, metric.documentation, labels, registry=None)
                if metric.type == "counter"
                else Gauge(
                    metric.name,
                    metric.documentation,
                    labels,
                    registry=None,
                    multiprocess_mode=OWN[metric.name],  # type: ignore[arg-type]  # a mode, spelled above
                )
            )
            self._shadows[metric.name] = shadow
        return shadow


_told: Final = _Told()


class _OfAll:
    """A registry's figures, those of all processes in place of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        # Without what gauges wrote by themselves: that is told apart by process.
        files = [
            str(file)
            for file in Path(os.environ[DIRECTORY]).glob("*.db")
            if not file.name.startswith("gauge_all")
        ]
        of_all = {metric.name: metric for metric in MultiProcessCollector.merge(files)}  # type: ignore[no-untyped-call]
        for metric in self._registry.collect():
            yield of_all.get(metric.name, metric)
