"""`mercato serve --workers N`: a parent process that listens and supervises, and N worker processes."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from mercato.cli import CommandFailedError
from mercato.platform.telemetry import multiprocess
from mercato.settings import Settings

log = structlog.get_logger("mercato.workers")

READY: Final = b"ready\n"
"""What a worker process prints once it serves."""

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds before a worker process is restarted: doubled each time, reset once one has run for LIVED_SECONDS."""

LIVED_SECONDS: Final = 60.0

DRAIN_SECONDS: Final = 45.0
"""Greatest time for the worker processes to end. Requests and jobs in flight have shorter limits."""


class WorkerFailedError(CommandFailedError):
    """A worker process ended before it served; its output is above."""


class Workers(Struct, frozen=True):
    """Keeps worker processes serving on one socket, which the parent holds open so that it never stops listening."""

    settings: Settings
    listener: socket.socket
    metrics: Path
    """The directory of the processes' metrics, so that each can report all of them."""

    async def run(self, stop: asyncio.Event) -> None:
        """Start all, print the address, and keep them running until `stop` is set.

        Raises WorkerFailedError if one of them can't start.
        """
        from mercato.http.server import url_of

        places = range(self.settings.workers)
        first = await asyncio.gather(*map(self._start, places))
        print(f"listening on {url_of(self.listener)}", flush=True)
        keepers = [
            asyncio.create_task(self._keep(place, process, stop))
            for place, process in zip(places, first, strict=True)
        ]
        await stop.wait()
        # Each drains and ends by itself; none is restarted.
        await asyncio.gather(*keepers)

    async def _keep(
        self, place: int, process: asyncio.subprocess.Process | None, stop: asyncio.Event
    ) -> None:
        """Keep one process running: restart it when it ends."""
        loop = asyncio.get_running_loop()
        pause, began = FIRST_PAUSE, loop.time()
        while process is not None and not await _wait_for_exit(process, stop):
            log.error("worker ended", pid=process.pid, code=process.returncode)
            multiprocess.mark_dead(place, self.metrics)
            pause = FIRST_PAUSE if loop.time() - began > LIVED_SECONDS else min(pause * 2, LONGEST_PAUSE)
            process = await self._start_again(place, pause, stop)
            began = loop.time()
        if process is not None:
            await _stop(process)

    async def _start_again(
        self, place: int, pause: float, stop: asyncio.Event
    ) -> asyncio.subprocess.Process | None:
        """Return the new process once it has started; None when stopping."""
        while not await _wait_for_stop(stop, pause):
            try:
                return await self._start(place)
            except (WorkerFailedError, OSError) as error:
                # Out of memory, processes or files, or Python is being upgraded: that may pass.
                log.error("worker not started", error=str(error))  # noqa: TRY400  # no bug, and so no traceback
                pause = min(pause * 2, LONGEST_PAUSE)
        return None

    async def _start(self, place: int) -> asyncio.subprocess.Process:
        """Return a process that serves at that place. Raises WorkerFailedError."""
        handle = self.listener.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mercato.cli.start",
            str(handle),
            str(os.getpid()),
            str(place),
            stdout=asyncio.subprocess.PIPE,
            pass_fds=[handle],
            # The parent passes Ctrl-C on: a process that gets it twice doesn't wait for its requests.
            start_new_session=True,
            env=os.environ | self._environment(),
        )
        assert process.stdout is not None
        if await process.stdout.readline() != READY:
            await _stop(process)
            raise WorkerFailedError(f"A worker could not start (exit code {process.returncode}): see above.")
        return process

    def _environment(self) -> dict[str, str]:
        """Return the command line's options as environment variables."""
        return {
            "MERCATO_DATA_DIR": str(self.settings.data_dir.absolute()),
            "MERCATO_WORKERS": str(self.settings.workers),
            "MERCATO_ALLOW_PRIVATE_NETWORKS": str(self.settings.allow_private_networks).lower(),
            multiprocess.DIRECTORY: str(self.metrics),
        }


async def _wait_for_exit(process: asyncio.subprocess.Process, stop: asyncio.Event) -> bool:
    """Wait until the process ends or `stop` is set; return whether `stop` is set."""
    ending, stopping = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
    await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (ending, stopping):
        task.cancel()
    return stop.is_set()


async def _wait_for_stop(stop: asyncio.Event, seconds: float) -> bool:
    """Wait for `stop`; return False at the timeout."""
    try:
        async with asyncio.timeout(seconds):
            return await stop.wait()
    except TimeoutError:
        return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
