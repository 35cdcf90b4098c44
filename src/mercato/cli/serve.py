"""`mercato serve`, `mercato worker` and `mercato migrate`: the processes of a network, as commands."""

from typing import Annotated

from cyclopts import Parameter

from mercato.cli import start
from mercato.cli.options import DataDir


def serve(
    *,
    host: Annotated[str | None, Parameter(help="Address to listen on (127.0.0.1).")] = None,
    port: Annotated[int | None, Parameter(help="Port to listen on (8000); 0 takes a free one.")] = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, Parameter(help="Processes that serve on the one port (1).")] = None,
    dev: Annotated[
        bool, Parameter(negative=(), help="Let pulls and webhooks reach this machine, and use http.")
    ] = False,
) -> int:
    """Serve the API and do the background work, in one process or in several on one port."""
    return start.serve(
        host=host,
        port=port,
        data_dir=data_dir,
        workers=workers,
        allow_private_networks=True if dev else None,
    )


def serve_one(
    handle: Annotated[int, Parameter(help="File descriptor of the socket that listens.")],
    parent: Annotated[int, Parameter(help="The process that started this one.")],
    place: Annotated[int, Parameter(help="Its place among those that share the socket.")],
    /,
) -> int:
    """Be one of the processes of `mercato serve --workers`, which starts it and dies with it."""
    return start.serve_one(handle, parent, place)


def worker(*, data_dir: DataDir = None) -> int:
    """Do background work alone, beside servers on the same database."""
    return start.worker(data_dir=data_dir)


def migrate(*, data_dir: DataDir = None) -> int:
    """Bring the database's schema to this version."""
    return start.migrate(data_dir=data_dir)
