"""A storefront: it finds a store, prices a cart, places an order and follows it to its end.

    python examples/storefront.py shop.json [WORD]

`shop.json` is what `mercato partner create "My Shop" --kind marketfront --json` has printed.
"""

import json
import os
import sys
from pathlib import Path
from uuid import UUID, uuid4

from mercato.client import Client, as_cart, errors, to_place, types

CUSTOMER = types.Customer(
    email="ada@example.com", first_name="Ada", last_name="Lovelace", phone="+1 608 555 0100"
)
BROWSER = types.ClientContext(ip="203.0.113.7", user_agent="my-shop/1.0")
URL = os.environ.get("MERCATO_URL", "http://127.0.0.1:8000")
NOTHING = "Nothing that is open sells {!r}. Is a merchant's store live? See docs/start-here.md."


def fill_cart(mercato: Client, word: str) -> types.Cart:
    """Find a dish by a word of its name, in a store that is open, and put two of it into a cart."""
    found = mercato.discover_stores(types.DiscoverRequest(query=word, open_now=True)).stores
    for store in found:
        menu = mercato.get_catalog_set(store.catalog_set_id)
        sold_out = {str(one) for one in store.unavailable_item_ids}
        for item_id, item in menu.items.items():
            if word.lower() in str(item.name).lower() and item_id not in sold_out:
                line = types.LineItem(item_id=UUID(item_id), quantity=2, modifier_groups=[])
                asked = types.AddCartItemRequest(
                    item=line, store_id=store.store_id, catalog_set_id=store.catalog_set_id
                )
                print(f"{store.name} sells {item.name} for {item.base_price}.")
                return as_cart(mercato.add_cart_item(asked))
    sys.exit(NOTHING.format(word))


def buy(mercato: Client, cart: types.Cart) -> types.Order:
    """Validate and place an order; whatever happens on the way, it is placed once."""
    pickup = types.PickupFulfillment(schedule_type=types.ScheduleType.ASAP)
    tip = types.ValidateAmounts(tip="2.00")
    order = types.OrderCore(
        cart=cart, client_context=BROWSER, fulfillment=pickup, amounts=tip, customer=CUSTOMER
    )
    validated = mercato.validate_order(order)
    if not validated.is_valid:
        sys.exit("\n".join(f"{one.code}: {one.message}" for one in validated.order.errors))
    key = str(uuid4())
    Path("last-order.key").write_text(
        key
    )  # kept before it is sent: after a crash the same key finds the order
    return mercato.place_order(to_place(order, validated, payment={"type": "external"}), idempotency_key=key)


def main(file: str, word: str = "ramen") -> None:
    partner = json.loads(Path(file).read_text())
    with Client(URL, partner["marketfrontKey"]) as mercato:
        order = buy(mercato, fill_cart(mercato, word))
        print(
            f"Order {order.order_id} is placed: {order.amounts.total} {order.amounts.currency}.", flush=True
        )
        order = mercato.wait_until_closed(order.order_id)
        for entry in mercato.get_marketfront_order_timeline(order.order_id).entries:
            said = entry.detail.get("status") or entry.detail.get("total") or ""
            print(f"  {entry.at}  {entry.type:16} {said}".rstrip())
        print(f"The order is {order.state}.")


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:3])
    except KeyError as missing:
        sys.exit(f"{sys.argv[1]} has no {missing}: is it the file of a partner of the other kind?")
    except (errors.MercatoError, OSError, ValueError) as fault:
        sys.exit(str(fault))
    except KeyboardInterrupt:
        sys.exit("Stopped. If an order was placed, it goes on without us: its key is in last-order.key.")
