"""The storefront's half of the story: it finds a store, fills a cart, and follows an order to its end."""

import asyncio
from decimal import Decimal
from http import HTTPStatus
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final
from uuid import uuid4

from mercato.devtools.sandbox import proofs
from mercato.devtools.sandbox.scene import Scene
from mercato.domain.orders.model import OrderState, OrderStatus
from mercato.domain.orders.transitions import PICKUP_PATH
from mercato.domain.webhooks.event_types import EventType
from mercato.testing import prices, shops
from mercato.testing.order_simulator import ORDERS as MERCHANT_ORDERS
from mercato.testing.shops import PLACES

CATALOG_SETS: Final = "/v1/marketfront/catalog-sets"
CARTS: Final = "/v1/marketfront/carts"
ORDERS: Final = "/v1/marketfront/orders"

CUSTOMER: Final = (47.3400, 5.0300)
"""Where the customer stands, in degrees: in Dijon, a short walk from the pizzeria."""

EARTH: Final = 6_371_000
"""Metres."""

SEARCHES: Final = (("margherita", shops.PIZZERIA), ("担々麺", shops.RAMEN_HOUSE), ("spinach", shops.GROCERY))
"""Words that stand in the names of items, and whose items they are."""

PIZZA, SIZE = shops.MARGHERITA, "Classica, 32 cm"
TOPPINGS: Final = ("Basil", "Buffalo mozzarella")
DRINK: Final = "Chinotto"
TIP: Final = "2.00"

WAY: Final = (OrderStatus.PENDING, *PICKUP_PATH, OrderState.COMPLETED)
"""What the events of an order that goes well say, the first to the last."""

# --- up to the cart -----------------------------------------------------------------------------------


async def discover(scene: Scene) -> None:
    """Look for stores near the customer, and by what they sell."""
    stores = await scene.storefront.discover(location={"latitude": CUSTOMER[0], "longitude": CUSTOMER[1]})
    for store in stores:
        scene.say(f"{store['name']}: {store['distance']:.0f} m, isOpen {store['isOpen']}")
    metres = _metres(CUSTOMER, PLACES["pizzeria"])
    scene.prove(
        "A search by place finds what is near",
        f"{len(stores)} of 3 stores within 25 km",
        [store["name"] for store in stores] == [shops.PIZZERIA]
        and abs(stores[0]["distance"] - metres) < metres / 100,
    )
    right = 0
    for word, name in SEARCHES:
        names = [store["name"] for store in await scene.storefront.discover(query=word)]
        scene.say(f"{word}: {', '.join(names)}")
        right += names == [name]
    seen = f"{right} of {len(SEARCHES)} words"
    scene.prove("A search by text finds who sells it", seen, right == len(SEARCHES))


async def read_catalog(scene: Scene) -> None:
    """Read the store as it is now, then its CatalogSet, twice."""
    scene.seller = await scene.storefront.read_store(scene.stores["pizzeria"])
    path = f"{CATALOG_SETS}/{scene.seller['catalogSetId']}"
    first = await scene.front.get(path)
    scene.catalog = scene.expect(first, 200, "A storefront reads a CatalogSet")
    tag = first.headers["ETag"]
    again = await scene.front.get(path, If_None_Match=tag)
    scene.say(f"{len(scene.catalog['items'])} items, {first.headers['Cache-Control']}")
    scene.say(f"ETag {tag}")
    scene.prove(
        "A known catalog is not sent again",
        f"{again.status}: {len(again.body)} bytes, not {len(first.body):,}",
        again.status == HTTPStatus.NOT_MODIFIED
        and not again.body
        and "immutable" in first.headers["Cache-Control"],
    )


