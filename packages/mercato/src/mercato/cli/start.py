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
from typing import Any, Final

from mercato.cli import UnusableError, exit_with, report_failure
from mercato.platform.processes import allow_open_files, return_memory
from mercato.settings import Settings, load


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


def _run(what: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]], **overrides: Any) -> int:
    """Load the settings and run until it ends or a signal asks it to. Errors are reported by `report_failure`."""
    # Modules imported from here on stay loaded: the garbage collector need not walk them.
    gc.disable()
    return_memory()
    import uvloop

    from mercato.platform.telemetry import configure_logs

    settings = load(os.environ, **overrides)
    allow_open_files()
    configure_logs(level=settings.log_level, form=settings.log_format)
    uvloop.run(_until_signalled(what, settings))
    return 0


async def _until_signalled(
    what: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]], settings: Settings
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _request_stop, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        # A closed terminal sends it more than once; that isn't impatience.
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    await what(settings, stop)


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
    from mercato.http.server import listen, url_of

    await _prepare(settings)
    if settings.allow_private_networks:
        print(_PRIVATE, file=sys.stderr)
    with listen(settings.host, settings.port) as listener:
        if settings.workers > 1:
            from mercato.cli.workers import Workers
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
    from mercato.platform.db.replication import warn_of_asynchronous_commits
    from mercato.platform.db.url import database_url

    await _migrate(settings)
    await warn_of_asynchronous_commits(database_url(settings))


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


if __name__ == "__main__":
    exit_with(lambda: report_failure(lambda: serve_one(*map(int, sys.argv[1:]))))
