"""Processes that belong together: none outlives the one that started it, or takes more memory than it may."""

import ctypes
import os
import resource
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def die_with(parent: int) -> None:
    """Let this process be killed when its parent ends, however that ends: kill -9 leaves nobody behind.

    Linux alone can promise that; elsewhere a process whose parent is gone is only found out at its start.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def bound_memory(size: int) -> None:
    """Bound the bytes that this process may write to: its heap, but neither code nor files."""
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))
