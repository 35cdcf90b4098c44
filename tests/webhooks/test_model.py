"""The schedule of a delivery, and the decision after an attempt."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato.features.webhooks import model
from mercato.features.webhooks.model import CallResult, GiveUp, Retry, Succeeded, decide
from mercato_contract.events import envelope
from mercato_contract.excerpts import excerpt

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MIDDLE = 0.5
FAILED = CallResult(at=NOW, ms=3, status=503, error="The receiver answered 503.")


def decision(
    result: CallResult = FAILED,
    *,
    number: int = 1,
    failing_since: datetime | None = None,
    random: float = MIDDLE,
) -> model.Decision:
    return decide(result, number=number, failing_since=failing_since, now=NOW, random=random)


def test_the_schedule_is_at_once_then_5_s_30_s_2_min_10_min_1_h_6_h_24_h_24_h() -> None:
    waits = [decision(number=number) for number in range(1, 9)]
    assert [wait.at - NOW for wait in waits if isinstance(wait, Retry)] == [
        timedelta(seconds=5),
        timedelta(seconds=30),
        timedelta(minutes=2),
        timedelta(minutes=10),
        timedelta(hours=1),
        timedelta(hours=6),
        timedelta(hours=24),
        timedelta(hours=24),
    ]


def test_after_the_ninth_attempt_a_delivery_is_given_up_but_its_endpoint_is_not_disabled() -> None:
    given_up = decision(number=9)
    assert given_up == GiveUp(
        "All 9 attempts failed. The last error: The receiver answered 503.", disable=False
    )


@given(number=st.integers(1, 8), random=st.floats(0, 1, exclude_max=True))
def test_jitter_changes_a_delay_by_a_tenth_at_most(number: int, random: float) -> None:
    retry, step = decision(number=number, random=random), model.RETRY_DELAYS[number - 1]
    assert isinstance(retry, Retry)
    assert step * 0.9 - timedelta(milliseconds=1) <= retry.at - NOW <= step * 1.1


@pytest.mark.parametrize(
    ("requested", "expected"),
    [(1, 30), (45, 45), (60, 60), (61, 60), (9_999_999, 60)],
)
def test_retry_after_is_honoured_up_to_twice_the_step(requested: int, expected: int) -> None:
    result = CallResult(at=NOW, ms=1, status=429, error="x", retry_after=requested)
    assert decision(result, number=2) == Retry(NOW + timedelta(seconds=expected))


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_success(status: int) -> None:
    assert model.error_of(status) is None
    assert decision(CallResult(at=NOW, ms=1, status=status)) == Succeeded()


@pytest.mark.parametrize("status", [100, 199, 300, 301, 304, 308, 400, 404, 409, 410, 429, 500, 503, 599])
def test_2xx_alone_is_success(status: int) -> None:
    assert model.error_of(status) is not None


def test_a_redirect_is_a_failure_with_its_own_message() -> None:
    assert model.error_of(301) == "The receiver answered 301: redirects are not followed."


def test_410_disables_the_endpoint_at_once() -> None:
    gone = decision(CallResult(at=NOW, ms=1, status=410, error="The receiver answered 410."))
    assert isinstance(gone, GiveUp)
    assert gone.disable


def test_after_5_days_of_failures_the_endpoint_is_disabled() -> None:
    almost = decision(number=7, failing_since=NOW - timedelta(days=5) + timedelta(milliseconds=1))
    assert isinstance(almost, Retry)
    over = decision(number=7, failing_since=NOW - timedelta(days=5))
    assert isinstance(over, GiveUp)
    assert over.disable
    assert "2026-02-24T12:00:00.000Z" in over.reason


@pytest.mark.parametrize("days", [5, 6, 60])
def test_one_failure_long_after_the_last_event_disables_nothing_and_is_retried_for_hours(days: int) -> None:
    since = NOW - timedelta(days=days)
    retried = [decision(number=number, failing_since=since) for number in range(1, 7)]
    waits = [one.at - NOW for one in retried if isinstance(one, Retry)]
    assert len(waits) == len(retried)
    assert sum(waits, timedelta()) >= timedelta(hours=7)
    assert all(
        decision(number=number, failing_since=since) == decision(number=7, failing_since=since)
        for number in (8, 9)
    )


def test_an_excerpt_has_up_to_1_kib_of_any_bytes() -> None:
    assert excerpt(b"a" * 5000, hidden=()) == "a" * 1024
    assert excerpt(b"\xff\x00ok", hidden=()) == "\ufffd\ufffdok"


@given(st.binary(max_size=1200))
def test_every_reply_becomes_a_text_that_both_databases_hold(body: bytes) -> None:
    text = excerpt(body, hidden=())
    assert len(text.encode()) <= 1024
    assert "\x00" not in text


@given(st.integers(0, 1024), st.integers(8, 40))
def test_an_echoed_token_is_masked_wherever_the_reply_was_cut(before: int, length: int) -> None:
    token = "tk_" + "S3cret-" * 5
    body = ("." * before + token + " and more").encode()[: before + length]
    assert "S3cret" not in excerpt(body, hidden=(token,))


def test_the_body_is_the_standard_webhooks_envelope() -> None:
    body = envelope("catalog.sync.failed", occurred_at=NOW, data={"errors": []})
    assert (
        body == b'{"type":"catalog.sync.failed","timestamp":"2026-03-01T12:00:00.000Z","data":{"errors":[]}}'
    )


def test_one_subject_keeps_its_partition_and_an_endpoint_has_few() -> None:
    from mercato_contract.clock import new_id

    partner, ids = new_id(), [new_id() for _ in range(200)]
    url = "https://a.example/hooks"
    partitions = {model.partition_of(each) for each in ids}
    assert model.partition_of(ids[0]) == model.partition_of(ids[0])
    keys = {model.DeliverJob(partner, url, each).ordering_key for each in partitions}
    assert len(keys) == model.PARTITIONS
    other = model.DeliverJob(partner, url + "?b", 0)
    assert model.DeliverJob(partner, url, 0).ordering_key != other.ordering_key


def test_an_excerpt_shows_the_code_of_a_character_that_nobody_sees():
    body = '\ufeff{"a":\u200b"x\u00a0y\\n",\r\n\t"b":"é 👩\u200d🍳"}'.encode()
    assert excerpt(body, hidden=()) == '[U+FEFF]{"a":[U+200B]"x[U+00A0]y\\n",\r\n\t"b":"é 👩\u200d🍳"}'
