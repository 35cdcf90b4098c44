"""How a merchant answers `order.validate`: what it agrees to, what it refuses, and what does not disturb it."""

import asyncio
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from mercato import clock
from mercato.carts.model import MOST_LINES, LineItem
from mercato.catalog.money import scaled
from mercato.certify.grown import grown
from mercato.certify.merchant import judging
from mercato.certify.merchant.altered import NOBODYS, at_half, halved, rewritten, turned, with_item
from mercato.certify.merchant.bench import PICKUP, Bench
from mercato.certify.merchant.reply import read
from mercato.certify.model import Failed, Skipped
from mercato.certify.shop import Draft
from mercato.certify.suite import Group
from mercato.orders.model import (
    Customer,
    DeliveryAddress,
    DeliveryFulfillment,
    DeliveryType,
    Fulfillment,
    PickupFulfillment,
    ScheduleType,
)
from mercato.orders.replies import Agreed, Fault, Refused
from mercato.wire import instant

ACCEPTED: Final = "merchant.validate.accepted"

AT_ONCE: Final = 20
"""Calls that the service has under way to one store at most."""

group: Final = Group[Bench](
    "merchant.validate",
    heading="Validate: what can be had, and what it costs",
    section="Decisions 9",
    needs=ACCEPTED,
)

_OPEN: Final = "Read the members that you know and pass over all others: new ones may come at any time."
_OPTIONAL: Final = "Read optional members as optional: absent and null mean that nothing was said."


@group.check(
    "accepted",
    "An order that is right is agreed to",
    needs="merchant.signature.accepted",
    proves="the store takes what its own catalog sells",
    advice="Answer 2xx with a JSON object: `isValid` true, and `amounts` if you add to the price. Give the catalog "
    "that you publish with --catalog, so that the order is one of yours.",
)
async def accepted(bench: Bench) -> str:
    """Ask for the plainest order there is."""
    draft = bench.plain()
    sums = judging.agreed(draft, await bench.send(bench.question(draft)))
    return f"agreed, at a total of {sums.total} {sums.currency} in minor units"


@group.check(
    "amounts-exact",
    "Amounts are exact, whatever the price",
    proves="money is not computed in floating point, and every list sums to its amount",
    advice="Compute in whole minor units or in decimals, round once, and send decimal strings with the currency's own "
    "number of decimals.",
)
async def amounts_exact(bench: Bench) -> str:
    """Ask for several quantities of what costs something, where floats show."""
    shop = bench.of.shop
    for quantity in (3, 7, 11, 19):
        line = _units(bench, quantity)
        draft = shop.order([line], PICKUP)
        said = read(draft, await bench.send(bench.question(draft)))
        if isinstance(said, Fault):
            raise Failed(f"For {line.quantity} units: {said.words}")
    return "every answer adds up"


@group.check(
    "tip-kept",
    "A tip is the customer's, and stays",
    proves="the total is the order's with the tip or without, and nothing else",
    advice="Do not put the tip into fees or adjustments. A `total`, if you send one, has it or has it not.",
)
async def tip_kept(bench: Bench) -> str:
    """Ask for an order with a tip."""
    draft = bench.plain(tip=_whole(bench, 3))
    sums = judging.agreed(draft, await bench.send(bench.question(draft)))
    plain = bench.plain()
    bare = judging.agreed(plain, await bench.send(bench.question(plain)))
    if sums.total - sums.tip != bare.total:
        raise Failed(f"Without the tip it costs {sums.total - sums.tip}, without a tip {bare.total}.")
    return "the same price, and the tip"


@group.check(
    "same-again",
    "The same order costs the same again",
    proves="what the customer was told is what the order will cost",
    advice="What an order costs must follow from the order alone while nothing has changed on your side.",
)
async def same_again(bench: Bench) -> str:
    """Ask twice."""
    draft = bench.plain()
    first, second = [judging.agreed(draft, await bench.send(bench.question(draft))) for _ in range(2)]
    if first != second:
        raise Failed(f"It cost {first.total}, then {second.total} in minor units.")
    return "the same amounts"


@group.check(
    "modifiers-agreed",
    "A choice that costs something is agreed to",
    proves="modifiers are priced as the catalog prices them",
    advice="Price a line as quantity times (its price + the prices of its modifiers times their quantities).",
)
async def modifiers_agreed(bench: Bench) -> str:
    """Order something with a choice that costs."""
    line = bench.of.shop.with_choice(free=False)
    if line is None:
        raise Skipped("The catalog has no choice that costs something: give one that has with --catalog.")
    return await _agreed(bench, bench.of.shop.order([line], PICKUP))


