"""Log lines: JSON for machines, or a console form for people, each with whom it concerns."""

import logging
import re
import sys
from contextlib import suppress
from typing import Final

import structlog

from mercato.kernel.telemetry.acting import acting_now

# PostgreSQL quotes the row it refuses.
_DETAIL: Final = re.compile(r"^DETAIL: .*$", re.MULTILINE)


_level = logging.DEBUG
"""From which lines are written: as structlog itself has it until it is configured."""


def tells_details() -> bool:
    """Tell whether debug lines are written: to put one together may cost more than what it tells of."""
    return _level <= logging.DEBUG


def configure_logs(*, level: str, form: str) -> None:
    """Send log lines to standard error."""
    global _level  # noqa: PLW0603  # as structlog's own configuration, it is the process's
    _level = logging.getLevelNamesMapping()[level.upper()]
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        _with_acting,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # Plain tracebacks: richer ones show local variables, which hold keys, tokens and customers' data.
        structlog.processors.format_exc_info,
        _without_rows,
    ]
    last: list[structlog.typing.Processor] = (
        [_without_controls, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(_level),
        # Asked at each line: whoever takes standard error over gets the lines from then on.
        logger_factory=lambda *_: _Lines(),
        cache_logger_on_first_use=False,
    )


class _Lines:
    """Writes lines where there is somebody to read them.

    A disk that is full or a pipe that nobody reads any more must not end what had something to tell: the loops that
    go on for ever would end with it.
    """

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    log = debug = info = warn = warning = err = error = fatal = critical = failure = exception = msg


def _with_acting(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Say on whose behalf the line was written, where that is known; what the line says itself stays."""
    acting = acting_now()
    if acting is not None:
        for name, value in acting.told():
            event.setdefault(name, value)
    return event


def _without_rows(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    if isinstance(event.get("exception"), str):
        event["exception"] = _DETAIL.sub("DETAIL: (left out)", event["exception"])
    return event


def _without_controls(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Leave nothing in a traceback that a terminal obeys, and no line that could pass for one of the log.

    Values are quoted by the form itself.
    """
    if isinstance(event.get("exception"), str):
        lines = event["exception"].split("\n")
        event["exception"] = "\n".join(f"  {''.join(map(_shown, line))}" for line in lines)
    return event


def _shown(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]
