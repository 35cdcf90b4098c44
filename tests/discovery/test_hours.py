"""When a store opens or closes next, in its time zone's rules."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generated import examples

from mercato_catalog.hours import HoursChange, edges_of, next_change
from mercato_catalog.model import second_of_week
from mercato_catalog.words import WEEK, merge_windows
from mercato_contract.clock import zone

HOUR, DAY = 3600, 86_400
MINUTE = timedelta(minutes=1)
SUNDAY_NIGHT = ((2 * HOUR + 15 * 60, 2 * HOUR + 45 * 60),)
"""Sunday 02:15 to 02:45."""

ZONES = (
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Kolkata",
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def change(now: str, timezone: str, spans: Any, *, resume: str | None = "now") -> HoursChange:
    since = at(now) if resume == "now" else None if resume is None else at(resume)
    return next_change(at(now), zone(timezone), edges_of(spans), since=since)


def is_open(instant: datetime, timezone: str, spans: Any) -> bool:
    second = second_of_week(instant.astimezone(zone(timezone)))
    return any(start <= second < end for start, end in spans)


@settings(max_examples=examples(300), deadline=None, database=None)
@given(
    st.sampled_from(ZONES),
    # Every clock change of 2026 and the skipped day of Apia, the 30th of December 2011, are among them.
    st.sampled_from(["2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04", "2026-02-15", "2011-12-29"]),
    st.integers(-2 * 1440, 1440),
    st.lists(st.tuples(st.integers(0, 7 * 96 - 1), st.integers(1, 96)), max_size=4),
    st.integers(0, 3 * 1440),
)
def test_the_next_change_is_the_first_minute_at_which_a_store_takes_orders_or_stops(
    timezone: str, day: str, minutes: int, windows: list[tuple[int, int]], pause: int
):
    spans = merge_windows((900 * start, min(900 * (start + length), 7 * DAY)) for start, length in windows)
    now = at(f"{day}T00:00:00Z") + minutes * MINUTE
    since = now + pause * MINUTE
    known = next_change(now, zone(timezone), edges_of(spans), since=since)
    open_now = pause == 0 and is_open(now, timezone, spans)
    changed = None
    # Windows begin and end at quarters of an hour, and so do the changes of clocks.
    minutes_to_quarter = -minutes % 15
    for minute in (pause, *(one for one in range(minutes_to_quarter, 15 * 1440, 15) if one > pause)):
        instant = now + minute * MINUTE
        if is_open(instant, timezone, spans) != open_now:
            changed = instant
            break
    expected = HoursChange(None, changed) if open_now else HoursChange(changed, None)
    assert known == expected


@pytest.mark.parametrize(
    ("now", "timezone", "spans", "expected"),
    [
        ("2026-01-05T12:00:00Z", "UTC", WEEK, HoursChange(None, None)),
        ("2026-01-05T12:00:00Z", "UTC", (), HoursChange(None, None)),
        # Hours across the end of the week are one window.
        (
            "2026-01-03T23:00:00Z",
            "UTC",
            ((0, HOUR), (6 * DAY, 7 * DAY)),
            HoursChange(None, at("2026-01-04T01:00:00Z")),
        ),
        ("2026-01-05T12:00:00Z", "UTC", ((0, 6 * DAY),), HoursChange(None, at("2026-01-10T00:00:00Z"))),
        ("2026-01-10T12:00:00.5Z", "UTC", ((0, 6 * DAY),), HoursChange(at("2026-01-11T00:00:00Z"), None)),
        # New York skips 02:00 to 03:00 on 2026-03-08, and repeats 01:00 to 02:00 on 2026-11-01.
        (
            "2026-03-07T12:00:00Z",
            "America/New_York",
            SUNDAY_NIGHT,
            HoursChange(at("2026-03-15T06:15:00Z"), None),
        ),
        (
            "2026-11-01T05:50:00Z",
            "America/New_York",
            ((HOUR, HOUR + 1800),),
            HoursChange(at("2026-11-01T06:00:00Z"), None),
        ),
        (
            "2026-11-01T05:10:00Z",
            "America/New_York",
            ((0, 2 * HOUR),),
            HoursChange(None, at("2026-11-01T07:00:00Z")),
        ),
    ],
)
def test_hours_that_never_change_wrap_or_meet_a_change_of_the_clock(
    now: str, timezone: str, spans: Any, expected: HoursChange
):
    assert change(now, timezone, spans) == expected


@pytest.mark.parametrize(
    ("resume", "opens_at"),
    [
        (None, None),
        ("2026-01-05T12:30:00.250Z", "2026-01-05T12:30:00.250Z"),
        ("2026-01-05T14:00:00Z", "2026-01-06T12:00:00Z"),
        # No instant after it has a local time in every time zone.
        ("9999-12-31T23:59:59Z", None),
    ],
)
def test_a_paused_store_opens_when_its_pause_has_ended_within_its_hours(
    resume: str | None, opens_at: str | None
):
    noon = tuple((day * DAY + 12 * HOUR, day * DAY + 13 * HOUR) for day in range(7))
    expected = HoursChange(None if opens_at is None else at(opens_at), None)
    assert change("2026-01-05T12:10:00Z", "UTC", noon, resume=resume) == expected


def test_the_end_of_a_window_is_a_whole_second():
    spans = ((DAY + 12 * HOUR, DAY + 13 * HOUR),)
    closes_at = change("2026-01-05T12:59:59.999Z", "UTC", spans).closes_at
    assert closes_at == datetime(2026, 1, 5, 13, tzinfo=UTC)
