"""Figures as they are declared: with what tells a reader what they are, so that documents are made from the same."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)


class Described(Struct, frozen=True, kw_only=True):
    """One figure: its name as it is read, what it is, and what its labels tell apart."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]


Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the figure."""


class Declared:
    """A registry, and what stands in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.all: list[Described] = []

    def counter(self, name: str, told: str, *labels: str) -> Counter:
        """Declare what only grows; it is read as `<name>_total`."""
        self._note(f"{name}_total", "counter", told, labels)
        return Counter(name, told, labels, registry=self.registry)

    def gauge(self, name: str, told: str, *labels: str) -> Gauge:
        """Declare what goes up and down."""
        self._note(name, "gauge", told, labels)
        return Gauge(name, told, labels, registry=self.registry)

    def histogram(self, name: str, told: str, *labels: str) -> Histogram:
        """Declare seconds; they are read as `<name>_bucket`, `_sum` and `_count`."""
        self._note(name, "histogram", told, labels)
        return Histogram(name, told, labels, registry=self.registry, buckets=SECONDS)

    def asked(
        self, name: str, told: str, *labels: str, read: Callable[[], Iterable[Sample]], grows: bool = False
    ) -> None:
        """Declare what somebody else counts, and is asked for when it is read."""
        self._note(f"{name}_total" if grows else name, "counter" if grows else "gauge", told, labels)
        self.registry.register(_Asked(name, told, labels, read, grows=grows))

    def collected(self, kind: str, name: str, told: str, *labels: str, collector: Collector) -> None:
        """Declare a counter or histogram that a collector of its own makes."""
        self._note(f"{name}_total" if kind == "counter" else name, kind, told, labels)
        self.registry.register(collector)

    def _note(self, name: str, kind: str, told: str, labels: tuple[str, ...]) -> None:
        self.all.append(Described(name=name, kind=kind, help=told, labels=labels))


class _Asked:
    """A collector of figures that are kept elsewhere."""

    def __init__(
        self,
        name: str,
        told: str,
        labels: tuple[str, ...],
        read: Callable[[], Iterable[Sample]],
        *,
        grows: bool,
    ) -> None:
        self._make = CounterMetricFamily if grows else GaugeMetricFamily
        self._name, self._told, self._labels, self._read = name, told, labels, read

    def describe(self) -> Iterator[Metric]:
        yield self._make(self._name, self._told, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        family = self._make(self._name, self._told, labels=self._labels)
        for labels, value in self._read():
            family.add_metric(labels, value)
        yield family
