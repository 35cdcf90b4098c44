"""Where a server of this machine listens: a file in its data directory, which commands read.

A server that was started with --port or --host has another address than a command's settings say. The file is locked as
long as the server runs, so one that a killed server left behind counts for nothing.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FILE: Final = "server.address"

_MAX_ADDRESS: Final = 512
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


def local_url(host: str, port: int) -> str:
    """Return the base URL at which this machine reaches a server that listens there; 0.0.0.0 is every address."""
    host = "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def announced(data_dir: Path, url: str) -> Iterator[None]:
    """Tell commands the address while the block runs. Of several servers on one directory the first one does.

    Without the directory, as with a database server, or if it can't be written, nothing is told.
    """
    file = None
    with suppress(OSError):
        file = os.open(data_dir / FILE, _FLAGS, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.write(file, url.encode())
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def find_address(data_dir: Path) -> str | None:
    """Return the base URL of the server that runs on the data directory, None if none does. Takes no lasting lock."""
    try:
        file = os.open(data_dir / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # Nothing yet if it has just locked the file.
        return os.read(file, _MAX_ADDRESS).decode(errors="replace") or None
    finally:
        os.close(file)
    return None
