"""What a database says of itself, for operators."""

import shutil
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct
from sqlalchemy import select, text

from mercato.kernel.db import sqlite
from mercato.kernel.db.clock import now_ms
from mercato.kernel.db.engine import Read
from mercato.kernel.db.types import from_ms


class Server(Struct, frozen=True, kw_only=True):
    """A PostgreSQL server: `connections` are all that it has, `most` what it takes."""

    version: str
    connections: int
    most: int


class Files(Struct, frozen=True, kw_only=True):
    """An embedded database: bytes of the file, of its write-ahead log, and free beside them."""

    version: str
    file: int
    log: int
    free: int


async def find_server(tx: Read) -> Server:
    """Return what PostgreSQL says of itself."""
    row = await tx.first(_SERVER)
    assert row is not None
    return Server(version=row.version, connections=row.connections, most=row.most)


async def find_files(tx: Read) -> Files:
    """Return what SQLite's files take."""
    path = sqlite.path_of(tx.database.url)
    return Files(
        version=await tx.scalar(text("SELECT sqlite_version()")),
        file=_size(path),
        log=_size(path.with_name(path.name + "-wal")),
        free=shutil.disk_usage(path.parent).free,
    )


async def find_clock(tx: Read) -> datetime:
    """Return the present instant by the clock that due jobs and leases go by."""
    return from_ms(await tx.scalar(select(now_ms())))


async def count_listeners(tx: Read, channel: str) -> int:
    """Return how many sessions listen on a channel of PostgreSQL: as many as there are of who wait for it."""
    return int(await tx.scalar(_LISTENERS.bindparams(said=f'LISTEN "{channel}"%')))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


_SERVER: Final = text(
    "SELECT current_setting('server_version') AS version, (SELECT count(*) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend') AS connections, current_setting('max_connections')::int AS most"
)
_LISTENERS: Final = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE :said"
)
