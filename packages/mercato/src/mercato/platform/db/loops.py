"""Endless work on the database: an outage is one line in the log, longer pauses, and then it goes on."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mercato.platform.db.errors import is_unavailable

MAX_PAUSE: Final = 4.0
"""Greatest number of seconds between two attempts after failures, unless the usual pause is longer."""

MAX_DOUBLED: Final = 3
"""How often the pause is doubled after consecutive failures."""


async def repeat(
    action: Callable[[], Awaitable[None]],
    *,
    seconds: float,
    pause: Callable[[float], Awaitable[bool]],
    log: Any,
    unavailable: str,
    bug: str,
) -> None:
    """Do the action with a pause of so many seconds after each, until `pause` returns True.

    What the action raises doesn't end it. The first of consecutive failures is logged: a warning `unavailable` while
    the database doesn't answer, else the error `bug`.
    """
    failures, ended = 0, False
    while not ended:
        try:
            await action()
            failures = 0
        except Exception as error:  # logged; a loop that ends would stop what it does for ever
            failures += 1
            if failures > 1:
                pass
            elif is_unavailable(error) or isinstance(error, TimeoutError):
                log.warning(unavailable, error=type(error).__name__)
            else:
                log.exception(bug)
        ended = await pause(min(seconds * 2 ** min(failures, MAX_DOUBLED), max(seconds, MAX_PAUSE)))
