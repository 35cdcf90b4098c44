"""What a merchant looks at in the orders that it takes: items, prices, payment; and what it answers to them."""

from mercato.certify.grown import grown
from mercato.certify.merchant import judging
from mercato.certify.merchant.altered import NOBODYS, halved, rewritten, with_item
from mercato.certify.merchant.bench import CARD, Bench
from mercato.certify.merchant.placing import FIRST, but_number, group, same
from mercato.certify.merchant.reply import read_placed
from mercato.certify.model import Failed, Skipped
from mercato.orders.amounts import remark
from mercato.orders.replies import Refused

__all__ = ["group"]


@group.check(
    "unknown-item-refused",
    "An item that is not yours is refused",
    proves="placements are looked at, too",
    advice="Look at what is ordered at /place as at /validate: answer 409 or 422 with ITEM_UNAVAILABLE.",
)
async def unknown_item(bench: Bench) -> str:
    """Place an order for an item that no catalog has."""
    message = rewritten(bench.placement(await bench.agreed()), with_item(NOBODYS))
    no = judging.refused(read_placed(await bench.send(message)), what="an order for an item it does not have")
    return f"refused: {judging.codes(no)}"


@group.check(
    "wrong-prices-refused",
    "An order at wrong prices is refused",
    proves="nothing is sold at a price that is not yours",
    advice="Compare the order's prices with your own at /place, too: answer 409 or 422 with ITEM_PRICE_CHANGED.",
)
async def wrong_prices(bench: Bench) -> str:
    """Place an order at half its price."""
    message = rewritten(bench.placement(await bench.agreed()), halved)
    no = judging.refused(read_placed(await bench.send(message)), what="an order at half its price")
    return f"refused: {judging.codes(no)}"


@group.check(
    "refusal-repeated",
    "An order that was refused stays refused",
    proves="the storefront and the store have the same idea of an order",
    advice=FIRST + " That goes for a no as well.",
)
async def refusal_repeated(bench: Bench) -> str:
    """Place an order that must be refused, twice."""
    message = rewritten(bench.placement(await bench.agreed()), with_item(NOBODYS))
    first = await bench.send(message.but(late=2))
    if not isinstance(read_placed(first), Refused):
        raise Skipped(
            "It says nothing while such an order is not refused (merchant.place.unknown-item-refused)."
        )
    again = await bench.send(message)
    same(but_number(first), but_number(again))
    return f"{again.status} again, with the same content"


@group.check(
    "amounts-kept",
    "An order is not repriced when it is placed",
    section="Decisions 9",
    proves="the customer pays what was agreed on",
    advice="Leave `amounts` out of the answer to /place, or send what was agreed on: another total is not taken over.",
)
async def amounts_kept(bench: Bench) -> str:
    """Place an order and compare its amounts."""
    draft = await bench.agreed()
    said = judging.taken(await bench.send(bench.placement(draft)))
    odd = remark(draft.sums, said.amounts)
    if odd is not None:
        raise Failed(odd)
    return "the total stays" if said.amounts is not None else "no amounts in the answer"


@group.check(
    "unknown-members-ignored",
    "Members that are new are passed over",
    section="Decisions 11",
    proves="the service can add to what it sends",
    advice="Read the members that you know and pass over all others: new ones may come at any time.",
)
async def unknown_members(bench: Bench) -> str:
    """Put unknown members everywhere."""
    message = rewritten(bench.placement(await bench.agreed(), payment={"type": "external"}), grown)
    judging.taken(await bench.send(message))
    return "taken"


@group.check(
    "paid-elsewhere",
    "An order that is paid elsewhere is answered",
    section="Decisions 8",
    proves="`payment` may be absent or of any type",
    advice="Without `payment`, or with one you do not know, say yes, or no with PAYMENT_METHOD_INVALID.",
)
async def paid_elsewhere(bench: Bench) -> str:
    """Place an order whose payment is of a type of the future."""
    draft = await bench.agreed()
    new = {"type": "somethingNew", "reference": "c-1"}
    judging.yes_or_no(read_placed(await bench.send(bench.placement(draft, payment={"type": "external"}))))
    return judging.yes_or_no(read_placed(await bench.send(bench.placement(draft, payment=new))))


@group.check(
    "card-not-echoed",
    "A card's token does not come back",
    section="Decisions 8",
    proves="payment stays out of answers, and so out of logs",
    advice="Never put `payment` into an answer: what you answer is kept in logs.",
)
async def card_not_echoed(bench: Bench) -> str:
    """Place an order with a card's token, and look for it in the answer."""
    payment = {"type": "cardOnFile", "cardToken": CARD, "processorType": "certify"}
    reply = await bench.send(bench.placement(await bench.agreed(), payment=payment))
    if CARD.encode() in reply.body or any(CARD in text for text in reply.headers.values()):
        raise Failed("The card's token stands in the answer.")
    return f"answered with {reply.status}, without it"


@group.check(
    "card-declined",
    "A card that is declined is told as that",
    section="Decisions 8",
    proves="the customer learns that another card may help",
    advice="Answer 402, or `accepted` false, with PAYMENT_DECLINED.",
)
async def card_declined(bench: Bench) -> str:
    """Place an order with a card that is declined."""
    card = bench.of.declined_card
    if card is None:
        raise Skipped("Name a card token that your bank declines with --declined-card.")
    payment = {"type": "cardOnFile", "cardToken": card, "processorType": "certify"}
    reply = await bench.send(bench.placement(await bench.agreed(), payment=payment))
    no = judging.refused(read_placed(reply), what="a card that is declined")
    if all(error.code != "PAYMENT_DECLINED" for error in no.errors):
        raise Failed(f"It was refused, but with {judging.codes(no)} and not with PAYMENT_DECLINED.")
    return "refused: PAYMENT_DECLINED"
