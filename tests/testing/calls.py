"""Sample webhooks, signed as a service signs them."""

import json
import time
from collections.abc import Mapping
from typing import Any

import aiohttp

from mercato_client.testing import shops
from mercato_contract.signing import new_secret, webhook_headers

SECRET = new_secret(lambda count: b"\x07" * count)
OLD_SECRET = new_secret(lambda count: b"\x08" * count)

ORDER = "01a1fd20-e7b7-755c-9221-318576f108e3"
DRINK = shops.item_id(shops.PIZZERIA, "Chinotto")
"""Costs 3.20."""


def amounts(**changed: str) -> dict[str, str]:
    return {"currency": "EUR", "subTotal": "6.40", "taxes": "0.32", "tip": "1.00", "total": "7.72"} | changed


def order(*, item: str = DRINK, **changed: str) -> dict[str, Any]:
    """Return an order of two drinks as a store receives it."""
    line = {"itemId": item, "quantity": 2, "modifierGroups": [], "name": "Chinotto"}
    return {"cart": {"lineItems": [line]}, "amounts": amounts(**changed)}


def signed(body: bytes, webhook_id: str = ORDER, *, secret: str = SECRET) -> dict[str, str]:
    return webhook_headers(
        webhook_id=webhook_id, timestamp=int(time.time()), body=body, secrets=[secret], token="theirs",
        traceparent=None,
    )  # fmt: skip


async def tell(
    url: str, operation: str, order_id: str = ORDER, *, secret: str = SECRET, **data: Any
) -> tuple[int, Any]:
    """Send an order webhook; return the status and the text or value of the answer."""
    data = {"order": order()} | data
    value = {"type": f"order.{operation}", "data": {"orderId": order_id} | data}
    body = json.dumps(value).encode()
    return await deliver(f"{url}/{operation}", body, signed(body, order_id, secret=secret))


async def deliver(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
    """POST a body; return the status, and the value of the answer, or its text, or None without any."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=headers) as reply,
    ):
        text = await reply.text()
        try:
            return reply.status, json.loads(text) if text else None
        except ValueError:
            return reply.status, text
