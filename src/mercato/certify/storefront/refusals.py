"""What a storefront does with a no: it tells the customer, for whatever reason it was, and does not insist."""

from typing import Final

import msgspec

from mercato.certify.model import Failed, Skipped
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.buying import PLACED
from mercato.certify.storefront.looking import after
from mercato.certify.storefront.network import Call
from mercato.certify.storefront.plays import Played
from mercato.certify.suite import Group
from mercato.plurals import count_of

group: Final = Group[Bench](
    "storefront.refusal",
    heading="Refusals: told to the customer, known or not",
    section="Specification 7, 9; decisions 8, 10",
    needs=PLACED,
)

_NO: Final = (
    "A refusal with `retryable` false, or without it, is an answer: tell the customer and stop. What is changed and "
    "sent again is a new request, with a new key."
)


def _nothing_placed(bench: Bench, played: Played) -> str:
    bench.show(played.of("validate", "place"))
    if not played.of("validate"):
        raise Skipped("It validates nothing.")
    calls = played.of("place")
    if calls:
        raise Failed(f"It was sent to Place order all the same, {len(calls)} times.")
    return "not placed"


def _survived(bench: Bench, played: Played) -> str:
    bench.show(played.of("validate", "place"))
    if played.ended.crashed is None:
        raise Skipped(
            "Look for yourself: the customer should have been told. With --command it is looked at here."
        )
    if played.ended.crashed:
        raise Failed(f"It broke. {played.ended.words}".strip())
    return "told"


def _not_repeated(bench: Bench, played: Played) -> str:
    calls = played.of("place")
    bench.show(calls)
    if not calls:
        raise Skipped("No order was sent.")
    seen: list[bytes] = []
    for call in calls:
        body = msgspec.json.encode(call.json(), order="sorted")
        if body in seen:
            raise Failed(f"The same was sent again: {count_of(len(calls), 'attempt')}.")
        seen.append(body)
    return f"sent {'once' if len(calls) == 1 else f'{len(calls)} times, anew each time'}"


group.add(
    "invalid-not-placed",
    "What was found invalid is not placed",
    run=after("refused", _nothing_placed),
    proves="the store's no is a no",
    advice="When `isValid` is false, show `order.errors` to the customer. There is no token, and nothing to place.",
)


group.add(
    "unknown-reason-not-placed",
    "A no for an unknown reason is a no",
    run=after("unheard-of", _nothing_placed),
    proves="reasons may be added",
    advice="Take a code that you do not know for OTHER: it is a no like any other.",
)


group.add(
    "unknown-reason-survived",
    "An unknown reason breaks nothing",
    run=after("unheard-of", _survived),
    needs="storefront.refusal.invalid-not-placed",
    proves="a code that was added does not end the storefront",
    advice="Take a code that you do not know for OTHER, and show its `message`.",
)


group.add(
    "unknown-problem-survived",
    "An unknown errorCode breaks nothing",
    run=after("new-problem", _survived),
    proves="errorCode and errorCategory may be added",
    advice="Decide by `retryable` and the status; take an errorCode that you do not know for OTHER.",
)


group.add(
    "bare-problem-survived",
    "A problem without details breaks nothing",
    run=after("bare-problem", _survived),
    section="Specification 7",
    proves="only status, title and type of a problem are certain",
    advice="Every other member of a problem may be missing or null: `detail`, `errorCode`, `errors`, `retryable`.",
)


group.add(
    "declined-not-repeated",
    "A declined card is not tried again",
    run=after("declined", _not_repeated),
    proves="the bank is not asked the same thing twice",
    advice=_NO,
)


group.add(
    "unknown-not-repeated",
    "A 4xx of an unknown code is not tried again",
    run=after("new-problem", _not_repeated),
    proves="a refusal that is not known is a refusal",
    advice=_NO,
)


group.add(
    "bare-not-repeated",
    "A 4xx without `retryable` is not repeated",
    run=after("bare-problem", _not_repeated),
    section="Specification 7",
    proves="what is not said to be retryable is not retried",
    advice=_NO,
)


group.add(
    "other-total-not-repeated",
    "Another total is shown, not placed again",
    run=after("different", _not_repeated),
    proves="nobody pays what they have not seen",
    advice="At ORDER_TOTAL_DIFFERENT validate again, show the new total, and place with the new token and a new key.",
)


@group.check(
    "new-body-new-key",
    "Another request has another key",
    proves="a key names one request",
    advice="When anything of an order changes after its store has said no, make a new Idempotency-Key.",
)
async def new_body_new_key(bench: Bench) -> str:
    """Look for two bodies under one key, in all that a store has refused: before there is an order a key stays free."""
    for name in ("declined", "new-problem"):
        bodies: dict[str, Call] = {}
        for call in (await bench.played(name)).of("place"):
            before = bodies.setdefault(call.headers.get("idempotency-key", ""), call)
            if before.json() != call.json():
                bench.show([before, call])
                raise Failed("Two requests that are not the same have the same key.")
    return "none"


@group.check(
    "locked-out",
    "A key that is not known ends the attempts",
    section="Specification 5",
    proves="nobody hammers at a door that stays shut",
    advice="401 says that the key is wrong, expired or revoked: stop, and tell those who run the storefront.",
)
async def locked_out(bench: Bench) -> str:
    """Buy with a key that has been revoked."""
    calls = (await bench.played("locked-out")).calls
    bench.show(calls)
    if len(calls) > 3:  # noqa: PLR2004  # one, or one with another token, or one of each kind
        raise Failed(f"It was asked {len(calls)} times, and answered 401 each time.")
    return count_of(len(calls), "request")
