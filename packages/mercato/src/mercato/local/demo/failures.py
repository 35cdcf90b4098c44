"""What goes wrong in the demo: prices, cards, a store that is down, cancellations, a refund; and the records of it."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from mercato.local.demo.context import DemoContext
from mercato.local.demo.storefront import ORDERS, WAY, change_cart, order_of, placed_order, validated
from mercato_client.testing import shops
from mercato_client.testing.merchant import DECLINED_CARD
from mercato_client.testing.subscription import Subscription
from mercato_contract.events import EventType
from mercato_contract.orders import PICKUP_PATH, OrderState, OrderStatus
from mercato_contract.texts import count_of

NEWER_PRICE: Final = "11.00"

REASON: Final = "CHANGED_MIND"
BEGUN: Final = "IN_THE_OVEN"
"""Why the customer cancels, and why the store refuses."""

REFUND: Final = "1.00"

EVENTS: Final = len(WAY) + 1
"""Events of the order whose store was down: created, accepted, and every step."""


async def change_price(context: DemoContext) -> None:
    """Validate, let the merchant publish a new price, and place what was validated."""
    taken = len(context.merchant.taken)
    order = order_of(context)
    outdated = await validated(context, order)
    old = context.validated["amounts"]["total"]
    await context.run(
        "pizzeria", context.merchant.host("/pizzeria.json", shops.pizzeria(margherita=NEWER_PRICE))
    )
    reply = await context.storefront.place_once(outdated, str(uuid4()))
    context.refused("A changed price is caught", [reply], 400, "ORDER_TOTAL_DIFFERENT")
    order = await validated(context, order)
    new = context.validated["amounts"]["total"]
    unheard = len(context.merchant.taken) == taken
    reply = await context.storefront.place_once(order, str(uuid4()))
    total = context.expect(reply, 201, "The order is placed at the new price")["amounts"]["total"]
    context.prove(
        "It costs the amount validated last",
        f"{old}, now {total}",
        old != new == total and unheard and len(context.merchant.taken) == taken + 1,
    )
    context.cart = context.validated["cart"]
    await context.order_simulator.complete(reply.json()["orderId"])


async def decline(context: DemoContext) -> None:
    """Pay with a card that the bank declines; then search for the card's token in all files."""
    line = context.cart["lineItems"][1]["lineItemId"]
    await change_cart(context, "remove", {"cart": context.cart, "lineItemId": line, "quantity": 0})
    payment = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "processorType": "sandbox"}
    paid = await validated(context, order_of(context, payment=payment))
    context.order = {name: value for name, value in paid.items() if name != "payment"}
    reply = await context.storefront.place_once(paid, str(uuid4()))
    context.refused("A declined card is reported", [reply], 400, "PAYMENT_DECLINED")
    files, card, email = await _search(context.data_dir, DECLINED_CARD, paid["customer"]["email"])
    log = await context.partner.get("/v1/commerce/webhook-deliveries")
    context.prove(
        "The card's token is written nowhere",
        f"in {card} of the service's {files} files",
        # Finding the customer's e-mail shows that the search works.
        card == 0 < email and DECLINED_CARD.encode() not in log.body,
    )


_SEARCH: Final = """
import sys, pathlib
directory, *words = sys.argv[1:]
files = [path.read_bytes() for path in pathlib.Path(directory).rglob("*") if path.is_file()]
print(len(files), *(sum(word.encode() in body for body in files) for word in words))
"""


async def _search(directory: Path, *words: str) -> list[int]:
    """Return how many files there are, and in how many of them each word is."""
    # Not in this process, which has the database open: to close a file of it would drop SQLite's locks on it.
    searching = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SEARCH, directory, *words, stdout=asyncio.subprocess.PIPE
    )
    found, _ = await searching.communicate()
    return [int(count) for count in found.split()]


