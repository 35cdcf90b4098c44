import datetime as dt

import pytest

from mercato_contract.wire import MAX_RETRY_AFTER, parse_retry_after

NOON = dt.datetime(2026, 1, 31, 12, 0, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("\u0665", None),
        ("0", 0.0),
        (" 120 ", 120.0),
        ("9" * 5000, MAX_RETRY_AFTER),
        ("Sat, 31 Jan 2026 12:00:30 GMT", 30.0),
        ("Sat, 31 Jan 2026 12:00:30 -0000", 30.0),
        ("Sat, 31 Jan 2026 11:00:00 GMT", 0.0),
        ("Sat, 31 Jan 2099 12:00:00 GMT", MAX_RETRY_AFTER),
        ("Sat, 32 Jan 2026 12:00:00 GMT", None),
        ("Sat, 31 Jan 99999999999999999999 12:00:00 GMT", None),
        ("Sat, 31 Jan 2026 99999999999999:00:00 GMT", None),
        ("Sat, 31 Jan 99999 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOON) == seconds
