"""How a merchant answers `order.place`: it accepts each order once, also if it is repeated, and no wrong order."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mercato_contract.amounts import explain_ignored_amounts
from mercato_contract.replies import Acceptance, InvalidReply, Rejection
from mercato_tools.certify.merchant.context import (
    CARD,
    MerchantContext,
    answered,
    approved,
    codes,
    read_placement,
    read_verdict,
    refused,
)
from mercato_tools.certify.receiver import WRONG_SECRET, ReceiverReply, rejected
from mercato_tools.certify.sample_store import halve_prices, replace_items, with_unknown_members
from mercato_tools.certify.suite import Failed, NoAnswer, Run, Skipped

TIMES: Final = 5
"""How often one order is sent at the same time."""

EXTERNAL: Final = {"type": "external"}

WISHES: Final = (
    "no onions",
    'cut in 8, "well done"\nsauce apart',
    "ohne Zwiebeln, \u6291\u3048\u3081\u306e\u5869 \U0001f336",
)
"""What an agent's customers write: several lines of text, in any script."""


async def _accepted(context: MerchantContext) -> str:
    answer = approved(await context.place(await context.place_message()))
    return f"accepted as {answer.partner_order_id}" if answer.partner_order_id else "accepted"


async def _forged(context: MerchantContext) -> str:
    message = await context.place_message()
    return rejected(await context.send(message.but(secrets=(WRONG_SECRET,))))


async def _verdict_read(context: MerchantContext) -> str:
    return read_verdict(approved(await context.place(await context.place_message())))


# --- one order, sent several times -----------------------------------------------------------------


async def _same_answer(context: MerchantContext) -> str:
    message = await context.place_message()
    first = await context.send(message.but(age=2))
    approved(read_placement(first))
    return _same(first, await context.send(message))


async def _refusal_repeated(context: MerchantContext) -> str:
    message = await context.place_message(change=replace_items())
    first = await context.send(message.but(age=2))
    if not isinstance(read_placement(first), Rejection):
        raise Skipped("It needs merchant.place.unknown-item-refused to pass first.")
    return _same(first, await context.send(message))


def one_order(*, lose_first: bool = False, **again: Any) -> Run[MerchantContext]:
    """Return a check that a repeat, signed in another way, isn't a second order."""

    async def run(context: MerchantContext) -> str:
        message = await context.place_message()
        answer = None
        if lose_first:
            await context.interrupt(message)
            answer = await context.place(message.but(age=2))
            if isinstance(answer, Rejection):
                raise Failed(
                    f"It refused an order that it got before, whose answer was lost: {codes(answer)}."
                )
        first = approved(answer or await context.place(message.but(age=2)))
        return _one_number(first, await context.place(message.but(**again)))

    return run


async def _at_once(context: MerchantContext) -> str:
    message = await context.place_message()
    answers = await asyncio.gather(*(context.place(message) for _ in range(TIMES)))
    for answer in answers:
        if isinstance(answer, Rejection):
            raise Failed(f"It refused one of them: {codes(answer)}.")
    accepted = [answer for answer in answers if isinstance(answer, Acceptance)]
    return _one_number(*(accepted or [approved(await context.place(message))]))


