"""What `mercato serve`, `worker` and `migrate` do. As a program, one worker process of `mercato serve --workers`.

Nothing here imports cyclopts: worker processes have no command line to read.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from msgspec import Struct

from mercato.platform.processes import allow_open_files, return_memory
from mercato.platform.telemetry import multiprocess
from mercato.settings import Settings, load
from mercato_tools.cli import CommandFailedError, UnusableError
from mercato_tools.cli.main import exit_with, report_failure


def serve(**given: Any) -> int:
    """Serve the API and do the background work, in one process or in several on one port."""
    return _run(_serve, **given)


def serve_one(handle: int, parent: int, place: int) -> int:
    """Run one worker process of `mercato serve --workers`; it ends with its parent."""
    from mercato.platform.processes import exit_with_parent
    from mercato.platform.telemetry import multiprocess

    exit_with_parent(parent)
    multiprocess.join(place)
    return _run(partial(_serve_one, handle=handle))


def worker(**given: Any) -> int:
    """Do background work alone, beside servers on the same database."""
    return _run(_work, **given)


def migrate(**given: Any) -> int:
    """Migrate the database to this version's schema, and print what changed."""
    return _run(_migrate_alone, **given)


def _run(work: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]], **overrides: Any) -> int:
    """Load the settings and run until it ends or a signal asks it to. Errors are reported by `report_failure`."""
    # Modules imported from here on stay loaded: the garbage collector need not walk them.
    gc.disable()
    return_memory()
    import uvloop

    from mercato.platform.telemetry import configure_logs

    settings = load(os.environ, **overrides)
    allow_open_files()
    configure_logs(level=settings.log_level, form=settings.log_format)
    uvloop.run(_until_signalled(work, settings))
    return 0


async def _until_signalled(
    work: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]], settings: Settings
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _request_stop, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        # A closed terminal sends it more than once; that isn't impatience.
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    await work(settings, stop)


def _request_stop(stop: asyncio.Event) -> None:
    if stop.is_set():
        # The second signal: don't wait for requests in flight.
        os._exit(128 + signal.SIGINT)
    stop.set()


_PRIVATE: Final = (
    "Development: pulls and webhooks may reach loopback and private addresses, and use http. Don't run it so where "
    "strangers can register stores."
)


async def _serve(settings: Settings, stop: asyncio.Event) -> None:
    from mercato.cli.address import announced, local_url
    from mercato.http.server import listen, url_of

    await _prepare(settings)
    _warn_of_another(settings)
    if settings.allow_private_networks:
        print(_PRIVATE, file=sys.stderr)
    with (
        listen(settings.host, settings.port) as listener,
        announced(settings.data_dir, local_url(*listener.getsockname()[:2])),
    ):
        if settings.workers > 1:
            from mercato.platform.telemetry.multiprocess import metrics_directory

            with metrics_directory() as directory:
                await Workers(settings, listener, directory).run(stop)
        else:
            await _serve_on(listener, settings, stop, ready=f"listening on {url_of(listener)}")
    _print_stopped()


def _print_stopped() -> None:
    """Print "stopped" if the output is still open. Everything is drained, so a closed output isn't a failure."""
    try:
        print("stopped", flush=True)
    except OSError:
        # Otherwise Python tries to flush it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _serve_one(settings: Settings, stop: asyncio.Event, *, handle: int) -> None:
    with socket.socket(fileno=handle) as listener:
        await _serve_on(listener, settings, stop, ready="ready")


async def _serve_on(listener: socket.socket, settings: Settings, stop: asyncio.Event, *, ready: str) -> None:
    """Serve on the socket and do the background work until stopped; print `ready` once it serves."""
    from mercato.app import GRACE, running
    from mercato.asgi import application
    from mercato.http.server import serving

    async with running(settings) as app:
        async with serving(application(app), listener=listener):
            _freeze_memory()
            print(ready, flush=True)
            await stop.wait()
            app.feeds.waiters.close()
            # Jobs and requests drain at the same time, each within its own timeout.
            draining = asyncio.create_task(app.worker.stop(grace=GRACE))
        await draining


def _freeze_memory() -> None:
    gc.freeze()
    gc.enable()


async def _work(settings: Settings, stop: asyncio.Event) -> None:
    from mercato.app import running

    if settings.database_url is None and not settings.data_dir.exists():
        raise UnusableError(
            f"There is no data directory {settings.data_dir}, and so no work to do. Name the server's with "
            "--data-dir, or its database with MERCATO_DATABASE_URL. A new one is made by mercato serve or migrate."
        )
    await _prepare(settings)
    _warn_of_another(settings)
    async with running(settings):
        _freeze_memory()
        print("working", flush=True)
        await stop.wait()


async def _migrate_alone(settings: Settings, _stop: asyncio.Event) -> None:
    from mercato.features.schema import SCHEMA

    before = await _migrate(settings)
    if before is None:
        where = settings.data_dir if settings.database_url is None else "the database"
        message = f"Created the tables of revision {SCHEMA.head} in {where}."
    elif before == SCHEMA.head:
        message = f"The database is at revision {SCHEMA.head}, this version's: nothing was changed."
    else:
        message = f"The database was at revision {before} and is at {SCHEMA.head} now."
    print(message, file=sys.stderr)


async def _prepare(settings: Settings) -> None:
    """Migrate the database, and warn of what a failover may cost."""
    from mercato.platform.db.health import warn_of_asynchronous_commits
    from mercato.platform.db.url import database_url

    await _migrate(settings)
    await warn_of_asynchronous_commits(database_url(settings))


def _warn_of_another(settings: Settings) -> None:
    """Say so if another process serves the same SQLite file: perhaps it was forgotten, or this one is in its place."""
    from mercato.platform.db.url import database_url, is_postgresql, sqlite_path
    from mercato.platform.jobs.worker import find_owner

    url = database_url(settings)
    owner = None if is_postgresql(url) else find_owner(url)
    if owner is not None:
        print(
            f"Another process works on the same database, {sqlite_path(url)}: process {owner}. It does the background "
            "work of both; this one takes that over when it ends. Stop one of them unless you want both.",
            file=sys.stderr,
        )


async def _migrate(settings: Settings) -> str | None:
    """Migrate the database to this version's schema; return its previous revision, None if it is new."""
    from mercato.features.schema import SCHEMA
    from mercato.platform.db.migrate import migrate as migrate_database
    from mercato.platform.db.servers import refuse_pooled_replica
    from mercato.platform.db.url import database_url

    await refuse_pooled_replica(settings)
    if settings.database_url is None:
        try:
            settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            from mercato.cli.failures import no_data_dir  # imported only for the error

            raise no_data_dir(settings.data_dir, error) from None
    return await migrate_database(database_url(settings), SCHEMA)


# --- `mercato serve --workers N`: a parent that listens and supervises, and N processes -----------


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


if __name__ == "__main__":
    exit_with(lambda: report_failure(lambda: serve_one(*map(int, sys.argv[1:]))))
