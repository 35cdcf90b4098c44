"""Named crash points, at which a test can kill this process with SIGKILL.

Without `MERCATO_TEST_CRASH_AT` in the environment, `point` does nothing.
"""

import os
import signal
from typing import Final

VARIABLE: Final = "MERCATO_TEST_CRASH_AT"

_AT: Final = os.environ.get(VARIABLE)


def _pass(_name: str) -> None:
    """Do nothing: no crash point is configured."""


def _crash(name: str) -> None:
    if name == _AT:
        os.kill(os.getpid(), signal.SIGKILL)


point: Final = _pass if _AT is None else _crash
"""Call it with the name of the point that is reached; `written` is within a transaction, before its commit."""