async def _interrupted(context: MerchantContext) -> str:
    message = await context.place_message()
    await context.interrupt(message, size=len(message.body) // 2)
    approved(await context.place(message))
    return "accepted once it was complete"


async def _new_id(context: MerchantContext) -> str:
    order = context.order()
    messages = [await context.place_message(order) for _ in range(2)]
    numbers = [_number(approved(await context.place(message))) for message in messages]
    if numbers[0] == numbers[1]:
        raise Failed(f"Both orders are {numbers[0]}.")
    return f"{numbers[0]} and {numbers[1]}"


# --- what is in the order -----------------------------------------------------------------------


async def _unknown_item(context: MerchantContext) -> str:
    message = await context.place_message(change=replace_items())
    return refused(await context.place(message), "an order for an item it does not have")


async def _wrong_prices(context: MerchantContext) -> str:
    message = await context.place_message(change=halve_prices)
    return refused(await context.place(message), "an order at half its price")


async def _amounts_kept(context: MerchantContext) -> str:
    order = context.order()
    agreed = await context.agree(order)
    answer = approved(await context.place(await context.place_message(order)))
    fault = explain_ignored_amounts(agreed, answer.amounts)
    if fault is not None:
        raise Failed(fault)
    return "the total stays" if answer.amounts is not None else "no amounts in the answer"


async def _unknown_members(context: MerchantContext) -> str:
    approved(await context.place(await context.place_message(payment=EXTERNAL, change=with_unknown_members)))
    return "accepted"


async def _agent_order(context: MerchantContext) -> str:
    """An agent orders an item several times, each with another note, where a person would write one note."""
    plain = context.merchant.sample.plain_line
    order = context.order(*(replace(plain, note=wish) for wish in WISHES), note="Ordered by an assistant.")
    approved(await context.place(await context.place_message(order)))
    return f"{len(WISHES)} lines of one item, each with its note"


async def _paid_elsewhere(context: MerchantContext) -> str:
    payments = EXTERNAL, {"type": "somethingNew", "reference": "c-1"}
    messages = [await context.place_message(payment=payment) for payment in payments]
    return [answered(await context.place(message)) for message in messages][-1]


async def _card_not_echoed(context: MerchantContext) -> str:
    reply = await context.send(await context.place_message(payment=_card(CARD)))
    if CARD.encode() in reply.body or any(CARD in text for text in reply.headers.values()):
        raise Failed("The answer contains the card's token.")
    return f"answered {reply.status}, without it"


async def _card_declined(context: MerchantContext) -> str:
    token = context.merchant.options.declined_card
    if token is None:
        raise Skipped("Name a card token that your bank declines with --declined-card.")
    message = await context.place_message(payment=_card(token))
    return refused(await context.place(message), "a card that is declined", "PAYMENT_DECLINED")


def _card(token: str) -> dict[str, str]:
    return {"type": "cardOnFile", "cardToken": token, "processorType": "certify"}


# --- comparisons -----------------------------------------------------------------------------------


def _number(answer: Acceptance | Rejection | InvalidReply) -> str:
    match answer:
        case Rejection():
            raise Failed(f"It took the order first, then refused it: {codes(answer)}.")
        case InvalidReply(message=message):
            raise NoAnswer(message)
    if answer.partner_order_id is None:
        raise Skipped("Send `partnerOrderId`: only your own number can tell one order from two.")
    return answer.partner_order_id


def _one_number(*answers: Acceptance | Rejection | InvalidReply) -> str:
    numbers = sorted({_number(answer) for answer in answers})
    if len(numbers) > 1:
        raise Failed(f"It became {len(numbers)} orders: {', '.join(numbers)}.")
    return f"one order: {numbers[0]}"


def _same(first: ReceiverReply, again: ReceiverReply) -> str:
    """Compare two answers, but for the merchant's number: another check compares that."""
    if first.status != again.status:
        raise Failed(f"It answered {first.status}, and to the repeat {again.status}.")
    if _without_number(first) != _without_number(again):
        raise Failed("The repeat has another content in its answer.")
    return f"{again.status} again, with the same content"


def _without_number(reply: ReceiverReply) -> Any:
    try:
        value = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return reply.body
    return {**value, "partnerOrderId": None} if isinstance(value, dict) else value


PLACE: Final[Mapping[str, Run[MerchantContext]]] = {
    "accepted": _accepted,
    "verdict-read": _verdict_read,
    "forged-refused": _forged,
    "repeat-same-answer": _same_answer,
    "repeat-one-order": one_order(),
    "repeat-in-rotation": one_order(secrets=(WRONG_SECRET, None)),
    "duplicates-at-once": _at_once,
    "lost-answer": one_order(lose_first=True),
    "cut-off": _interrupted,
    "new-id-new-order": _new_id,
    "unknown-item-refused": _unknown_item,
    "wrong-prices-refused": _wrong_prices,
    "refusal-repeated": _refusal_repeated,
    "amounts-kept": _amounts_kept,
    "unknown-members-ignored": _unknown_members,
    "agent-order": _agent_order,
    "paid-elsewhere": _paid_elsewhere,
    "card-not-echoed": _card_not_echoed,
    "card-declined": _card_declined,
}
