"""A small load generator and the processes it loads: keep-alive connections that send the same bytes again."""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Processor(Protocol):
    """A process, or several, whose CPU is counted."""

    def cpu_times(self) -> Any:
        """Return the seconds taken until now, with `user` and `system`."""


@dataclass(frozen=True)
class Load:
    """What a round measured."""

    per_second: float
    cpu_us: float
    latencies: list[float]

    def percentile(self, share: float) -> float:
        """Return a latency in milliseconds."""
        return sorted(self.latencies)[int(share * (len(self.latencies) - 1))] * 1000


async def _connection(port: int, request: bytes, until: float, latencies: list[float], pause: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 2", b"HTTP/1.1 304")):
            raise RuntimeError(head.decode())
        length = LENGTH.search(head)
        if length is not None:
            await reader.readexactly(int(length[1]))
        latencies.append(time.perf_counter() - began)
        count += 1
        if pause:
            await asyncio.sleep(pause)
    writer.close()
    await writer.wait_closed()
    return count


def load(
    process: psutil.Process,
    port: int,
    request: bytes,
    *,
    seconds: float,
    connections: int = 16,
    pause: float = 0,
) -> Load:
    """Send the request over and over; return the rate, the server's CPU a request, and every latency."""

    async def run() -> int:
        until = time.perf_counter() + seconds
        counts = await asyncio.gather(
            *(_connection(port, request, until, latencies, pause) for _ in range(connections))
        )
        return sum(counts)

    latencies: list[float] = []
    before, began = process.cpu_times(), time.perf_counter()
    count = asyncio.run(run())
    took, after = time.perf_counter() - began, process.cpu_times()
    cpu = (after.user - before.user) + (after.system - before.system)
    return Load(per_second=count / took, cpu_us=cpu / count * 1e6, latencies=latencies)


def get(path: str, key: str | None = None, **headers: str) -> bytes:
    """Return the bytes of a GET."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@dataclass(frozen=True)
class Server:
    """A running server process."""

    process: psutil.Process
    port: int
    data_dir: Path
    url: str | None = None

    def call(
        self, method: str, path: str, body: Any = None, *, key: str, headers: dict[str, str] | None = None
    ) -> Any:
        """Call an operation; return the decoded body."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(  # a loopback URL
            f"http://127.0.0.1:{self.port}{path}",
            data=data,
            method=method,
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"} | (headers or {}),
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310  # a loopback URL
                raw = reply.read()
        except urllib.error.HTTPError as refused:
            raise RuntimeError(refused.read().decode()) from None
        return json.loads(raw) if raw else None

    def partner(self) -> str:
        """Make a partner; return its Commerce key."""
        made = subprocess.run(
            [
                Path(sys.executable).with_name("mercato"), "partner", "create", "Bench", "--kind", "commerce",
                "--json", "--data-dir", self.data_dir,
            ],
            check=True, capture_output=True, env=environment(self.url),
        )  # fmt: skip
        key: str = json.loads(made.stdout)["commerceKey"]
        return key

    def live(self, key: str, url: str, name: str) -> Any:
        """Bring a store live; return it."""
        body = {"partnerStoreId": name, "name": name, "address": {}, "catalogCallbackUrl": url}
        path = "/v1/commerce/onboarding/stores"
        onboarding = self.call("POST", path, body, key=key)["onboardingId"]
        while (status := self.call("GET", f"{path}/{onboarding}", key=key))["status"] != "ready_to_activate":
            if status["status"] == "catalog_failed":
                raise RuntimeError(status)
            time.sleep(0.01)
        return self.call("POST", f"{path}/{onboarding}/activate", key=key)


def environment(url: str | None = None) -> dict[str, str]:
    """Return the environment of a server that is measured: no limits, loopback allowed, the database at `url`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")}
    # What pip installs comes compiled, and our own modules are from their first import on, unless this forbids it.
    clean.pop("PYTHONDONTWRITEBYTECODE", None)
    measured = {
        "MERCATO_RATE_LIMITS": "off",
        "MERCATO_INGEST_WAITING_PER_STORE": "1000000",
        "MERCATO_ALLOW_PRIVATE_NETWORKS": "true",
        "MERCATO_LOG_LEVEL": "error",
    }
    return clean | measured | ({"MERCATO_DATABASE_URL": url} if url is not None else {})


def encoded(body: bytes) -> str:
    """Return bytes as an argument for a floor."""
    return base64.b64encode(body).decode()


@contextmanager
def mercato(url: str | None = None, *arguments: str) -> Iterator[Server]:
    """Run `mercato serve` on a free port with a new database: a file, or the empty one at `url`."""
    with tempfile.TemporaryDirectory() as directory:
        command = [Path(sys.executable).with_name("mercato"), "serve", "--port", "0", "--data-dir", directory]
        command += arguments
        with started(command, url) as (process, port):
            yield Server(process, port, Path(directory), url)


@contextmanager
def bare(name: str, *arguments: str) -> Iterator[Server]:
    """Run a floor of `benchmarks.bare` on a free port."""
    with started([sys.executable, "-m", "benchmarks.bare", name, *arguments]) as (process, port):
        yield Server(process, port, Path())


@contextmanager
def started(
    command: list[Any],
    url: str | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Iterator[tuple[psutil.Process, int]]:
    """Run a server that says `listening on http://…:port`, in a directory; stop it at the end.

    `settings` are variables of its environment beside those of every server that is measured.
    """
    variables = environment(url) | dict(settings or {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, cwd=directory, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if line.startswith("listening on "):
                    yield psutil.Process(server.pid), int(line.rsplit(":", 1)[1])
                    break
            else:
                raise RuntimeError("the server ended before it listened")
        finally:
            server.terminate()
            server.wait(30)
