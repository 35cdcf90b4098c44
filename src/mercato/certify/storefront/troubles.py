"""What a storefront does when something goes wrong that may pass: it tries again, with the same key."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from mercato.certify.model import Failed, Skipped
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.buying import PLACED
from mercato.certify.storefront.looking import after
from mercato.certify.storefront.network import Call
from mercato.certify.storefront.plays import WAIT, Played
from mercato.certify.suite import Group
from mercato.plurals import count_of

REPEATED: Final = "storefront.retry.busy"
SAME: Final = "storefront.retry.same-body"

EARLY: Final = 0.05
"""Seconds by which clocks may differ."""

group: Final = Group[Bench](
    "storefront.retry",
    heading="Repeats: what may pass is tried again, with the same key",
    section="Specification 7; decisions 8, 10",
    needs=PLACED,
)

_AGAIN: Final = (
    "When `retryable` is true, at any 5xx and when no answer came, send the same request again with the same "
    "Idempotency-Key, after `Retry-After` seconds or a pause that grows; a few times, and then tell the customer."
)


def _again(bench: Bench, played: Played) -> str:
    calls = played.of("place")
    bench.show(calls)
    if not calls:
        raise Failed("No order was sent.")
    if len(calls) == 1:
        raise Failed("It gave up after the first attempt.")
    return count_of(len(calls), "attempt")


def _joined(bench: Bench, played: Played) -> str:
    """Tell whether an order was sent again with its key, until it was there."""
    _again(bench, played)
    keys = {call.headers.get("idempotency-key") for call in played.of("place")}
    if len(keys) > 1:
        raise Failed("It was sent again with another key: that is a second order.")
    if not played.placed:
        raise Failed("It gave up before the order was there.")
    return "sent again with the same key, and placed"


def _asked_again(bench: Bench, played: Played) -> str:
    calls = played.of("validate")
    bench.show(calls)
    if not calls:
        raise Skipped("It validates nothing.")
    if len(calls) == 1:
        raise Failed("It gave up.")
    return count_of(len(calls), "attempt")


group.add(
    "busy",
    "After a 503, the order is sent again",
    run=after("busy", _again),
    proves="a moment's trouble costs no order",
    advice=_AGAIN,
)


@group.check(
    "same-key",
    "It is sent again with the same key",
    needs=REPEATED,
    proves="a repeat is no second order",
    advice=_AGAIN,
)
async def same_key(bench: Bench) -> str:
    """Compare the keys of both."""
    first, again = await _both(bench, "busy")
    if first.headers.get("idempotency-key") != again.headers.get("idempotency-key"):
        raise Failed("It has another key.")
    return "the same key"


@group.check(
    "same-body",
    "It is sent again unchanged",
    needs=(REPEATED, "storefront.retry.same-key"),
    proves="the key names one request: with another body it would be refused",
    advice=_AGAIN,
)
async def same_body(bench: Bench) -> str:
    """Compare the bodies of both."""
    first, again = await _both(bench, "busy")
    if first.json() != again.json():
        raise Failed("It has another body: the service answers 422 IDEMPOTENCY_KEY_REUSED to that.")
    return "the same body"


@group.check(
    "retry-after",
    "Retry-After is waited for",
    needs=REPEATED,
    proves="a service in trouble is left alone for as long as it asks",
    advice="Wait for as many seconds as `Retry-After` (or `retryAfter`) says before the next attempt.",
)
async def retry_after(bench: Bench) -> str:
    """Measure the time between the attempts."""
    calls = (await bench.played("busy")).of("place")[:3]
    bench.show(calls)
    return _waited(calls)


group.add(
    "store-unreachable",
    "After STORE_UNREACHABLE, it joins its order",
    run=after("unreachable", _joined),
    needs=SAME,
    proves="an order that its store has not answered yet is not ordered again",
    advice="503 STORE_UNREACHABLE has an `orderId`: the order is kept. " + _AGAIN,
)


group.add(
    "lost-answer",
    "After a lost answer, the key is the same",
    run=after("dropped", _joined),
    needs=SAME,
    proves="an order whose answer never came is neither lost nor doubled",
    advice="Keep the key before the order is sent. " + _AGAIN,
)


group.add(
    "in-progress",
    "While the first still runs, it asks again",
    run=after("running", _joined),
    needs=SAME,
    proves="REQUEST_IN_PROGRESS is no refusal",
    advice="409 REQUEST_IN_PROGRESS is `retryable`: the order is being placed. " + _AGAIN,
)


group.add(
    "validate-busy",
    "Validation is asked again after a 503",
    run=after("validate-busy", _asked_again),
    proves="a moment's trouble does not end the purchase",
    advice=_AGAIN,
)


@group.check(
    "rate-limited",
    "After a 429, it waits and goes on",
    section="Decisions 11",
    proves="limits are kept to, and cost no order",
    advice="At 429 wait for `Retry-After` seconds, with all requests, and go on.",
)
async def rate_limited(bench: Bench) -> str:
    """Buy where there are too many requests."""
    played = await bench.played("limited")
    calls = played.of("validate")
    bench.show(calls)
    if not calls:
        raise Skipped("It validates nothing.")
    later = [one for one in played.calls if one.began > calls[0].ended]
    if later:
        _waited([calls[0], min(later, key=lambda one: one.began)])
    if len(calls) == 1:
        raise Failed("It gave up.")
    return "waited, and went on"


@group.check(
    "follow-limited",
    "Following an order, a 429 is waited for",
    section="Decisions 11",
    proves="who polls keeps to the limits",
    advice="At 429 wait for `Retry-After` seconds before the next look at an order.",
)
async def follow_limited(bench: Bench) -> str:
    """Follow an order where there are too many requests."""
    played = await bench.played("follow-limited")
    calls = played.of("order")
    bench.show(calls)
    if not calls:
        raise Skipped("It does not ask for its orders.")
    return _waited(calls[:4]) if len(calls) > 1 else "not asked again"


async def _both(bench: Bench, name: str) -> tuple[Call, Call]:
    calls = (await bench.played(name)).of("place")
    bench.show(calls)
    if len(calls) == 1:
        raise Skipped("It was not sent again.")
    return calls[0], calls[1]


def _waited(calls: Sequence[Call]) -> str:
    """Return how long it waited after each but the last. Raises Failed if that is less than it was asked to."""
    waits = [again.began - before.ended for before, again in pairwise(calls)]
    if min(waits) < WAIT - EARLY:
        raise Failed(f"It waited {min(waits):.2f} s, and was asked to wait {WAIT} s.")
    return f"waited {min(waits):.1f} s"
