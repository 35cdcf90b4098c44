"""How a merchant answers `order.validate` when what is asked is right, but unusual."""

import asyncio
from datetime import timedelta
from typing import Final

from mercato import clock
from mercato.carts.model import MOST_LINES, LineItem
from mercato.certify.grown import grown
from mercato.certify.merchant import judging
from mercato.certify.merchant.altered import rewritten, turned
from mercato.certify.merchant.bench import PICKUP, Bench
from mercato.certify.merchant.questions import asked, group, units
from mercato.certify.merchant.reply import read
from mercato.certify.shop import Draft
from mercato.orders.replies import Agreed, Fault, Refused
from mercato.orders.request import (
    Customer,
    DeliveryAddress,
    DeliveryFulfillment,
    DeliveryType,
    Fulfillment,
    PickupFulfillment,
    ScheduleType,
)
from mercato.wire import instant

__all__ = ["group"]

AT_ONCE: Final = 20
"""Calls that the service has under way to one store at most."""

_OPEN: Final = "Read the members that you know and pass over all others: new ones may come at any time."
_OPTIONAL: Final = "Read optional members as optional: absent and null mean that nothing was said."


@group.check(
    "unknown-members-ignored",
    "Members that are new are passed over",
    section="Decisions 11",
    proves="the service can add to what it sends",
    advice=_OPEN,
)
async def unknown_members(bench: Bench) -> str:
    """Put unknown members everywhere."""
    draft = bench.plain()
    judging.agreed(draft, await bench.send(rewritten(bench.question(draft), grown)))
    return "agreed"


@group.check(
    "members-any-order",
    "Members may come in any order",
    proves="a JSON object is read by name",
    advice="Read members by their names: their order in an object means nothing.",
)
async def any_order(bench: Bench) -> str:
    """Turn the order of all members."""
    draft = bench.plain()
    judging.agreed(draft, await bench.send(rewritten(bench.question(draft), turned)))
    return "agreed"


@group.check(
    "unicode-names",
    "Names in any script are taken",
    proves="texts are Unicode from end to end",
    advice="Read bodies as UTF-8, and keep texts in columns that hold all of Unicode (utf8mb4 in MySQL).",
)
async def unicode_names(bench: Bench) -> str:
    """Order as somebody whose name has everything."""
    name = Customer(
        email="зоя@example.net",
        first_name="Zoë 👩🏽‍🍳 محمد",
        last_name="O\u2019Brien-渡邊 \u0130\u0131\u00df",
        phone="+81 90-0000-0000",
    )
    return await asked(bench, bench.plain(customer=name))


@group.check(
    "no-customer",
    "An order without a customer is answered",
    section="Specification 2.9",
    proves="`customer` is optional",
    advice=_OPTIONAL,
)
async def no_customer(bench: Bench) -> str:
    """Ask without `customer`."""
    return await _answered(bench, bench.plain(customer=None))


@group.check(
    "delivery",
    "A delivery is answered",
    section="Specification 2.9",
    proves="both modes of fulfilment are known",
    advice="Answer yes, or `isValid` false with ADDRESS_OUT_OF_RANGE or OTHER if you do not deliver.",
)
async def delivery(bench: Bench) -> str:
    """Ask for a delivery to a whole address."""
    address = DeliveryAddress(address1="1 Main Street", city="Madison", postal_code="53703", state="WI")
    return await _answered(bench, bench.of.shop.order([bench.of.shop.plain], _brought(address)))


@group.check(
    "address-with-nulls",
    "An address with nulls is answered",
    section="Specification 2.3",
    proves="every member of an address may be null",
    advice=_OPTIONAL,
)
async def address_with_nulls(bench: Bench) -> str:
    """Ask for a delivery to a street alone."""
    address = DeliveryAddress(address1="1 Main Street")
    return await _answered(bench, bench.of.shop.order([bench.of.shop.plain], _brought(address)))


@group.check(
    "scheduled",
    "An order for later is answered",
    section="Specification 2.9",
    proves="SCHEDULED and `scheduledTime` are known",
    advice="Answer yes, or `isValid` false with STORE_CLOSED or OTHER if you take no orders for later.",
)
async def scheduled(bench: Bench) -> str:
    """Ask for tomorrow."""
    later = PickupFulfillment(
        schedule_type=ScheduleType.SCHEDULED, scheduled_time=instant(clock.now() + timedelta(days=1))
    )
    return await _answered(bench, bench.of.shop.order([bench.of.shop.plain], later))


@group.check(
    "many-units",
    "A large quantity is answered",
    section="Decisions 7",
    proves="quantities are numbers, and sums do not overflow",
    advice="Answer yes or no; amounts may need 64 bits of minor units.",
)
async def manyunits(bench: Bench) -> str:
    """Ask for as many as one may buy, up to a thousand."""
    return await _answered(bench, bench.of.shop.order([units(bench, 1000)], PICKUP))


@group.check(
    "big-cart",
    f"A cart of {MOST_LINES} lines is answered in time",
    section="Decisions 7, 9",
    proves="the largest cart that the service passes on fits into this receiver's time and body limit",
    advice="Take bodies of at least 256 KiB, and answer within 5 s: look items up together, not one by one.",
)
async def big_cart(bench: Bench) -> str:
    """Ask for the largest cart there is."""
    line = _bare_line(bench)
    size = 1 + sum(len(one.line_items) for one in line.modifier_groups)
    return await _answered(bench, bench.of.shop.order([line] * (MOST_LINES // size), PICKUP))


@group.check(
    "many-at-once",
    f"{AT_ONCE} questions at once are answered in time",
    proves="the receiver does not fall behind when many customers order",
    advice="Serve requests at the same time: the service has up to 20 calls to one store under way, each for 5 s.",
)
async def many_at_once(bench: Bench) -> str:
    """Ask twenty times at once."""
    draft = bench.plain()
    replies = await asyncio.gather(*(bench.send(bench.question(draft)) for _ in range(AT_ONCE)))
    for reply in replies:
        judging.agreed(draft, reply)
    del bench.exchanges[2:]
    return f"{len(replies)} answers"


async def _answered(bench: Bench, draft: Draft) -> str:
    said: Agreed | Refused | Fault = read(draft, await bench.send(bench.question(draft)))
    return judging.yes_or_no(said)


def _brought(address: DeliveryAddress) -> Fulfillment:
    return DeliveryFulfillment(
        schedule_type=ScheduleType.ASAP, delivery_type=DeliveryType.LEAVE_AT_DOOR, address=address
    )


def _bare_line(bench: Bench) -> LineItem:
    return min(bench.of.shop.offers, key=lambda line: len(line.modifier_groups))
