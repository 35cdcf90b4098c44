"""How long `mercato serve` takes to be ready, and what it weighs when idle.

Two floors: the usual start, `granian` from its command line with a Starlette application, and the leanest there is,
the same embedded server with that application in one process.
"""

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load import bare, environment, mercato
from benchmarks.report import row

ROUNDS = 5
START_GOAL = 3
MEMORY_GOAL_MB = 150
IDLE_SECONDS = 2


def main() -> None:
    usual, leanest, weights = [], [], []
    with granian(), bare("starlette"), mercato():
        pass  # once unmeasured: everything is compiled and in the file cache
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with granian():
            floor = time.perf_counter() - began
        began = time.perf_counter()
        with bare("starlette"):
            least = time.perf_counter() - began
        began = time.perf_counter()
        with mercato() as server:
            ours = time.perf_counter() - began
            time.sleep(IDLE_SECONDS)
            weights.append(server.process.memory_info().rss / 1024 / 1024)
        usual.append(ours / floor)
        leanest.append(ours / least)
    ratio, weight = statistics.median(usual), statistics.median(weights)
    row(
        "serve to ready, new database ÷ granian + Starlette", ratio, f"≤ {START_GOAL}", ok=ratio <= START_GOAL
    )
    lean = statistics.median(leanest)
    row("serve to ready ÷ the same in one embedded process", lean, f"≤ {START_GOAL}", ok=lean <= START_GOAL)
    row("idle memory in MB", weight, f"≤ {MEMORY_GOAL_MB}", ok=weight <= MEMORY_GOAL_MB)


@contextmanager
def granian() -> Iterator[None]:
    """Run the smallest Starlette application under `granian`, until its first answer and the block's end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command: list[str | Path] = [
        Path(sys.executable).with_name("granian"),
        "--interface",
        "asgi",
        "--factory",
        "--no-log",
    ]
    command += ["--port", str(port), "benchmarks.bare:starlette"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            while not _answers(port):
                time.sleep(0.005)
            yield
        finally:
            server.terminate()
            server.wait(30)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return connection.recv(12).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


if __name__ == "__main__":
    main()
