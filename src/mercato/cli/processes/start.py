"""What `mercato serve`, `worker` and `migrate` do. Nothing here imports the parser of commands."""

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from mercato.kernel.processes import return_memory
from mercato.kernel.settings import Settings, load

WANTED_FILES: Final = 4096
"""Open files: connections of partners, 1,024 webhook calls under way, pulls, and the database, with room to spare."""

_UNLIMITED_FILES: Final = 1_048_576
"""What Linux itself takes as the end, by default, where no limit is set."""


def max_open_files() -> int:
    """Return how many open files a server that is started here may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED_FILES if hard == resource.RLIM_INFINITY else hard


def serve(**given: Any) -> int:
    """Serve the API and do the background work, in one process or in several on one port."""
    return _run(_serve, **given)


def serve_one(handle: int, parent: int, place: int) -> int:
    """Be one of the processes of `mercato serve --workers`, which starts it and dies with it."""
    from mercato.kernel.processes import exit_with_parent
    from mercato.kernel.telemetry import multiprocess

    exit_with_parent(parent)
    multiprocess.join(place)
    return _run(partial(_serve_one, handle=handle))


def worker(**given: Any) -> int:
    """Do background work alone, beside servers on the same database."""
    return _run(_work, **given)


def migrate(**given: Any) -> int:
    """Bring the database's schema to this version, and say what it took."""
    return _run(_migrate_alone, **given)


def _run(what: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]], **overrides: Any) -> int:
    """Load the settings and run until it ends by itself or a signal asks; `cli` reports what goes wrong."""
    # Everything that is imported from here on stays: the collector need not walk it while it grows, nor ever again.
    gc.disable()
    return_memory()
    import uvloop

    from mercato.kernel.telemetry import configure_logs

    settings = load(os.environ, **overrides)
    # Most shells begin with 1,024.
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max_open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    configure_logs(level=settings.log_level, form=settings.log_format)
    uvloop.run(_until_signalled(what, settings))
    return 0


async def _until_signalled(
    what: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]], settings: Settings
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _asked_to_stop, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        # A terminal that is closed says so more than once, and not for haste.
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    await what(settings, stop)


def _asked_to_stop(stop: asyncio.Event) -> None:
    if stop.is_set():
        # Asked twice: whoever asks does not want to wait for requests in flight.
        os._exit(128 + signal.SIGINT)
    stop.set()


_PRIVATE: Final = (
    "Development: pulls and webhooks may reach loopback and private addresses, and use http. Don't run it so where "
    "strangers can register stores."
)


async def _serve(settings: Settings, stop: asyncio.Event) -> None:
    from mercato.http.server import listen, url_of

    await _migrate(settings)
    if settings.allow_private_networks:
        print(_PRIVATE, file=sys.stderr)
    with listen(settings.host, settings.port) as listener:
        if settings.workers > 1:
            from mercato.cli.processes.workers import Workers
            from mercato.kernel.telemetry.multiprocess import metrics_directory

            with metrics_directory() as directory:
                await Workers(settings, listener, directory).run(stop)
        else:
            await _serve_on(listener, settings, stop, ready=f"listening on {url_of(listener)}")
    _print_stopped()


def _print_stopped() -> None:
    """Print it if anybody still reads: all is drained, so a closed output is not a failure."""
    try:
        print("stopped", flush=True)
    except OSError:
        # What was not written would be tried again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _serve_one(settings: Settings, stop: asyncio.Event, *, handle: int) -> None:
    with socket.socket(fileno=handle) as listener:
        await _serve_on(listener, settings, stop, ready="ready")


async def _serve_on(listener: socket.socket, settings: Settings, stop: asyncio.Event, *, ready: str) -> None:
    """Serve on the socket and do the background work until asked to stop; say when it begins."""
    from mercato.http.app import application
    from mercato.http.server import serving
    from mercato.runtime import GRACE, running

    async with running(settings) as app:
        async with serving(application(app), listener=listener):
            _settle_memory()
            print(ready, flush=True)
            await stop.wait()
            # Jobs and requests drain side by side, each within its own time.
            draining = asyncio.create_task(app.worker.stop(grace=GRACE))
        await draining


NEW_OBJECTS: Final = 10_000
"""After how many new objects the collector looks for cycles among them: a few megabytes, in a millisecond. A request
makes hundreds and hardly ever a cycle; at Python's own 700 it looked during every third of them."""


def _settle_memory() -> None:
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()


async def _work(settings: Settings, stop: asyncio.Event) -> None:
    from mercato.runtime import running

    if settings.database_url is None and not settings.data_dir.exists():
        from mercato.cli.failures import UnusableError  # not in a start that has nothing to say

        raise UnusableError(
            f"There is no data directory {settings.data_dir}, and so no work to do. Name the server's with "
            "--data-dir, or its database with MERCATO_DATABASE_URL. A new one is made by mercato serve or migrate."
        )
    await _migrate(settings)
    async with running(settings):
        _settle_memory()
        print("working", flush=True)
        await stop.wait()


async def _migrate_alone(settings: Settings, _stop: asyncio.Event) -> None:
    from mercato.kernel.db.migrate import HEAD

    before = await _migrate(settings)
    if before is None:
        where = settings.data_dir if settings.database_url is None else "the database"
        message = f"The tables of revision {HEAD} are made, in {where}."
    elif before == HEAD:
        message = f"The database is at revision {HEAD}, this version's: nothing was changed."
    else:
        message = f"The database was at revision {before} and is at {HEAD} now."
    print(message, file=sys.stderr)


async def _migrate(settings: Settings) -> str | None:
    """Bring the database to this version's schema; return the revision it was at, None if it is new."""
    from mercato.kernel.db.migrate import migrate as migrate_database
    from mercato.kernel.db.url import database_url, refuse_pooled_replica

    await refuse_pooled_replica(settings)
    if settings.database_url is None:
        try:
            settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            from mercato.cli.failures import no_data_dir  # not in a start that has nothing to say

            raise no_data_dir(settings.data_dir, error) from None
    return await migrate_database(database_url(settings))
