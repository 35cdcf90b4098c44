"""Second part of the storefront's story: an order is validated, placed, followed to its end, and asked for again."""

import asyncio
from decimal import Decimal
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

from mercato.sandbox.proofs import PATIENCE
from mercato.sandbox.scene import Scene
from mercato.testing import menus, till
from mercato.testing.caller import Answer, Caller
from mercato.testing.kitchen import ORDERS as MERCHANT_ORDERS
from mercato.testing.kitchen import STEPS
from mercato.webhooks.event_types import EventType

ORDERS: Final = "/v1/marketfront/orders"

TIP: Final = "2.00"

EMAIL: Final = "ada@example.com"

WAY: Final = ("pending", *STEPS, "completed")
"""What the events of an order that goes well say, the first to the last."""


async def validate(scene: Scene) -> None:
    """Ask whether the order can be had, and what it costs with what its store adds."""
    order = order_of(scene.basket.cart, amounts={"tip": TIP})
    said = await validated(scene, order)
    amounts = said["order"]["amounts"]
    for tax in amounts["taxesDescription"]:
        scene.stage.say(f"The store adds: {tax['description']}, {tax['amount']} {amounts['currency']}")
    sub_total, taxes, tip, total = (amounts[name] for name in ("subTotal", "taxes", "tip", "total"))
    scene.proofs.add(
        "The store's tax is in the total",
        f"{sub_total} + {taxes} + {tip} = {total}",
        holds=Decimal(sub_total) + Decimal(taxes) + Decimal(tip) == Decimal(total)
        and (taxes, tip) == (till.tax_on(sub_total), TIP)
        and sub_total == scene.basket.cart["amounts"]["total"],
    )
    scene.basket.order = order | {"validatedOrderToken": said["validatedOrderToken"]}


async def place(scene: Scene) -> None:
    """Place the order under a new Idempotency-Key."""
    scene.basket.key = str(uuid4())
    asked = scene.merchant.validated
    reply = await placed(scene.front, scene.basket.order, key=scene.basket.key)
    order = scene.expect(reply, 201, "An order is placed")
    scene.basket.placed = reply
    entry = scene.merchant.book[order["orderId"]]
    number = entry.answer["partnerOrderId"]
    scene.stage.say(f"{order['state']}, {order['status']}: {order['orderId']}, the store's {number}")
    scene.proofs.add(
        "The order is placed; the store has it",
        f"{reply.status}; {order['partnerOrderId']} on both sides",
        holds=order["partnerOrderId"] == number
        and entry.data["orderId"] == order["orderId"]
        and entry.data["order"]["amounts"] == order["amounts"]
        and reply.headers["Location"].endswith(f"{ORDERS}/{order['orderId']}")
        and scene.merchant.validated == asked,
    )


async def follow(scene: Scene) -> None:
    """Let the kitchen bring the order to its end; hear of every step, and look at it from both sides."""
    order_id = basket_order(scene)["orderId"]
    working = asyncio.create_task(scene.kitchen.cook(order_id))
    try:
        events = await _watched(scene, order_id)
        await working
    finally:
        working.cancel()
    for event in events:
        order, data = event["data"]["order"], event["data"]
        scene.stage.say(f"{data['sequence']} {event['type']}: {order['state']}, {order['status']}")
    seen = tuple(map(_step, events))
    scene.proofs.add(
        "Every step arrives as an event",
        f"{len(events)} events, numbered in order",
        holds=seen == WAY
        and [event["type"] for event in events] == [EventType.ORDER_CREATED, *[EventType.ORDER_UPDATED] * 4],
    )
    mine = (await scene.front.get(f"{ORDERS}/{order_id}")).json()
    theirs = (await scene.partner.get(f"{MERCHANT_ORDERS}/{order_id}")).json()
    scene.proofs.add(
        "Both sides read the same order",
        f"{mine['state']}, {mine['status']}",
        holds=mine == scene.storefront.newest(order_id) == _without_partner_ids(theirs),
    )
    [first, *_] = theirs["cart"]["lineItems"]
    scene.proofs.add(
        "The merchant reads its own ids",
        "partnerItemId on its lines",
        holds=first["partnerItemId"] in menus.pizzeria()["items"],
    )
    back = await scene.kitchen.move(order_id, status="preparing")
    scene.refused("An order that is over stays over", [back], 409, "ORDER_CLOSED")


