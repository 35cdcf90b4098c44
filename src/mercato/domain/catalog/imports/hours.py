"""Opening hours of other formats as windows: HH:MM or HH:MM:SS, across midnight, until the last minute of a day."""

import re
from typing import Final

from mercato.domain.catalog.imports.losses import Losses
from mercato.domain.catalog.model import DAYS

Window = dict[str, str]

_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?", re.ASCII)
_DAY: Final = 86_400
_LAST_MINUTE: Final = 86_340


def windows(day: int, start: str, end: str, at: str, losses: Losses) -> list[Window]:
    """Return the windows of a span that begins on a day (0 is Sunday); none, and a loss, for what is no time."""
    first, last = _second(start), _second(end)
    if first is None or last is None or first == _DAY:
        losses.dropped(at, "These hours cannot be read as HH:MM.")
        return []
    if _LAST_MINUTE <= last < _DAY:
        losses.approximated(at, "An end in the last minute of a day is taken for the end of the day.")
        last = _DAY
    if first < (last or _DAY):
        return [_window(day, first, last or _DAY)]
    return [_window(day, first, _DAY), _window((day + 1) % len(DAYS), 0, last)]


def _window(day: int, start: int, end: int) -> Window:
    return {"dayOfWeek": DAYS[day], "start": _text(start), "end": _text(end % _DAY)}


def _text(second: int) -> str:
    return f"{second // 3600:02}:{second % 3600 // 60:02}:{second % 60:02}"


def _second(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    found = hours * 3600 + minutes * 60 + seconds
    return found if minutes < 60 and seconds < 60 and found <= _DAY else None  # noqa: PLR2004  # of a clock
