"""Reads windows of availability into spans of the local week."""

import re
from typing import Any, Final

from mercato.features.catalogs.model import DAY_SECONDS, DAYS, Windows
from mercato.features.catalogs.validation.document import Source
from mercato.features.catalogs.validation.findings import Findings, Rule
from mercato.platform.wire.checks import json_type

__all__ = ["ALWAYS", "DAYS", "DAY_SECONDS", "read_windows"]

ALWAYS: Final[list[dict[str, str]]] = [
    {"dayOfWeek": day, "start": "00:00:00", "end": "00:00:00"} for day in DAYS
]
"""Served for a catalog that is always available, because storefronts read a missing list as closed."""

MAX_WINDOWS: Final = 10_000
"""Windows of all catalogs together: every read of the store and every order goes through them."""

_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)", re.ASCII)


def read_windows(source: Source, findings: Findings) -> list[Windows | None]:
    """Return each catalog's windows, None for always, which is served as seven whole days."""
    catalogs = source.catalogs
    if sum(map(len, catalogs.values("availability").values())) > MAX_WINDOWS:
        message = f"The catalogs have more than {MAX_WINDOWS:,} windows of availability together."
        findings.fault(Rule.TOO_MANY_WINDOWS, message, "/catalogs")
        return []
    read: list[Windows | None] = []
    for key, row in catalogs.entries():
        if row.availability is None:
            catalogs.change(key, "availability", ALWAYS)
            read.append(None)
            continue
        at = f"{catalogs.pointer(key)}/availability"
        spans = [_span(window, f"{at}/{index}", findings) for index, window in enumerate(row.availability)]
        read.append(tuple(sorted(span for span in spans if span is not None)))
    return read


def _span(window: Any, at: str, findings: Findings) -> tuple[int, int] | None:
    if not isinstance(window, dict):
        findings.fault(Rule.WRONG_TYPE, f"A window must be an object, not {json_type(window)}.", at)
        return None
    day = window.get("dayOfWeek")
    if day not in DAYS:
        findings.fault(Rule.UNKNOWN_DAY, f"dayOfWeek must be one of {', '.join(DAYS)}.", f"{at}/dayOfWeek")
    start, end = (_second(window.get(name), name, at, findings) for name in ("start", "end"))
    if start is None or end is None or day not in DAYS:
        return None
    # An end of 00:00:00 is the end of the day.
    end = end or DAY_SECONDS
    if start >= end:
        findings.fault(
            Rule.WINDOW_INVERTED,
            "The window ends before it begins. Write one across midnight as two.",
            at,
        )
        return None
    base = DAYS.index(day) * DAY_SECONDS
    return base + start, base + end


def _second(value: Any, name: str, at: str, findings: Findings) -> int | None:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        shown = "" if isinstance(value, str) else f", not {json_type(value)}"
        findings.fault(Rule.INVALID_TIME, f"{name} must be a time like 18:30:00{shown}.", f"{at}/{name}")
        return None
    hours, minutes, seconds = map(int, match.groups())
    return hours * 3600 + minutes * 60 + seconds
