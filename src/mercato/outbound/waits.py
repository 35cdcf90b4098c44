"""`Retry-After`, as seconds from now."""

from datetime import UTC
from email.utils import parsedate_to_datetime

from mercato.clock import Clock

LONGEST = 7 * 24 * 3600.0  # seconds; who asks for more is not believed


def retry_after(value: str | None, clock: Clock) -> float | None:
    """Return the seconds that a `Retry-After` asks for, a number or a date; None if it is unreadable."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST)
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a year of twenty digits
        return None
    if instant.tzinfo is None:  # "-0000": UTC, with nothing known about the sender
        instant = instant.replace(tzinfo=UTC)
    return min(max((instant - clock()).total_seconds(), 0.0), LONGEST)