def _without_partner_ids(value: Any) -> Any:
    """Return an order, or any part of it, without the ids that only its merchant reads."""
    if isinstance(value, list):
        return [_without_partner_ids(one) for one in value]
    if isinstance(value, dict):
        own = ("partnerItemId", "partnerModifierGroupId")
        return {name: _without_partner_ids(one) for name, one in value.items() if name not in own}
    return value


async def repeat(scene: Scene) -> None:
    """Send the very same request again, then other ones under its key and with its token."""
    basket, book = scene.basket, scene.merchant.book
    assert basket.placed is not None
    before = len(book)
    again = await placed(scene.front, basket.order, key=basket.key)
    same = again.body == basket.placed.body
    scene.proofs.add(
        "The same key gives the same bytes",
        f"{again.status}, {len(again.body):,} bytes, {'the same' if same else 'not the same'}",
        holds=same
        and again.status == HTTPStatus.CREATED
        and again.headers.get("Idempotent-Replayed") == "true",
    )
    other = await placed(scene.front, basket.order | {"amounts": {"tip": "3.00"}}, key=basket.key)
    scene.refused("A key is good for one request", [other], 422, "IDEMPOTENCY_KEY_REUSED")
    token = await placed(scene.front, basket.order, key=str(uuid4()))
    scene.refused("A token is good for one order", [token], 409, "ORDER_ALREADY_PLACED")
    scene.proofs.add(
        "None of them reached the store",
        f"{before} order in its book, as before",
        holds=before == len(book) == 1,
    )


# --- what the other parts use ---------------------------------------------------------------------


def order_of(cart: Any, **members: Any) -> dict[str, Any]:
    """Return an order of the cart for pickup."""
    return {
        "cart": cart,
        "clientContext": {"ip": "203.0.113.7", "userAgent": "sandbox-storefront/1"},
        "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
        "customer": {"email": EMAIL, "firstName": "Ada", "lastName": "Lovelace", "phone": "+33380000000"},
    } | members


async def validated(scene: Scene, order: Any) -> Any:
    """Return what validate says of an order that is right."""
    reply = await scene.front.post(f"{ORDERS}/validate", order)
    said = scene.expect(reply, 200, "An order is validated")
    if not said["isValid"]:
        scene.proofs.add("An order is valid", str(said["order"]["errors"]), holds=False)
    return said


async def placed(caller: Caller, order: Any, *, key: str) -> Answer:
    """Place an order and return the answer."""
    return await caller.post(f"{ORDERS}/place", order, Idempotency_Key=key)


def basket_order(scene: Scene) -> Any:
    """Return the order as it was answered when it was placed."""
    assert scene.basket.placed is not None
    return scene.basket.placed.json()


async def _watched(scene: Scene, order_id: str) -> list[Any]:
    """Show the order's events as they come in, to the last; return them."""
    name = f"Order {basket_order(scene)['partnerOrderId']}"
    events: list[Any] = []
    steps = {step: number for number, step in enumerate(WAY)}
    with scene.stage.watching([name], steps) as watch:
        try:
            async with asyncio.timeout(PATIENCE):
                while len(events) < len(WAY):
                    events.append(await scene.storefront.event(order_id, len(events) + 1))
                    watch(name, _step(events[-1]))
        except TimeoutError:
            scene.proofs.add("Every step arrives as an event", f"{len(events)} events", holds=False)
    return events


def _step(event: Any) -> str:
    order = event["data"]["order"]
    step: str = order["status"] if order["state"] == "open" else order["state"]
    return step
