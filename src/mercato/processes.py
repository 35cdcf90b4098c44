"""Processes that belong together: none outlives the one that started it."""

import ctypes
import os
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
