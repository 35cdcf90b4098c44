"""Arguments and options that several commands share."""

import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

from cyclopts import Parameter, Token

from mercato import clock
from mercato.cli.failures import UnusableError
from mercato.wire import parse_instant

_DURATION: Final = re.compile(r"(\d{1,5})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _duration(_type: Any, tokens: Sequence[Token]) -> timedelta:
    match = _DURATION.fullmatch(tokens[0].value)
    if match is None:
        raise ValueError("write a number and s, m, h, d or w, as in 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _since(_type: Any, tokens: Sequence[Token]) -> datetime:
    text = tokens[0].value
    if _DURATION.fullmatch(text):
        return clock.now() - _duration(_type, tokens)
    instant = parse_instant(text)
    if instant is None:
        raise ValueError("write how long ago, as 2h or 3d, or an instant as 2026-01-31T18:30:00Z")
    return instant


def _directory(_type: Any, tokens: Sequence[Token]) -> Path:
    # To Path it would be the current directory, in which nobody wants a database who has a variable unset.
    if not tokens[0].value:
        raise ValueError("it is empty, leave it out for the default")
    return Path(tokens[0].value)


DataDir = Annotated[
    Path | None, Parameter(converter=_directory, help="Where the embedded database lives (./data).")
]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="JSON on standard output, for programs.")]
Duration = Annotated[timedelta, Parameter(converter=_duration)]
Since = Annotated[datetime, Parameter(converter=_since)]
After = Annotated[UUID | None, Parameter(help="Begin after this id.")]
PartnerName = Annotated[str, Parameter(help="The partner's id or name.")]
KeyName = Annotated[str, Parameter(help="The key's id, its prefix as lists show it, or the key itself.")]
WebhookToken = Annotated[
    str | None, Parameter(help="Bearer token that our webhooks carry to it; @- reads it from standard input.")
]

WebhookOrigin = Annotated[
    str | None,
    Parameter(
        help="A URL on the host that gets the token; by default the host that has one already, or the first that "
        "a store is registered with."
    ),
]


def typed(token: str | None) -> str | None:
    """Return the token; `@-` keeps it out of the shell's history and the list of processes."""
    return sys.stdin.readline().strip() if token == "@-" else token  # noqa: S105  # no password


def check_limit(limit: int, most: int) -> None:
    """Raise UnusableError unless so many can be listed at once: a list cut short in silence would pass for all."""
    if not 1 <= limit <= most:
        raise UnusableError(f"--limit is from 1 to {most}.")


def check_seconds(seconds: float, option: str, *, most: float = 86_400) -> None:
    """Raise UnusableError unless it is a time that can be waited: none below 0, no nan, no inf."""
    if not 0 <= seconds <= most:
        raise UnusableError(f"{option} is from 0 to {most:g} seconds.")


def check_port(port: int) -> None:
    """Raise UnusableError unless it can be listened on: 0 takes a free one."""
    if not 0 <= port <= 65_535:  # noqa: PLR2004  # TCP's last port
        raise UnusableError("--port is from 0 to 65535.")
