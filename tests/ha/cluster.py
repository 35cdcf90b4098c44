"""Two PostgreSQL under Patroni and three etcd, on loopback. Each can be killed and started again.

As a program (`python -m tests.ha.cluster DIRECTORY PID`) it waits for the end of a process and removes what its
cluster left behind: Patroni's PostgreSQL outlives Patroni.
"""

import asyncio
import json
import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
import yaml  # type: ignore[import-untyped]  # its types are a package of their own
from tests import postgres_server
from tests.ports import free_port

from mercato.platform.db.servers import Servers
from mercato.platform.processes import exit_with_parent

PATRONI: Final = Path(sys.prefix) / "bin/patroni"

ETCD: Final = shutil.which("etcd")
NAMES: Final = ("one", "two")

TTL: Final = 20
"""Seconds after which a primary without a sign of life loses its role: the least that Patroni accepts."""

LOOP_WAIT: Final = 2
RETRY_TIMEOUT: Final = 9
"""Patroni wants loop_wait + 2 * retry_timeout ≤ ttl."""

START_SECONDS: Final = 120.0
"""How long a part of the cluster may take to be ready on a busy machine."""

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
PASSWORD: Final = "secret"

PARAMETERS: Final = {
    "shared_buffers": "64MB",
    "fsync": "off",  # processes are killed here, and not machines
    "unix_socket_directories": "",
}


def missing() -> str | None:
    """Return what has to be installed before a cluster can run."""
    if ETCD is None:
        return "etcd (apt-get install etcd-server)"
    return None if PATRONI.exists() else "Patroni, which make test-ha installs"


@dataclass(slots=True)
class Etcd:
    """A member of etcd."""

    name: str
    directory: Path
    client: int = field(default_factory=free_port)
    peer: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    async def start(self, members: Sequence["Etcd"]) -> None:
        assert ETCD is not None
        urls = {one.name: f"http://127.0.0.1:{one.peer}" for one in members}
        client = f"http://127.0.0.1:{self.client}"
        self.process = await _start(
            self.directory.parent / f"{self.name}.log",
            ETCD,
            f"--name={self.name}",
            f"--data-dir={self.directory}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={urls[self.name]}",
            f"--initial-advertise-peer-urls={urls[self.name]}",
            f"--initial-cluster={','.join(f'{name}={url}' for name, url in urls.items())}",
            # A busy machine is no reason for an election.
            "--heartbeat-interval=250",
            "--election-timeout=2500",
            "--log-level=warn",
        )

    async def leads(self) -> bool:
        """Tell whether it is the leader of its cluster; False while it doesn't answer."""
        status = await _ask("POST", f"http://127.0.0.1:{self.client}/v3/maintenance/status", {})
        return status is not None and status["leader"] == status["header"]["member_id"]

    async def kill(self) -> None:
        assert self.process is not None
        await _kill(self.process)


