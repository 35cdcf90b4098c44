"""A valid example of each request type, for the reference. A test decodes them all."""

from typing import Any, Final

STORE: Final = "01963f5e-7e3b-7ccc-8000-0000000000a1"
SET: Final = "01963f5e-7e3b-7ccc-8000-0000000000b1"
SOUP: Final = "01963f5e-7e3b-7ccc-8000-0000000000c1"
BREAD: Final = "01963f5e-7e3b-7ccc-8000-0000000000c2"
SIDES: Final = "01963f5e-7e3b-7ccc-8000-0000000000d1"
LINE: Final = "01963f5e-7e3b-7ccc-8000-0000000000e1"

_LINE: Final[dict[str, Any]] = {
    "itemId": SOUP,
    "quantity": 2,
    "modifierGroups": [
        {"modifierGroupId": SIDES, "lineItems": [{"itemId": BREAD, "quantity": 1, "modifierGroups": []}]}
    ],
}
_CART: Final[dict[str, Any]] = {
    "storeId": STORE,
    "catalogSetId": SET,
    "lineItems": [_LINE | {"lineItemId": LINE}],
}
_ORDER: Final[dict[str, Any]] = {
    "cart": _CART,
    "clientContext": {"ip": "203.0.113.7", "userAgent": "Mozilla/5.0"},
    "fulfillment": {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "deliveryType": "LEAVE_AT_DOOR",
        "address": {"address1": "350 5th Ave", "city": "New York", "state": "NY", "postalCode": "10118"},
        "instructions": "Ring twice.",
    },
    "amounts": {"tip": "2.00"},
    "customer": {
        "email": "ada@example.com",
        "firstName": "Ada",
        "lastName": "Lovelace",
        "phone": "+12125550100",
    },
}

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "ConsoleLinkRequest": {"readOnly": True},
    "OnboardingRequest": {
        "partnerStoreId": "downtown-1",
        "name": "Soup & Co, Downtown",
        "address": {
            "street": "350 5th Ave",
            "city": "New York",
            "state": "NY",
            "postalCode": "10118",
            "country": "US",
        },
        "catalogCallbackUrl": "https://partner.example.com/stores/downtown-1/catalog.json",
        "webhookUrl": "https://partner.example.com/mercato",
    },
    "CatalogSetNotification": {"callbackUrl": "https://partner.example.com/stores/downtown-1/catalog.json"},
    "StoreStatusUpdate": {
        "status": "paused",
        "pauseReason": "Kitchen is full",
        "resumeAt": "2099-01-31T18:30:00Z",
    },
    "ItemAvailabilityRequest": {"items": [{"itemId": SOUP, "available": False}]},
    "OrderStatusUpdate": {"status": "confirmed", "estimatedReadyAt": "2099-01-31T18:30:00Z"},
    "DiscoverRequest": {
        "location": {"latitude": 40.7484, "longitude": -73.9857},
        "radius": 5000,
        "fulfillmentType": "PICKUP",
        "query": "soup",
    },
    "ExplainSignatureRequest": {
        "headers": {
            "webhook-id": STORE,
            "webhook-timestamp": "1772366400",
            "webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        },
        "body": '{"type":"order.created","timestamp":"2026-03-01T12:00:00.000Z","data":{}}',
        "secrets": ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],
    },
    "AddCartItemRequest": {"item": _LINE, "storeId": STORE, "catalogSetId": SET},
    "RemoveCartItemRequest": {"cart": _CART, "lineItemId": LINE},
    "UpdateCartItemRequest": {"cart": _CART, "lineItemId": LINE, "quantity": 3},
    "OrderCore": _ORDER,
    "PlaceOrderRequest": _ORDER | {"validatedOrderToken": None, "payment": {"type": "external"}},
}
