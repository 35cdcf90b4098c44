"""The life and the memory of processes: they end with their parent, and give memory back.

At named crash points a test can kill this process with SIGKILL. Without `MERCATO_TEST_CRASH_AT` in the environment,
`crash_point` only compares.
"""

import asyncio
import ctypes
import os
import resource
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def exit_with_parent(parent: int) -> None:
    """Kill this process when its parent ends, even by kill -9.

    Only Linux supports that; elsewhere only a parent that has ended before this call is noticed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def limit_memory(size: int) -> None:
    """Bound the bytes of this process's data segment: its heap, but not code or mapped files."""
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def limit_cpu(seconds: int) -> None:
    """Bound this process's CPU time; SIGXCPU ends it then, and leaves no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Parameters of glibc's `mallopt`, by their numbers in malloc.h."""

MAPPED_BYTES: Final = 64 * 1024
ARENAS: Final = 2


def return_memory() -> None:
    """Make the C library return freed memory to the system at once. Call it before the process grows.

    glibc keeps a freed block below one that is still in use. It maps large blocks separately, and returns those at
    once; but the size that counts as large grows to that of the largest freed block, so after one burst of bodies it
    keeps all later ones. So that size is fixed here, at the size of a body's parts. Each thread would get a heap of its
    own, too: two are enough under Python's lock. Other C libraries have neither the problem nor the function.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(M_TRIM_THRESHOLD, 2 * MAPPED_BYTES)
        mallopt(M_ARENA_MAX, ARENAS)


TRIM_SECONDS: Final = 10.0
"""Seconds between two trims. One that finds nothing takes about 1 ms, one that returns 400 MB about 40."""


async def trim_memory() -> None:
    """Return freed memory to the system every few seconds, until cancelled.

    `return_memory` covers the blocks that glibc maps separately. Smaller ones, freed between blocks that are still in
    use, are returned by `malloc_trim` alone.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    while trim is not None:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)


WANTED_FILES: Final = 4096
"""Open files of a server: connections of partners, 1,024 webhook calls, pulls, and the database, with room to spare."""

_UNLIMITED_FILES: Final = 1_048_576
"""Linux's default maximum where no limit is set."""


def max_open_files() -> int:
    """Return how many open files a server started from here may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED_FILES if hard == resource.RLIM_INFINITY else hard


def allow_open_files() -> None:
    """Raise this process's limit of open files to what it may have: most shells begin with 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_open_files(), hard))


CRASH_VARIABLE: Final = "MERCATO_TEST_CRASH_AT"

_crash_at = os.environ.get(CRASH_VARIABLE)


def crash_point(name: str) -> None:
    """Call it with the name of the point that is reached; `written` is within a transaction, before its commit."""
    if name == _crash_at:
        os.kill(os.getpid(), signal.SIGKILL)
