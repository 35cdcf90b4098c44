"""How a storefront handles failures: it retries what may pass, with the same key, and accepts a refusal."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import Final

import msgspec

from mercato.local.storefront.context import StorefrontContext, after
from mercato.local.storefront.proxy import Call
from mercato.local.storefront.purchases import key_length
from mercato.local.storefront.scenarios import RETRY_SECONDS, ScenarioResult
from mercato_contract.texts import count_of
from mercato_tools.certify.suite import Failed, Run, Skipped

TOLERANCE: Final = 0.05
"""Seconds by which clocks may differ."""

MAX_LOCKED_OUT: Final = 3
"""Requests with an unknown key: the first, one with another token, one of another kind."""


# --- retries --------------------------------------------------------------------------------------


def retried(operation: str) -> Callable[[StorefrontContext, ScenarioResult], str]:
    """Return a judge of whether an operation was repeated."""

    def judge(context: StorefrontContext, result: ScenarioResult) -> str:
        calls = result.of(operation)
        context.show(calls)
        if not calls:
            raise (Failed("It sent no order.") if operation == "place" else Skipped("It doesn't validate."))
        if len(calls) == 1:
            raise Failed("It gave up after the first attempt.")
        return count_of(len(calls), "attempt")

    return judge


def _retried_until_placed(context: StorefrontContext, result: ScenarioResult) -> str:
    retried("place")(context, result)
    keys = {call.headers.get("idempotency-key") for call in result.of("place")}
    if len(keys) > 1:
        raise Failed("It sent the order again with another key: that is a second order.")
    if not result.placed:
        raise Failed("It gave up before the order was placed.")
    return "sent again with the same key, and placed"


def _same(what: Callable[[Call], object], success: str, failure: str) -> Run[StorefrontContext]:
    """Return a check that the first two attempts have something in common."""

    def judge(context: StorefrontContext, result: ScenarioResult) -> str:
        calls = result.of("place")
        context.show(calls)
        if len(calls) == 1:
            raise Skipped("It did not send the order again.")
        if what(calls[0]) != what(calls[1]):
            raise Failed(failure)
        return success

    return after("busy", judge)


def _waits(context: StorefrontContext, result: ScenarioResult) -> str:
    calls = result.of("place")[:3]
    context.show(calls)
    return _check_wait(calls)


def _rate_limited(context: StorefrontContext, result: ScenarioResult) -> str:
    calls = result.of("validate")
    context.show(calls)
    if not calls:
        raise Skipped("It doesn't validate.")
    later = [call for call in result.calls if call.began > calls[0].ended]
    if later:
        _check_wait([calls[0], min(later, key=lambda call: call.began)])
    if len(calls) == 1:
        raise Failed("It gave up.")
    return "waited, and went on"


def _follow_limited(context: StorefrontContext, result: ScenarioResult) -> str:
    calls = result.of("order")
    context.show(calls)
    if not calls:
        raise Skipped("It doesn't poll its orders.")
    return _check_wait(calls[:4]) if len(calls) > 1 else "not polled again"


def _check_wait(calls: Sequence[Call]) -> str:
    """Return the shortest wait between two requests. Raises Failed if it is shorter than Retry-After."""
    wait = min(again.began - before.ended for before, again in pairwise(calls))
    if wait < RETRY_SECONDS - TOLERANCE:
        raise Failed(f"It waited {wait:.2f} s; Retry-After was {RETRY_SECONDS} s.")
    return f"waited {wait:.1f} s"


RETRY: Final[Mapping[str, Run[StorefrontContext]]] = {
    "busy": after("busy", retried("place")),
    "same-key": _same(
        lambda call: call.headers.get("idempotency-key"),
        "the same key",
        "The second attempt has another key.",
    ),
    "same-body": _same(
        Call.sent,
        "the same body",
        "The second attempt has another body: the service answers 422 IDEMPOTENCY_KEY_REUSED to that.",
    ),
    "retry-after": after("busy", _waits),
    "store-unreachable": after("unreachable", _retried_until_placed),
    "lost-answer": after("dropped", _retried_until_placed),
    "in-progress": after("running", _retried_until_placed),
    "validate-busy": after("validate-busy", retried("validate")),
    "rate-limited": after("limited", _rate_limited),
    "follow-limited": after("follow-limited", _follow_limited),
}

# --- refusals -------------------------------------------------------------------------------------


def _not_placed(context: StorefrontContext, result: ScenarioResult) -> str:
    context.show(result.of("validate", "place"))
    if not result.of("validate"):
        raise Skipped("It doesn't validate.")
    calls = result.of("place")
    if calls:
        raise Failed(f"It sent the order {len(calls)} times, although it isn't valid.")
    return "not placed"


def _survived(context: StorefrontContext, result: ScenarioResult) -> str:
    context.show(result.of("validate", "place"))
    if result.end.crashed is None:
        raise Skipped("Check that the customer is told why. With --command, the certifier checks it.")
    if result.end.crashed:
        raise Failed(f"It crashed. {result.end.message}".strip())
    return "handled"


def _not_repeated(operation: str) -> Callable[[StorefrontContext, ScenarioResult], str]:
    """Return a judge of whether a refused request was sent again."""

    def judge(context: StorefrontContext, result: ScenarioResult) -> str:
        calls = result.of(operation)
        context.show(calls)
        if not calls:
            raise Skipped("It sent none.")
        bodies = {msgspec.json.encode(call.sent(), order="sorted") for call in calls}
        if len(bodies) < len(calls):
            raise Failed(f"It sent the same request again: {count_of(len(calls), 'attempt')}.")
        return "sent once" if len(calls) == 1 else f"sent {len(calls)} times, each time another request"

    return judge


async def _new_body_new_key(context: StorefrontContext) -> str:
    """Compare what a store has refused: a key stays free until there is an order."""
    for name in ("declined", "unknown-problem"):
        requests: dict[str, Call] = {}
        for call in (await context.result(name)).of("place"):
            before = requests.setdefault(call.headers.get("idempotency-key", ""), call)
            if before.sent() != call.sent():
                context.fail("Two different requests have the same key.", [before, call])
    return "every key has one request"


def _locked_out(context: StorefrontContext, result: ScenarioResult) -> str:
    context.show(result.calls)
    if len(result.calls) > MAX_LOCKED_OUT:
        raise Failed(f"It sent {len(result.calls)} requests, and every one was answered with 401.")
    return count_of(len(result.calls), "request")


REFUSAL: Final[Mapping[str, Run[StorefrontContext]]] = {
    "invalid-not-placed": after("refused", _not_placed),
    "unknown-reason-not-placed": after("unknown-reason", _not_placed),
    "unknown-reason-survived": after("unknown-reason", _survived),
    "unknown-problem-survived": after("unknown-problem", _survived),
    "bare-problem-survived": after("bare-problem", _survived),
    "declined-not-repeated": after("declined", _not_repeated("place")),
    "unknown-not-repeated": after("unknown-problem", _not_repeated("place")),
    "bare-not-repeated": after("bare-problem", _not_repeated("place")),
    "other-total-not-repeated": after("different", _not_repeated("place")),
    "new-body-new-key": _new_body_new_key,
    "locked-out": after("locked-out", _locked_out),
}

# --- cancellations --------------------------------------------------------------------------------


def _cancellations(context: StorefrontContext, result: ScenarioResult) -> list[Call]:
    """Return the cancellations. Raises Skipped for a storefront that doesn't cancel."""
    calls = result.of("cancel")
    context.show(calls or result.of("place"))
    if not calls:
        raise Skipped("It doesn't cancel orders. With MERCATO_CANCEL a command has to: it is the reason.")
    return calls


