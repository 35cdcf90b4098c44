"""How long `mercato serve` takes to be ready, and what it weighs when idle."""

import statistics
import time

from benchmarks.load import bare, mercato
from benchmarks.report import row

ROUNDS = 5
START_GOAL = 3
MEMORY_GOAL_MB = 150
IDLE_SECONDS = 2


def main() -> None:
    ratios, weights = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with bare("starlette"):
            floor = time.perf_counter() - began
        began = time.perf_counter()
        with mercato() as server:
            ours = time.perf_counter() - began
            time.sleep(IDLE_SECONDS)
            weights.append(server.process.memory_info().rss / 1024 / 1024)
        ratios.append(ours / floor)
    ratio, weight = statistics.median(ratios), statistics.median(weights)
    row("serve to ready ÷ Granian + Starlette to ready", ratio, f"≤ {START_GOAL}", ok=ratio <= START_GOAL)
    row("idle memory in MB", weight, f"≤ {MEMORY_GOAL_MB}", ok=weight <= MEMORY_GOAL_MB)


if __name__ == "__main__":
    main()
