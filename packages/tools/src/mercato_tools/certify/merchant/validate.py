"""How a merchant answers `order.validate`: it accepts correct orders, also unusual ones, and refuses wrong ones."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from mercato_contract import clock
from mercato_contract.carts import MAX_LINES, LineItem
from mercato_contract.money import minor_to_decimal
from mercato_contract.placements import (
    Customer,
    DeliveryAddress,
    DeliveryFulfillment,
    DeliveryType,
    PickupFulfillment,
    ScheduleType,
)
from mercato_contract.replies import InvalidReply
from mercato_contract.wire import instant
from mercato_tools.certify.merchant.context import (
    MerchantContext,
    answered,
    approved,
    read_agreement,
    read_verdict,
    refused,
)
from mercato_tools.certify.receiver import Change
from mercato_tools.certify.sample_store import (
    PricedOrder,
    halve_prices,
    replace_items,
    reverse_members,
    with_unknown_members,
)
from mercato_tools.certify.suite import Failed, Run, Skipped

CONCURRENCY: Final = 20
"""Requests that the service has in progress to one store at most."""

QUANTITIES: Final = (3, 7, 11, 19)
"""Multiples that show the errors of floating point."""

INTERNATIONAL: Final = Customer(
    email="зоя@example.net",
    first_name="Zoë 👩🏽‍🍳 محمد",
    last_name="O\u2019Brien-渡邊 \u0130\u0131\u00df",
    phone="+81 90-0000-0000",
)
STREET: Final = DeliveryAddress(address1="1 Main Street")
ADDRESS: Final = replace(STREET, city="Madison", postal_code="53703", state="WI")

MakeOrder = Callable[[MerchantContext], PricedOrder]


def agreed(order: MakeOrder = MerchantContext.order, change: Change | None = None) -> Run[MerchantContext]:
    """Return a check that the merchant agrees to an order."""

    async def run(context: MerchantContext) -> str:
        await context.agree(order(context), change)
        return "agreed"

    return run


def answers(order: MakeOrder) -> Run[MerchantContext]:
    """Return a check that the merchant says yes or no to an order."""

    async def run(context: MerchantContext) -> str:
        return answered(await context.validate(order(context)))

    return run


# --- orders ----------------------------------------------------------------------------------------


def _with_choice(*, free: bool) -> MakeOrder:
    def order(context: MerchantContext) -> PricedOrder:
        line = context.merchant.sample.line_with_choice(free=free)
        if line is None:
            cost = "is free" if free else "costs something"
            raise Skipped(
                f"The catalog has no modifier that {cost}. Give a catalog that has one with --catalog."
            )
        return context.order(line)

    return order


def _to(address: DeliveryAddress) -> MakeOrder:
    delivery = DeliveryFulfillment(
        schedule_type=ScheduleType.ASAP, delivery_type=DeliveryType.LEAVE_AT_DOOR, address=address
    )
    return lambda context: context.order(fulfillment=delivery)


def _tomorrow(context: MerchantContext) -> PricedOrder:
    time = instant(clock.now() + timedelta(days=1))
    return context.order(
        fulfillment=PickupFulfillment(schedule_type=ScheduleType.SCHEDULED, scheduled_time=time)
    )


def _largest_cart(context: MerchantContext) -> PricedOrder:
    line = min(context.merchant.sample.offers, key=lambda line: len(line.modifier_groups))
    size = 1 + sum(len(group.line_items) for group in line.modifier_groups)
    return context.order(*[line] * (MAX_LINES // size))


def _units(context: MerchantContext, quantity: int) -> LineItem:
    """Return the plain line with that quantity, or with the item's maximum."""
    line = context.merchant.sample.plain_line
    maximum = context.merchant.sample.catalog.items[line.item_id.int].maximum_quantity
    return replace(line, quantity=quantity if maximum is None else max(1, min(maximum, quantity)))


# --- checks ----------------------------------------------------------------------------------------


async def _accepted(context: MerchantContext) -> str:
    sums = await context.agree(context.order())
    return f"agreed, at a total of {sums.total} {sums.currency} in minor units"


async def _verdict_read(context: MerchantContext) -> str:
    return read_verdict(approved(await context.validate(context.order())))


async def _amounts_exact(context: MerchantContext) -> str:
    for quantity in QUANTITIES:
        line = _units(context, quantity)
        answer = await context.validate(context.order(line))
        if isinstance(answer, InvalidReply):
            raise Failed(f"For {line.quantity} units: {answer.message}")
    return "all amounts add up"


async def _tip_kept(context: MerchantContext) -> str:
    scale = context.merchant.sample.catalog.scale
    tipped = await context.agree(context.order(tip=minor_to_decimal(3 * 10**scale, scale)))
    plain = await context.agree(context.order())
    if tipped.total - tipped.tip != plain.total:
        raise Failed(
            f"With a tip it costs {tipped.total - tipped.tip} plus the tip; without one it costs {plain.total}."
        )
    return "the same price, and the tip"


async def _same_again(context: MerchantContext) -> str:
    order = context.order()
    first, second = await context.agree(order), await context.agree(order)
    if first != second:
        raise Failed(f"It cost {first.total}, then {second.total} in minor units.")
    return "the same amounts"


async def _wrong_prices(context: MerchantContext) -> str:
    order = context.order()
    sums = replace(order.sums, sub_total=order.sums.sub_total // 2)
    answer = await context.validate(PricedOrder(order.order, sums), halve_prices)
    return refused(answer, "an order at half its price")


async def _unknown_item(context: MerchantContext) -> str:
    answer = await context.validate(context.order(), replace_items())
    return refused(answer, "an item it does not have", "ITEM_UNAVAILABLE")


async def _sold_out(context: MerchantContext) -> str:
    item = next(context.merchant.sample.unavailable_items, None)
    if item is None:
        raise Skipped("No item is sold out. Name one that is with --sold-out.")
    answer = await context.validate(context.order(), replace_items(str(item)))
    return refused(answer, "an item that is sold out", "ITEM_UNAVAILABLE")


async def _many_at_once(context: MerchantContext) -> str:
    order = context.order()
    messages = [context.validate_message(order) for _ in range(CONCURRENCY)]
    for reply in await asyncio.gather(*map(context.send, messages)):
        approved(read_agreement(order, reply))
    del context.exchanges[2:]
    return f"{CONCURRENCY} answers"


VALIDATE: Final[Mapping[str, Run[MerchantContext]]] = {
    "accepted": _accepted,
    "verdict-read": _verdict_read,
    "amounts-exact": _amounts_exact,
    "tip-kept": _tip_kept,
    "same-again": _same_again,
    "modifiers-agreed": agreed(_with_choice(free=False)),
    "free-choice-agreed": agreed(_with_choice(free=True)),
    "wrong-prices-refused": _wrong_prices,
    "unknown-item-refused": _unknown_item,
    "sold-out-refused": _sold_out,
    "unknown-members-ignored": agreed(change=with_unknown_members),
    "members-any-order": agreed(change=reverse_members),
    "unicode-names": agreed(lambda context: context.order(customer=INTERNATIONAL)),
    "no-customer": answers(lambda context: context.order(customer=None)),
    "delivery": answers(_to(ADDRESS)),
    "address-with-nulls": answers(_to(STREET)),
    "scheduled": answers(_tomorrow),
    "many-units": answers(lambda context: context.order(_units(context, 1000))),
    "big-cart": answers(_largest_cart),
    "many-at-once": _many_at_once,
}
