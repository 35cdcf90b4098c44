"""How a merchant answers `order.cancel`: it decides about each cancellation once, also if it is repeated."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from mercato_contract.clock import new_id
from mercato_contract.events import SUFFIXES, EventType, OrderCancelData
from mercato_contract.replies import CancelAcceptance, CancelRejection, CancelReply, InvalidReply, read_cancel
from mercato_tools.certify.merchant.context import MerchantContext, approved
from mercato_tools.certify.receiver import WRONG_SECRET, Change, Message, rejected
from mercato_tools.certify.sample_store import with_unknown_members
from mercato_tools.certify.suite import Failed, Run

TIMES: Final = 5
"""How often one cancellation is sent at the same time."""


async def _cancellation(
    context: MerchantContext, *, message: str | None = "It was ordered twice.", change: Change | None = None
) -> Message:
    """Return the cancellation of an order that the merchant has just accepted."""
    placed = await context.place_message()
    number = approved(await context.place(placed)).partner_order_id
    cancellation_id = new_id()
    data = OrderCancelData(
        order_id=UUID(placed.webhook_id),
        store_id=context.store.id,
        partner_store_id=context.store.partner_store_id,
        cancellation_id=cancellation_id,
        partner_order_id=number,
        reason="CHANGED_MIND",
        message=message,
    )
    return context.message(
        SUFFIXES[EventType.ORDER_CANCEL],
        EventType.ORDER_CANCEL,
        data,
        webhook_id=cancellation_id,
        change=change,
    )


async def _cancel(context: MerchantContext, message: Message) -> CancelReply:
    """Send a cancellation and return the answer as the service reads it."""
    reply = await context.send(message)
    return read_cancel(reply.status, reply.body)


def answered(**options: Any) -> Run[MerchantContext]:
    """Return a check that a cancellation is accepted or refused."""

    async def run(context: MerchantContext) -> str:
        return _decision(await _cancel(context, await _cancellation(context, **options)))

    return run


async def _forged(context: MerchantContext) -> str:
    message = await _cancellation(context)
    return rejected(await context.send(message.but(secrets=(WRONG_SECRET,))))


async def _repeated(context: MerchantContext) -> str:
    message = await _cancellation(context)
    return _one_decision(await _cancel(context, message.but(age=2)), await _cancel(context, message))


async def _at_once(context: MerchantContext) -> str:
    message = await _cancellation(context)
    replies = await asyncio.gather(*(_cancel(context, message) for _ in range(TIMES)))
    decided = [reply for reply in replies if not isinstance(reply, InvalidReply)]
    return _one_decision(*(decided or replies), await _cancel(context, message))


async def _lost_answer(context: MerchantContext) -> str:
    message = await _cancellation(context)
    await context.interrupt(message)
    return _one_decision(await _cancel(context, message.but(age=2)), await _cancel(context, message))


async def _unknown_members(context: MerchantContext) -> str:
    plain = await _cancel(context, await _cancellation(context))
    reply = await _cancel(context, await _cancellation(context, change=with_unknown_members))
    match plain, reply:
        case CancelAcceptance(), CancelRejection():
            raise Failed("It accepts a cancellation, and refuses one that has members it doesn't know.")
    return _decision(reply)


def _decision(reply: CancelReply) -> str:
    match reply:
        case CancelAcceptance():
            return "accepted"
        case CancelRejection(reason):
            return f"refused: {reason}" if reason else "refused"
        case InvalidReply(message):
            raise Failed(message)


def _one_decision(*replies: CancelReply) -> str:
    decisions = list(dict.fromkeys(map(_decision, replies)))
    if len(decisions) > 1:
        raise Failed(f"It answered one cancellation in two ways: {decisions[0]}, then {decisions[1]}.")
    return f"{decisions[0]}, each time"


CANCEL: Final[Mapping[str, Run[MerchantContext]]] = {
    "answered": answered(),
    "forged-refused": _forged,
    "repeat-same-answer": _repeated,
    "duplicates-at-once": _at_once,
    "lost-answer": _lost_answer,
    "no-message": answered(message=None),
    "unknown-members-ignored": _unknown_members,
}