async def go_down(context: DemoContext) -> None:
    """Place an order with the unused token, while the store's system fails in the worst way."""
    merchant, key = context.merchant, str(uuid4())
    taken = len(merchant.taken)
    merchant.go_down()
    context.say("The store's system records the order, and fails before it answers.")
    began = monotonic()
    reply = await context.storefront.place_once(context.order, key)
    took = monotonic() - began
    context.say(
        f"It was called {merchant.failed} times in {took:.1f} s. The limit is 2 s here, 15 s by default."
    )
    context.refused("A store that is down is reported", [reply], 503, "STORE_UNREACHABLE")
    order_id = context.joined = reply.json()["orderId"]
    kept = await context.storefront.read_order(order_id)
    context.prove(
        "Its order is kept for now",
        f"{kept['state']}, {kept['status']}; retryable {reply.is_retryable}",
        (kept["state"], kept["status"], reply.is_retryable) == (OrderState.OPEN, OrderStatus.PENDING, True),
    )
    merchant.come_back()
    again = await context.storefront.place_once(context.order, key)
    joined = context.expect(again, 201, "The same key joins the order")
    orders = (await context.partner.get(f"/v1/commerce/orders?storeId={context.stores['pizzeria']}")).json()
    here = [order for order in orders["orders"] if order["orderId"] == order_id]
    there = [taken_id for taken_id in merchant.taken[taken:] if taken_id == order_id]
    number = merchant.book[order_id].answer["partnerOrderId"]
    context.say(f"The store knows the webhook-id, and gives its first answer: {number}.")
    context.prove(
        "The same key joins: one order in all",
        f"{len(here)} here, {len(there)} there",
        len(here) == len(there) == len(merchant.taken) - taken == 1
        and (joined["orderId"], joined["partnerOrderId"]) == (order_id, number)
        and merchant.repeats == 1,
    )
    await context.order_simulator.complete(order_id)


async def cancel(context: DemoContext) -> None:
    """Cancel an order with its store's consent, then one that the store doesn't give up."""
    merchant, front, key = context.merchant, context.storefront, str(uuid4())
    first = await _placed(context)
    reply = await front.cancel(first, REASON, key=key)
    order = context.expect(reply, 200, "A customer cancels an order")
    context.say("The store is asked whether it has begun the order. It hasn't, and gives it up.")
    context.prove(
        "A customer cancels; the store agrees",
        f"{order['state']}, {order['cancelReason']}",
        (order["state"], order["cancelReason"]) == (OrderState.CANCELLED, REASON)
        and order["cancellation"]["status"] == "accepted"
        and first in merchant.cancelled,
    )
    again = await front.cancel(first, REASON, key=key)
    calls = [call for call in merchant.seen if call.operation == "cancel"]
    context.prove(
        "The store hears of it once",
        f"{count_of(len(calls), 'call')}; the same bytes again",
        again.body == reply.body and len(calls) == len(merchant.cancellations) == 1,
    )
    second = await _placed(context)
    merchant.behaviour.on("cancel", f"decline:{BEGUN}")
    late = await front.cancel(second, REASON, key=str(uuid4()))
    context.refused("A store may refuse, and says why", [late], 409, "CANCELLATION_REFUSED")
    await context.order_simulator.complete(second)
    kept = await front.read_order(second)
    context.prove(
        "Then the order goes on",
        f"{kept['state']}, cancellation {kept['cancellation']['status']}",
        (kept["state"], kept["cancellation"]["status"]) == (OrderState.COMPLETED, "refused"),
    )


async def refund(context: DemoContext) -> None:
    """Refund a part of a completed order, and repeat the request; the storefront has an endpoint for it."""
    order_id, front = placed_order(context)["orderId"], context.storefront
    async with Subscription(front, context.front, "marketfront", context.say).endpoint():
        first, again = [await context.order_simulator.refund(order_id, REFUND) for _ in range(2)]
        context.expect(first, 201, "A merchant refunds a part of an order")

        async def newest() -> Any:
            return front.events[order_id][max(front.events[order_id])].json()

        claim = "The storefront hears of the refund"
        event = await context.proofs.until(
            claim, newest, lambda event: event["type"] == EventType.ORDER_ADJUSTED
        )
    order = await front.read_order(order_id)
    context.prove(claim, f"{event['type']}, at its endpoint", event["data"]["order"] == order)
    total, after = (order["amounts"][name] for name in ("total", "totalAfterAdjustments"))
    context.prove(
        "A refund is made once, to the cent",
        f"{total} - {REFUND} = {after}",
        again.body == first.body
        and [adjustment["amount"] for adjustment in order["adjustments"]] == [REFUND]
        and Decimal(total) - Decimal(REFUND) == Decimal(after),
    )


async def _placed(context: DemoContext) -> str:
    """Place an order of the cart, and return its id."""
    order = await validated(context, order_of(context))
    reply = await context.storefront.place_once(order, str(uuid4()))
    placed: str = context.expect(reply, 201, "An order is placed")["orderId"]
    return placed


# --- the records: that they are genuine, and that others can't read them ---------------------------------------


