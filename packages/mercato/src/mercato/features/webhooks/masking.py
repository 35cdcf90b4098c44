"""What operators see of webhooks about orders: who ordered is between the storefront and the merchant.

A member that isn't known to say nothing of the customer is masked, so that a new one is until it is listed here.
"""

from typing import Any, Final

import msgspec

from mercato_contract.wire import as_json

HIDDEN: Final = "***"

_ABOUT_ORDERS: Final = "order."

_SHOWN: Final = frozenset(
    {
        *("type", "timestamp", "data", "sequence", "order"),
        *("orderId", "storeId", "partnerStoreId", "state", "status", "estimatedReadyAt", "createdAt", "updatedAt"),
        *("cart", "catalogSetId", "lineItems", "lineItemId", "itemId", "partnerItemId", "name", "quantity"),
        *("modifierGroups", "modifierGroupId", "partnerModifierGroupId", "unavailable", "unitPrice"),
        *("amounts", "amount", "currency", "subTotal", "total", "tip", "fees", "taxes", "promotions", "adjustments"),
        *("fulfillment", "mode", "scheduleType", "scheduledTime", "deliveryType"),
    }
)  # fmt: skip
"""Members of these bodies whose texts are this service's, or those of the menu. `name` is an item's."""


def is_about_order(type_: str) -> bool:
    """Return whether webhooks of the type name the customer of an order."""
    return type_.startswith(_ABOUT_ORDERS)


def mask_body(type_: str, body: bytes) -> bytes:
    """Return the body of a webhook with `***` in place of what concerns a customer, and of partners' own words."""
    return as_json(_masked(msgspec.json.decode(body))) if is_about_order(type_) else body


def mask_reply(type_: str, reply: str | None) -> str | None:
    """Return the answer to a webhook, or `***` if it may repeat, in any form, what the webhook says of a customer."""
    return HIDDEN if reply and is_about_order(type_) else reply


def _masked(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: _masked(below) if name in _SHOWN or below is None else HIDDEN
                for name, below in value.items()
            }
        case list():
            return [_masked(below) for below in value]
        case _:
            return value
