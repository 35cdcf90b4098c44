"""The operation table as tests walk through it: every guarded operation, a good body for each, and a URL."""

from typing import Any

from tests.service import CATALOG, ITEM, Client, Reply

from mercato.web.app import operations
from mercato.web.operations import Access, Operation

GUARDED = [operation for operation in operations() if operation.access is not Access.PUBLIC]

LINE: dict[str, Any] = {"itemId": ITEM, "quantity": 1, "modifierGroups": [], "lineItemId": ITEM}
CART: dict[str, Any] = {"storeId": ITEM, "catalogSetId": ITEM, "lineItems": [LINE]}

BODIES: dict[str, Any] = {
    "registerStore": {
        "partnerStoreId": "x",
        "name": "X",
        "address": {},
        "catalogCallbackUrl": "http://127.0.0.1:0/",
    },
    "retryOnboarding": {},
    "notifyCatalogUpdate": {"callbackUrl": "http://127.0.0.1:0/"},
    "validateCatalogSet": CATALOG,
    "updateStore": {"name": "Mine now"},
    "setStoreStatus": {"status": "paused"},
    "setItemAvailability": {"items": [{"itemId": ITEM, "available": False}]},
    "addCartItem": {"cart": CART, "item": LINE, "catalogSetId": ITEM, "storeId": ITEM},
    "removeCartItem": {"cart": CART, "lineItemId": ITEM},
    "updateCartItem": {"cart": CART, "lineItemId": ITEM, "quantity": 2},
}
"""A good body for every operation that takes one: a new operation is refused here until it has its own.

The URLs are good to be taken and fail at once when they are pulled: nobody waits for them.
"""


SHARED = {"storeId", "catalogSetId"}
"""What every storefront may read, whoever's it is: the network's stores and catalogs are there for all of them."""


def owned(operation: Operation) -> list[str]:
    """Return the path parameters that name something of one partner's."""
    return [n for n in operation.names if n not in SHARED or operation.access is not Access.MARKETFRONT]


def target(operation: Operation, ids: dict[str, str], *, store: str | None = None) -> str:
    """Return the path with its ids, and with `storeId` where the operation reads it from the query."""
    path = operation.path
    for name in operation.names:
        path = path.replace(f"{{{name}}}", ids[name])
    return f"{path}?storeId={store}" if store is not None and takes_store(operation) else path


def takes_store(operation: Operation) -> bool:
    """Tell whether the operation has a query parameter `storeId`."""
    return operation.query is not None and "store_id" in operation.query.__struct_fields__


async def call(client: Client, operation: Operation, path: str) -> Reply:
    """Call the operation with its good body, if it takes one."""
    body = BODIES[operation.id] if operation.takes is not None else None
    return await client.call(operation.method, path, body)