async def fill_cart(scene: Scene) -> None:
    """Add a pizza with a size and toppings, take two of it, add a drink; forget the size once."""
    whole = {name: scene.seller[name] for name in ("storeId", "catalogSetId")}
    await change_cart(scene, "add", whole | {"item": _pizza(sized=True)})
    line = scene.cart["lineItems"][0]["lineItemId"]
    await change_cart(scene, "update", {"cart": scene.cart, "lineItemId": line, "quantity": 2})
    await change_cart(scene, "add", {"cart": scene.cart, "item": _line(DRINK)})
    pizza, size, topping, drink = (_price(scene, name) for name in (PIZZA, SIZE, TOPPINGS[1], DRINK))
    by_hand = 2 * (pizza + size + topping) + drink
    scene.say(f"Two {PIZZA}, {SIZE}, with {' and '.join(TOPPINGS)};")
    scene.say(f"one {DRINK}. One topping is free, the cheapest: {TOPPINGS[0]}.")
    scene.say(f"2 x ({pizza} + {size} + {topping}) + {drink} = {by_hand}")
    amounts, lines = scene.cart["amounts"], [line["quantity"] for line in scene.cart["lineItems"]]
    scene.prove(
        "A cart is priced to the cent",
        f"{amounts['total']} {amounts['currency']}, as by hand",
        Decimal(amounts["total"]) == by_hand and lines == [2, 1],
    )
    body = {"cart": scene.cart, "item": _pizza(sized=False)}
    refused = (await scene.front.post(f"{CARTS}/add", body)).json()
    for fault in refused["errors"]:
        scene.say(f"{fault['code']} {fault['pointer']}: {fault['message']}")
    codes = [fault["code"] for fault in refused["errors"]]
    scene.prove(
        "A pizza without a size is refused",
        f"{refused['status']} {', '.join(codes)}",
        (refused["status"], codes) == (422, ["MODIFIER_REQUIRED"]),
    )


async def change_cart(scene: Scene, helper: str, body: Any) -> None:
    """Call a cart helper and keep the cart that it returns."""
    reply = await scene.front.post(f"{CARTS}/{helper}", body)
    scene.cart = scene.expect(reply, 200, "A cart helper answers")


def _pizza(*, sized: bool) -> Any:
    size, extra = (shops.item_id(shops.PIZZERIA, f"group: {name}") for name in ("size", "toppings"))
    groups = [{"modifierGroupId": extra, "lineItems": [_line(name) for name in TOPPINGS]}]
    if sized:
        groups.append({"modifierGroupId": size, "lineItems": [_line(SIZE)]})
    return _line(PIZZA) | {"modifierGroups": groups}


def _line(name: str) -> dict[str, Any]:
    return {"itemId": shops.item_id(shops.PIZZERIA, name), "quantity": 1, "modifierGroups": []}


def _price(scene: Scene, name: str) -> Decimal:
    return Decimal(scene.catalog["items"][shops.item_id(shops.PIZZERIA, name)]["basePrice"])


def _metres(here: tuple[float, float], there: tuple[float, float]) -> float:
    """Return the distance on a round earth, which is right to half a percent."""
    (lat, lng), (lat2, lng2) = (tuple(map(radians, place)) for place in (here, there))
    half = sin((lat2 - lat) / 2) ** 2 + cos(lat) * cos(lat2) * sin((lng2 - lng) / 2) ** 2
    return 2 * EARTH * asin(sqrt(half))


# --- an order -----------------------------------------------------------------------------------------


async def validate(scene: Scene) -> None:
    """Ask whether the order can be had, and what it costs with what its store adds."""
    scene.order = await validated(scene, order_of(scene, amounts={"tip": TIP}))
    amounts = scene.said["amounts"]
    for tax in amounts["taxesDescription"]:
        scene.say(f"The store adds: {tax['description']}, {tax['amount']} {amounts['currency']}")
    sub_total, taxes, tip, total = (amounts[name] for name in ("subTotal", "taxes", "tip", "total"))
    scene.prove(
        "The store's tax is in the total",
        f"{sub_total} + {taxes} + {tip} = {total}",
        Decimal(sub_total) + Decimal(taxes) + Decimal(tip) == Decimal(total)
        and (taxes, tip) == (prices.tax_on(sub_total), TIP)
        and sub_total == scene.cart["amounts"]["total"],
    )


async def place(scene: Scene) -> None:
    """Place the order under a new Idempotency-Key."""
    scene.key = str(uuid4())
    asked = scene.merchant.validated
    scene.placed = await scene.storefront.place_once(scene.order, scene.key)
    order = scene.expect(scene.placed, 201, "An order is placed")
    entry = scene.merchant.book[order["orderId"]]
    number = entry.answer["partnerOrderId"]
    scene.say(f"{order['state']}, {order['status']}: {order['orderId']}, the store's {number}")
    scene.prove(
        "The order is placed; the store has it",
        f"{scene.placed.status}; {order['partnerOrderId']} on both sides",
        order["partnerOrderId"] == number
        and entry.data["orderId"] == order["orderId"]
        and entry.data["order"]["amounts"] == order["amounts"]
        and scene.placed.headers["Location"].endswith(f"{ORDERS}/{order['orderId']}")
        and scene.merchant.validated == asked,
    )