async def timeline(context: DemoContext) -> None:
    """Show the timeline of the order whose store was down."""
    path = f"{ORDERS}/{context.joined}/timeline"

    async def look() -> Any:
        return (await context.front.get(path)).json()["entries"]

    claim = "The timeline has every step and call"
    entries = await context.proofs.until(claim, look, lambda now: len(_attempts(now, "storefront")) == EVENTS)
    began = _at(entries[0])
    for entry in entries:
        seconds = (_at(entry) - began).total_seconds()
        context.say(f"{seconds:6.2f} s  {entry['actor']:<10}  {_words(entry)}")
    steps = [entry["type"] for entry in entries if entry["type"] != "webhook.attempt"]
    attempts = _attempts(entries, "store")
    context.prove(
        claim,
        f"{count_of(len(entries), 'entry', 'entries')}; the store: {count_of(len(attempts), 'call')}",
        steps == ["placed", "unanswered", "accepted", *["updated"] * len(PICKUP_PATH), OrderState.COMPLETED]
        and attempts == [False] * context.merchant.failed + [True]
        and all(_attempts(entries, "storefront")),
    )


async def verify(context: DemoContext) -> None:
    """Count the verified webhooks, check the events' sequences for gaps, and tamper with one event."""
    front = context.storefront
    for what, inbox in (("every call", context.merchant.inbox), ("order events", front.inbox)):
        seen = f"{inbox.verified} of {inbox.received}"
        context.prove(f"standardwebhooks verifies {what}", seen, 0 < inbox.verified == inbox.received)

    async def look() -> list[str]:
        return [front.newest(order)["state"] for order in front.events]

    claim = "Events count from 1, without a gap"
    ends = {OrderState.COMPLETED, OrderState.CANCELLED}
    states = await context.proofs.until(claim, look, lambda now: set(now) == ends)
    count = sum(len(events) for events in front.events.values())
    context.prove(
        claim,
        f"{count_of(count, 'event')} of {count_of(len(states), 'order')}",
        all(map(front.complete, front.events)) and set(front.events) == set(context.merchant.taken),
    )
    event = front.events[placed_order(context)["orderId"]][1]
    forged = event.body.replace(b'"pending"', b'"ready"')
    fault = front.inbox.fault_of(event.headers, forged)
    holds = forged != event.body and fault is not None
    context.prove("A forged order event does not verify", fault or "it verified", holds)


async def read_feed(context: DemoContext) -> None:
    """Read the storefront's feed from its start, and compare it with the events that were sent."""
    subscription = Subscription(context.storefront, context.front, "marketfront")
    await subscription.drain()
    pushed = {event.webhook_id for events in context.storefront.events.values() for event in events.values()}
    read = {seen.answer["eventId"] for seen in context.storefront.journal.of("feed")}
    context.prove(
        "The feed has each event, without a gap",
        f"{count_of(subscription.read, 'event')}, {count_of(subscription.gaps, 'gap')}",
        read == pushed and subscription.read == len(read) and not subscription.gaps,
    )


async def keep_out(context: DemoContext) -> None:
    """Read the order as another storefront, use its token, and use a key of the other surface."""
    path = f"{ORDERS}/{context.joined}"
    looked = [await context.other_front.get(path), await context.other_front.get(f"{path}/timeline")]
    context.refused("Another storefront does not see it", looked, 404, "ORDER_NOT_FOUND")
    stolen = await validated(context, order_of(context))
    reply = await context.other_front.post(f"{ORDERS}/place", stolen, Idempotency_Key=str(uuid4()))
    context.refused("It can't use another's token either", [reply], 400, "ORDER_TOKEN_INVALID")
    crossed = [await context.partner.get(path), await context.front.get("/v1/commerce/orders")]
    context.refused("A key opens its own surface only", crossed, 403, "FORBIDDEN")


def _attempts(entries: Sequence[Any], to: str) -> list[bool]:
    """Return whether each webhook attempt to that side succeeded."""
    details = (entry["detail"] for entry in entries if entry["type"] == "webhook.attempt")
    return [detail["succeeded"] for detail in details if detail["to"] == to]


def _at(entry: Any) -> datetime:
    return datetime.fromisoformat(entry["at"])


def _words(entry: Any) -> str:
    detail = entry["detail"]
    if entry["type"] != "webhook.attempt":
        return " ".join(dict.fromkeys([entry["type"], *map(str, detail.values())]))
    return f"{detail['event']} to the {detail['to']}: {detail['status']} in {detail['ms']} ms"
