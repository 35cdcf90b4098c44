"""Ours and a floor in turns, within one run: what disturbs the one disturbs the other as much."""

import statistics
from collections.abc import Callable, Iterable

from benchmarks.hammer import CONNECTIONS, hammer
from benchmarks.load import Load, Server
from benchmarks.report import row

ROUNDS = 5
SECONDS = 1.5

Requests = Callable[[], Iterable[bytes]]
"""Return a round's requests, each to be sent once."""


def against(
    name: str,
    floor: Server,
    ours: Server,
    requests: Requests,
    *,
    floor_requests: Requests | None = None,
    goal: float | None = None,
    rounds: int = ROUNDS,
    connections: int = CONNECTIONS,
) -> None:
    """Print the ratio of requests a second and of CPU a request, the median of the rounds."""
    for server, made in ((floor, floor_requests or requests), (ours, requests)):
        hammer(server.process, server.port, made(), seconds=SECONDS / 3, connections=connections)
    pairs = []
    for number in range(rounds):
        turns = [(floor, floor_requests or requests), (ours, requests)]
        loads = {
            server.port: hammer(server.process, server.port, made(), seconds=SECONDS, connections=connections)
            for server, made in (turns if number % 2 else reversed(turns))
        }
        pairs.append((loads[floor.port], loads[ours.port]))
    report(name, pairs, goal)


def report(name: str, pairs: list[tuple[Load, Load]], goal: float | None) -> None:
    """Print both ratios of pairs of a floor and ours; both have to hold. Without a goal they are for comparison."""
    rate = statistics.median(ours.per_second / floor.per_second for floor, ours in pairs)
    cpu = statistics.median(floor.cpu_us / ours.cpu_us for floor, ours in pairs)
    least, mine = (statistics.median(pair[side].per_second for pair in pairs) for side in (0, 1))
    bare_cpu, cpu_us = (statistics.median(pair[side].cpu_us for pair in pairs) for side in (0, 1))
    said = "-" if goal is None else f"≥ {goal:g}"
    row(f"{name}: requests a second ÷ bare ({mine:.0f} ÷ {least:.0f})", rate, said, ok=met(rate, goal))
    row(f"{name}: bare CPU ÷ CPU ({bare_cpu:.0f} µs ÷ {cpu_us:.0f} µs)", cpu, said, ok=met(cpu, goal))


def met(value: float, goal: float | None) -> bool | None:
    """Tell whether a goal is reached; None without one."""
    return None if goal is None else value >= goal
