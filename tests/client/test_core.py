"""A client's address and key, its waits, and what it waits for, without a network."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mercato.settings import load
from mercato_client import AsyncClient, Client, Retries, errors, types
from mercato_client.core import Core, core_of
from mercato_client.errors import problem_of
from mercato_client.exchange import Pause, Response, Send, Steps
from mercato_client.waiting import CommerceWaits
from mercato_contract.wire import as_json, parse_retry_after

ONBOARDING = "0190f5fe-7e3b-7ccc-8000-000000000001"
STORE = "0190f5fe-7e3b-7ccc-8000-000000000002"
NOW = datetime(2026, 1, 31, 18, 30, tzinfo=UTC)


def test_url_and_key_come_from_arguments_or_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MERCATO_URL", "http://127.0.0.1:8000/")
    monkeypatch.setenv("MERCATO_KEY", " mk_1\n")
    assert (Client().core.url, Client().core.key) == ("http://127.0.0.1:8000", "mk_1")
    other = AsyncClient("https://example.net/mercato", "mk_2").core
    assert (other.url, other.key) == ("https://example.net/mercato", "mk_2")


def test_the_clients_variables_do_not_stop_a_service():
    assert load({"MERCATO_URL": "http://127.0.0.1:8000", "MERCATO_KEY": "mk_1"}) == load({})


@pytest.mark.parametrize(
    ("url", "key", "words"),
    [
        ("", "k", "MERCATO_URL"),
        ("http://127.0.0.1:8000", "", "MERCATO_KEY"),
        ("127.0.0.1:8000", "k", "URL of a service"),
        ("ftp://example.net", "k", "URL of a service"),
        ("http://", "k", "URL of a service"),
        ("http://h:99999", "k", "URL of a service"),
        ("http://user@h", "k", "URL of a service"),
        ("http://user:mk_2@h", "k", "URL of a service"),
        ("http://:mk_2@h", "k", "URL of a service"),
        ("user:mk_2@h", "k", "URL of a service"),
        ("http://a..b", "k", "URL of a service"),
        ("http://a b", "k", "URL of a service"),
        ("http://a/\x00", "k", "URL of a service"),
        ("http://h?x", "k", "URL of a service"),
        ("http://h/network/v1", "k", "ends in /v1, which the client adds itself"),
        ("http://h/v1/commerce/", "k", "ends in /v1/commerce, which the client adds itself"),
        ("http://h", "k\r\nX: y", "key"),
        ("http://h", "kü", "key"),
    ],
)
def test_unusable_arguments_are_reported_before_anything_is_sent(url: str, key: str, words: str):
    with pytest.raises(errors.ConfigurationError, match=words) as caught:
        core_of(url, key, timeout=1, retries=None, environment={})
    assert "mk_" not in str(caught.value)


class World:
    """Performs steps from a table: records requests and waits, with a clock that only waiting advances."""

    def __init__(self, answer: Callable[[Send], Response], **retries: Any) -> None:
        self.now = 0.0
        self.sent: list[str] = []
        self.pauses: list[float] = []
        self.within: list[float | None] = []
        self._answer = answer
        policy = Retries(chance=lambda: 1.0, **retries)
        self.core = Core(url="http://h", key="k", retries=policy, clock=lambda: self.now)

    def run(self, steps: Steps[Any]) -> Any:
        given: Response | None = None
        fault: errors.MercatoError | None = None
        while True:
            try:
                step = steps.throw(fault) if fault else steps.send(given)
            except StopIteration as end:
                return end.value
            given = fault = None
            if isinstance(step, Pause):
                self.pauses.append(step.seconds)
                self.now += step.seconds
            else:
                self.within.append(step.within)
                self.sent.append(f"{step.prepared.method} {step.prepared.target}")
                try:
                    given = self._answer(step)
                except errors.MercatoError as error:
                    fault = error


def answered(value: Any, status: int = 200, **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): text for name, text in headers.items()}, as_json(value))


def test_waits_double_are_random_and_are_bounded():
    fault = errors.NoAnswerError("gone", sent=False)
    policy = Retries(attempts=9, first_wait=1.0, longest_wait=10.0, chance=lambda: 0.5)
    waits = [policy.wait_after(fault, attempt=attempt, repeats=True) for attempt in range(1, 10)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0, None]


def test_a_retry_after_is_waited_for_and_a_little_more():
    limited = problem_of(429, b"{}", retry_after=7.0, request_id=None)
    policy = Retries(first_wait=1.0, chance=lambda: 0.5)
    assert policy.wait_after(limited, attempt=1, repeats=False) == 7.5


def test_a_retry_after_below_zero_is_none():
    passing = problem_of(503, b'{"retryAfter": -60}', retry_after=None, request_id=None)
    policy = Retries(first_wait=1.0, chance=lambda: 0.5)
    assert policy.wait_after(passing, attempt=1, repeats=True) == 0.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Sat, 31 Jan 2026 18:30:20 GMT", 20.0),
        ("Sat, 31 Jan 2026 18:00:00 GMT", 0.0),
        ("soon", None),
        ("Sat, 31 Jan 99999999999999999999 18:30:20 GMT", None),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str | None, seconds: float | None):
    assert parse_retry_after(text, NOW) == seconds


def onboarding(status: str, **more: Any) -> dict[str, Any]:
    entry = {"onboardingId": ONBOARDING, "partnerStoreId": "1", "status": status, "errors": []}
    return entry | {"createdAt": "2026-01-31T18:30:00.000Z"} | more


STORE_ANSWER: dict[str, Any] = {
    "storeId": STORE, "onboardingId": ONBOARDING, "partnerStoreId": "1", "catalogSetId": STORE, "name": "S",
    "address": {}, "timezone": "UTC", "status": "online", "pauseReason": None, "resumeAt": None,
    "orderHandling": "automatic", "deliveryAllowed": True, "pickupAllowed": True, "categories": [],
    "unavailableItemIds": [],
    "createdAt": "2026-01-31T18:30:00.000Z", "updatedAt": "2026-01-31T18:30:00.000Z",
}  # fmt: skip


def live(core: Core, timeout: float = 300.0) -> Steps[types.Store]:
    return CommerceWaits.wait_until_live.steps(core, ONBOARDING, timeout=timeout)


def test_waiting_polls_as_often_as_retry_after_says_and_activates_once():
    answers = iter(
        [
            answered(onboarding("pending_catalog"), retry_after="5"),
            answered(onboarding("catalog_ingesting")),
            answered(onboarding("ready_to_activate")),
            answered(STORE_ANSWER),
        ]
    )
    world = World(lambda _: next(answers))
    assert str(world.run(live(world.core)).store_id) == STORE
    assert world.pauses == [5.0, 0.1]
    assert [one.split()[0] for one in world.sent] == ["GET", "GET", "GET", "POST"]


def test_waiting_ends_at_its_deadline_with_the_last_state():
    world = World(lambda _: answered(onboarding("pending_catalog")))
    with pytest.raises(errors.DeadlineError) as late:
        world.run(live(world.core, timeout=10.0))
    assert late.value.last.status == "pending_catalog"
    assert world.now <= 10.0
    assert max(world.pauses) == 2.0
    assert "10 s" in str(late.value)


def test_no_attempt_of_a_wait_exceeds_the_remaining_time():
    def slow(send: Send) -> Response:
        if not world.now:
            world.now = 1.0
            return answered(onboarding("pending_catalog"))
        assert send.within is not None
        world.now += send.within
        raise errors.NoAnswerError("timed out", sent=True)

    world = World(slow)
    with pytest.raises(errors.DeadlineError):
        world.run(live(world.core, timeout=10.0))
    assert world.within == [10.0, pytest.approx(8.9)]
    assert world.now == pytest.approx(10.0)


def test_an_outage_after_the_first_answer_only_delays_a_wait():
    def answer(_: Send) -> Response:
        if 0 < world.now < 60:
            raise errors.NoAnswerError("gone", sent=False)
        return answered(onboarding("active", storeId=STORE) if world.now else onboarding("pending_catalog"))

    world = World(answer)
    with pytest.raises(errors.UnreadableError):
        world.run(live(world.core))  # the store itself is not in this table
    assert 60 <= world.now < 300


def test_a_retry_after_below_zero_does_not_make_a_wait_ask_without_a_pause():
    asked = 0

    def answer(_: Send) -> Response:
        nonlocal asked
        asked += 1
        assert asked < 300
        if asked == 1:
            return answered(onboarding("pending_catalog"))
        return answered({"errorCode": "SERVICE_UNAVAILABLE", "retryAfter": -60}, 503)

    world = World(answer, attempts=1)
    with pytest.raises(errors.DeadlineError):
        world.run(live(world.core))


def test_a_wait_fails_at_once_if_the_service_never_answered():
    def nobody(_: Send) -> Response:
        raise errors.NoAnswerError("gone", sent=False)

    world = World(nobody, attempts=2)
    with pytest.raises(errors.NoAnswerError):
        world.run(live(world.core))
    assert len(world.sent) == 2


def test_a_concurrent_activation_is_a_success():
    conflict = {"errorCode": "ONBOARDING_NOT_READY", "errorCategory": "conflict", "title": "No"}
    answers = iter(
        [
            answered(onboarding("ready_to_activate")),
            answered(conflict, 409),
            answered(onboarding("active", storeId=STORE)),
            answered(STORE_ANSWER),
        ]
    )
    world = World(lambda _: next(answers))
    assert str(world.run(live(world.core)).store_id) == STORE


def test_the_first_poll_of_a_run_waits_for_retry_after():
    accepted = answered({"catalogIngestId": STORE, "statusUrl": "/x"}, 202, retry_after="2")
    run = {
        "catalogIngestId": STORE,
        "status": "succeeded",
        "updatedAt": "2026-01-31T18:30:00.000Z",
        "errors": [],
    }
    answers = iter([accepted, answered(run)])
    world = World(lambda _: next(answers))
    world.run(CommerceWaits.replace_catalog.steps(world.core, STORE, "http://h/c.json"))
    assert world.pauses == [2.0]


async def test_a_wait_that_is_cancelled_ends_at_once(monkeypatch: pytest.MonkeyPatch):
    client = AsyncClient("http://127.0.0.1:1", "k")
    pausing = asyncio.Event()

    def steps() -> Steps[None]:
        pausing.set()
        yield Pause(3600)

    task = asyncio.create_task(client.run(steps()))
    await pausing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
