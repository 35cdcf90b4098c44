"""A separate PostgreSQL that a test can stop and restart."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import asyncpg
from tests import postgres_server
from tests.waiting import PATIENCE

# What was committed survives the immediate stop, which the shared server does not promise.
DURABLE = ("synchronous_commit=on",)
REPLICATED = ("wal_level=replica", "max_wal_senders=4")


@dataclass
class OwnPostgres:
    """A server with one database, `postgres`, on a socket in a directory."""

    home: Path
    options: tuple[str, ...] = DURABLE
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.home}"

    async def start(self) -> None:
        """Return once it answers."""
        (self.home / "ready").unlink(missing_ok=True)
        script = Path(__file__).with_name("postgres_server.py")
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, script, self.home, str(os.getpid()), *self.options, start_new_session=True
        )
        async with asyncio.timeout(60):
            while not (self.home / "ready").exists():
                assert self.process.returncode is None, (self.home / "log").read_text()
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Stop it at once, as `pg_ctl stop -m immediate` does: connections are cut, and it recovers when it starts."""
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            await self.process.wait()

    async def copy_to(self, home: Path) -> "OwnPostgres":
        """Return a replica of this server, which needs `REPLICATED` among its options; it is not started yet."""
        user = postgres_server.user_of(home)
        command = [
            postgres_server.BINARIES / "pg_basebackup",
            "--host", self.home, "--username", "postgres", "--pgdata", home / "data",
            "--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--wal-method=stream",
        ]  # fmt: skip
        # In a thread: uvloop starts no process as another user.
        run = partial(subprocess.run, command, user=user, stderr=subprocess.PIPE, text=True)
        copying = await asyncio.to_thread(run, check=False)
        assert copying.returncode == 0, copying.stderr
        return OwnPostgres(home, self.options)


@asynccontextmanager
async def own_postgres(*options: str) -> AsyncIterator[OwnPostgres]:
    """Run a server during the block, in the same place as the shared one."""
    with tempfile.TemporaryDirectory(
        prefix="own-", dir=os.environ.get("MERCATO_TEST_DIRECTORY"), ignore_cleanup_errors=True
    ) as directory:
        Path(directory).chmod(0o755)
        home = Path(directory) / "postgresql"
        home.mkdir()
        server = OwnPostgres(home, (*DURABLE, *options))
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[OwnPostgres, OwnPostgres]]:
    """Run a primary and a streaming replica of it."""
    async with own_postgres(*REPLICATED) as primary:
        with tempfile.TemporaryDirectory(dir=primary.home.parent, ignore_cleanup_errors=True) as directory:
            home = Path(directory) / "replica"
            home.mkdir()
            replica = await primary.copy_to(home)
            await replica.start()
            try:
                yield primary, replica
            finally:
                await replica.stop()


async def configure(server: OwnPostgres, name: str, value: str) -> None:
    """Change a setting of the server, and return once it holds."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("SET default_transaction_read_only = off")
    await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
    async with asyncio.timeout(PATIENCE):
        shown = ""
        while shown != value:
            connection = await asyncpg.connect(server.url)
            shown = await connection.fetchval(f"SHOW {name}")
            await connection.close()
