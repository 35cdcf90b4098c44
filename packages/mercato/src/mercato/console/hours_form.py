"""Opening hours as a weekly table: up to three spans a day, also past midnight, and the windows of a catalog.

A catalog has windows that lie within a day, and the end of the last is written `00:00:00`. People say "Friday, 18:00 to
02:00": one span of Friday, which is two windows.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from mercato.console.store_forms import Texts
from mercato_catalog.model import DAY_SECONDS, DAYS
from mercato_contract.catalogs import AvailabilityWindow

SPANS: Final = 3
"""Spans of a day."""

WEEK: Final = (*DAYS[1:], DAYS[0])
"""The days from Monday on, as the table has them."""

_WEEK_SECONDS: Final = len(DAYS) * DAY_SECONDS
_TIME: Final = re.compile(r"([0-9]{1,2})(?::([0-9]{2})(?::([0-9]{2}))?)?")
_MINUTE: Final = 60
_HOUR: Final = 3600

NO_TIME: Final = "Enter a time like 9:30 or 18:00."


class Span(Struct, frozen=True, order=True):
    """A span of the week, in seconds from its day's midnight: an end beyond the day is on the next one."""

    day: int
    start: int
    end: int

    @property
    def words(self) -> str:
        """Return it as the table shows it."""
        if self.start == 0 and self.end == DAY_SECONDS:
            return "all day"
        return f"{_clock(self.start)}\N{EN DASH}{_clock(self.end)}"


def field_of(day: str, part: str, number: int | None = None) -> str:
    """Return the name of a field: whether a day is closed, or the `from` or `to` of one of its spans."""
    return f"{day.lower()}-{part}" if number is None else f"{day.lower()}-{part}-{number}"


def read_hours(texts: Texts) -> tuple[tuple[AvailabilityWindow, ...], dict[str, str]]:
    """Return the windows of the table, and what is wrong beside which field. Every day has spans or is closed."""
    faults: dict[str, str] = {}
    spans: list[tuple[str, Span]] = []
    for day in WEEK:
        found = list(_spans(day, texts, faults))
        is_missing = not found and field_of(day, "closed") not in texts
        if is_missing and not any(name.startswith(day.lower()) for name in faults):
            faults[field_of(day, "from", 0)] = f"Enter when {day} begins and ends, or tick Closed."
        spans += found
    faults |= _overlaps(spans)
    if not spans and not faults:
        faults[field_of(WEEK[0], "from", 0)] = "Every day is closed. Enter the hours of one day at least."
    return windows_of([span for _, span in spans]), faults


def _spans(day: str, texts: Texts, faults: dict[str, str]) -> Iterator[tuple[str, Span]]:
    if field_of(day, "closed") in texts:
        return
    for number in range(SPANS):
        begin, finish = field_of(day, "from", number), field_of(day, "to", number)
        if begin not in texts and finish not in texts:
            continue
        start, end = _seconds(texts.get(begin, "")), _seconds(texts.get(finish, ""))
        if start is None or start == DAY_SECONDS:
            faults[begin] = NO_TIME
        if end is None:
            faults[finish] = NO_TIME
        if begin in faults or start is None or end is None:
            continue
        if start == end and start != 0:
            faults[finish] = "It begins and ends at the same time. For the whole day, enter 0:00 and 0:00."
            continue
        yield begin, Span(DAYS.index(day), start, end if end > start else end + DAY_SECONDS)


def _overlaps(spans: Sequence[tuple[str, Span]]) -> dict[str, str]:
    """Return the faults of spans that begin before another one ends, which may be one of the day before."""
    faults: dict[str, str] = {}
    for name, span in spans:
        at = span.day * DAY_SECONDS + span.start
        for other_name, other in spans:
            begins = other.day * DAY_SECONDS + other.start
            ahead = (at - begins) % _WEEK_SECONDS
            if (
                name != other_name
                and ahead < other.end - other.start
                and (ahead, name) != (0, min(name, other_name))
            ):
                faults[name] = f"It begins before {other.words} of {DAYS[other.day]} ends."
    return faults


