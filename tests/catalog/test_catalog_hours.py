"""Windows of availability: local days and times; absent is always, an empty list never."""

from datetime import datetime
from typing import Any

import pytest
from tests.catalog.documents import CATALOG, cafe, compiled, faults, outcome, served

from mercato_catalog.model import DAYS, second_of_week
from mercato_catalog.validation.findings import Rule

MONDAY = {"dayOfWeek": "Monday", "start": "09:00:00", "end": "17:30:00"}
WEEK = [{"dayOfWeek": day, "start": "00:00:00", "end": "00:00:00"} for day in DAYS]


def with_windows(*windows: Any) -> dict[str, Any]:
    document = cafe()
    document["catalogs"][CATALOG]["availability"] = list(windows)
    return document


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("change", "place", "answer"),
    [
        ({"dayOfWeek": "Mon"}, "/dayOfWeek", "dayOfWeek must be one of Sunday, Monday"),
        ({"dayOfWeek": "monday"}, "/dayOfWeek", "dayOfWeek must be one of"),
        ({"dayOfWeek": 1}, "/dayOfWeek", "dayOfWeek must be one of"),
        ({"dayOfWeek": ["Monday"]}, "/dayOfWeek", "dayOfWeek must be one of"),
        ({"dayOfWeek": None}, "/dayOfWeek", "dayOfWeek must be one of"),
        ({"start": "9:00:00"}, "/start", "start must be a time like 18:30:00."),
        ({"start": "09:00"}, "/start", "start must be a time like 18:30:00."),
        ({"start": "24:00:00"}, "/start", "start must be a time"),
        ({"start": "09:60:00"}, "/start", "start must be a time"),
        ({"end": "17:00:60"}, "/end", "end must be a time"),
        ({"end": "17:00:00Z"}, "/end", "end must be a time"),
        ({"end": "١٧:00:00"}, "/end", "end must be a time"),  # noqa: RUF001  # Arabic digits on purpose
        ({"end": 1700}, "/end", "end must be a time like 18:30:00, not a number."),
        ({"end": None}, "/end", "end must be a time like 18:30:00, not null."),
        ({"start": "17:30:00"}, "", "The window ends before it begins."),
        ({"start": "22:00:00", "end": "02:00:00"}, "", "Write one across midnight as two."),
        ({"start": "00:00:01", "end": "00:00:01"}, "", "The window ends before it begins."),
    ],
)
def test_a_value_that_is_not_a_window_is_a_fault(change: dict[str, Any], place: str, answer: str):
    [(path, message)] = faults(with_windows(MONDAY, MONDAY | change)).items()
    assert path == f"/catalogs/{CATALOG}/availability/1{place}"
    assert answer in message


def test_every_fault_of_a_window_is_listed():
    base = f"/catalogs/{CATALOG}/availability/0"
    found = faults(with_windows({}))
    assert list(found) == [f"{base}/dayOfWeek", f"{base}/start", f"{base}/end"]
    assert found[f"{base}/start"] == "start is missing: a time like 18:30:00."


@pytest.mark.parametrize("window", ["Monday", None, 5, []])
def test_a_window_must_be_an_object(window: Any):
    assert list(faults(with_windows(window))) == [f"/catalogs/{CATALOG}/availability/0"]


def test_a_window_includes_its_start_but_not_its_end():
    catalog = compiled(with_windows(MONDAY))
    assert not catalog.is_open(at("2026-01-05 08:59:59"))
    assert catalog.is_open(at("2026-01-05 09:00:00"))
    assert catalog.is_open(at("2026-01-05 17:29:59.999"))
    assert not catalog.is_open(at("2026-01-05 17:30:00"))
    assert not catalog.is_open(at("2026-01-06 12:00:00"))


