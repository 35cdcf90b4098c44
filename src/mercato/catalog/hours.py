"""Windows of availability: checked as written, compiled to spans of the local week."""

import re
from typing import Any, Final

from mercato.catalog.findings import Findings
from mercato.catalog.model import Windows
from mercato.catalog.source import Source, Window

DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
DAY_SECONDS: Final = 86_400

ALWAYS: Final[list[dict[str, Any]]] = [
    {"dayOfWeek": day, "start": "00:00:00", "end": "00:00:00"} for day in DAYS
]
"""What is served for a catalog that is always available: storefronts read a missing list as closed."""

_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)", re.ASCII)


def read_windows(source: Source, findings: Findings) -> dict[str, Windows | None]:
    """Return each catalog's windows, None for always; put seven whole days into the members of those."""
    read: dict[str, Windows | None] = {}
    for key, catalog in source.catalogs.entities.items():
        if catalog.availability is None:
            read[key] = None
            source.catalogs.members[key]["availability"] = ALWAYS
            continue
        at = f"{source.catalogs.pointer(key)}/availability"
        spans = [_span(window, f"{at}/{i}", findings) for i, window in enumerate(catalog.availability)]
        read[key] = tuple(sorted(span for span in spans if span is not None))
    return read


def _span(window: Window, at: str, findings: Findings) -> tuple[int, int] | None:
    before = findings.fault_count
    if findings.noted(at):
        return None
    if window.day_of_week not in DAYS and not findings.noted(f"{at}/dayOfWeek"):
        findings.fault(f"dayOfWeek must be one of {', '.join(DAYS)}.", f"{at}/dayOfWeek")
    start, end = _second(window.start, "start", at, findings), _second(window.end, "end", at, findings)
    if findings.fault_count > before or start is None or end is None or window.day_of_week is None:
        return None
    # 00:00:00 at the end of a window is the end of its day.
    end = end or DAY_SECONDS
    if start >= end:
        findings.fault(
            f"The window begins at {window.start} and ends at {window.end}. One across midnight is two entries.",
            at,
        )
        return None
    base = DAYS.index(window.day_of_week) * DAY_SECONDS
    return base + start, base + end


def _second(text: str | None, name: str, at: str, findings: Findings) -> int | None:
    match = _TIME.fullmatch(text or "")
    if match is None:
        if not findings.noted(f"{at}/{name}"):
            findings.fault(f"{name} must be a time like 18:30:00.", f"{at}/{name}")
        return None
    hours, minutes, seconds = map(int, match.groups())
    return hours * 3600 + minutes * 60 + seconds