@group.check(
    "free-choice-agreed",
    "A choice that costs nothing is agreed to",
    proves="a price of zero is a price",
    advice="Do not take 0 for missing: a modifier may cost nothing.",
)
async def free_choice(bench: Bench) -> str:
    """Order something with a choice that is free."""
    line = bench.of.shop.with_choice(free=True)
    if line is None:
        raise Skipped("The catalog has no choice that costs nothing: give one that has with --catalog.")
    return await _agreed(bench, bench.of.shop.order([line], PICKUP))


@group.check(
    "wrong-prices-refused",
    "An order at wrong prices is refused",
    proves="the store's own prices count, not those that it is told",
    advice="Compare the lines' amounts with your own prices. If they differ, answer `isValid` false with "
    "ITEM_PRICE_CHANGED, or your own `subTotal`.",
)
async def wrong_prices(bench: Bench) -> str:
    """Ask for an order at half its price."""
    draft = bench.plain()
    reply = await bench.send(rewritten(bench.question(draft), halved))
    no = judging.refused(read(at_half(draft), reply), what="an order at half its price")
    return f"refused: {judging.codes(no)}"


@group.check(
    "unknown-item-refused",
    "An item that is not yours is refused",
    proves="what the store does not have is not sold",
    advice="Answer `isValid` false with ITEM_UNAVAILABLE and a pointer to the line.",
)
async def unknown_item(bench: Bench) -> str:
    """Ask for an item that no catalog has."""
    draft = bench.plain()
    message = rewritten(bench.question(draft), with_item(NOBODYS))
    return _unavailable(
        judging.refused(read(draft, await bench.send(message)), what="an item it does not have")
    )


@group.check(
    "sold-out-refused",
    "An item that can't be had is refused",
    proves="what is sold out is not sold",
    advice="Answer `isValid` false with ITEM_UNAVAILABLE for an item with isAvailable false, and for one sold out.",
)
async def sold_out(bench: Bench) -> str:
    """Ask for an item that the catalog says is not to be had."""
    gone = next(bench.of.shop.unavailable, None)
    if gone is None:
        raise Skipped("Nothing is sold out: name an item that is with --sold-out.")
    draft = bench.plain()
    message = rewritten(bench.question(draft), with_item(gone))
    return _unavailable(
        judging.refused(read(draft, await bench.send(message)), what="an item that is sold out")
    )


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
    return await _agreed(bench, bench.plain(customer=name))


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
async def many_units(bench: Bench) -> str:
    """Ask for as many as one may buy, up to a thousand."""
    return await _answered(bench, bench.of.shop.order([_units(bench, 1000)], PICKUP))


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


# --- parts --------------------------------------------------------------------------------------


def _unavailable(no: Refused) -> str:
    if all(error.code != "ITEM_UNAVAILABLE" for error in no.errors):
        raise Failed(f"It was refused, but with {judging.codes(no)} and not with ITEM_UNAVAILABLE.")
    return "refused: ITEM_UNAVAILABLE"


async def _agreed(bench: Bench, draft: Draft) -> str:
    judging.agreed(draft, await bench.send(bench.question(draft)))
    return "agreed"


async def _answered(bench: Bench, draft: Draft) -> str:
    said: Agreed | Refused | Fault = read(draft, await bench.send(bench.question(draft)))
    return judging.yes_or_no(said)


def _brought(address: DeliveryAddress) -> Fulfillment:
    return DeliveryFulfillment(
        schedule_type=ScheduleType.ASAP, delivery_type=DeliveryType.LEAVE_AT_DOOR, address=address
    )


def _units(bench: Bench, quantity: int) -> LineItem:
    """Return the plainest line with that quantity, or with as many as one may buy."""
    line = bench.of.shop.plain
    most = bench.of.shop.catalog.items[line.item_id.int].maximum_quantity
    return replace(line, quantity=quantity if most is None else max(1, min(most, quantity)))


def _bare_line(bench: Bench) -> LineItem:
    return min(bench.of.shop.offers, key=lambda line: len(line.modifier_groups))


def _whole(bench: Bench, units: int) -> str:
    """Return a whole amount in the currency's own scale."""
    scale = bench.of.shop.catalog.scale
    return scaled(units * 10**scale, scale)