def windows_of(spans: Sequence[Span]) -> tuple[AvailabilityWindow, ...]:
    """Return the windows of spans: one past midnight is two."""
    found: list[AvailabilityWindow] = []
    for span in spans:
        found.append(_window(span.day, span.start, min(span.end, DAY_SECONDS)))
        if span.end > DAY_SECONDS:
            found.append(_window((span.day + 1) % len(DAYS), 0, span.end - DAY_SECONDS))
    return tuple(found)


def _window(day: int, start: int, end: int) -> AvailabilityWindow:
    return AvailabilityWindow(
        day_of_week=DAYS[day], start=_with_seconds(start), end=_with_seconds(end % DAY_SECONDS)
    )


def spans_in(windows: Sequence[AvailabilityWindow]) -> list[Span]:
    """Return the spans that people say: what ends at midnight goes on with what begins then, if that ends by noon."""
    found = sorted(
        Span(DAYS.index(one.day_of_week), _seconds(one.start) or 0, _seconds(one.end) or DAY_SECONDS)
        for one in windows
    )
    early = {span.day: span for span in found if span.start == 0 and span.end <= DAY_SECONDS // 2}
    late = {span.day: span for span in found if span.end == DAY_SECONDS and span.start > 0}
    following = {day: early.get((day + 1) % len(DAYS)) for day in late}
    # From one time of a day to a later one of the next is more than the table can say.
    joined = {day: span for day, span in following.items() if span is not None and span.end < late[day].start}
    dropped = {(span.day, span.start, span.end) for span in joined.values()}
    return [
        Span(span.day, span.start, DAY_SECONDS + joined[span.day].end)
        if span.end == DAY_SECONDS and span.start > 0 and span.day in joined
        else span
        for span in found
        if (span.day, span.start, span.end) not in dropped
    ]


def texts_of(windows: Sequence[AvailabilityWindow]) -> dict[str, str] | None:
    """Return the table's texts of windows; None if a day has more spans than the table."""
    texts: dict[str, str] = {}
    spans = spans_in(windows)
    for number, day in enumerate(DAYS):
        own = [span for span in spans if span.day == number]
        if len(own) > SPANS:
            return None
        if not own:
            texts[field_of(day, "closed")] = "true"
        for place, span in enumerate(own):
            texts[field_of(day, "from", place)] = _clock(span.start)
            texts[field_of(day, "to", place)] = _clock(span.end)
    return texts


def copied(texts: Texts) -> dict[str, str] | None:
    """Return the texts with the first day's hours on every day that has none and is open; None if no day has."""
    filled = [day for day in WEEK if any(name.startswith(f"{day.lower()}-") for name in texts)]
    source = next((day for day in filled if field_of(day, "closed") not in texts), None)
    if source is None:
        return None
    made = dict(texts)
    for day in WEEK:
        if day in filled:
            continue
        made |= {
            day.lower() + name.removeprefix(source.lower()): text
            for name, text in texts.items()
            if name.startswith(f"{source.lower()}-")
        }
    return made


def day_lines(windows: Sequence[AvailabilityWindow]) -> list[tuple[str, str]]:
    """Return each day from Monday on with its spans in words."""
    spans = spans_in(windows)
    by_day = {
        day: ", ".join(span.words for span in spans if span.day == DAYS.index(day)) or "closed"
        for day in WEEK
    }
    return list(by_day.items())


def _seconds(text: str) -> int | None:
    """Return the seconds from midnight of a time of the day, with `24:00` for its end; None for another text."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    found = hours * _HOUR + minutes * _MINUTE + seconds
    return found if found <= DAY_SECONDS and minutes < _MINUTE and seconds < _MINUTE else None


def _clock(second: int) -> str:
    """Return a second as a time of the day, its seconds if it has some; the day's end is 00:00 as browsers have it."""
    return _with_seconds(second % DAY_SECONDS).removesuffix(":00")


def _with_seconds(second: int) -> str:
    return f"{second // _HOUR:02}:{second % _HOUR // _MINUTE:02}:{second % _MINUTE:02}"