def _cancelled(context: StorefrontContext, result: ScenarioResult) -> str:
    last = _cancellations(context, result)[-1]
    if last.status != HTTPStatus.OK:
        raise Failed(f"The last response was {last.status}. {result.end.message}".strip())
    return "cancelled"


def _key_of_cancellation(context: StorefrontContext, result: ScenarioResult) -> str:
    return key_length(_cancellations(context, result)[0])


def _cancelled_in_the_end(context: StorefrontContext, result: ScenarioResult) -> str:
    calls = _cancellations(context, result)
    if len(calls) == 1:
        raise Failed("It gave up after the first attempt.")
    if len({call.headers.get("idempotency-key") for call in calls}) > 1:
        raise Failed("It sent the cancellation again with another key.")
    if calls[-1].status != HTTPStatus.OK:
        raise Failed("It gave up before the order was cancelled.")
    return "sent again with the same key, and cancelled"


CANCEL: Final[Mapping[str, Run[StorefrontContext]]] = {
    "sent": after("cancel", _cancelled),
    "key": after("cancel", _key_of_cancellation),
    "store-unreachable": after("cancel-unreachable", _cancelled_in_the_end),
    "lost-answer": after("cancel-dropped", _cancelled_in_the_end),
    "refused-not-repeated": after("cancel-refused", _not_repeated("cancel")),
}
