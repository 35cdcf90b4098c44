"""First part of the storefront's story: it finds stores, reads a catalog, and has a cart priced."""

from decimal import Decimal
from http import HTTPStatus
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final

from mercato.sandbox.scene import Scene
from mercato.testing import menus
from mercato.testing.shops import PLACES

DISCOVER: Final = "/v1/marketfront/stores/discover"
STORES: Final = "/v1/marketfront/stores"
CATALOG_SETS: Final = "/v1/marketfront/catalog-sets"
CARTS: Final = "/v1/marketfront/carts"

CUSTOMER: Final = (47.3400, 5.0300)
"""Where the customer stands, in degrees: in Dijon, a short walk from the pizzeria."""

EARTH: Final = 6_371_000
"""Metres."""

SEARCHES: Final = (("margherita", menus.PIZZERIA), ("担々麺", menus.RAMEN_HOUSE), ("spinach", menus.GROCERY))
"""Words that stand in the names of items, and whose items they are."""

PIZZA, SIZE = menus.MARGHERITA, "Classica, 32 cm"
TOPPINGS: Final = ("Basil", "Buffalo mozzarella")
DRINK: Final = "Chinotto"


async def discover(scene: Scene) -> None:
    """Look for stores near the customer, and by what they sell."""
    near = {"location": {"latitude": CUSTOMER[0], "longitude": CUSTOMER[1]}}
    stores = await _found(scene, near)
    for store in stores:
        scene.stage.say(f"{store['name']}: {store['distance']:.0f} m, isOpen {store['isOpen']}")
    metres = _metres(CUSTOMER, PLACES["pizzeria"])
    scene.proofs.add(
        "A search by place finds what is near",
        f"{len(stores)} of 3 stores within 25 km",
        holds=[store["name"] for store in stores] == [menus.PIZZERIA]
        and abs(stores[0]["distance"] - metres) < metres / 100,
    )
    right = 0
    for word, name in SEARCHES:
        names = [store["name"] for store in await _found(scene, {"query": word})]
        scene.stage.say(f"{word}: {', '.join(names)}")
        right += names == [name]
    scene.proofs.add(
        "A search by text finds who sells it",
        f"{right} of {len(SEARCHES)} words",
        holds=right == len(SEARCHES),
    )


async def read_catalog(scene: Scene) -> None:
    """Read the store as it is now, then its CatalogSet, twice."""
    reply = await scene.front.get(f"{STORES}/{scene.stores['pizzeria']}")
    store = scene.expect(reply, 200, "A storefront reads a store")
    path = f"{CATALOG_SETS}/{store['catalogSetId']}"
    first = await scene.front.get(path)
    scene.basket.catalog = scene.expect(first, 200, "A storefront reads a CatalogSet")
    tag = first.headers["ETag"]
    again = await scene.front.get(path, If_None_Match=tag)
    scene.stage.say(f"{len(scene.basket.catalog['items'])} items, {first.headers['Cache-Control']}")
    scene.stage.say(f"ETag {tag}")
    scene.proofs.add(
        "A known catalog is not sent again",
        f"{again.status}: {len(again.body)} bytes, not {len(first.body):,}",
        holds=again.status == HTTPStatus.NOT_MODIFIED
        and not again.body
        and "immutable" in first.headers["Cache-Control"],
    )


async def fill_cart(scene: Scene) -> None:
    """Add a pizza with a size and toppings, take two of it, add a drink; forget the size once."""
    whole = {"storeId": scene.stores["pizzeria"], "catalogSetId": scene.basket.catalog["catalogSetId"]}
    cart = await cart_of(scene, "add", whole | {"item": _pizza(sized=True)})
    line = cart["lineItems"][0]["lineItemId"]
    cart = await cart_of(scene, "update", {"cart": cart, "lineItemId": line, "quantity": 2})
    cart = await cart_of(scene, "add", {"cart": cart, "item": _line(DRINK)})
    scene.basket.cart = cart
    prices = [_price(scene, name) for name in (PIZZA, SIZE, TOPPINGS[1], DRINK)]
    pizza, size, topping, drink = prices
    by_hand = 2 * (pizza + size + topping) + drink
    scene.stage.say(f"Two {PIZZA}, {SIZE}, with {' and '.join(TOPPINGS)};")
    scene.stage.say(f"one {DRINK}. One topping is free, the cheapest: {TOPPINGS[0]}.")
    scene.stage.say(f"2 x ({pizza} + {size} + {topping}) + {drink} = {by_hand}")
    total, lines = cart["amounts"]["total"], [line["quantity"] for line in cart["lineItems"]]
    scene.proofs.add(
        "A cart is priced to the cent",
        f"{total} {cart['amounts']['currency']}, as by hand",
        holds=Decimal(total) == by_hand and lines == [2, 1],
    )
    refused = (await scene.front.post(f"{CARTS}/add", {"cart": cart, "item": _pizza(sized=False)})).json()
    for fault in refused["errors"]:
        scene.stage.say(f"{fault['code']} {fault['pointer']}: {fault['message']}")
    codes = [fault["code"] for fault in refused["errors"]]
    scene.proofs.add(
        "A pizza without a size is refused",
        f"{refused['status']} {', '.join(codes)}",
        holds=(refused["status"], codes) == (422, ["MODIFIER_REQUIRED"]),
    )


async def cart_of(scene: Scene, helper: str, body: Any) -> Any:
    """Return the cart that a cart helper answers with."""
    return scene.expect(await scene.front.post(f"{CARTS}/{helper}", body), 200, "A cart helper answers")


async def _found(scene: Scene, body: Any) -> Any:
    found = scene.expect(await scene.front.post(DISCOVER, body), 200, "Stores are found")
    return found["stores"]


def _pizza(*, sized: bool) -> Any:
    size, extra = (menus.item_id(menus.PIZZERIA, f"group: {name}") for name in ("size", "toppings"))
    groups = [{"modifierGroupId": extra, "lineItems": [_line(name) for name in TOPPINGS]}]
    if sized:
        groups.append({"modifierGroupId": size, "lineItems": [_line(SIZE)]})
    return _line(PIZZA) | {"modifierGroups": groups}


def _line(name: str) -> dict[str, Any]:
    return {"itemId": menus.item_id(menus.PIZZERIA, name), "quantity": 1, "modifierGroups": []}


def _price(scene: Scene, name: str) -> Decimal:
    return Decimal(scene.basket.catalog["items"][menus.item_id(menus.PIZZERIA, name)]["basePrice"])


def _metres(here: tuple[float, float], there: tuple[float, float]) -> float:
    """Return the distance on a round earth, which is right to half a percent."""
    (lat, lng), (lat2, lng2) = (tuple(map(radians, place)) for place in (here, there))
    half = sin((lat2 - lat) / 2) ** 2 + cos(lat) * cos(lat2) * sin((lng2 - lng) / 2) ** 2
    return 2 * EARTH * asin(sqrt(half))
