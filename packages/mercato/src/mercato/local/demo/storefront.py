"""The storefront's steps: it finds a store, fills a cart, and follows an order to its end."""

import asyncio
from decimal import Decimal
from http import HTTPStatus
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final
from uuid import uuid4

from mercato.local.demo.context import TIMEOUT, DemoContext
from mercato_client.testing import prices, shops
from mercato_client.testing.order_simulator import ORDERS as MERCHANT_ORDERS
from mercato_client.testing.shops import PLACES
from mercato_contract.events import EventType
from mercato_contract.orders import PICKUP_PATH, OrderState, OrderStatus

CATALOG_SETS: Final = "/v1/marketfront/catalog-sets"
CARTS: Final = "/v1/marketfront/carts"
ORDERS: Final = "/v1/marketfront/orders"

CUSTOMER: Final = (47.3400, 5.0300)
"""The customer's location in degrees: in Dijon, near the pizzeria."""

EARTH: Final = 6_371_000
"""Metres."""

SEARCHES: Final = (("margherita", shops.PIZZERIA), ("担々麺", shops.RAMEN_HOUSE), ("spinach", shops.GROCERY))
"""Words in names of items, and the shops that sell these."""

PIZZA, SIZE = shops.MARGHERITA, "Classica, 32 cm"
TOPPINGS: Final = ("Basil", "Buffalo mozzarella")
DRINK: Final = "Chinotto"
TIP: Final = "2.00"

WAY: Final = (OrderStatus.PENDING, *PICKUP_PATH, OrderState.COMPLETED)
"""The statuses in the events of a successful order, in order."""

# --- up to the cart -----------------------------------------------------------------------------------


async def discover(context: DemoContext) -> None:
    """Search for stores by location, and by the items that they sell."""
    stores = await context.storefront.discover(location={"latitude": CUSTOMER[0], "longitude": CUSTOMER[1]})
    for store in stores:
        context.say(f"{store['name']}: {store['distance']:.0f} m, isOpen {store['isOpen']}")
    metres = _metres(CUSTOMER, PLACES["pizzeria"])
    context.prove(
        "A search by place finds what is near",
        f"{len(stores)} of 3 stores within 25 km",
        [store["name"] for store in stores] == [shops.PIZZERIA]
        and abs(stores[0]["distance"] - metres) < metres / 100,
    )
    right = 0
    for word, name in SEARCHES:
        names = [store["name"] for store in await context.storefront.discover(query=word)]
        context.say(f"{word}: {', '.join(names)}")
        right += names == [name]
    seen = f"{right} of {len(SEARCHES)} words"
    context.prove("A search by text finds the right store", seen, right == len(SEARCHES))


async def read_catalog(context: DemoContext) -> None:
    """Read the store as it is now, then its CatalogSet, twice."""
    context.seller = await context.storefront.read_store(context.stores["pizzeria"])
    path = f"{CATALOG_SETS}/{context.seller['catalogSetId']}"
    first = await context.front.get(path)
    context.catalog = context.expect(first, 200, "A storefront reads a CatalogSet")
    tag = first.headers["ETag"]
    again = await context.front.get(path, If_None_Match=tag)
    context.say(f"{len(context.catalog['items'])} items, {first.headers['Cache-Control']}")
    context.say(f"ETag {tag}")
    context.prove(
        "A known catalog is not sent again",
        f"{again.status}: {len(again.body)} bytes, not {len(first.body):,}",
        again.status == HTTPStatus.NOT_MODIFIED
        and not again.body
        and "immutable" in first.headers["Cache-Control"],
    )


