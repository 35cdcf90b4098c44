"""Checks of values that no type can make: each says in words what is wrong, or None."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from mercato.kernel.errors import OrderError, ValidationFailed

_HTTP_URI: Final = re.compile(r"https?://[^\s/?#\\]+[^\s\\]*", re.IGNORECASE)
_HOST_PORT: Final = re.compile(r"(?:\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")
_LOCAL_ZONES: Final = {"localtime", "posixrules", "Factory"}
"""Files beside the time zones that name none: what they mean, if anything, is each machine's own affair."""

_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


class Objection(NamedTuple):
    """What is wrong with a value. `below`: where in it, as a pointer. `form`: as if a member were missing (400)."""

    message: str
    form: bool = False
    below: str = ""


Rule = Callable[[Any], str | Objection | None]
"""Says what is wrong with a value of the right JSON type, of which nothing else is known, or None."""


def validator(rule: Rule) -> dict[str, Any]:
    """Return the `extra` of a type whose values have a rule that no type can say.

    The walk that lists all faults of a request holds values against it. Who reads a value that was decoded without a
    fault still has to: the fast path knows no rules.
    """
    return {"rule": rule}


def uri_fault(text: str, name: str) -> str | None:
    """Return what is wrong with an absolute http(s) URI, or None. Whether it can be reached comes later."""
    if _CONTROL.search(text) or not _HTTP_URI.fullmatch(text):
        return f"{name} must be an absolute http or https URI, like https://example.com/catalog.json."
    try:
        parts = urlsplit(text)
    except ValueError:
        return f"{name} is not a URI: its host cannot be read."
    if not parts.hostname:
        return f"{name} needs a host name."
    if not _HOST_PORT.fullmatch(parts.netloc.rpartition("@")[2]):
        return f"{name} is not a URI: what follows its host is not a port number."
    return None


def timezone_fault(text: str) -> str | None:
    """Return what is wrong with an IANA time zone name, or None."""
    if text in _zones():
        return None
    return f"timezone must be an IANA time zone name, like Europe/Berlin; {text[:64]!r} is none."


@cache
def _zones() -> set[str]:
    # Looking through the time zones' files takes tens of milliseconds, and they stay as they are.
    return available_timezones() - _LOCAL_ZONES


def refuse(checks: Sequence[tuple[str, str | None]]) -> None:
    """Raise one ValidationFailed for every (pointer, fault) whose fault is not None."""
    code = ValidationFailed.code
    faults = [OrderError(code=code, message=fault, pointer=at) for at, fault in checks if fault is not None]
    if faults:
        detail = (
            faults[0].message if len(faults) == 1 else f"{len(faults)} values are not allowed: see errors."
        )
        raise ValidationFailed(detail, errors=faults)
