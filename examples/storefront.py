"""A storefront: it finds a dish and a store that has it, prices a cart, places an order and follows it to its end.

    python examples/storefront.py shop.json [WORD]

`shop.json` is what `mercato partner create "My Shop" --kind marketfront --json` has printed. Without it the key is
MERCATO_KEY; with MERCATO_STORE_ID it buys any dish of that store. With MERCATO_CANCEL it cancels the order, for that
reason.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

from mercato_client import Client, as_cart, errors, to_place, types

CUSTOMER = types.Customer(
    email="ada@example.com", first_name="Ada", last_name="Lovelace", phone="+1 608 555 0100"
)
BROWSER = types.ClientContext(ip="203.0.113.7", user_agent="my-shop/1.0")
URL = os.environ.get("MERCATO_URL", "http://127.0.0.1:8000")
STORE_ID = os.environ.get("MERCATO_STORE_ID")
CANCEL = os.environ.get("MERCATO_CANCEL")
NOTHING = "No open store sells {!r}. Is a merchant's store live? See docs/start-here.md."


def stores(mercato: Client, word: str) -> Iterator[types.MarketfrontStore]:
    """Yield the open stores that match the word, best match first."""
    if STORE_ID:
        yield mercato.get_marketfront_store(STORE_ID)
    else:
        yield from mercato.discover_stores(types.DiscoverRequest(query=word, open_now=True))


def choices(menu: types.CatalogSet, item_id: str, sold_out: set[str]) -> list[types.CartModifierGroup] | None:
    """Choose the required modifiers of an item; None if it isn't available."""
    item = menu.items.get(item_id)
    if item is None or item.is_available is False or item_id in sold_out:
        return None
    chosen: list[types.CartModifierGroup] = []
    for group_id in item.modifier_group_ids or []:
        group = (menu.modifier_groups or {})[group_id]
        lines: list[types.LineItem] = []
        for choice in group.item_ids or []:
            more = choices(menu, choice, sold_out)
            if more is not None and len(lines) < (group.minimum_allowed or 0):
                lines.append(types.LineItem(item_id=UUID(choice), quantity=1, modifier_groups=more))
        if len(lines) < (group.minimum_allowed or 0):
            return None
        if lines:
            chosen.append(types.CartModifierGroup(modifier_group_id=UUID(group_id), line_items=lines))
    return chosen


def fill_cart(mercato: Client, word: str) -> types.Cart:
    """Find a dish by a word of its name, and put two of it into a cart."""
    for store in stores(mercato, word):
        menu = mercato.get_catalog_set(store.catalog_set_id)
        on_sale = {one for section in (menu.sections or {}).values() for one in section.item_ids or []}
        sold_out = {str(one) for one in store.unavailable_item_ids}
        for item_id in sorted(on_sale or menu.items):
            item, chosen = menu.items[item_id], choices(menu, item_id, sold_out)
            if chosen is not None and item.base_price and word.lower() in str(item.name).lower():
                print(f"{store.name} sells {item.name} for {item.base_price}.", flush=True)
                line = types.LineItem(item_id=UUID(item_id), quantity=2, modifier_groups=chosen)
                request = types.AddCartItemRequest(
                    item=line, store_id=store.store_id, catalog_set_id=store.catalog_set_id
                )
                return as_cart(mercato.add_cart_item(request))
    sys.exit(NOTHING.format(word))


def buy(mercato: Client, cart: types.Cart) -> types.Order:
    """Validate and place an order, exactly once even after a failure."""
    pickup = types.PickupFulfillment(schedule_type=types.ScheduleType.ASAP)
    tip = types.ValidateAmounts(tip="2.00")
    order = types.OrderCore(
        cart=cart, client_context=BROWSER, fulfillment=pickup, amounts=tip, customer=CUSTOMER
    )
    validated = mercato.validate_order(order)
    if not validated.is_valid:
        sys.exit("\n".join(f"{one.code}: {one.message}" for one in validated.order.errors))
    key = str(uuid4())
    # Stored before it is sent: after a crash the same key finds the order.
    Path("last-order.key").write_text(key)
    return mercato.place_order(to_place(order, validated, payment={"type": "external"}), idempotency_key=key)


def main(key: str, word: str) -> None:
    with Client(URL, key) as mercato:
        order = buy(mercato, fill_cart(mercato, word))
        total = f"{order.amounts.total} {order.amounts.currency}"
        print(f"Order {order.order_id} is placed: {total}.", flush=True)
        if CANCEL:
            order = mercato.cancel_order(order.order_id, reason=CANCEL)
        order = mercato.wait_until_closed(order.order_id)
        for entry in mercato.get_marketfront_order_timeline(order.order_id).entries:
            detail = entry.detail.get("status") or entry.detail.get("total") or ""
            print(f"  {entry.at}  {entry.type:16} {detail}".rstrip())
        print(f"The order is {order.state}.")


def read(file: str) -> dict[str, str]:
    """Return the contents of a partner's file; exit if it isn't one."""
    try:
        found = json.loads(Path(file).read_text())
    except (OSError, ValueError) as fault:
        sys.exit(f"{file} cannot be read: {fault}. Create it with mercato partner create … --json > {file}")
    return (
        found
        if isinstance(found, dict)
        else sys.exit(f"{file} isn't a partner's file: it has no JSON object.")
    )


if __name__ == "__main__":
    file, given = sys.argv[1:2], os.environ.get("MERCATO_KEY")
    if not file and not given:
        sys.exit(__doc__)
    try:
        main(
            read(file[0])["marketfrontKey"] if file else str(given),
            sys.argv[2] if sys.argv[2:] else "" if STORE_ID else "ramen",
        )
    except KeyError as missing:
        sys.exit(f"{file[0]} has no {missing}: is it the file of a partner of the other kind?")
    except (errors.MercatoError, OSError, ValueError) as fault:
        sys.exit(str(fault))
    except KeyboardInterrupt:
        sys.exit(
            "Stopped. If an order was placed, its store continues with it. Its key is in last-order.key."
        )