async def fill_cart(context: DemoContext) -> None:
    """Add a pizza with a size and toppings, set its quantity to two, add a drink; then omit the size once."""
    whole = {name: context.seller[name] for name in ("storeId", "catalogSetId")}
    await change_cart(context, "add", whole | {"item": _pizza(sized=True)})
    line = context.cart["lineItems"][0]["lineItemId"]
    await change_cart(context, "update", {"cart": context.cart, "lineItemId": line, "quantity": 2})
    await change_cart(context, "add", {"cart": context.cart, "item": _line(DRINK)})
    pizza, size, topping, drink = (_price(context, name) for name in (PIZZA, SIZE, TOPPINGS[1], DRINK))
    by_hand = 2 * (pizza + size + topping) + drink
    context.say(f"Two {PIZZA}, {SIZE}, with {' and '.join(TOPPINGS)};")
    context.say(f"one {DRINK}. One topping is free, the cheapest: {TOPPINGS[0]}.")
    context.say(f"2 x ({pizza} + {size} + {topping}) + {drink} = {by_hand}")
    amounts, lines = context.cart["amounts"], [line["quantity"] for line in context.cart["lineItems"]]
    context.prove(
        "A cart is priced to the cent",
        f"{amounts['total']} {amounts['currency']}, as by hand",
        Decimal(amounts["total"]) == by_hand and lines == [2, 1],
    )
    body = {"cart": context.cart, "item": _pizza(sized=False)}
    refused = (await context.front.post(f"{CARTS}/add", body)).json()
    for fault in refused["errors"]:
        context.say(f"{fault['code']} {fault['pointer']}: {fault['message']}")
    codes = [fault["code"] for fault in refused["errors"]]
    context.prove(
        "A pizza without a size is refused",
        f"{refused['status']} {', '.join(codes)}",
        (refused["status"], codes) == (422, ["MODIFIER_REQUIRED"]),
    )


async def change_cart(context: DemoContext, helper: str, body: Any) -> None:
    """Call a cart helper and keep the cart that it returns."""
    reply = await context.front.post(f"{CARTS}/{helper}", body)
    context.cart = context.expect(reply, 200, "A cart helper answers")


def _pizza(*, sized: bool) -> Any:
    size, extra = (shops.item_id(shops.PIZZERIA, f"group: {name}") for name in ("size", "toppings"))
    groups = [{"modifierGroupId": extra, "lineItems": [_line(name) for name in TOPPINGS]}]
    if sized:
        groups.append({"modifierGroupId": size, "lineItems": [_line(SIZE)]})
    return _line(PIZZA) | {"modifierGroups": groups}


def _line(name: str) -> dict[str, Any]:
    return {"itemId": shops.item_id(shops.PIZZERIA, name), "quantity": 1, "modifierGroups": []}


def _price(context: DemoContext, name: str) -> Decimal:
    return Decimal(context.catalog["items"][shops.item_id(shops.PIZZERIA, name)]["basePrice"])


def _metres(here: tuple[float, float], there: tuple[float, float]) -> float:
    """Return the distance on a round earth, which is right to half a percent."""
    (lat, lng), (lat2, lng2) = (tuple(map(radians, place)) for place in (here, there))
    half = sin((lat2 - lat) / 2) ** 2 + cos(lat) * cos(lat2) * sin((lng2 - lng) / 2) ** 2
    return 2 * EARTH * asin(sqrt(half))


# --- an order -----------------------------------------------------------------------------------------


async def validate(context: DemoContext) -> None:
    """Validate the order, with the amounts that its store adds."""
    context.order = await validated(context, order_of(context, amounts={"tip": TIP}))
    amounts = context.validated["amounts"]
    for tax in amounts["taxesDescription"]:
        context.say(f"The store adds: {tax['description']}, {tax['amount']} {amounts['currency']}")
    sub_total, taxes, tip, total = (amounts[name] for name in ("subTotal", "taxes", "tip", "total"))
    context.prove(
        "The store's tax is in the total",
        f"{sub_total} + {taxes} + {tip} = {total}",
        Decimal(sub_total) + Decimal(taxes) + Decimal(tip) == Decimal(total)
        and (taxes, tip) == (prices.tax_on(sub_total), TIP)
        and sub_total == context.cart["amounts"]["total"],
    )


async def place(context: DemoContext) -> None:
    """Place the order under a new Idempotency-Key."""
    context.key = str(uuid4())
    validated_before = context.merchant.validated
    context.placed = await context.storefront.place_once(context.order, context.key)
    order = context.expect(context.placed, 201, "An order is placed")
    entry = context.merchant.book[order["orderId"]]
    number = entry.answer["partnerOrderId"]
    context.say(f"{order['state']}, {order['status']}: {order['orderId']}, the store's {number}")
    context.prove(
        "The order is placed; the store has it",
        f"{context.placed.status}; {order['partnerOrderId']} on both sides",
        order["partnerOrderId"] == number
        and entry.data["orderId"] == order["orderId"]
        and entry.data["order"]["amounts"] == order["amounts"]
        and context.placed.headers["Location"].endswith(f"{ORDERS}/{order['orderId']}")
        and context.merchant.validated == validated_before,
    )


