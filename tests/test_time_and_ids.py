"""Instants as they are sent, and ids: version 7 of RFC 9562."""

import time
import uuid
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from operator import and_, or_

from hypothesis import example, given
from hypothesis import strategies as st

from mercato_contract.clock import new_id, new_id_text
from mercato_contract.wire import rfc3339

ZONES = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FIRST, LAST = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
"""So that the UTC of each instant has a year, too."""

INSTANTS = st.datetimes(
    FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None), timezones=st.one_of(st.just(UTC), ZONES)
)


@given(INSTANTS)
@example(datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC))
@example(datetime(2026, 1, 31, 23, 59, 59, 999, tzinfo=UTC))
@example(datetime(2026, 1, 31, 23, 59, 59, 120_000, tzinfo=UTC))
def test_an_instant_is_sent_in_utc_with_its_milliseconds(instant: datetime):
    utc = instant.astimezone(UTC).replace(tzinfo=None)
    assert rfc3339(instant) == f"{utc.isoformat(timespec='milliseconds')}Z"


def test_an_id_has_its_milliseconds_its_version_and_74_random_bits():
    before = time.time() * 1000
    made = [new_id() for _ in range(1000)] + [uuid.UUID(new_id_text()) for _ in range(1000)]
    after = time.time() * 1000
    assert len(set(made)) == len(made)
    for one in made:
        assert (one.version, one.variant) == (7, uuid.RFC_4122)
        assert int(before) <= one.int >> 80 <= after
    numbers = [one.int & ((1 << 80) - 1) for one in made]
    always, ever = reduce(and_, numbers), reduce(or_, numbers)
    assert always == 0x7 << 76 | 0b10 << 62
    assert ever == (1 << 80) - 1 - (0x8 << 76) - (0b01 << 62)
