"""What importers share: the base of source types, the losses of a conversion, and texts and opening hours."""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mercato.features.catalogs.model import DAY_SECONDS, DAYS
from mercato.features.catalogs.validation.findings import clean
from mercato_contract.wire import Wire, WireMeta

MAX_LISTED: Final = 10_000
"""Losses that are listed; all are counted."""


class Shape(msgspec.Struct, metaclass=WireMeta, frozen=True, kw_only=True):
    """The base of a source format's structs: members as they are written there, all optional but ids."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the document doesn't say. `currency` overrides the document's, `default_currency` applies without one."""

    default_currency: str
    now: datetime
    currency: str | None = None
    language: str | None = None


class Kind(StrEnum):
    """`dropped`: it isn't in the result; `approximated`: it is, in the nearest form there is."""

    DROPPED = "dropped"
    APPROXIMATED = "approximated"


class Loss(Wire):
    """One thing that the result doesn't say as the source did."""

    path: Annotated[str, Meta(description="RFC 6901 pointer into the source.")]
    kind: Kind
    message: str


class Losses:
    """Collects losses, in the order found. Similar losses have the same message, so that they can be grouped."""

    def __init__(self) -> None:
        self.listed: list[Loss] = []
        self.count = 0

    def dropped(self, path: str, message: str) -> None:
        """Record what isn't in the result."""
        self._add(path, Kind.DROPPED, message)

    def approximated(self, path: str, message: str) -> None:
        """Record what the result says in another way."""
        self._add(path, Kind.APPROXIMATED, message)

    def _add(self, path: str, kind: Kind, message: str) -> None:
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(Loss(path=clean(path), kind=kind, message=clean(message)))


def translate(texts: dict[str, str], at: str, options: ImportOptions, losses: Losses) -> str | None:
    """Return the text in the language of the options, or the first one; the others are losses."""
    if not texts:
        return None
    wanted = (options.language or "").replace("-", "_").lower()
    chosen = next(
        (name for name in texts if wanted and name.replace("-", "_").lower().startswith(wanted)),
        next(iter(texts)),
    )
    for name in texts:
        if name != chosen:
            losses.dropped(f"{at}/{name}", ONE_LANGUAGE)
    return texts[chosen] or None


ONE_LANGUAGE: Final = "Texts are kept in one language, which you can choose."


# --- opening hours --------------------------------------------------------------------------------

Window = dict[str, str]

_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?", re.ASCII)
_LAST_MINUTE: Final = DAY_SECONDS - 60


def windows(day: int, start: str, end: str, at: str, losses: Losses) -> Sequence[Window]:
    """Return the windows of a span that begins on a day (0 is Sunday): HH:MM or HH:MM:SS, also across midnight.

    Unreadable times are a loss.
    """
    first, last = _second(start), _second(end)
    if first is None or last is None or first == DAY_SECONDS:
        losses.dropped(at, "The hours aren't written as HH:MM.")
        return ()
    if _LAST_MINUTE <= last < DAY_SECONDS:
        losses.approximated(at, "An end in the last minute of a day is read as the end of the day.")
        last = DAY_SECONDS
    if first < (last or DAY_SECONDS):
        return (_window(day, first, last or DAY_SECONDS),)
    return _window(day, first, DAY_SECONDS), _window((day + 1) % len(DAYS), 0, last)


def _window(day: int, start: int, end: int) -> Window:
    return {"dayOfWeek": DAYS[day], "start": _text(start), "end": _text(end % DAY_SECONDS)}


def _text(second: int) -> str:
    return f"{second // 3600:02}:{second % 3600 // 60:02}:{second % 60:02}"


def _second(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    found = hours * 3600 + minutes * 60 + seconds
    return found if minutes < 60 and seconds < 60 and found <= DAY_SECONDS else None  # noqa: PLR2004  # of a clock
