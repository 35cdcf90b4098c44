"""What is left for a person: two orders on the board, if the demo is kept running."""

from typing import Final
from uuid import uuid4

from mercato.local.demo.context import STORES, DemoContext

SHOP: Final = "grocery"
"""The store whose orders a person accepts from now on."""

MINUTES: Final = 60
"""How long the orders wait to be accepted."""

NUMBERS: Final = (3, 4)
"""The customers: the first writes a note."""


async def leave_orders(context: DemoContext) -> str:
    """Let a person accept the grocery's orders, place two, and return the store's id."""
    store_id = context.stores[SHOP]
    change = {"orderHandling": "manual", "acceptWithin": MINUTES}
    reply = await context.partner.call("PUT", f"{STORES}/{store_id}", change)
    context.expect(reply, 200, "A person accepts a store's orders")
    front = context.storefront
    store = await front.read_store(store_id)
    catalog = await front.read_catalog(store["catalogSetId"])
    for number in NUMBERS:
        cart = await front.fill_cart(store, front.choose_lines(store, catalog, number))
        placed = await front.place_once(front.order_of(store, cart, number), str(uuid4()))
        context.expect(placed, 201, "An order waits for a person")
    return store_id
