"""The weekly table: what people enter becomes a catalog's windows, and the windows what people would enter."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato.console.hours_form import (
    SPANS,
    WEEK,
    Span,
    copied,
    day_lines,
    field_of,
    read_hours,
    spans_in,
    texts_of,
    windows_of,
)
from mercato.features.stores.menu_hours import with_hours
from mercato_catalog.catalog import build
from mercato_catalog.model import DAY_SECONDS, DAYS
from mercato_contract.catalogs import AvailabilityWindow

MINUTES = DAY_SECONDS // 60


@st.composite
def weeks(draw: st.DrawFn) -> list[Span]:
    """Draw hours of a week: spans of minutes that don't touch each other, the last of a day until noon of the next."""
    spans: list[Span] = []
    free = 0  # of the day, in minutes: what the day before reaches into
    for day in range(len(DAYS)):
        count = draw(st.integers(0, SPANS))
        last = MINUTES - 2 if day == len(DAYS) - 1 else MINUTES + MINUTES // 2
        cuts = sorted(
            draw(st.sets(st.integers(free + 1, MINUTES - 2), min_size=2 * count, max_size=2 * count))
        )
        ends = list(zip(cuts[::2], cuts[1::2], strict=True))
        reaches: bool = draw(st.booleans())
        if ends and reaches:
            start = ends[-1][0]
            ends[-1] = (start, draw(st.integers(start + 1, min(last, start + MINUTES - 1))))
        spans += [Span(day, start * 60, end * 60) for start, end in ends]
        free = max([end - MINUTES for _, end in ends], default=0)
        free = max(free, 0)
    return spans


@given(weeks())
def test_a_table_of_hours_reads_as_it_was_written(spans: list[Span]):
    windows = windows_of(spans)
    texts = texts_of(windows)
    assert texts is not None
    again, faults = read_hours(texts)
    assert (faults == {}) is bool(spans)
    assert sorted(spans_in(again)) == sorted(spans_in(windows))
    assert sum(span.end - span.start for span in spans) == sum(
        span.end - span.start for span in spans_in(windows)
    )


@given(weeks())
def test_windows_lie_within_their_day_and_never_overlap(spans: list[Span]):
    found = []
    for window in windows_of(spans):
        start, end = (
            sum(int(part) * unit for part, unit in zip(text.split(":"), (3600, 60, 1), strict=True))
            for text in (window.start, window.end)
        )
        base = DAYS.index(window.day_of_week) * DAY_SECONDS
        found.append((base + start, base + (end or DAY_SECONDS)))
    found.sort()
    assert all(start < end for start, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))


def test_hours_past_midnight_are_one_span_of_the_day_on_which_they_begin():
    texts = {field_of(day, "closed"): "true" for day in WEEK if day != "Saturday"}
    texts |= {"saturday-from-0": "18", "saturday-to-0": "2:30"}
    windows, faults = read_hours(texts)
    assert faults == {}
    assert [(one.day_of_week, one.start, one.end) for one in windows] == [
        ("Saturday", "18:00:00", "00:00:00"),
        ("Sunday", "00:00:00", "02:30:00"),
    ]
    assert dict(day_lines(windows))["Saturday"] == "18:00\N{EN DASH}02:30"
    assert dict(day_lines(windows))["Sunday"] == "closed"


def test_a_whole_day_is_from_midnight_to_midnight():
    texts = {field_of(day, part, 0): "00:00" for day in WEEK for part in ("from", "to")}
    windows, faults = read_hours(texts)
    assert faults == {}
    assert set(dict(day_lines(windows)).values()) == {"all day"}
    assert texts_of(windows) == texts


@pytest.mark.parametrize(
    ("start", "end"), [("11:00:00", "21:59:59"), ("09:00:30", "00:00:00"), ("00:00:01", "12:00:01")]
)
def test_hours_that_are_not_of_whole_minutes_are_shown_and_sent_again_as_they_are(start: str, end: str):
    window = AvailabilityWindow(day_of_week="Monday", start=start, end=end)
    texts = texts_of((window,))
    assert texts is not None
    assert read_hours(texts) == ((window,), {})
    shown = f"{start.removesuffix(':00')}\N{EN DASH}{end.removesuffix(':00')}"
    assert dict(day_lines((window,)))["Monday"] == shown


def test_sundays_hours_may_not_reach_into_mondays():
    texts = {field_of(day, "closed"): "true" for day in WEEK[1:-1]}
    texts |= {
        "sunday-from-0": "20:00",
        "sunday-to-0": "03:00",
        "monday-from-0": "02:00",
        "monday-to-0": "09:00",
    }
    _, faults = read_hours(texts)
    assert faults == {"monday-from-0": "It begins before 20:00\N{EN DASH}03:00 of Sunday ends."}


def test_the_same_span_twice_is_one_fault():
    texts = {field_of(day, "closed"): "true" for day in WEEK[1:]}
    texts |= {
        f"monday-{part}-{number}": text for number in (0, 1) for part, text in (("from", "9"), ("to", "12"))
    }
    assert list(read_hours(texts)[1]) == ["monday-from-1"]


def test_copying_fills_only_days_without_hours_of_their_own():
    texts = {"tuesday-from-0": "9", "tuesday-to-0": "17", "friday-from-0": "8", "sunday-closed": "true"}
    made = copied(texts)
    assert made is not None
    assert made["monday-from-0"] == "9"
    assert made["friday-from-0"] == "8"
    assert "friday-to-0" not in made
    assert "sunday-from-0" not in made
    assert copied({"sunday-closed": "true"}) is None


ITEMS = {"a": {"itemId": "a", "name": "Tea", "basePrice": "2.50"}, "b": {"itemId": "b", "basePrice": 1.10}}
MONDAY = windows_of([Span(1, 9 * 3600, 17 * 3600)])


@pytest.mark.parametrize(
    "document",
    [
        {"items": ITEMS},
        {"items": ITEMS, "sections": {}, "catalogs": None},
        {
            "items": ITEMS,
            "sections": {
                "s": {"itemIds": ["a"], "sectionIds": ["t"]},
                "t": {"itemIds": ["b"], "sectionIds": None},
            },
        },
        {
            "items": ITEMS,
            "sections": {"s": {"itemIds": ["a", "b"]}},
            "catalogs": {"c": {"catalogId": "c", "sectionIds": ["s"], "availability": []}},
        },
    ],
)
def test_every_menu_is_available_in_the_hours_it_is_given_with_all_of_its_items(document: Any):
    made = with_hours(json.dumps(document).encode(), MONDAY)
    catalog = build(made)
    assert [hours.windows for hours in catalog.compiled.catalogs] == [
        ((DAY_SECONDS + 32400, DAY_SECONDS + 61200),)
    ]
    assert len(catalog.compiled.items) == len(ITEMS)
    served = json.loads(made)
    assert served["items"] == ITEMS
    assert b"1.1" in made
    sections = served["sections"]
    held = sections.values() if isinstance(sections, dict) else sections
    assert {item for section in held for item in section["itemIds"]} == set(ITEMS)
