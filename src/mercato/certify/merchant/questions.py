"""How a merchant answers `order.validate`: what it agrees to, what it refuses, and what does not disturb it."""

from typing import Final

from msgspec.structs import replace

from mercato.carts.model import LineItem
from mercato.catalog.money import scaled
from mercato.certify.merchant import judging
from mercato.certify.merchant.altered import NOBODYS, at_half, halved, rewritten, with_item
from mercato.certify.merchant.bench import PICKUP, Bench
from mercato.certify.merchant.reply import read
from mercato.certify.model import Failed, Skipped
from mercato.certify.shop import Draft
from mercato.certify.suite import Group
from mercato.orders.replies import Fault, Refused

ACCEPTED: Final = "merchant.validate.accepted"

group: Final = Group[Bench](
    "merchant.validate",
    heading="Validate: what can be had, and what it costs",
    section="Decisions 9",
    needs=ACCEPTED,
)


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
        line = units(bench, quantity)
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
async def modifiersasked(bench: Bench) -> str:
    """Order something with a choice that costs."""
    line = bench.of.shop.with_choice(free=False)
    if line is None:
        raise Skipped("The catalog has no choice that costs something: give one that has with --catalog.")
    return await asked(bench, bench.of.shop.order([line], PICKUP))


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
    return await asked(bench, bench.of.shop.order([line], PICKUP))


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


# --- parts --------------------------------------------------------------------------------------


def _unavailable(no: Refused) -> str:
    if all(error.code != "ITEM_UNAVAILABLE" for error in no.errors):
        raise Failed(f"It was refused, but with {judging.codes(no)} and not with ITEM_UNAVAILABLE.")
    return "refused: ITEM_UNAVAILABLE"


async def asked(bench: Bench, draft: Draft) -> str:
    """Ask for an order that has to be agreed to. Raises Failed when it is not."""
    judging.agreed(draft, await bench.send(bench.question(draft)))
    return "agreed"


def units(bench: Bench, quantity: int) -> LineItem:
    """Return the plainest line with that quantity, or with as many as one may buy."""
    line = bench.of.shop.plain
    most = bench.of.shop.catalog.items[line.item_id.int].maximum_quantity
    return replace(line, quantity=quantity if most is None else max(1, min(most, quantity)))


def _whole(bench: Bench, units: int) -> str:
    """Return a whole amount in the currency's own scale."""
    scale = bench.of.shop.catalog.scale
    return scaled(units * 10**scale, scale)
