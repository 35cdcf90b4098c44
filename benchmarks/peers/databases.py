"""A contestant's database, and the CPU of its server: an answer costs what both take together."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from benchmarks.load import Processor
from benchmarks.postgres import postgres


@dataclass(frozen=True)
class CpuTimes:
    """Seconds."""

    user: float
    system: float


@dataclass(frozen=True)
class Processes:
    """A server, and the PostgreSQL that works for it."""

    server: psutil.Process
    postgres: psutil.Process

    def cpu_times(self) -> CpuTimes:
        """Return what they took until now, and what sessions took that have ended."""
        own = self.server.cpu_times()
        user, system = own.user, own.system
        for process in (self.postgres, *self.postgres.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # a session that has just ended
                taken = process.cpu_times()
                user += taken.user + taken.children_user
                system += taken.system + taken.children_system
        return CpuTimes(user, system)


@dataclass(frozen=True)
class Database:
    """An empty PostgreSQL; without a URL, a file of SQLite's that the server makes itself."""

    url: str | None = None
    postgres: psutil.Process | None = None

    def with_server(self, server: psutil.Process) -> Processor:
        """Return what is counted for a server that uses this database."""
        return server if self.postgres is None else Processes(server, self.postgres)


@contextmanager
def new_database(kind: str) -> Iterator[Database]:
    """Make a database of a contestant's own: SQLite or PostgreSQL."""
    if kind == "SQLite":
        yield Database()
        return
    with postgres() as made:
        assert made.process is not None
        yield Database(made.url, psutil.Process(made.process.pid))
