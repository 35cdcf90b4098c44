"""Processes that belong together: none outlives the one that started it, or takes more memory than it may."""

import asyncio
import ctypes
import os
import resource
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def exit_with_parent(parent: int) -> None:
    """Let this process be killed when its parent ends, however that ends: kill -9 leaves no child behind.

    Linux alone can promise that; elsewhere a process whose parent is gone is only found out at its start.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def limit_memory(size: int) -> None:
    """Bound the bytes that this process may write to: its heap, but neither code nor files."""
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Parameters of glibc's `mallopt`, by their numbers in malloc.h."""

MAPPED_BYTES: Final = 64 * 1024
ARENAS: Final = 2


def return_memory() -> None:
    """Let this process give memory back to the system as soon as it is freed; to be called before it grows.

    glibc keeps what is freed below something that is still used, and raises the size from which it maps a block of
    its own, which it gives back at once, to that of the largest block that was freed: after one burst of bodies all
    later ones stay. So that size is fixed, at what a body's parts have. Each thread would get a heap of its own, too:
    two are enough for threads that hold Python's lock. Other C libraries have neither the fault nor the function.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(M_TRIM_THRESHOLD, 2 * MAPPED_BYTES)
        mallopt(M_ARENA_MAX, ARENAS)


TRIM_SECONDS: Final = 10.0
"""Seconds between two trims. One that finds nothing takes about 1 ms, one that gives 400 MB back about 40."""


async def trim_memory() -> None:
    """Give freed memory back to the system every few seconds. Runs until it is cancelled.

    `return_memory` covers the blocks that glibc maps one by one. The parts of bodies are smaller, freed between
    blocks that are still in use, where only `malloc_trim` finds them.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    while trim is not None:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)
