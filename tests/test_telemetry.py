"""A key, card token or customer's address never appears in a log, nor in the locals of a traceback."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mercato.platform.telemetry import tracing

# From Python 3.13 on, a traceback shows the lines of such a program, too: they don't have what mustn't be shown.
SCRIPT = r"""
import structlog
from mercato.platform.telemetry import configure_logs
configure_logs(level="info", form=%r)
def fail(key):
    local = key
    raise RuntimeError("broken\nDETAIL: Failing row contains (Jane\x20Doe)")
try:
    fail("mk_commerce_" + "secret")
except RuntimeError as error:
    structlog.get_logger().error("bug", exc_info=error)
"""


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_logged_traceback_shows_no_local_variable(form: str):
    ran = subprocess.run([sys.executable, "-c", SCRIPT % form], capture_output=True, text=True, check=True)
    assert "broken" in ran.stderr
    assert "mk_commerce_secret" not in ran.stdout + ran.stderr
    # Nor the row that PostgreSQL quotes when it refuses one.
    assert "Jane Doe" not in ran.stdout + ran.stderr


def test_a_log_that_cannot_be_written_does_not_stop_the_service():
    script = """
import asyncio
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato.platform.telemetry import configure_logs

configure_logs(level="info", form="json")

async def main():
    feed = ChangeFeed(Database.open("sqlite:///nowhere/x.db"), interval=0.01)
    running = asyncio.create_task(feed.run())
    await asyncio.sleep(0.3)
    print("ended" if running.done() else "goes on")
    running.cancel()

asyncio.run(main())
"""
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=full, text=True, check=False
        )
    assert ran.stdout == "goes on\n"


def test_the_shutdown_does_not_wait_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tracing, "SHUTDOWN_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with tracing.export_spans(url, share=1.0), tracing.span("order", parent=None, kind="SERVER"):
            pass
        # Left behind: the shutdown doesn't end before OpenTelemetry gives up.
        [left] = [thread for thread in threading.enumerate() if thread.name == "traces"]
        # Answered, it ends: its retries would draw random numbers beside the tests after this one.
        answering, _ = silent.accept()
        with answering:
            answering.recv(65536)
            answering.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            left.join(10)
        assert not left.is_alive()
