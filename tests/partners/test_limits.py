"""Limits per organisation per minute, in windows that begin with the minute."""

from datetime import timedelta
from uuid import UUID

import pytest
from tests.partners.support import HandClock

from mercato.features.partners import limits as module
from mercato.features.partners.limits import Failures, Limiter, Quota, Visitors
from mercato.features.partners.model import Caller, Limits, Surface
from mercato_contract import clock
from mercato_contract.clock import new_id

MINUTE = timedelta(minutes=1)


def caller(partner: UUID | None = None, own: Limits | None = None) -> Caller:
    return Caller(partner or new_id(), new_id(), Surface.COMMERCE, own or Limits())


def limiter(now: HandClock, **options: int) -> Limiter:
    return Limiter(**({"reads": 1000, "writes": 100, "discovery": 60} | options), clock=now)


@pytest.fixture
def now() -> HandClock:
    return HandClock()


@pytest.mark.parametrize(("rate", "limit"), [("reads", 1000), ("writes", 100), ("discovery", 60)])
def test_a_partner_has_its_limit_of_requests_a_minute_and_not_one_more(
    now: HandClock, rate: str, limit: int
) -> None:
    counts, who = limiter(now), caller()
    for left in range(limit - 1, -1, -1):
        assert counts.take(who, rate) == Quota(limit, left, int((now() + MINUTE).timestamp()))
    assert counts.take(who, rate) == Quota(limit, 0, int((now() + MINUTE).timestamp()), 60)


def test_the_wait_is_the_rest_of_the_minute(now: HandClock) -> None:
    counts, who = limiter(now, reads=1), caller()
    counts.take(who, "reads")
    now.advance(timedelta(seconds=59, milliseconds=999))
    assert counts.take(who, "reads").wait == 1
    now.advance(timedelta(milliseconds=1))
    assert counts.take(who, "reads").wait is None


def test_kinds_of_requests_are_counted_separately(now: HandClock) -> None:
    counts, who = limiter(now, reads=1, writes=1), caller()
    assert counts.take(who, "reads").wait is None
    assert counts.take(who, "writes").wait is None


def test_all_keys_of_a_partner_count_together_and_partners_separately(now: HandClock) -> None:
    counts, partner = limiter(now, reads=1), new_id()
    assert counts.take(caller(partner), "reads").wait is None
    assert counts.take(caller(partner), "reads").wait == 60
    assert counts.take(caller(), "reads").wait is None


def test_a_partners_own_limits_override_the_defaults(now: HandClock) -> None:
    counts, who = limiter(now), caller(own=Limits(reads=2))
    assert [counts.take(who, "reads").wait for _ in range(3)] == [None, None, 60]
    assert counts.take(who, "writes").limit == 100


def test_each_live_store_adds_twelve_reads_and_six_writes_to_either_limit(now: HandClock) -> None:
    counts = limiter(now)
    for own, reads, writes in ((Limits(), 1120, 160), (Limits(reads=5, writes=1), 125, 61)):
        who = Caller(new_id(), new_id(), Surface.COMMERCE, own, stores=10)
        found = [counts.take(who, rate).limit for rate in ("reads", "writes", "discovery")]
        assert found == [reads, writes, 60]


@pytest.mark.parametrize(("limit", "workers", "share"), [(100, 4, 25), (10, 4, 3), (1, 4, 1)])
def test_the_limit_is_divided_by_the_workers_and_shown_whole(
    now: HandClock, limit: int, workers: int, share: int
) -> None:
    counts, who = limiter(now, reads=limit, workers=workers), caller()
    quotas = [counts.take(who, "reads") for _ in range(share + 1)]
    assert {quota.limit for quota in quotas} == {limit}
    assert [quota.remaining for quota in quotas] == [*range(share - 1, -1, -1), 0]
    assert [quota.wait for quota in quotas] == [None] * share + [60]


def test_a_clock_that_is_set_back_does_not_lock_clients_out(now: HandClock) -> None:
    counts, who = limiter(now, reads=1), caller()
    counts.take(who, "reads")
    now.advance(-10 * MINUTE)
    assert counts.take(who, "reads").wait is None


def test_counters_are_bounded(now: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PARTNERS", 3)
    counts = limiter(now)
    for _ in range(10):
        counts.take(caller(), "reads")
        assert len(counts._counts["reads"]) <= 3


def test_the_usual_clock_is_the_wall_clock() -> None:
    before = clock.now().timestamp()
    quota = Limiter(reads=1, writes=1, discovery=1).take(caller(), "reads")
    assert before // 60 * 60 + 60 <= quota.reset <= clock.now().timestamp() + 60


# --- failures -------------------------------------------------------------------------------------


def test_failures_of_a_client_are_refused_from_anywhere_until_the_minute_is_over() -> None:
    now = HandClock()
    failures, client = Failures(now), new_id()
    for _ in range(module.MAX_FAILURES):
        assert failures.wait(client, "192.0.2.1") is None
        failures.record(client, "192.0.2.1")
    assert failures.wait(client, "192.0.2.2") == 60
    assert failures.wait(new_id(), "192.0.2.1") is None
    now.advance(MINUTE)
    assert failures.wait(client, "192.0.2.1") is None


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", "2001:db8:0:1::1"),
    ],
)
def test_failures_from_an_address_are_refused_for_any_client(one: str, same: str, other: str) -> None:
    failures = Failures(HandClock())
    for _ in range(module.MAX_FAILURES_AT):
        failures.record(new_id(), one)
    assert failures.wait(None, same) is not None
    assert failures.wait(None, other) is None


def test_requests_without_a_session_are_counted_by_address_until_the_minute_is_over() -> None:
    now = HandClock()
    visitors = Visitors(now)
    assert [visitors.take("2001:db8::1") for _ in range(module.MAX_VISITS)] == [None] * module.MAX_VISITS
    assert visitors.take("2001:db8::2") == 60
    assert visitors.take("192.0.2.1") is None
    now.advance(MINUTE)
    assert visitors.take("2001:db8::1") is None


def test_a_flood_of_failures_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FAILED", 10)
    failures = Failures(HandClock())
    for number in range(1000):
        failures.record(new_id(), f"192.0.2.{number % 256}")
    assert max(len(failures._clients), len(failures._addresses)) <= 10