@dataclass(slots=True)
class Node:
    """A PostgreSQL and its Patroni."""

    name: str
    directory: Path
    port: int = field(default_factory=free_port)
    rest: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        user = postgres_server.user_of(self.directory)
        self.process = await _start(
            self.directory / "patroni.log",
            *(() if user is None else _as_user(user)),
            PATRONI,
            self.directory / "patroni.yaml",
        )

    async def kill(self) -> None:
        """End Patroni and every process of PostgreSQL by kill -9, as a power failure would."""
        assert self.process is not None
        await _kill(self.process)  # the first: it would start PostgreSQL again
        kill_postgresql(self.directory / "data")

    def configuration(self, etcd: Sequence[Etcd], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the one in deploy/, with the addresses and the times of a test."""
        configuration: dict[str, Any] = yaml.safe_load((DEPLOY / "patroni.yaml").read_text())
        rest, address = f"127.0.0.1:{self.rest}", f"127.0.0.1:{self.port}"
        bootstrap, postgresql = configuration["bootstrap"], configuration["postgresql"]
        bootstrap["post_bootstrap"] = str(DEPLOY / "patroni-bootstrap.sh")
        bootstrap["initdb"].append("no-sync")
        bootstrap["dcs"] |= {
            "ttl": TTL,
            "loop_wait": LOOP_WAIT,
            "retry_timeout": RETRY_TIMEOUT,
            # Otherwise a replica that is far behind is never the primary.
            "maximum_lag_on_failover": 2**30,
        }
        bootstrap["dcs"]["postgresql"]["parameters"] |= parameters
        for user in postgresql["authentication"].values():
            user["password"] = PASSWORD
        postgresql |= {
            "listen": address,
            "connect_address": address,
            "data_dir": str(self.directory / "data"),
            "bin_dir": str(postgres_server.BINARIES),
            "pgpass": str(self.directory / "pgpass"),
        }
        return configuration | {
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"hosts": [f"127.0.0.1:{one.client}" for one in etcd]},
        }


@dataclass(slots=True)
class Cluster:
    """The members of a cluster."""

    etcd: list[Etcd]
    nodes: list[Node]

    async def new_database(self) -> str:
        """Make a database of the service's own user; return its URL, with both servers."""
        name = f"mercato_{uuid4().hex[:8]}"
        await self.administer(f"CREATE DATABASE {name} OWNER mercato")
        return f"postgresql://mercato:{PASSWORD}@{self.hosts}/{name}"

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    async def administer(self, statement: str) -> Any:
        """Run a statement on the primary as its superuser; return the first value of its rows."""
        connection = await Servers(f"postgresql://postgres:{PASSWORD}@{self.hosts}/postgres").connect()
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def start(self, parameters: Mapping[str, Any]) -> None:
        """Return once the replica commits with the primary."""
        for member in self.etcd:
            await member.start(self.etcd)
        await self.leader_of_etcd()
        for node in self.nodes:
            node.directory.mkdir()
            path = node.directory / "patroni.yaml"
            path.write_text(json.dumps(node.configuration(self.etcd, {**PARAMETERS, **parameters})))
            await node.start()
            await self.primary()  # the first one makes the database that the other copies
        await self.until_synchronous()

    async def leader_of_etcd(self) -> Etcd:
        async with asyncio.timeout(START_SECONDS):
            while True:
                for member in self.etcd:
                    if await member.leads():
                        return member
                await asyncio.sleep(0.1)

    async def primary(self) -> Node:
        """Return the node that holds the role now; wait while there is none."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                for node in self.nodes:
                    # Patroni answers 200 here if it runs and holds the leader's lock.
                    if await _ask("GET", f"http://127.0.0.1:{node.rest}/primary") is not None:
                        return node
                await asyncio.sleep(0.1)

    async def replica(self) -> Node:
        primary = await self.primary()
        return next(node for node in self.nodes if node is not primary)

    async def until_synchronous(self) -> None:
        """Return once every commit waits for the replica."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                node = await self.replica()
                if await _ask("GET", f"http://127.0.0.1:{node.rest}/synchronous") is not None:
                    return
                await asyncio.sleep(0.2)

    async def configure(self, **options: Any) -> None:
        """Change Patroni's configuration of the cluster."""
        node = await self.primary()
        assert await _ask("PATCH", f"http://127.0.0.1:{node.rest}/config", options) is not None

    async def commit_synchronously(self, *, on: bool) -> None:
        """Return once commits wait for the replica, or no longer do."""
        await self.configure(synchronous_mode=on)
        async with asyncio.timeout(START_SECONDS):
            while bool(await self.administer("SHOW synchronous_standby_names")) is not on:
                await asyncio.sleep(0.2)

    async def switch_over(self) -> None:
        """Exchange the roles, without loss and with both servers up."""
        primary, replica = await self.primary(), await self.replica()
        body = {"leader": primary.name, "candidate": replica.name}
        async with asyncio.timeout(START_SECONDS):
            while await _ask("POST", f"http://127.0.0.1:{primary.rest}/switchover", body) is None:
                await asyncio.sleep(0.5)  # Patroni refuses until it has seen the replica healthy

    async def stop(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                await node.kill()
        for member in self.etcd:
            if member.process is not None:
                await member.kill()


@asynccontextmanager
async def running(**parameters: Any) -> AsyncIterator[Cluster]:
    """Run a cluster during the block, with the service's own user in it."""
    memory = Path("/dev/shm")  # noqa: S108  # a directory of our own is made in it
    directory = Path(
        tempfile.mkdtemp(prefix="mercato-ha-", dir=None if parameters or not memory.is_dir() else memory)
    )
    directory.chmod(0o755)
    watching = [sys.executable, "-m", "tests.ha.cluster", str(directory), str(os.getpid())]
    watcher = await asyncio.create_subprocess_exec(*watching, start_new_session=True)
    cluster = Cluster(
        [Etcd(f"etcd-{number}", directory / f"etcd-{number}") for number in (1, 2, 3)],
        [Node(name, directory / name) for name in NAMES],
    )
    try:
        await cluster.start(parameters)
        yield cluster
    finally:
        await cluster.stop()
        await _kill(watcher)
        shutil.rmtree(directory, ignore_errors=True)


def _as_user(name: str) -> list[str]:
    """Return how a command is run as a user to whom root's Python may be out of reach, but for this capability."""
    entry = pwd.getpwnam(name)
    return [
        "setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups",
        "--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--pdeathsig=SIGKILL",
    ]  # fmt: skip


async def _start(log: Path, *command: str | Path) -> asyncio.subprocess.Process:
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            # psql is beside the server.
            env={
                **os.environ,
                "PATH": f"{postgres_server.BINARIES}:{os.environ['PATH']}",
                "MERCATO_PASSWORD": PASSWORD,
            },
            stdout=output,
            stderr=output,
            # Ctrl-C is for the test, which ends what it has started.
            start_new_session=True,
            preexec_fn=partial(exit_with_parent, os.getpid()),
        )


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()


def kill_postgresql(data: Path) -> None:
    """Kill the server of a data directory and the processes of its sessions."""
    note = data / "postmaster.pid"
    if not note.exists():
        return
    server = int(note.read_text().split()[0])
    children = Path(f"/proc/{server}/task/{server}/children")
    with suppress(FileNotFoundError, ProcessLookupError):
        sessions = children.read_text().split()
        for process in (server, *map(int, sessions)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


async def _ask(method: str, url: str, body: Any = None) -> Any:
    """Return the JSON of a successful answer, else None."""
    try:
        timeout = aiohttp.ClientTimeout(total=5)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, json=body) as answer,
        ):
            text = await answer.text()
            if not answer.ok:
                return None
            try:
                return json.loads(text)
            except ValueError:
                return text
    except (OSError, aiohttp.ClientError):
        return None


def _watch(directory: Path, process: int) -> None:
    while Path(f"/proc/{process}").exists():
        time.sleep(0.5)
    for name in NAMES:
        kill_postgresql(directory / name / "data")
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]), int(sys.argv[2]))