def test_an_end_of_midnight_is_the_end_of_that_day():
    late = {"dayOfWeek": "Saturday", "start": "18:00:00", "end": "00:00:00"}
    catalog = compiled(with_windows(late, {"dayOfWeek": "Sunday", "start": "00:00:00", "end": "02:00:00"}))
    assert catalog.is_open(at("2026-01-10 23:59:59"))
    assert catalog.is_open(at("2026-01-11 00:00:00"))
    assert not catalog.is_open(at("2026-01-11 02:00:00"))
    assert not catalog.is_open(at("2026-01-12 00:00:00"))


def test_a_day_from_midnight_to_midnight_is_the_whole_day():
    catalog = compiled(with_windows({"dayOfWeek": "Sunday", "start": "00:00:00", "end": "00:00:00"}))
    assert catalog.is_open(at("2026-01-04 00:00:00"))
    assert catalog.is_open(at("2026-01-04 23:59:59"))
    assert not catalog.is_open(at("2026-01-05 00:00:00"))


@pytest.mark.parametrize("availability", [{}, {"availability": None}])
def test_absent_or_null_is_always_and_served_as_seven_whole_days(availability: dict[str, None]):
    document = cafe()
    document["catalogs"][CATALOG] |= availability
    assert compiled(document).catalogs[0].windows is None
    assert compiled(document).is_open(at("2026-01-07 03:04:05"))
    assert served(document)["catalogs"][CATALOG]["availability"] == WEEK


def test_an_empty_list_is_never_and_served_as_it_is():
    document = with_windows()
    assert compiled(document).catalogs[0].windows == ()
    assert not compiled(document).is_open(at("2026-01-07 12:00:00"))
    assert served(document)["catalogs"][CATALOG]["availability"] == []


def test_windows_are_served_as_they_were_written_unknown_members_too():
    windows = [MONDAY | {"note": "not on holidays"}, MONDAY | {"dayOfWeek": "Sunday"}]
    assert served(with_windows(*windows))["catalogs"][CATALOG]["availability"] == windows


def test_a_set_without_catalogs_is_always_open():
    document = cafe()
    del document["catalogs"]
    assert compiled(document).is_open(at("2026-01-07 03:00:00"))


def test_the_week_begins_on_sunday():
    assert second_of_week(at("2026-01-04 00:00:00")) == 0
    assert second_of_week(at("2026-01-10 23:59:59")) == 7 * 86_400 - 1


def early(*windows: Any) -> list[tuple[str, str]]:
    made = outcome(with_windows(*windows))
    return [(one.path, one.message) for one in made.warnings if one.rule == Rule.WINDOW_ENDS_EARLY.id]


@pytest.mark.parametrize(
    ("end", "left"), [("23:59:59", "a second"), ("23:59:00", "60 seconds"), ("23:59:30", "30 seconds")]
)
def test_a_window_that_ends_just_before_midnight_is_warned_of(end: str, left: str):
    [(path, message)] = early(MONDAY, MONDAY | {"dayOfWeek": "Sunday", "end": end})
    assert path == f"/catalogs/{CATALOG}/availability/1/end"
    assert f"ends {left} before midnight" in message
    assert message.endswith("The end of the day is 00:00:00.")


def test_one_warning_counts_all_such_windows_of_a_catalog():
    week = [{"dayOfWeek": day, "start": "00:00:00", "end": "23:59:59"} for day in DAYS]
    [(_, message)] = early(*week)
    assert message.endswith("7 of its windows end so.")


@pytest.mark.parametrize("end", ["00:00:00", "23:58:59", "23:00:00"])
def test_other_ends_are_not(end: str):
    assert early(MONDAY | {"end": end}) == []


@pytest.mark.parametrize("end", ["24:00", "24:00:00", "23:59:59.999", "23:59"])
def test_another_way_to_write_midnight_is_a_fault_that_shows_it(end: str):
    [message] = faults(with_windows(MONDAY | {"end": end})).values()
    assert message == "end must be a time like 18:30:00. The end of the day is 00:00:00."
