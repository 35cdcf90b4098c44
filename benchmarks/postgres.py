"""A PostgreSQL of a benchmark's own: commits wait for the disk, as they do where orders are taken."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OPTIONS = (
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "autovacuum=on",
    "shared_buffers=256MB",
    "max_wal_size=2GB",
)
SCRIPT = Path(__file__).parent.parent / "tests" / "postgres_server.py"


@dataclass
class Postgres:
    """A server on a socket in a directory, with one database, `postgres`."""

    home: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.home}"

    @property
    def log(self) -> Path:
        return self.home / "log"

    def start(self) -> None:
        """Return when it answers."""
        ready = self.home / "ready"
        ready.unlink(missing_ok=True)
        self.process = subprocess.Popen([sys.executable, SCRIPT, self.home, str(os.getpid()), *OPTIONS])
        while not ready.exists():
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text())

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server while the block runs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        home = Path(directory) / "postgresql"
        home.mkdir()
        server = Postgres(home)
        server.start()
        try:
            yield server
        finally:
            server.stop()
