"""How a storefront buys when nothing goes wrong: what it sends, in which order, and what it leaves alone."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from mercato.carts.lines import choice_of
from mercato.certify.model import Failed, Run, Skipped
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.looking import after, body_of, bought, lines_of, member
from mercato.certify.storefront.network import DROPPED, Call
from mercato.certify.storefront.plays import Played
from mercato.certify.suite import Group
from mercato.plurals import count_of

SENT: Final = "storefront.order.sent"
PLACED: Final = "storefront.order.placed"
FIRST: Final = "storefront.order.validated-first"


group: Final = Group[Bench](
    "storefront.order",
    heading="Orders: validated, then placed, once and unchanged",
    section="Specification 4; decisions 8",
    needs=PLACED,
)


# --- what was validated, and what was placed ------------------------------------------------------


def _before(played: Played) -> tuple[Call, Call] | None:
    """Return the first placement and the last validation before it, None if there was none."""
    place = played.of("place")[0]
    before = [one for one in played.of("validate") if one.ended <= place.began]
    return (before[-1], place) if before else None


def _other_items(played: Played) -> str | None:
    pair = _before(played)
    if pair is None:
        return None
    asked, sent = (body_of(call) for call in pair)
    if _choices(asked) != _choices(sent):
        return "Other items are placed than were validated."
    if member(asked, "fulfillment", "mode") != member(sent, "fulfillment", "mode"):
        return "Another mode of fulfilment is placed than was validated."
    return None


def _other_total(played: Played) -> str | None:
    return _other_amount(played, "total", missing=None)


def _other_tip(played: Played) -> str | None:
    return _other_amount(played, "tip", missing="0")


def _other_amount(played: Played, name: str, *, missing: str | None) -> str | None:
    """Return what is wrong with an amount of the placement, which may be `missing` and then counts as that."""
    pair = _before(played)
    right = None if pair is None else member(pair[0].said(), "order", "amounts", name)
    if pair is None or right is None:
        return None
    sent = member(body_of(pair[1]), "amounts", name) or missing
    if sent is None or _is_amount(sent, right):
        return None
    return f"`amounts.{name}` is {sent!r}, validation said {right!r}."


def _other_token(played: Played) -> str | None:
    pair = _before(played)
    assert pair is not None, "it was validated first"
    right = member(pair[0].said(), "validatedOrderToken")
    same = member(body_of(pair[1]), "validatedOrderToken") == right
    return None if same else "`validatedOrderToken` is not the one that validation answered."


def _is_amount(text: Any, right: str) -> bool:
    try:
        return isinstance(text, str) and Decimal(text) == Decimal(right)
    except InvalidOperation:
        return False


def _choices(document: Any) -> list[Any]:
    return sorted((line.quantity, repr(choice_of(line))) for line in lines_of(document))


def _compared(look: Callable[[Played], str | None], words: str) -> Run[Bench]:
    """Return a check that finds no fault between what was validated and what was placed."""

    def judge(bench: Bench, played: Played) -> str:
        bench.show(_before(played) or ())
        fault = look(played)
        if fault is not None:
            raise Failed(fault)
        return words

    return after("plain", judge)


# --- the checks ---


@group.check(
    "sent",
    "An order is sent",
    needs="",
    proves="discovery, catalog and cart fit together",
    advice="Follow what was asked and answered below; every refusal says what is wrong in `detail` and `errors`. With "
    "--command, the command has to place one order and end.",
)
async def sent(bench: Bench) -> str:
    """Buy once."""
    played = await bench.played("plain")
    bench.show(played.calls)
    if not played.of("place"):
        last = list(played.calls)[-1:]
        what = (
            f"the last answer was {last[0].status} to {last[0].path}" if last else "nothing was asked at all"
        )
        raise Failed(f"No order was sent: {what}. {played.ended.words}".strip())
    return f"after {len(played.calls) - len(played.of('place'))} other requests"


@group.check(
    "placed",
    "It is placed",
    needs=SENT,
    proves="an order that is sent is one that can be taken",
    advice="Read `errorCode`, `detail` and `errors` of the refusal.",
)
async def placed(bench: Bench) -> str:
    """Look whether the order was taken. What another check tells is not told again."""
    played = await bench.played("plain")
    bench.show(played.of("validate", "place"))
    if played.placed:
        return "201"
    for name, look in (("same-order", _other_items), ("total", _other_total), ("tip", _other_tip)):
        if look(played) is not None:
            raise Skipped(f"It says nothing while {group.name}.{name} did not pass.")
    last = played.of("place")[-1]
    if not last.headers.get("idempotency-key"):
        raise Skipped(f"It says nothing while {group.name}.key did not pass.")
    raise Failed(f"The last answer was {last.status}. {played.ended.words}".strip())


@group.check(
    "patient",
    "A slow answer is waited for",
    proves="an order that takes its time is not given up",
    advice="Wait for the answer to Place order for at least 15 s: the store's system may take that long. When you give "
    "up all the same, send the same request with the same key.",
)
async def patient(bench: Bench) -> str:
    """Buy where placing takes long."""
    played = await bench.played("slow")
    calls = played.of("place")
    bench.show(calls)
    if not calls:
        raise Failed("No order was sent.")
    if any(one.began < calls[0].ended for one in calls[1:]) or calls[0].status == DROPPED:
        raise Failed(f"It was sent {len(calls)} times: the answer was not waited for.")
    return f"waited {calls[0].ended - calls[0].began:.1f} s"


@group.check(
    "validated-first",
    "It is validated before it is placed",
    needs=SENT,
    proves="the customer sees what it costs before paying",
    advice="Send the order to Validate order first, and place it with the token of the answer.",
)
async def validated_first(bench: Bench) -> str:
    """Look at the order of calls."""
    played = await bench.played("plain")
    if _before(played) is None:
        bench.show(played.of("place"))
        raise Failed("The order was placed without having been validated.")
    return "validated, then placed"


group.add(
    "same-order",
    "What is placed is what was validated",
    run=_compared(_other_items, "the same items, handed over in the same way"),
    needs=FIRST,
    proves="nothing is added on the way to the till",
    advice="Place the cart and the fulfilment that were validated. After any change, validate again.",
)


group.add(
    "total",
    "The total is the one that was validated",
    run=_compared(_other_total, "as validated, or left out"),
    needs=FIRST,
    proves="amounts are passed on, not computed anew",
    advice="Send `amounts.total` as validation answered it, or leave it out. A text stays a text: no number, no "
    "rounding.",
)


group.add(
    "tip",
    "The tip is the one that was validated",
    run=_compared(_other_tip, "as validated"),
    needs=FIRST,
    proves="a tip is not lost, nor added after the customer agreed",
    advice="Send the same `amounts.tip` to Validate order and to Place order.",
)


group.add(
    "token",
    "The token of the validation is sent",
    run=_compared(_other_token, "the same token"),
    needs=(FIRST, "storefront.order.same-order", "storefront.order.total", "storefront.order.tip"),
    proves="what was shown is what is ordered: the store is not asked anew",
    advice="Send `validatedOrderToken` of the answer that the customer has seen, unchanged.",
)


@group.check(
    "once",
    "It is placed once",
    proves="an answer that came is believed",
    advice="Stop when 201 has come: the order is placed.",
)
async def once(bench: Bench) -> str:
    """Count the placements."""
    calls = (await bench.played("plain")).of("place")
    if len(calls) > 1:
        bench.show(calls)
        raise Failed(f"It was sent {len(calls)} times, though the first answer came.")
    return "sent once"


@group.check(
    "key",
    "Idempotency-Key is sent",
    needs=SENT,
    proves="a repeat can be told from a second order",
    advice="Send the header Idempotency-Key with Place order: a new UUID v4 for each order, kept until its "
    "answer came.",
)
async def key(bench: Bench) -> str:
    """Look at the header."""
    call = (await bench.played("plain")).of("place")[0]
    sent = call.headers.get("idempotency-key", "")
    bench.show([call])
    if len(sent) < 16:  # noqa: PLR2004  # half of a UUID: what is shorter will come twice
        raise Failed(f"The key has {count_of(len(sent), 'character')}: too few to be nobody else's.")
    return count_of(len(sent), "character")


@group.check(
    "new-key",
    "A new order has a new key",
    proves="the next customer gets a meal of their own",
    advice="Make a new Idempotency-Key for every order; only a repeat of the same request has the same one.",
)
async def new_key(bench: Bench) -> str:
    """Compare the keys of several purchases."""
    names = ("plain", "later", "again")
    calls = [call for name in names for call in (await bench.played(name)).placed]
    orders = {call.answer: call.headers.get("idempotency-key", "") for call in calls}
    keys = list(orders.values())
    if len(set(keys)) != len(keys):
        bench.show(calls)
        raise Failed(f"{len(keys)} orders had {len(set(keys))} keys.")
    return f"{len(keys)} orders, as many keys"


group.add(
    "three-decimals",
    "Three decimals stay three decimals",
    run=after("dinars", bought),
    section="Decisions 1",
    proves="amounts are texts at the currency's own scale",
    advice="Keep amounts as the texts that they came in; never round them to two decimals.",
)


group.add(
    "no-decimals",
    "Yen have no decimals",
    run=after("yen", bought),
    section="Decisions 1",
    proves="amounts are texts at the currency's own scale",
    advice="Keep amounts as the texts that they came in; do not divide by 100.",
)
