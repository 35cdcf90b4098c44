"""Why an order is not placed, by what the service knows itself."""

from typing import Final

from mercato.web.explained.commands import (
    CHOICE,
    DELIVERY,
    DISH,
    GROUP,
    ITEM,
    call,
    kept,
    member,
    order,
    place,
    quiet,
    throw_away,
)
from mercato.web.explained.model import Explained

_TWO_CHOICES: Final = (
    f'{{"itemId": "{DISH}", "quantity": 1, "modifierGroups": [\n'
    f'    {{"modifierGroupId": "{GROUP}", "lineItems": [\n'
    f'      {{"itemId": "{CHOICE}", "quantity": 2, "modifierGroups": []}}]}}]}}'
)
_NO_CHOICE: Final = f'{{"itemId": "{DISH}", "quantity": 1, "modifierGroups": []}}'
_STORE: Final = "/v1/commerce/stores/$STORE"

PAGES: Final = {
    "CART_EMPTY": Explained(
        "The cart has no lines.",
        "Add an item before you validate or place.",
        throw_away(place(order(lines=""))),
    ),
    "MODIFIER_REQUIRED": Explained(
        "A line lacks a choice that its item asks for: fewer are chosen in a group than `minimumAllowed`.",
        "`errors` points to the line. Let the customer choose; the group's `itemIds` are what there is to "
        "choose from.",
        throw_away(place(order(lines=_NO_CHOICE))),
    ),
    "MODIFIER_LIMIT_EXCEEDED": Explained(
        "In a modifier group more units are chosen than `maximumAllowed`, or more of one choice than it has "
        "`maximumQuantity`.",
        "`errors` points to the group. Choose less.",
        throw_away(place(order(lines=_TWO_CHOICES))),
    ),
    "ORDER_BELOW_MINIMUM": Explained(
        "The subtotal is less than the store's `minimumOrderAmount`. Fees and the tip do not count.",
        "Show the customer how much is missing: the store tells its minimum.",
        throw_away(
            quiet(_STORE, '{"minimumOrderAmount": "500.00"}', options="-X PUT"),
            place(order()),
        ),
    ),
    "ORDER_TOTAL_DIFFERENT": Explained(
        "`amounts.total`, or the total that was validated, is not what the order costs now: a price, a fee "
        "or a tax has changed since.",
        "Validate again, show the customer the new total, and place with the new token. Nothing was stored: the "
        "`Idempotency-Key` is still free.",
        throw_away(place(order(more='"amounts": {"total": "0.01"},\n  '))),
    ),
    "ADDRESS_INVALID": Explained(
        "The order is to be delivered, and its address lacks a street, a city or a postal code.",
        "`errors` points to each member that is missing.",
        throw_away(place(order(fulfillment=DELIVERY % '{"city": "Madison", "postalCode": "53703"}'))),
    ),
    "ORDER_TOKEN_INVALID": Explained(
        "The `validatedOrderToken` is malformed, older than 15 minutes, of another storefront, or of "
        "another order: items, quantities, modifiers, fulfilment and amounts have to be those that were "
        "validated.",
        "Validate the order as it is now, and place it with the new token. The `Idempotency-Key` is still free.",
        throw_away(place(order(more='"validatedOrderToken": "of another order",\n  '))),
    ),
    "STORE_CLOSED": Explained(
        "The store is paused, none of its catalogs is available at that time, or the time has passed.",
        "Ask Get Store Availability when and why, or order for later with `scheduleType` `SCHEDULED`.",
        throw_away(
            quiet(f"{_STORE}/status", '{"status": "paused"}'),
            place(order()),
        ),
    ),
    "ITEM_UNAVAILABLE": Explained(
        "An item or a choice is sold out, is not offered at that time, or the current catalog has it no "
        "more.",
        "`errors` points to each such line. Take it out of the cart; `unavailableItemIds` of the store say "
        "what is sold out.",
        throw_away(
            quiet(
                f"{_STORE}/item-availability", f'{{"items": [{{"itemId": "{ITEM}", "available": false}}]}}'
            ),
            place(order()),
        ),
    ),
    "MISSING_IDEMPOTENCY_KEY": Explained(
        "Place order was asked for without the header `Idempotency-Key`. Without it a repeat would be a "
        "second order.",
        "Make a UUID for each order, keep it before you send anything, and send it with every repeat.",
        throw_away(call("/v1/marketfront/orders/place", order(), key="SHOP_KEY")),
    ),
    "IDEMPOTENCY_KEY_REUSED": Explained(
        "The `Idempotency-Key` came within 24 hours with another request, which made an order or is still running. "
        "The first one stands.",
        "A key belongs to one order: make a new one for each. To repeat a request, send exactly the same "
        "body again.",
        throw_away(
            "ORDER_KEY=example-$RANDOM-$RANDOM",
            place(order(), key="$ORDER_KEY", options="-o answer.json"),
            place(order(more='"amounts": {"tip": "9.00"},\n  '), key="$ORDER_KEY"),
        ),
    ),
    "ORDER_ALREADY_PLACED": Explained(
        "The `validatedOrderToken` was used: there is an order, and `orderId` names it.",
        "Read that order. If it is a second one that the customer wants, validate it anew.",
        throw_away(
            kept(order()),
            call(
                "/v1/marketfront/orders/validate", "@order.json", key="SHOP_KEY", options="-o validated.json"
            ),
            f"TOKEN={member('validatedOrderToken', 'validated.json')}",
            """sed "1s/{/{\\"validatedOrderToken\\": \\"$TOKEN\\", /" order.json > place.json""",
            place("@place.json", options="-o answer.json"),
            place("@place.json"),
        ),
    ),
}
