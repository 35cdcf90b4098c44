"""Count the Python calls that a warm request makes between its arrival and its answer.

`python -m benchmarks.calls [--names]`: functions of Mercato's distributions alone, on SQLite, in this process. A
coroutine that resumes counts again, as Python's profiler reports it. The smallest of several requests is shown, because
background work beside a request counts, too; `--names` lists what was called.
"""

import asyncio
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psutil

import mercato
from benchmarks import menus
from benchmarks.load import Server, bare, encoded, environment
from benchmarks.trade import CARTS, PLACE, VALIDATE, YES, Trade, storefront
from mercato.features.schema import SCHEMA
from mercato.local.service import local_service
from mercato.platform.db.migrate import migrate
from mercato.platform.db.url import database_url
from mercato.platform.telemetry import configure_logs
from mercato.settings import load

ROOT = str(Path(mercato.__file__).parents[3])
"""The folder of all distributions, as they are in the repository."""
REQUESTS = 60

Calls = Counter[CodeType]


class CallCounter:
    """Counts calls of functions under `ROOT`, in every thread that starts after `install`."""

    def __init__(self) -> None:
        self._calls: Calls = Counter()
        self._is_counting = False

    def install(self) -> None:
        """Record the calls of all threads to come."""
        threading.setprofile(self._record)

    def count(self, request: Request) -> Calls:
        """Send the request; return the calls that were made until its answer was here."""
        self._calls, self._is_counting = Counter(), True
        with urlopen(request, timeout=30) as reply:  # noqa: S310  # a loopback URL
            reply.read()
        self._is_counting = False
        return self._calls

    def _record(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self._is_counting and event == "call" and frame.f_code.co_filename.startswith(ROOT):
            self._calls[frame.f_code] += 1


@contextmanager
def served(url: str | None = None) -> Iterator[Server]:
    """Run the service in a thread of this process, on the empty database at `url` or a new SQLite file."""
    listening: asyncio.Queue[Any] = asyncio.Queue()
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()
    with tempfile.TemporaryDirectory() as directory:
        settings = load(environment(url), data_dir=Path(directory))
        configure_logs(level=settings.log_level, form=settings.log_format)

        async def serve() -> None:
            await migrate(database_url(settings), SCHEMA)
            async with local_service(settings) as service:
                listening.put_nowait(urlsplit(service.base).port)
                ready.set()
                await stop.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        try:
            if not ready.wait(30):
                raise RuntimeError("the service did not start within 30 s")
            yield Server(psutil.Process(), listening.get_nowait(), Path(directory), url)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()


@contextmanager
def trading(server: Server, event_url: str | None = None) -> Iterator[Trade]:
    """Bring a store live whose system accepts everything, and make a storefront."""
    document = menus.small()
    with menus.hosted(document) as catalog_url, bare("static", encoded(YES)) as shop:
        key = server.partner()
        hooks = f"http://127.0.0.1:{shop.port}/hooks"
        store = server.live(key, catalog_url, "bench")
        server.call("PUT", f"/v1/commerce/stores/{store['storeId']}", {"webhookUrl": hooks}, key=key)
        front = storefront(server, server.url, event_url)
        yield Trade(server, key, front, store, json.loads(document), hooks, catalog_url)


def main(*arguments: str) -> None:
    counter = CallCounter()
    counter.install()
    with served() as server, trading(server) as trade:
        cart, order = trade.add(), trade.order()
        shown = {
            "carts/add": [_request(trade, CARTS, cart)] * REQUESTS,
            "validate": [_request(trade, VALIDATE, order)] * REQUESTS,
            "place": [_placement(trade, order, number) for number in range(REQUESTS)],
        }
        for what, requests in shown.items():
            _show(what, _fewest(counter, requests), names="--names" in arguments)


def _fewest(counter: CallCounter, requests: Iterable[Request]) -> Calls:
    return min((counter.count(request) for request in requests), key=Counter.total)


def _show(what: str, calls: Calls, *, names: bool) -> None:
    files = {code.co_filename for code in calls}
    print(f"{what:12} {calls.total():4} calls of {len(calls):3} functions in {len(files):2} files")
    if names:
        for code, count in sorted(calls.items(), key=lambda entry: entry[0].co_filename):
            print(
                f"  {count:3} {os.path.relpath(code.co_filename, ROOT)}:{code.co_firstlineno} {code.co_qualname}"
            )


def _request(trade: Trade, path: str, body: Any, **headers: str) -> Request:
    return Request(  # a loopback URL
        f"http://127.0.0.1:{trade.server.port}{path}",
        data=json.dumps(body, separators=(",", ":")).encode(),
        headers={"Authorization": f"Bearer {trade.front_key}", "Content-Type": "application/json"} | headers,
        method="POST",
    )


def _placement(trade: Trade, order: Any, number: int) -> Request:
    token = trade.call(VALIDATE, order)["validatedOrderToken"]
    return _request(
        trade, PLACE, order | {"validatedOrderToken": token}, **{"Idempotency-Key": f"calls-{number}"}
    )


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has what it wanted, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
