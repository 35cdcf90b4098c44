"""What goes wrong in the story: a price changes, a card is declined, a store is down. Then the records of it."""

from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from mercato.devtools.sandbox.scene import Scene
from mercato.devtools.sandbox.storefront import ORDERS, WAY, change_cart, order_of, placed_order, validated
from mercato.domain.orders.model import OrderState, OrderStatus
from mercato.domain.orders.transitions import PICKUP_PATH
from mercato.kernel.plurals import count_of
from mercato.testing import shops
from mercato.testing.merchant import DECLINED_CARD

NEWER_PRICE: Final = "11.00"

EVENTS: Final = len(WAY) + 1
"""Events of the order whose store was down: created while it waited, accepted, and every step."""


async def change_price(scene: Scene) -> None:
    """Validate, let the merchant publish a new price, and place what was validated."""
    taken = len(scene.merchant.taken)
    order = order_of(scene)
    outdated = await validated(scene, order)
    old = scene.said["amounts"]["total"]
    await scene.run("pizzeria", scene.merchant.host("/pizzeria.json", shops.pizzeria(margherita=NEWER_PRICE)))
    reply = await scene.storefront.place_once(outdated, str(uuid4()))
    scene.refused("A changed price is caught", [reply], 400, "ORDER_TOTAL_DIFFERENT")
    order = await validated(scene, order)
    new = scene.said["amounts"]["total"]
    unheard = len(scene.merchant.taken) == taken
    reply = await scene.storefront.place_once(order, str(uuid4()))
    total = scene.expect(reply, 201, "The order is placed at the new price")["amounts"]["total"]
    scene.prove(
        "It costs what was agreed to last",
        f"{old}, now {total}",
        old != new == total and unheard and len(scene.merchant.taken) == taken + 1,
    )
    scene.cart = scene.said["cart"]
    await scene.order_simulator.complete(reply.json()["orderId"])


async def decline(scene: Scene) -> None:
    """Pay with a card that the bank declines; then look for the card's token in everything that was written."""
    line = scene.cart["lineItems"][1]["lineItemId"]
    await change_cart(scene, "remove", {"cart": scene.cart, "lineItemId": line, "quantity": 0})
    payment = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "processorType": "sandbox"}
    paid = await validated(scene, order_of(scene, payment=payment))
    scene.order = {name: value for name, value in paid.items() if name != "payment"}
    reply = await scene.storefront.place_once(paid, str(uuid4()))
    scene.refused("A declined card is told as such", [reply], 400, "PAYMENT_DECLINED")
    files = [path.read_bytes() for path in scene.data_dir.rglob("*") if path.is_file()]
    card, email = (
        sum(word.encode() in body for body in files) for word in (DECLINED_CARD, paid["customer"]["email"])
    )
    log = await scene.partner.get("/v1/commerce/webhook-deliveries")
    scene.prove(
        "The card's token is written nowhere",
        f"in {card} of the service's {len(files)} files",
        # That the customer's e-mail is found shows that the search is one.
        card == 0 < email and DECLINED_CARD.encode() not in log.body,
    )


async def go_down(scene: Scene) -> None:
    """Place an order with the token that is free again, while the store's system fails in the worst way."""
    merchant, key = scene.merchant, str(uuid4())
    taken = len(merchant.taken)
    merchant.go_down()
    scene.say("The store's system records the order, and fails before it answers.")
    began = monotonic()
    reply = await scene.storefront.place_once(scene.order, key)
    took = monotonic() - began
    scene.say(f"Asked {merchant.failed} times in {took:.1f} s. It is 2 s at most here, 15 s by default.")
    scene.refused("A store that is down is told as such", [reply], 503, "STORE_UNREACHABLE")
    order_id = scene.joined = reply.json()["orderId"]
    kept = await scene.storefront.read_order(order_id)
    scene.prove(
        "Its order is kept meanwhile",
        f"{kept['state']}, {kept['status']}; retryable {reply.is_retryable}",
        (kept["state"], kept["status"], reply.is_retryable) == (OrderState.OPEN, OrderStatus.PENDING, True),
    )
    merchant.come_back()
    again = await scene.storefront.place_once(scene.order, key)
    joined = scene.expect(again, 201, "The same key joins the order")
    orders = (await scene.partner.get(f"/v1/commerce/orders?storeId={scene.stores['pizzeria']}")).json()
    here = [one for one in orders["orders"] if one["orderId"] == order_id]
    there = [one for one in merchant.taken[taken:] if one == order_id]
    number = merchant.book[order_id].answer["partnerOrderId"]
    scene.say(f"The store knows the webhook-id, and gives its first answer: {number}.")
    scene.prove(
        "The same key joins: one order in all",
        f"{len(here)} here, {len(there)} there",
        len(here) == len(there) == len(merchant.taken) - taken == 1
        and (joined["orderId"], joined["partnerOrderId"]) == (order_id, number)
        and merchant.repeats == 1,
    )
    await scene.order_simulator.complete(order_id)