async def follow(scene: Scene) -> None:
    """Let the merchant work on the order to its end; hear of every step, and look at it from both sides."""
    order_id = placed_order(scene)["orderId"]
    working = asyncio.create_task(scene.order_simulator.complete(order_id))
    try:
        events = await _watched(scene, order_id)
        await working
    finally:
        working.cancel()
    for event in events:
        order, data = event["data"]["order"], event["data"]
        scene.say(f"{data['sequence']} {event['type']}: {order['state']}, {order['status']}")
    types = [event["type"] for event in events]
    scene.prove(
        "Every step arrives as an event",
        f"{len(events)} events, numbered in order",
        tuple(map(_step, events)) == WAY
        and types == [EventType.ORDER_CREATED, *[EventType.ORDER_UPDATED] * (len(WAY) - 1)],
    )
    mine = (await scene.front.get(f"{ORDERS}/{order_id}")).json()
    theirs = (await scene.partner.get(f"{MERCHANT_ORDERS}/{order_id}")).json()
    scene.prove(
        "Both sides read the same order",
        f"{mine['state']}, {mine['status']}",
        mine == scene.storefront.newest(order_id) == _without_partner_ids(theirs),
    )
    own = theirs["cart"]["lineItems"][0]["partnerItemId"] in shops.pizzeria()["items"]
    scene.prove("The merchant reads its own ids", "partnerItemId on its lines", own)
    back = await scene.order_simulator.update(order_id, status=PICKUP_PATH[-1])
    scene.refused("An order that is over stays over", [back], 409, "ORDER_CLOSED")


async def repeat(scene: Scene) -> None:
    """Send the very same request again, then other ones under its key and with its token."""
    assert scene.placed is not None
    before = len(scene.merchant.book)
    again = await scene.storefront.place_once(scene.order, scene.key)
    same = again.body == scene.placed.body
    scene.prove(
        "The same key gives the same bytes",
        f"{again.status}, {len(again.body):,} bytes, {'the same' if same else 'not the same'}",
        same and again.status == HTTPStatus.CREATED and again.headers.get("Idempotent-Replayed") == "true",
    )
    other = await scene.storefront.place_once(scene.order | {"amounts": {"tip": "3.00"}}, scene.key)
    scene.refused("A key is good for one request", [other], 422, "IDEMPOTENCY_KEY_REUSED")
    token = await scene.storefront.place_once(scene.order, str(uuid4()))
    scene.refused("A token is good for one order", [token], 409, "ORDER_ALREADY_PLACED")
    none = before == len(scene.merchant.book) == 1
    scene.prove("None of them reached the store", f"{before} order in its book, as before", none)


def order_of(scene: Scene, **members: Any) -> dict[str, Any]:
    """Return the customer's order of the cart."""
    return scene.storefront.order_of(scene.seller, scene.cart, 1) | members


async def validated(scene: Scene, order: dict[str, Any]) -> dict[str, Any]:
    """Return an order that is right with the token of its validation; `scene.said` is what validate says of it."""
    reply = await scene.storefront.validate(order)
    scene.said = reply["order"]
    if not reply["isValid"]:
        scene.prove("An order is valid", str(scene.said["errors"]), holds=False)
    return order | {"validatedOrderToken": reply["validatedOrderToken"]}


def placed_order(scene: Scene) -> Any:
    """Return the order as it was answered when it was placed."""
    assert scene.placed is not None
    return scene.placed.json()


def _without_partner_ids(value: Any) -> Any:
    """Return an order, or any part of it, without the ids that only its merchant reads."""
    if isinstance(value, list):
        return [_without_partner_ids(one) for one in value]
    if isinstance(value, dict):
        own = ("partnerItemId", "partnerModifierGroupId")
        return {name: _without_partner_ids(one) for name, one in value.items() if name not in own}
    return value


async def _watched(scene: Scene, order_id: str) -> list[Any]:
    """Show the order's events as they come in, to the last; return them."""
    name = f"Order {placed_order(scene)['partnerOrderId']}"
    events: list[Any] = []
    with scene.display.watching([name], {step: number for number, step in enumerate(WAY)}) as watch:
        try:
            async with asyncio.timeout(proofs.PATIENCE):
                while len(events) < len(WAY):
                    events.append(await scene.storefront.event(order_id, len(events) + 1))
                    watch(name, _step(events[-1]))
        except TimeoutError:
            scene.prove("Every step arrives as an event", f"{len(events)} events", holds=False)
    return events


def _step(event: Any) -> str:
    order = event["data"]["order"]
    step: str = order["status"] if order["state"] == "open" else order["state"]
    return step
