"""Log lines: JSON for machines or a console form for people, each with its task's context.

Requests don't wait for the lines of the `EventLog`: one task writes them in batches.
"""

import asyncio
import logging
import re
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from time import time
from typing import Final

import structlog

from mercato.platform.telemetry.context import WorkContext, current_context
from mercato_contract.wire import as_json

# PostgreSQL quotes the row that it refuses.
_DETAIL: Final = re.compile(r"^DETAIL: .*$", re.MULTILINE)


_level = logging.DEBUG
"""The least severe level that is written; until it is configured, structlog's default."""


def is_debug_enabled() -> bool:
    """Return whether debug lines are written: composing one may cost more than the work that it describes."""
    return _level <= logging.DEBUG


_is_json = False


def configure_logs(*, level: str, form: str) -> None:
    """Send log lines to standard error."""
    global _level, _is_json  # noqa: PLW0603  # like structlog's own configuration, they belong to the process
    _level = logging.getLevelNamesMapping()[level.upper()]
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    _is_json = not console
    shared: list[structlog.typing.Processor] = [
        _add_context,
        structlog.processors.add_log_level,
        structlog.processors.MaybeTimeStamper(fmt="iso", utc=True),
        # Plain tracebacks: rich ones show local variables, which hold keys, tokens and customers' data.
        structlog.processors.format_exc_info,
        _remove_rows,
    ]
    last: list[structlog.typing.Processor] = (
        [_escape_controls, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(_level),
        # Made for each line, so that lines follow when standard error is replaced.
        logger_factory=lambda *_: _Lines(),
        cache_logger_on_first_use=False,
    )


def write_events(events: Sequence[Mapping[str, object]]) -> None:
    """Write events at `info` that have all their fields, `event` and `timestamp` included.

    JSON lines are written together, in a tenth of the time that one takes by itself.
    """
    if _is_json:
        _Lines().msg("\n".join(as_json({**event, "level": "info"}).decode() for event in events))
        return
    log = structlog.get_logger("mercato.events")
    for event in events:
        log.info(**event)


class _Lines:
    """Writes lines to standard error, and drops them if that fails.

    A full disk or a closed pipe must not end the loop that logs.
    """

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    log = debug = info = warn = warning = err = error = fatal = critical = failure = exception = msg


def _add_context(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add the fields of the task's context, except those that the line has already."""
    context = current_context()
    if context is not None:
        for name, value in context.log_fields():
            event.setdefault(name, value)
    return event


def _remove_rows(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    if isinstance(event.get("exception"), str):
        event["exception"] = _DETAIL.sub("DETAIL: (left out)", event["exception"])
    return event


def _escape_controls(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters in a traceback, and indent it: none of its lines may look like a log line.

    The console renderer quotes values itself.
    """
    if isinstance(event.get("exception"), str):
        lines = event["exception"].split("\n")
        event["exception"] = "\n".join(f"  {''.join(map(_escape, line))}" for line in lines)
    return event


def _escape(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]


FLUSH_SECONDS: Final = 0.25
"""How long a line may wait. A process that is killed loses the lines of that time."""

MAX_WAITING: Final = 5_000
"""Lines that may wait. Further ones are dropped and counted."""

_Waiting = tuple[float, str, WorkContext | None, dict[str, object]]


class EventLog:
    """Queues lines and writes them later, with the time at which they were recorded."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._dropped = 0

    def record(self, event: str, **fields: object) -> None:
        """Queue a line at `info`. It also gets the fields of the task's context."""
        if _level > logging.INFO:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            return
        self._waiting.append((time(), event, current_context(), fields))

    def flush(self) -> None:
        """Write every waiting line."""
        if self._waiting:
            lines, self._waiting = self._waiting, deque()
            write_events([_event(*line) for line in lines])
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            structlog.get_logger("mercato.events").warning(
                "log lines dropped: too many at once", count=dropped
            )

    async def run(self) -> None:
        """Write lines until cancelled, including those that are left at the end."""
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                self.flush()
        finally:
            self.flush()


def _event(
    at: float, event: str, context: WorkContext | None, fields: dict[str, object]
) -> dict[str, object]:
    known = {} if context is None else dict(context.log_fields())
    timestamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    return {"event": event, "timestamp": timestamp, **known, **fields}
