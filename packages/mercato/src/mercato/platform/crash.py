"""Named crash points, at which a test can kill this process with SIGKILL.

Without `MERCATO_TEST_CRASH_AT` in the environment, `point` does nothing.
"""

import os
import signal
from typing import Final

VARIABLE: Final = "MERCATO_TEST_CRASH_AT"

POINTS: Final = (
    "key.unclaimed", "key.claimed", "store.agreed", "order.written", "order.stored", "store.answered",
    "reply.written", "reply.stored", "order.resent", "order.moved", "store.written", "run.written",
    "catalog.built", "catalog.written", "catalog.switched", "job.claimed", "job.done", "webhook.sent",
    "webhook.written",
)  # fmt: skip
"""Every point. `written` is within a transaction, before its commit."""

_AT: Final = os.environ.get(VARIABLE)


def _pass(_name: str) -> None:
    """Do nothing: no crash point is configured."""


def _crash(name: str) -> None:
    if name == _AT:
        os.kill(os.getpid(), signal.SIGKILL)


point: Final = _pass if _AT is None else _crash
"""Call it with the name of the point that is reached."""
