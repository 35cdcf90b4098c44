"""`mercato serve`, `mercato worker` and `mercato migrate`: the processes of a network, as commands."""

from mercato.cli import start
from mercato_tools.cli.options import DataDir


def serve(
    *,
    host: str | None = None,
    port: int | None = None,
    data_dir: DataDir = None,
    workers: int | None = None,
    dev: bool = False,
) -> int:
    """Serve the API and do the background work, in one process or in several on one port.

    Args:
        host: Address to listen on (127.0.0.1).
        port: Port to listen on (8000); 0 takes a free one.
        workers: Processes that serve on the one port (1).
        dev: Let pulls and webhooks reach this machine, and use http.

    """
    private = True if dev else None
    return start.serve(
        host=host, port=port, data_dir=data_dir, workers=workers, allow_private_networks=private
    )


def worker(*, data_dir: DataDir = None) -> int:
    """Do background work alone, beside servers on the same database."""
    return start.worker(data_dir=data_dir)


def migrate(*, data_dir: DataDir = None) -> int:
    """Migrate the database to this version's schema."""
    return start.migrate(data_dir=data_dir)
