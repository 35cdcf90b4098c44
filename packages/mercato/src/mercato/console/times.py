"""Instants for people: how long ago in lists, and in the browser's chosen time zone everywhere, in fields too."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from mercato_contract.clock import local_time
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


_FIELD: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d(?:\.\d{1,3})?)?", re.ASCII)
"""The value of a browser's field for a time, which has no zone; seconds are left out where they are 0."""


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


def read_field(value: str, timezone: str) -> str:
    """Return the value of a field for a time, which is in that zone, as RFC 3339. Other texts stay as they are."""
    match = _FIELD.fullmatch(value)
    if match is None:
        return value
    text = f"{match[1]}{match[2] or ':00'}"
    try:
        at = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone))
        return rfc3339(at)
    except (ValueError, OverflowError):  # no such day, which its reader reports, or at the calendar's end
        return f"{text}Z"


@pass_context
def field(context: Context, value: str | None) -> str:
    """Return the value of a field for a time: an instant in the chosen zone; a text that isn't one, as it was sent."""
    if value is None or parse_instant(value) is None:
        return (value or "")[:16]
    return _local(context, value).replace(" ", "T")[:16]


def say(at: datetime, timezone: str) -> str:
    """Return an instant for a sentence: to the minute, with its zone."""
    return f"{_in_zone(at, timezone)[:16]} {timezone}"


def say_text(text: str, timezone: str) -> str:
    """Return RFC 3339 for a sentence, as `say` does; another text as it is."""
    at = parse_instant(text)
    return text if at is None else say(at, timezone)


@pass_context
def hour(context: Context, value: datetime) -> str:
    """Return the time of day in the chosen time zone, to the minute."""
    return _local(context, rfc3339(value))[11:16]


@pass_context
def since(context: Context, value: datetime | str | None) -> Markup:
    """Return a `time` element with the time since an instant, or until it, and the instant as its title."""
    if value is None:
        return _NOTHING
    text = value if isinstance(value, str) else rfc3339(value)
    at, view = parse_instant(text), _view(context)
    local = _local(context, text)
    if at is None or view is None:
        return _time(text, local, None)
    age, title = view["now"] - at, f"{local} {view['timezone']}"
    return _time(text, _age(age) if abs(age) < _OLD else local, title)


def _age(age: timedelta) -> str:
    """Return an age in words; a negative one is of what is still to come."""
    if abs(age) < _JUST_NOW:
        return "just now" if age >= timedelta(0) else "now"
    length = _length(abs(age))
    return f"{length} ago" if age > timedelta(0) else f"in {length}"


def _length(length: timedelta) -> str:
    for least, unit, letter in _SHORT:
        if length >= least:
            return f"{round(length / unit)} {letter}"
    return f"{max(1, round(length / timedelta(minutes=1)))} min"


def _view(context: Context) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = context.get("console")
    return found


def _local(context: Context, text: str) -> str:
    """Return an RFC 3339 instant as a date and a time in the chosen time zone."""
    view, at = _view(context), parse_instant(text)
    if at is None:
        return text[:19].replace("T", " ")
    return _in_zone(at, UTC if view is None else view["timezone"])


def _in_zone(at: datetime, timezone: str) -> str:
    return local_time(at, timezone).isoformat(" ", "seconds")[:19]


def _time(text: str, shown: str, title: str | None) -> Markup:
    named = Markup(' title="{}"').format(title) if title else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(text, named, shown)
