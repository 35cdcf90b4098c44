"""Instants for people: how long ago in lists, and in the browser's chosen time zone everywhere."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from mercato_contract.wire import parse_instant, rfc3339

UTC: Final = "UTC"

_NOTHING: Final = Markup("\N{EN DASH}")

_SHORT: Final = (
    (timedelta(days=2), timedelta(days=1), "d"),
    (timedelta(minutes=90), timedelta(hours=1), "h"),
)
"""From which age on a unit is used, and the unit with its letter. Below, there are minutes."""

_JUST_NOW: Final = timedelta(seconds=45)
_OLD: Final = timedelta(days=60)


@cache
def timezones() -> tuple[str, ...]:
    """Return the names of time zones that people choose from: places, and UTC."""
    found = (
        name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/"))
    )
    return (UTC, *sorted(found))


@pass_context
def instant(context: Context, value: datetime | str | None) -> Markup:
    """Return a `time` element in the chosen time zone, to the second; a dash for None."""
    if value is None:
        return _NOTHING
    text = value if isinstance(value, str) else rfc3339(value)
    return _time(text, _local(context, text), None)


@pass_context
def hour(context: Context, value: datetime) -> str:
    """Return the time of day in the chosen time zone, to the minute."""
    return _local(context, rfc3339(value))[11:16]


@pass_context
def since(context: Context, value: datetime | str | None) -> Markup:
    """Return a `time` element that tells how long ago an instant was, with the instant as its title."""
    if value is None:
        return _NOTHING
    text = value if isinstance(value, str) else rfc3339(value)
    at, view = parse_instant(text), _view(context)
    local = _local(context, text)
    if at is None or view is None or not timedelta(0) <= view["now"] - at < _OLD:
        return _time(text, local, None)
    return _time(text, _age(view["now"] - at), f"{local} {view['timezone']}")


def _age(age: timedelta) -> str:
    if age < _JUST_NOW:
        return "just now"
    for least, unit, letter in _SHORT:
        if age >= least:
            return f"{round(age / unit)} {letter} ago"
    return f"{max(1, round(age / timedelta(minutes=1)))} min ago"


def _view(context: Context) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = context.get("console")
    return found


def _local(context: Context, text: str) -> str:
    """Return an RFC 3339 instant as a date and a time in the chosen time zone."""
    view, at = _view(context), parse_instant(text)
    if view is None or at is None or view["timezone"] == UTC:
        return text[:19].replace("T", " ")
    return f"{at.astimezone(ZoneInfo(view['timezone'])):%Y-%m-%d %H:%M:%S}"


def _time(text: str, shown: str, title: str | None) -> Markup:
    named = Markup(' title="{}"').format(title) if title else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(text, named, shown)