# --- what was written down, whether it is genuine, and who may not see it -----------------------------


async def timeline(scene: Scene) -> None:
    """Print who did what to the order whose store was down."""
    path = f"{ORDERS}/{scene.joined}/timeline"

    async def look() -> Any:
        return (await scene.front.get(path)).json()["entries"]

    claim = "The timeline has every step and call"
    entries = await scene.proofs.until(claim, look, lambda now: len(_attempts(now, "storefront")) == EVENTS)
    began = _at(entries[0])
    for entry in entries:
        seconds = (_at(entry) - began).total_seconds()
        scene.say(f"{seconds:6.2f} s  {entry['actor']:<10}  {_words(entry)}")
    steps = [entry["type"] for entry in entries if entry["type"] != "webhook.attempt"]
    attempts = _attempts(entries, "store")
    scene.prove(
        claim,
        f"{count_of(len(entries), 'entry', 'entries')}; the store: {count_of(len(attempts), 'call')}",
        steps == ["placed", "unanswered", "accepted", *["updated"] * len(PICKUP_PATH), OrderState.COMPLETED]
        and attempts == [False] * scene.merchant.failed + [True]
        and all(_attempts(entries, "storefront")),
    )


async def verify(scene: Scene) -> None:
    """Count what arrived and was believed; hold the events' numbers against gaps; tamper with one."""
    front = scene.storefront
    for what, inbox in (("every call", scene.merchant.inbox), ("order events", front.inbox)):
        seen = f"{inbox.believed} of {inbox.came}"
        scene.prove(f"standardwebhooks verifies {what}", seen, 0 < inbox.believed == inbox.came)

    async def look() -> list[str]:
        return [front.newest(order)["state"] for order in front.events]

    claim = "Events count from 1, without a gap"
    states = await scene.proofs.until(claim, look, lambda now: set(now) == {OrderState.COMPLETED})
    count = sum(len(events) for events in front.events.values())
    scene.prove(
        claim,
        f"{count_of(count, 'event')} of {count_of(len(states), 'order')}",
        all(map(front.complete, front.events)) and set(front.events) == set(scene.merchant.taken),
    )
    event = front.events[placed_order(scene)["orderId"]][1]
    forged = event.body.replace(b'"pending"', b'"ready"')
    fault = front.inbox.fault_of(event.headers, forged)
    holds = forged != event.body and fault is not None
    scene.prove("A forged order event does not verify", fault or "it verified", holds)


async def keep_out(scene: Scene) -> None:
    """Look at the order as another storefront, use its token, and come with a key of the other surface."""
    path = f"{ORDERS}/{scene.joined}"
    looked = [await scene.other_front.get(path), await scene.other_front.get(f"{path}/timeline")]
    scene.refused("Another storefront does not see it", looked, 404, "ORDER_NOT_FOUND")
    stolen = await validated(scene, order_of(scene))
    reply = await scene.other_front.post(f"{ORDERS}/place", stolen, Idempotency_Key=str(uuid4()))
    scene.refused("Nor can it use another's token", [reply], 400, "ORDER_TOKEN_INVALID")
    crossed = [await scene.partner.get(path), await scene.front.get("/v1/commerce/orders")]
    scene.refused("A key opens its own surface only", crossed, 403, "FORBIDDEN")


def _attempts(entries: Sequence[Any], to: str) -> list[bool]:
    """Return of every webhook attempt to that side whether it succeeded."""
    details = (entry["detail"] for entry in entries if entry["type"] == "webhook.attempt")
    return [detail["succeeded"] for detail in details if detail["to"] == to]


def _at(entry: Any) -> datetime:
    return datetime.fromisoformat(entry["at"])


def _words(entry: Any) -> str:
    detail = entry["detail"]
    if entry["type"] != "webhook.attempt":
        return " ".join(dict.fromkeys([entry["type"], *map(str, detail.values())]))
    return f"{detail['event']} to the {detail['to']}: {detail['status']} in {detail['ms']} ms"
