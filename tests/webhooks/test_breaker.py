"""At least 10 calls and half of them failed within 60 s; one trial call after 10 s."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato.features.webhooks.calls import OPEN_SECONDS, TRIAL_SECONDS, WINDOW, Breaker


def call(breaker: Breaker, now: float, *, failed: bool) -> bool:
    """Make one call; return whether it was let through."""
    permit = breaker.admit(now)
    if permit is None:
        return False
    breaker.record(permit, now, failed=failed)
    return True


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(10):
        assert call(breaker, at, failed=True)
    assert breaker.is_open
    return breaker


def test_the_tenth_failure_in_a_row_opens_the_breaker() -> None:
    breaker = Breaker()
    for _ in range(9):
        call(breaker, 0.0, failed=True)
    assert not breaker.is_open
    call(breaker, 0.0, failed=True)
    assert breaker.is_open


@pytest.mark.parametrize(("failures", "is_open"), [(4, False), (5, True)])
def test_the_breaker_opens_if_half_of_ten_calls_failed(failures: int, is_open: bool) -> None:
    breaker = Breaker()
    for number in range(10):
        call(breaker, 0.0, failed=number < failures)
    assert breaker.is_open == is_open


def test_calls_of_more_than_60_seconds_ago_do_not_count() -> None:
    breaker = Breaker()
    for _ in range(9):
        call(breaker, 0.0, failed=True)
    call(breaker, 60.0, failed=True)
    assert not breaker.is_open


def test_calls_of_the_last_59_seconds_count() -> None:
    breaker = Breaker()
    for second in range(10):
        call(breaker, second * 6.5, failed=True)
    assert breaker.is_open


def test_an_open_breaker_admits_no_call_for_10_seconds_and_says_for_how_long() -> None:
    breaker = opened()
    assert breaker.wait(4.0) == 6.0
    assert breaker.admit(OPEN_SECONDS - 0.001) is None


def test_after_10_seconds_one_trial_call_is_admitted() -> None:
    breaker = opened()
    assert breaker.wait(10.0) == 0.0
    assert breaker.admit(10.0) is not None
    assert breaker.admit(10.0) is None
    assert breaker.wait(10.0) > 0


def test_a_trial_that_succeeds_closes_and_resets_the_breaker() -> None:
    breaker = opened()
    call(breaker, 10.0, failed=False)
    assert not breaker.is_open
    for _ in range(9):
        assert call(breaker, 10.0, failed=True)
    assert not breaker.is_open


def test_a_trial_that_fails_opens_the_breaker_for_another_10_seconds() -> None:
    breaker = opened()
    call(breaker, 12.0, failed=True)
    assert breaker.admit(21.9) is None
    assert breaker.admit(22.0) is not None


def test_after_a_trial_that_was_given_up_the_next_call_is_the_trial() -> None:
    breaker = opened()
    trial = breaker.admit(10.0)
    assert trial is not None
    breaker.give_up(trial, 11.0)
    assert breaker.is_open
    assert breaker.admit(11.0) is not None
    assert breaker.admit(11.0) is None


def test_a_trial_without_a_result_is_replaced() -> None:
    breaker = opened()
    lost = breaker.admit(10.0)
    assert breaker.admit(10.0 + TRIAL_SECONDS - 0.1) is None
    second = breaker.admit(10.0 + TRIAL_SECONDS)
    assert second is not None
    # A late result of the lost trial doesn't count for the second.
    assert lost is not None
    breaker.record(lost, 41.0, failed=False)
    assert breaker.is_open
    breaker.record(second, 41.0, failed=False)
    assert not breaker.is_open


def test_calls_admitted_before_the_breaker_opened_change_nothing() -> None:
    breaker = Breaker()
    slow = [breaker.admit(0.0) for _ in range(20)]
    for _ in range(10):
        call(breaker, 1.0, failed=True)
    for permit in slow:
        assert permit is not None
        breaker.record(permit, 5.0, failed=False)
        breaker.give_up(permit, 5.0)
    assert breaker.wait(5.0) == 6.0
    call(breaker, 11.0, failed=False)
    for permit in slow:
        assert permit is not None
        breaker.record(permit, 12.0, failed=True)
    assert not breaker.is_open


def test_a_call_that_was_given_up_does_not_count() -> None:
    breaker = Breaker()
    for _ in range(100):
        permit = breaker.admit(0.0)
        assert permit is not None
        breaker.give_up(permit, 0.0)
    assert not breaker.is_open
    for _ in range(9):
        call(breaker, 0.0, failed=True)
    assert not breaker.is_open


def test_settling_reports_only_an_opening_or_closing() -> None:
    breaker = Breaker()
    changed = []
    for now in (*[0.0] * 10, 10.0, 20.0):
        permit = breaker.admit(now)
        assert permit is not None
        changed.append(breaker.record(permit, now, failed=now < 20))
    assert changed == [*[False] * 9, True, False, True]


def test_the_memory_of_a_breaker_is_bounded() -> None:
    breaker = Breaker()
    for number in range(100_000):
        call(breaker, number / 100, failed=False)
    assert len(breaker._counts) <= WINDOW  # the bound is internal
    assert sum(sys.getsizeof(count) for count in breaker._counts) < 10_000


calls = st.lists(st.tuples(st.floats(0, 8), st.booleans()), max_size=120)


@given(calls)
def test_the_breaker_opens_exactly_when_the_window_has_too_many_failures(
    made: list[tuple[float, bool]],
) -> None:
    """Against the plain list of all calls: open at the first moment at which the last 60 s have it."""
    breaker, now, past = Breaker(), 0.0, list[tuple[float, bool]]()
    for pause, failed in made:
        now += pause
        call(breaker, now, failed=failed)
        past.append((now, failed))
        # Seconds are counted whole.
        recent = [bad for at, bad in past if int(at) > int(now) - WINDOW]
        assert breaker.is_open == (len(recent) >= 10 and sum(recent) * 2 >= len(recent))
        if breaker.is_open:
            return
