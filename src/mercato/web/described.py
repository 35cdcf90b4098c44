"""What the OpenAPI document says of tags and of parameters in paths."""

from typing import Final

TAGS: Final = {
    "Commerce": "For merchants: stores, from registration to their status, and their catalogs.",
    "Orders": "Orders: validated, placed and followed by storefronts; read and moved on by merchants.",
    "Webhooks": "Deliveries of webhooks, each partner its own, and help with signatures that don't verify.",
    "Marketfront": "For storefronts: finding stores, and reading them and their catalogs.",
    "Carts": "Optional cart helpers for storefronts. Carts are the client's: nothing is kept.",
    "Tokens": "Access tokens for marketfront keys (OAuth 2.0 client credentials).",
    "System": "Health, metrics and documentation. No credentials needed, except for metrics.",
    "Events": "Webhooks that partners receive, signed as Standard Webhooks says.",
}

PATH_PARAMETERS: Final = {
    "onboardingId": "The onboarding's id, as Register Store answered it.",
    "storeId": "The store's id.",
    "catalogIngestId": "The run's id, as Notify Catalog Update answered it.",
    "catalogSetId": "The CatalogSet's id, as the store names it.",
    "orderId": "The order's id.",
    "deliveryId": "The delivery's id, as the list of deliveries names it.",
    "name": "The file's name, as the page names it.",
    "errorCode": "The code, as a problem's `errorCode` has it, in any letter case.",
}
