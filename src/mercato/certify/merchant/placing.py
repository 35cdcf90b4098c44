"""How a merchant takes orders: each once, whatever is sent how often, and none that is wrong."""

import asyncio
import json
from typing import Any, Final

from mercato.certify.merchant import judging
from mercato.certify.merchant.bench import Bench
from mercato.certify.merchant.broken import cut_off, left
from mercato.certify.merchant.questions import ACCEPTED as AGREED
from mercato.certify.merchant.reply import read_placed
from mercato.certify.model import Failed, NoAnswer, Skipped
from mercato.certify.sending import Reply
from mercato.certify.signatures import another_secret
from mercato.certify.statuses import not_believed
from mercato.certify.suite import Group
from mercato.orders.replies import PlaceSaid, Refused

ACCEPTED: Final = "merchant.place.accepted"
ONCE: Final = "merchant.place.repeat-one-order"

TIMES: Final = 5
"""How often one order comes at the same time."""

group: Final = Group[Bench](
    "merchant.place",
    heading="Place: each order once",
    section="Decisions 8, 9",
    needs=ACCEPTED,
)

FIRST: Final = (
    "Keep the webhook-id (it is the orderId) of every order with your first answer, under a unique index, and give "
    "that answer again when the id comes again."
)


@group.check(
    "accepted",
    "An order that was agreed to is taken",
    needs=AGREED,
    proves="what was validated can be placed",
    advice='Answer 2xx with a JSON object: {"accepted": true}, and your own number as `partnerOrderId`.',
)
async def accepted(bench: Bench) -> str:
    """Place the plainest order."""
    said = judging.taken(await bench.send(bench.placement(await bench.agreed())))
    return f"taken as {said.partner_order_id}" if said.partner_order_id else "taken"


@group.check(
    "forged-refused",
    "A forged order is refused",
    needs=("merchant.signature.wrong-key-refused", ACCEPTED),
    section="Specification 5.3; decisions 9",
    proves="nobody else can place an order",
    advice="Verify the signature on /place, too, before all else, and answer 401 when it does not verify.",
)
async def forged(bench: Bench) -> str:
    """Place an order with a secret that nobody has."""
    message = bench.placement(await bench.agreed())
    return not_believed(await bench.send(message.but(secrets=(another_secret(),))))


@group.check(
    "repeat-same-answer",
    "A repeat gets the first answer",
    proves="an answer that was lost on the way does not cost an order",
    advice=FIRST,
)
async def repeat_same_answer(bench: Bench) -> str:
    """Send an order again, signed anew."""
    message = bench.placement(await bench.agreed())
    first = await bench.send(message.but(late=2))
    judging.taken(first)
    again = await bench.send(message)
    same(but_number(first), but_number(again))
    return f"{again.status} again, with the same content"


@group.check(
    "repeat-one-order",
    "A repeat is no second order",
    proves="what is sent twice is cooked once",
    advice=FIRST,
)
async def repeat_one_order(bench: Bench) -> str:
    """Send an order again, and compare the merchant's own number of it."""
    message = bench.placement(await bench.agreed())
    first = judging.taken(await bench.send(message.but(late=2)))
    again = read_placed(await bench.send(message))
    return _one_number([_number(first), _number(again)])


@group.check(
    "repeat-in-rotation",
    "A repeat is known while secrets rotate",
    needs=ONCE,
    proves="orders are known by their id, and not by their signature",
    advice=FIRST,
)
async def repeat_in_rotation(bench: Bench) -> str:
    """Send an order again, signed with two secrets."""
    message = bench.placement(await bench.agreed())
    first = judging.taken(await bench.send(message))
    again = read_placed(await bench.send(message.but(secrets=(another_secret(), bench.receiver.secret))))
    return _one_number([_number(first), _number(again)])


@group.check(
    "duplicates-at-once",
    f"The same order {TIMES} times at once is one",
    needs=ONCE,
    proves="two processes that get the same order do not both take it",
    advice=FIRST
    + " One that finds the id taken, but without an answer yet, waits for it or answers 503: a 409 would "
    "be a no.",
)
async def duplicates_at_once(bench: Bench) -> str:
    """Send an order several times at the same time."""
    message = bench.placement(await bench.agreed())
    replies = await asyncio.gather(*(bench.send(message) for _ in range(TIMES)))
    said = [read_placed(reply) for reply in replies]
    for one in said:
        if isinstance(one, Refused):
            raise Failed(f"One of them was answered with a no: {judging.codes(one)}.")
    taken = [one for one in said if isinstance(one, PlaceSaid)] or [judging.taken(await bench.send(message))]
    return _one_number([_number(one) for one in taken])


@group.check(
    "lost-answer",
    "An order whose answer was lost is known",
    needs=ONCE,
    proves="the order is kept before it is answered, and found when it comes again",
    advice=FIRST + " Do not undo an order because the connection is gone.",
)
async def lost_answer(bench: Bench) -> str:
    """Send an order, leave before its answer, and send it again twice."""
    message = bench.placement(await bench.agreed())
    await left(bench, message)
    first = judging.taken(await bench.send(message))
    again = read_placed(await bench.send(message))
    return _one_number([_number(first), _number(again)])


@group.check(
    "cut-off",
    "One that broke off is taken when it is whole",
    proves="half a body is no order, and does not stand in the way of the whole one",
    advice="Read the whole body, as long as Content-Length says, before anything is kept of it.",
)
async def broke_off(bench: Bench) -> str:
    """Send half an order, and then all of it."""
    message = bench.placement(await bench.agreed())
    await cut_off(bench, message)
    judging.taken(await bench.send(message))
    return "taken when it came whole"


@group.check(
    "new-id-new-order",
    "The same under a new id is a new order",
    proves="two customers who want the same get it both",
    advice="Know an order by its webhook-id alone, not by what is in it.",
)
async def new_id(bench: Bench) -> str:
    """Place two orders of the same."""
    draft = await bench.agreed()
    numbers = [_number(judging.taken(await bench.send(bench.placement(draft)))) for _ in range(2)]
    if numbers[0] == numbers[1]:
        raise Failed(f"Both are {numbers[0]}.")
    return f"{numbers[0]} and {numbers[1]}"


# --- comparing answers ----------------------------------------------------------------------------


def _number(said: Any) -> str | None:
    if isinstance(said, Refused):
        raise Failed(f"It was taken first, then refused: {judging.codes(said)}.")
    if not isinstance(said, PlaceSaid):
        raise NoAnswer(said.words)
    if said.partner_order_id is None:
        raise Skipped("Send `partnerOrderId`: without your own number, two orders can't be told from one.")
    return said.partner_order_id


def _one_number(numbers: list[str | None]) -> str:
    distinct = sorted({str(number) for number in numbers})
    if len(distinct) > 1:
        raise Failed(f"It became {len(distinct)} orders: {', '.join(distinct)}.")
    return f"one order: {distinct[0]}"


def but_number(reply: Reply) -> tuple[int, Any]:
    """Return status and content of an answer, but for the merchant's number: another check looks at that."""
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        return reply.status, reply.body
    if isinstance(value, dict):
        value.pop("partnerOrderId", None)
    return reply.status, value


def same(first: tuple[int, Any], again: tuple[int, Any]) -> None:
    """Raise Failed when two answers are not the same."""
    if first[0] != again[0]:
        raise Failed(f"It answered {first[0]}, and to the repeat {again[0]}.")
    if first[1] != again[1]:
        raise Failed("The repeat was answered with other content.")
