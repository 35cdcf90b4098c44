"""The Python client of a Mercato network, for merchants' systems and storefronts.

    from mercato_client import Client, types

    with Client("http://127.0.0.1:8000", key) as client:
        store = client.wait_until_live(client.register_store(types.OnboardingRequest(…)).onboarding_id)

`Client` is for threads, `AsyncClient` for asyncio; both have the same methods. `verify_webhook` reads what the
service sends. With them come the structs of requests and answers and the rules that read them, but neither the server
nor the database.
"""

from mercato_client import errors, types
from mercato_client.clients import AsyncClient, Client
from mercato_client.core import NEVER, Retries
from mercato_client.marketfront import as_cart, to_place
from mercato_client.operation import AsyncPages, Pages
from mercato_client.webhooks import (
    Answer,
    Event,
    Receiver,
    UnknownData,
    UnreadableWebhookError,
    WebhookError,
    verify_webhook,
)
from mercato_contract.wire import as_json, instant, parse_instant

__all__ = [
    "NEVER",
    "Answer",
    "AsyncClient",
    "AsyncPages",
    "Client",
    "Event",
    "Pages",
    "Receiver",
    "Retries",
    "UnknownData",
    "UnreadableWebhookError",
    "WebhookError",
    "as_cart",
    "as_json",
    "errors",
    "instant",
    "parse_instant",
    "to_place",
    "types",
    "verify_webhook",
]
