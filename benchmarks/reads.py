"""`GET …/status` and `GET /v1/commerce/stores/{id}` against a bare application that returns the same bytes."""

import base64
import json
import statistics

from benchmarks import menus
from benchmarks.load import Load, bare, get, load, mercato
from benchmarks.report import row

GOAL = 0.4
ROUNDS = 5
SECONDS = 2.0


def main() -> None:
    with mercato() as server, menus.hosted(menus.small()) as url:
        key = server.partner()
        store = server.live(key, url, "bench")
        for name, path in (
            ("GET store status", f"/v1/commerce/stores/{store['storeId']}/status"),
            ("GET store", f"/v1/commerce/stores/{store['storeId']}"),
        ):
            body = json.dumps(server.call("GET", path, key=key), separators=(",", ":")).encode()
            with bare("static", base64.b64encode(body).decode()) as floor:
                ours, floors = [], []
                for _ in range(ROUNDS):
                    ours.append(load(server.process, server.port, get(path, key), seconds=SECONDS))
                    floors.append(load(floor.process, floor.port, get("/"), seconds=SECONDS))
            report(name, ours, floors)


def report(name: str, ours: list[Load], floors: list[Load], goal: float = GOAL) -> None:
    """Print both ratios: requests a second, and the inverse of CPU a request."""
    rate = statistics.median(a.per_second / b.per_second for a, b in zip(ours, floors, strict=True))
    cpu = statistics.median(b.cpu_us / a.cpu_us for a, b in zip(ours, floors, strict=True))
    mine, bare_cpu = statistics.median(a.cpu_us for a in ours), statistics.median(b.cpu_us for b in floors)
    row(f"{name}: requests a second ÷ bare", rate, f"≥ {goal}", ok=rate >= goal)
    row(f"{name}: bare CPU ÷ CPU ({bare_cpu:.0f} µs ÷ {mine:.0f} µs)", cpu, f"≥ {goal}", ok=cpu >= goal)


if __name__ == "__main__":
    main()
