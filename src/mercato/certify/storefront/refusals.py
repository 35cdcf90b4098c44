"""What a storefront does with a no: it tells the customer, for whatever reason it was, and does not insist."""

from typing import Final

import msgspec

from mercato.certify.model import Failed, Skipped
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.buying import PLACED
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


@group.check(
    "invalid-not-placed",
    "What was found invalid is not placed",
    proves="the store's no is a no",
    advice="When `isValid` is false, show `order.errors` to the customer. There is no token, and nothing to place.",
)
async def invalid(bench: Bench) -> str:
    """Buy where the store says no."""
    return _nothing_placed(bench, await bench.played("refused"))


@group.check(
    "unknown-reason-not-placed",
    "A no for an unknown reason is a no",
    proves="reasons may be added",
    advice="Take a code that you do not know for OTHER: it is a no like any other.",
)
async def unknown_reason(bench: Bench) -> str:
    """Buy where the store says no for a reason of the future."""
    return _nothing_placed(bench, await bench.played("unheard-of"))


@group.check(
    "unknown-reason-survived",
    "An unknown reason breaks nothing",
    needs="storefront.refusal.invalid-not-placed",
    proves="a code that was added does not end the storefront",
    advice="Take a code that you do not know for OTHER, and show its `message`.",
)
async def unknown_reason_survived(bench: Bench) -> str:
    """Buy where the store says no for a reason of the future."""
    return _survived(bench, await bench.played("unheard-of"))


@group.check(
    "unknown-problem-survived",
    "An unknown errorCode breaks nothing",
    proves="errorCode and errorCategory may be added",
    advice="Decide by `retryable` and the status; take an errorCode that you do not know for OTHER.",
)
async def unknown_problem(bench: Bench) -> str:
    """Buy where placing is refused with a code of the future."""
    return _survived(bench, await bench.played("new-problem"))


@group.check(
    "bare-problem-survived",
    "A problem without details breaks nothing",
    section="Specification 7",
    proves="only status, title and type of a problem are certain",
    advice="Every other member of a problem may be missing or null: `detail`, `errorCode`, `errors`, `retryable`.",
)
async def bare_problem(bench: Bench) -> str:
    """Buy where placing is refused with the least that a problem has."""
    return _survived(bench, await bench.played("bare-problem"))


@group.check(
    "declined-not-repeated",
    "A declined card is not tried again",
    proves="the bank is not asked the same thing twice",
    advice=_NO,
)
async def declined(bench: Bench) -> str:
    """Buy where the card is declined."""
    return _not_repeated(bench, await bench.played("declined"))


@group.check(
    "unknown-not-repeated",
    "A 4xx of an unknown code is not tried again",
    proves="a refusal that is not known is a refusal",
    advice=_NO,
)
async def unknown_not_repeated(bench: Bench) -> str:
    """Buy where placing is refused with a code of the future."""
    return _not_repeated(bench, await bench.played("new-problem"))


@group.check(
    "bare-not-repeated",
    "A 4xx without `retryable` is not repeated",
    section="Specification 7",
    proves="what is not said to be retryable is not retried",
    advice=_NO,
)
async def bare_not_repeated(bench: Bench) -> str:
    """Buy where placing is refused with the least that a problem has."""
    return _not_repeated(bench, await bench.played("bare-problem"))


@group.check(
    "other-total-not-repeated",
    "Another total is shown, not placed again",
    proves="nobody pays what they have not seen",
    advice="At ORDER_TOTAL_DIFFERENT validate again, show the new total, and place with the new token and a new key.",
)
async def other_total(bench: Bench) -> str:
    """Buy where the total has changed."""
    return _not_repeated(bench, await bench.played("different"))


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
