"""From a notification to `succeeded` and to the first webhook, and what others notice of a large ingest."""

import statistics
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks import menus
from benchmarks.load import Server, get, load, mercato
from benchmarks.report import row

RUNS = 60
STATUS_GOAL_MS = 60
WEBHOOK_GOAL_MS = 200
QUIET_GOAL = 3
SECONDS = 4.0


def main() -> None:
    with mercato() as server:
        key = server.partner()
        latency(server, key)
        quiet(server, key)


def latency(server: Server, key: str) -> None:
    """Time runs of a 60-item catalog whose content is new each time, from loopback."""
    arrived: dict[str, float] = {}
    with _sink(arrived) as hook, menus.hosting(lambda path: menus.small(note=path)) as url:
        store = server.live(key, url, "latency")["storeId"]
        server.call("PUT", f"/v1/commerce/stores/{store}", {"webhookUrl": hook}, key=key)
        succeeded, pushed = [], []
        for number in range(RUNS):
            began = time.perf_counter()
            notice = {"callbackUrl": f"{url}?{number}"}
            run = server.call(
                "POST", f"/v1/commerce/catalogset-notification?storeId={store}", notice, key=key
            )
            while (status := server.call("GET", run["statusUrl"], key=key)["status"]) != "succeeded":
                if status == "failed":
                    raise RuntimeError(run)
            done = time.perf_counter()
            succeeded.append((done - began) * 1000)
            while run["catalogIngestId"] not in arrived:
                time.sleep(0.001)
            pushed.append(max(0.0, (arrived[run["catalogIngestId"]] - done) * 1000))
    p50, p99 = statistics.median(succeeded), sorted(pushed)[int(0.99 * (len(pushed) - 1))]
    row("notification → succeeded, 60 items: p50 in ms", p50, f"≤ {STATUS_GOAL_MS}", ok=p50 <= STATUS_GOAL_MS)
    row(
        "switch seen → first webhook attempt: p99 in ms",
        p99,
        f"≤ {WEBHOOK_GOAL_MS}",
        ok=p99 <= WEBHOOK_GOAL_MS,
    )


def quiet(server: Server, key: str) -> None:
    """Compare the p99 of a status read while a 5 MB catalog is ingested with its p99 in the quiet."""
    document = menus.large()
    with menus.hosting(lambda path: document[:-1] + f',"note":"{path}"}}'.encode()) as url:
        big = server.live(key, url, "large")["storeId"]
        request = get(f"/v1/commerce/stores/{big}/status", key)
        ratios = []
        for number in range(5):
            before = load(server.process, server.port, request, seconds=SECONDS, connections=2, pause=0.002)
            notice = {"callbackUrl": f"{url}?{number}"}
            run = server.call("POST", f"/v1/commerce/catalogset-notification?storeId={big}", notice, key=key)
            during = load(server.process, server.port, request, seconds=SECONDS, connections=2, pause=0.002)
            while server.call("GET", run["statusUrl"], key=key)["status"] not in {"succeeded", "failed"}:
                time.sleep(0.05)
            ratios.append(during.percentile(0.99) / before.percentile(0.99))
    ratio = statistics.median(ratios)
    row("status p99 during a 5 MB ingest ÷ quiet p99", ratio, f"≤ {QUIET_GOAL}", ok=ratio <= QUIET_GOAL)


class _sink:  # noqa: N801  # used as a function
    """A receiver that notes when each webhook-id first arrived."""

    def __init__(self, arrived: dict[str, float]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # the library's name
                arrived.setdefault(self.headers["webhook-id"], time.perf_counter())
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/hooks"

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    main()
