"""Arguments and options that several of the operators' commands share, beside those of the tools."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from cyclopts import Parameter, Token

from mercato_contract import clock
from mercato_contract.wire import parse_instant
from mercato_tools.cli.options import BearerToken, between

MAX_LISTED: Final = 1000
"""The largest `--limit`. A larger one is refused: a list that is cut silently looks complete."""

PAGE: Final = 50
"""Entries of a list without `--limit`."""

_DURATION: Final = re.compile(r"(\d{1,5})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


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


Duration = Annotated[timedelta, Parameter(converter=_duration)]
Since = Annotated[datetime, Parameter(converter=_since)]
Until = Annotated[datetime, Parameter(converter=_until)]
After = Annotated[UUID | None, Parameter(help="Begin after this id.")]
Limit = Annotated[int, between("--limit", 1, MAX_LISTED)]
PartnerName = Annotated[str, Parameter(help="The partner's id or name.")]
OnlyPartner = Annotated[str | None, Parameter(help="Only this partner's: its id or name.")]
OrderName = Annotated[str, Parameter(help="The order's id, or the beginning of it that lists show.")]
StoreName = Annotated[
    str, Parameter(help="The store's id, its beginning that lists show, or its last 8 characters.")
]
EventType = Annotated[
    str | None,
    Parameter(
        name="--type", help="Only of this event type, or of those below it: order, catalog.sync.failed."
    ),
]
KeyName = Annotated[str, Parameter(help="The key's id, its prefix as lists show it, or the key itself.")]
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
