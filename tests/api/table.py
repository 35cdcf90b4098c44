"""The operation table as tests walk through it: every guarded operation, a good body for each, and a URL."""

import json
from typing import Any
from uuid import uuid4

from tests.service import CATALOG, ITEM, Client

from mercato.asgi import operations
from mercato.http.operations import Access, Operation
from mercato_client.testing.caller import Answer

GUARDED = [operation for operation in operations() if operation.access is not Access.PUBLIC]

LINE: dict[str, Any] = {"itemId": ITEM, "quantity": 1, "modifierGroups": [], "lineItemId": ITEM}
CART: dict[str, Any] = {"storeId": "{storeId}", "catalogSetId": "{catalogSetId}", "lineItems": [LINE]}
ORDER: dict[str, Any] = {
    "cart": CART,
    "clientContext": {"ip": "203.0.113.7", "userAgent": "shop/1.0"},
    "fulfillment": {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "deliveryType": "LEAVE_AT_DOOR",
        "scheduledTime": None,
        "instructions": "Ring twice",
        "address": {
            "address1": "1 Main St",
            "city": "Springfield",
            "postalCode": "62701",
            "coordinates": {"lat": 39.8, "lng": -89.6},
        },
    },
    "amounts": {"tip": "1.00"},
    "customer": {"email": "a@example.com", "firstName": "Ada", "lastName": "L", "phone": "+15550100"},
}

ENDPOINT: dict[str, Any] = {"url": "http://127.0.0.1:1/new", "types": ["endpoint.changed"]}
CHANGED = ENDPOINT | {"url": "http://127.0.0.1:1/changed"}

BODIES: dict[str, Any] = {
    "registerStore": {
        "partnerStoreId": "x",
        "name": "X",
        "address": {},
        "catalogCallbackUrl": "http://nobody@127.0.0.1/",
    },
    "retryOnboarding": {},
    "notifyCatalogUpdate": {"callbackUrl": "http://nobody@127.0.0.1/"},
    "putCatalog": CATALOG,
    "validateCatalogSet": CATALOG,
    "updateStore": {"name": "Mine now"},
    "setStoreStatus": {"status": "paused"},
    "setItemAvailability": {"items": [{"itemId": ITEM, "available": False}]},
    "discoverStores": {"location": {"latitude": 40.7, "longitude": -74.0}, "query": "soup"},
    "addCartItem": {"cart": CART, "item": LINE, "catalogSetId": "{catalogSetId}", "storeId": "{storeId}"},
    "removeCartItem": {"cart": CART, "lineItemId": ITEM},
    "updateCartItem": {"cart": CART, "lineItemId": ITEM, "quantity": 2},
    "validateOrder": ORDER,
    "placeOrder": ORDER | {"payment": {"type": "external"}, "validatedOrderToken": None},
    "cancelOrder": {"reason": "CHANGED_MIND", "message": None},
    "adjustOrder": {"type": "fee", "amount": "1.00", "reason": "Bags"},
    "explainWebhookSignature": {
        "headers": {"webhook-id": ITEM, "webhook-timestamp": "1772366400", "webhook-signature": "v1,AAAA"},
        "body": "{}",
        "secrets": ["whsec_AAAA"],
        "receivedAt": "2026-03-01T12:00:00Z",
        "computedSignature": "AAAA",
    },
    "createAgent": {"name": "Lunch", "currency": "USD", "maximumDay": "20.00", "approval": "above:10.00"},
    "createConsoleLink": {"readOnly": True},
    "redeliverCommerceWebhooks": {"since": "2026-03-01T00:00:00Z"},
    "redeliverMarketfrontWebhooks": {"since": "2026-03-01T00:00:00Z"},
    "createCommerceWebhookEndpoint": ENDPOINT,
    "createMarketfrontWebhookEndpoint": ENDPOINT,
    "updateCommerceWebhookEndpoint": CHANGED,
    "updateMarketfrontWebhookEndpoint": CHANGED,
    "rotateCommerceWebhookEndpointSecret": {"overlapHours": 1},
    "rotateMarketfrontWebhookEndpointSecret": {"overlapHours": 1},
    "updateOrderStatuses": {"updates": [{"orderId": "{orderId}", "status": "confirmed"}]},
    "setStoreStatuses": {"updates": [{"storeId": "{storeId}", "status": "paused", "pauseReason": "x"}]},
    "sendMcpMessage": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}},
    },
    "updateOrderStatus": {
        "status": "confirmed",
        "estimatedReadyAt": "2099-01-01T00:00:00Z",
        "courier": {"name": "Sam"},
    },
}
"""A good body for every operation that takes one: a new operation is refused here until it has its own.
`body_for` replaces what is in braces.

The URLs are accepted, and fail at once when they are pulled, so that no test waits for them.
"""


REQUIRED_QUERY = dict.fromkeys(
    ("reportCommerceOrders", "reportMarketfrontOrders"), "from=2026-03-01&to=2026-03-31&timezone=UTC"
)
"""A good query for every operation that requires one."""


SHARED = {"storeId", "catalogSetId"}
"""What every storefront may read, of any partner: the network's stores and catalogs."""


def owned(operation: Operation) -> list[str]:
    """Return the path parameters that name a resource of one partner."""
    return [n for n in operation.names if n not in SHARED or operation.access is not Access.MARKETFRONT]


def target(operation: Operation, ids: dict[str, str], *, store: str | None = None) -> str:
    """Return the path with its ids, and with `storeId` where the operation reads it from the query."""
    path = operation.path
    for name in operation.names:
        path = path.replace(f"{{{name}}}", ids[name])
    given = [REQUIRED_QUERY[operation.id]] if operation.id in REQUIRED_QUERY else []
    given += [f"storeId={store}"] if store is not None and takes_store(operation) else []
    return f"{path}?{'&'.join(given)}" if given else path


def takes_store(operation: Operation) -> bool:
    """Tell whether the operation has a query parameter `storeId`."""
    return operation.query is not None and "store_id" in operation.query.__struct_fields__


def body_for(operation: Operation, ids: dict[str, str]) -> Any:
    """Return the operation's good body about these ids, None if it takes none."""
    if operation.takes is None:
        return None
    text = json.dumps(BODIES[operation.id])
    for name, one in ids.items():
        text = text.replace(f"{{{name}}}", one)
    return json.loads(text)


def headers_for(operation: Operation) -> dict[str, str]:
    """Return the headers that the operation requires: a key of its own for every request."""
    return {name: str(uuid4()) for name in operation.request_headers if name == "Idempotency-Key"}


async def call(client: Client, operation: Operation, path: str, ids: dict[str, str] | None = None) -> Answer:
    """Call the operation with its good body, if it takes one."""
    body = body_for(operation, ids or {})
    return await client.call(operation.method, path, body, headers=headers_for(operation))
