"""Checks that types can't express: each returns what is wrong, or None."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit
from zoneinfo import available_timezones

from mercato.kernel.errors import OrderError, ValidationFailed

_HTTP_URI: Final = re.compile(r"https?://[^\s/?#\\]+[^\s\\]*", re.IGNORECASE)
_HOST_PORT: Final = re.compile(r"(?:\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")
_LOCAL_ZONES: Final = {"localtime", "posixrules", "Factory"}
"""Files among the time zones that aren't zones: their meaning depends on the machine."""

_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


class Objection(NamedTuple):
    """What is wrong with a value. `below`: a pointer within it. `form`: it counts as malformed (400)."""

    message: str
    form: bool = False
    below: str = ""


Rule = Callable[[Any], str | Objection | None]
"""Returns what is wrong with a value of the right JSON type, or None. Nothing else about it has been checked."""


def validator(rule: Rule) -> dict[str, Any]:
    """Return the `extra` of a type whose values have a rule that a type can't express.

    Only the walk that lists all faults of a refused request applies it. The fast path doesn't: a caller checks a value
    that was decoded without a fault.
    """
    return {"rule": rule}


def uri_fault(text: str, name: str) -> str | None:
    """Return what is wrong with the text of an absolute http(s) URI, or None."""
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
    if not _has_usable_port(parts):
        return f"{name} has a port that does not exist. Use a port from 1 to 65535, or none."
    return None


def _has_usable_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:  # above 65535
        return False


def timezone_fault(text: str) -> str | None:
    """Return what is wrong with an IANA time zone name, or None."""
    if text in _zones():
        return None
    return f"timezone must be an IANA time zone name, like Europe/Berlin; {text[:64]!r} isn't one."


@cache
def _zones() -> set[str]:
    # Cached: listing the files of the time zones takes tens of milliseconds.
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