async def follow(context: DemoContext) -> None:
    """Let the merchant complete the order; receive an event of every step, and read the order from both sides."""
    order_id = placed_order(context)["orderId"]
    working = asyncio.create_task(context.order_simulator.complete(order_id))
    try:
        events = await _watched(context, order_id)
        await working
    finally:
        working.cancel()
    for event in events:
        order, data = event["data"]["order"], event["data"]
        context.say(f"{data['sequence']} {event['type']}: {order['state']}, {order['status']}")
    types = [event["type"] for event in events]
    context.prove(
        "Every step arrives as an event",
        f"{len(events)} events, numbered in order",
        tuple(map(_step, events)) == WAY
        and types == [EventType.ORDER_CREATED, *[EventType.ORDER_UPDATED] * (len(WAY) - 1)],
    )
    mine = (await context.front.get(f"{ORDERS}/{order_id}")).json()
    theirs = (await context.partner.get(f"{MERCHANT_ORDERS}/{order_id}")).json()
    context.prove(
        "Both sides read the same order",
        f"{mine['state']}, {mine['status']}",
        mine == context.storefront.newest(order_id) == _without_partner_ids(theirs),
    )
    own = theirs["cart"]["lineItems"][0]["partnerItemId"] in shops.pizzeria()["items"]
    context.prove("The merchant reads its own ids", "partnerItemId on its lines", own)
    back = await context.order_simulator.update(order_id, status=PICKUP_PATH[-1])
    context.refused("A closed order stays closed", [back], 409, "ORDER_CLOSED")


async def repeat(context: DemoContext) -> None:
    """Send the same request again, then others with its key and with its token."""
    assert context.placed is not None
    before = len(context.merchant.book)
    again = await context.storefront.place_once(context.order, context.key)
    same = again.body == context.placed.body
    context.prove(
        "The same key gives the same bytes",
        f"{again.status}, {len(again.body):,} bytes, {'the same' if same else 'not the same'}",
        same and again.status == HTTPStatus.CREATED and again.headers.get("Idempotent-Replayed") == "true",
    )
    other = await context.storefront.place_once(context.order | {"amounts": {"tip": "3.00"}}, context.key)
    context.refused("A key is valid for one request", [other], 422, "IDEMPOTENCY_KEY_REUSED")
    token = await context.storefront.place_once(context.order, str(uuid4()))
    context.refused("A token is valid for one order", [token], 409, "ORDER_ALREADY_PLACED")
    none = before == len(context.merchant.book) == 1
    context.prove("None of them reached the store", f"{before} order in its book, as before", none)


def order_of(context: DemoContext, **members: Any) -> dict[str, Any]:
    """Return the customer's order of the cart."""
    return context.storefront.order_of(context.seller, context.cart, 1) | members


async def validated(context: DemoContext, order: dict[str, Any]) -> dict[str, Any]:
    """Return a valid order with the token of its validation; `context.validated` is the order that validate returns."""
    reply = await context.storefront.validate(order)
    context.validated = reply["order"]
    if not reply["isValid"]:
        context.prove("An order is valid", str(context.validated["errors"]), holds=False)
    return order | {"validatedOrderToken": reply["validatedOrderToken"]}


def placed_order(context: DemoContext) -> Any:
    """Return the order in the response to its placement."""
    assert context.placed is not None
    return context.placed.json()


def _without_partner_ids(value: Any) -> Any:
    """Return an order, or a part of it, without the ids that only its merchant reads."""
    if isinstance(value, list):
        return [_without_partner_ids(item) for item in value]
    if isinstance(value, dict):
        own = ("partnerItemId", "partnerModifierGroupId")
        return {name: _without_partner_ids(one) for name, one in value.items() if name not in own}
    return value


async def _watched(context: DemoContext, order_id: str) -> list[Any]:
    """Show the order's events as they arrive, up to the last; return them."""
    name = f"Order {placed_order(context)['partnerOrderId']}"
    events: list[Any] = []
    with context.display.watching([name], {step: number for number, step in enumerate(WAY)}) as watch:
        try:
            async with asyncio.timeout(TIMEOUT):
                while len(events) < len(WAY):
                    events.append(await context.storefront.event(order_id, len(events) + 1))
                    watch(name, _step(events[-1]))
        except TimeoutError:
            context.prove("Every step arrives as an event", f"{len(events)} events", holds=False)
    return events


def _step(event: Any) -> str:
    order = event["data"]["order"]
    step: str = order["status"] if order["state"] == "open" else order["state"]
    return step
