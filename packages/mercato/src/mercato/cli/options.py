"""Arguments and options that several commands share. Each command's docstring has the rest of their help."""

import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

from cyclopts import App, Parameter, Token

from mercato.cli import UnusableError
from mercato_contract import clock
from mercato_contract.wire import parse_instant

MAX_LISTED: Final = 1000
"""The largest `--limit`. A larger one is refused: a list that is cut silently looks complete."""

PAGE: Final = 50
"""Entries of a list without `--limit`."""

_DURATION: Final = re.compile(r"(\d{1,5})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def group(name: str, text: str) -> App:
    """Return a group of commands, whose flags have no --no-… form."""
    return App(name=name, help=text, default_parameter=Parameter(negative=()))


def between(option: str, minimum: float, maximum: float, unit: str = "") -> Parameter:
    """Return a parameter that refuses other numbers and NaN."""

    def check(_type: Any, value: float | None) -> None:
        if value is not None and not minimum <= value <= maximum:
            raise UnusableError(f"{option} is from {minimum:g} to {maximum:g}{unit}.")

    return Parameter(validator=check)


def _duration(_type: Any, tokens: Sequence[Token]) -> timedelta:
    match = _DURATION.fullmatch(tokens[0].value)
    if match is None:
        raise ValueError("write a number and s, m, h, d or w, as in 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _since(_type: Any, tokens: Sequence[Token]) -> datetime:
    return _instant(tokens, "how long ago", -1)


def _until(_type: Any, tokens: Sequence[Token]) -> datetime:
    return _instant(tokens, "for how long", +1)


def _instant(tokens: Sequence[Token], example: str, sign: int) -> datetime:
    """Return the instant that is written, or that is a duration away from now."""
    text = tokens[0].value
    if _DURATION.fullmatch(text):
        return clock.now() + sign * _duration(None, tokens)
    instant = parse_instant(text)
    if instant is None:
        raise ValueError(f"write {example}, as 2h or 3d, or an instant as 2026-01-31T18:30:00Z")
    return instant


def _directory(_type: Any, tokens: Sequence[Token]) -> Path:
    # An empty Path is the current directory, and an unset variable must not put a database there.
    if not tokens[0].value:
        raise ValueError("it is empty, leave it out for the default")
    return Path(tokens[0].value)


def _token(_type: Any, tokens: Sequence[Token]) -> str:
    """Return a token; `@-` keeps it out of the shell's history and the list of processes."""
    text = tokens[0].value
    return sys.stdin.readline().strip() if text == "@-" else text


DataDir = Annotated[
    Path | None, Parameter(converter=_directory, help="Where the embedded database lives (./data).")
]
Json = Annotated[bool, Parameter(name="--json", help="JSON on standard output, for programs.")]
Duration = Annotated[timedelta, Parameter(converter=_duration)]
Since = Annotated[datetime, Parameter(converter=_since)]
Until = Annotated[datetime, Parameter(converter=_until)]
After = Annotated[UUID | None, Parameter(help="Begin after this id.")]
Limit = Annotated[int, between("--limit", 1, MAX_LISTED)]
Port = Annotated[int, between("--port", 0, 65_535)]
Source = Annotated[str, Parameter(help="A file, a URL, or - for standard input.", allow_leading_hyphen=True)]
PartnerName = Annotated[str, Parameter(help="The partner's id or name.")]
OnlyPartner = Annotated[str | None, Parameter(help="Only this partner's: its id or name.")]
OrderName = Annotated[str, Parameter(help="The order's id, or the beginning of it that lists show.")]
StoreName = Annotated[str, Parameter(help="The store's id, or the beginning of it that lists show.")]
EventType = Annotated[
    str | None,
    Parameter(
        name="--type", help="Only of this event type, or of those below it: order, catalog.sync.failed."
    ),
]
KeyName = Annotated[str, Parameter(help="The key's id, its prefix as lists show it, or the key itself.")]
Secrets = Annotated[
    list[str] | None,
    Parameter(help="A signing secret, @FILE, or @- for the first line of standard input; newest first."),
]
BearerToken = Annotated[str | None, Parameter(converter=_token)]
WebhookToken = Annotated[
    BearerToken,
    Parameter(help="Bearer token that our webhooks carry to it; @- reads it from standard input."),
]
WebhookOrigin = Annotated[
    str | None,
    Parameter(
        help="A URL on the host that gets the token; by default the host that has one already, or the first that "
        "a store is registered with."
    ),
]
