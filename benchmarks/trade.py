"""A live store and a storefront to measure with, and the requests that the storefront sends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks import menus
from benchmarks.load import Server, bare, encoded, environment, mercato

YES = b'{"isValid":true,"accepted":true,"partnerOrderId":"A-1"}'
"""What a store says to a validation and to a placement."""

CARTS = "/v1/marketfront/carts/add"
VALIDATE = "/v1/marketfront/orders/validate"
PLACE = "/v1/marketfront/orders/place"

LINES = 5
CHOICES = 2
LARGE = 40


@dataclass(frozen=True)
class Trade:
    """The service with a store of 60 items, whose system answers on loopback, and a storefront."""

    server: Server
    commerce_key: str
    front_key: str
    store: Any
    catalog: Any
    hooks: str
    catalog_url: str

    def post(self, path: str, body: Any, **headers: str) -> bytes:
        """Return the bytes of the storefront's request."""
        return post(path, body, self.front_key, **headers)

    def call(self, path: str, body: Any) -> Any:
        """Call as the storefront; return the decoded answer."""
        return self.server.call("POST", path, body, key=self.front_key)

    def add(self) -> Any:
        """Return a request that adds a fifth line, with modifiers, to a cart of four as it was answered."""
        items = list(self.catalog["items"])
        ids = {"storeId": self.store["storeId"], "catalogSetId": self.store["catalogSetId"]}
        body: Any = {"item": self.line(items[0]), **ids}
        for item in items[1:LINES]:
            body = {"item": self.line(item), "cart": self.call(CARTS, body)}
        return body

    def order(self) -> Any:
        """Return an order of five lines with modifiers, the cart as it was answered."""
        return self._ordered(self.call(CARTS, self.add()))

    def large_order(self) -> Any:
        """Return an order of as many lines as one may have, modifiers included, with no more than it needs of each."""
        ids = {"storeId": self.store["storeId"], "catalogSetId": self.store["catalogSetId"]}
        lines = [self.line(item) for item in list(self.catalog["items"])[:LARGE]]
        return self._ordered({"lineItems": lines, **ids})

    @staticmethod
    def _ordered(cart: Any) -> Any:
        return {
            "cart": cart,
            "clientContext": {"ip": "203.0.113.7", "userAgent": "shop/1.0"},
            "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
            "customer": {
                "email": "a@example.com",
                "firstName": "Ada",
                "lastName": "L.",
                "phone": "+15550100",
            },
        }

    def placements(self, order: Any, count: int) -> list[bytes]:
        """Return requests to place the order so many times: each with a token and a key of its own."""
        return [
            self.post(
                PLACE,
                order | {"validatedOrderToken": self.call(VALIDATE, order)["validatedOrderToken"]},
                **{"Idempotency-Key": str(uuid4())},
            )
            for _ in range(count)
        ]

    def line(self, item_id: str) -> Any:
        """Return a line of two of the item, with as many choices of each of its groups."""
        return {
            "itemId": item_id,
            "quantity": 2,
            "modifierGroups": [
                {
                    "modifierGroupId": group,
                    "lineItems": [
                        {"itemId": choice, "quantity": 1, "modifierGroups": []}
                        for choice in self.catalog["modifierGroups"][group]["itemIds"][:CHOICES]
                    ],
                }
                for group in self.catalog["items"][item_id]["modifierGroupIds"]
            ],
        }


@contextmanager
def trading(
    *, url: str | None = None, event_url: str | None = None, arguments: tuple[str, ...] = ()
) -> Iterator[Trade]:
    """Run the service, on the database at `url`, with a store that says yes to everything."""
    document = menus.small()
    with (
        mercato(url, *arguments) as server,
        menus.hosted(document) as catalog_url,
        bare("static", encoded(YES)) as shop,
    ):
        key = server.partner()
        hooks = f"http://127.0.0.1:{shop.port}/hooks"
        store = server.live(key, catalog_url, "bench")
        server.call("PUT", f"/v1/commerce/stores/{store['storeId']}", {"webhookUrl": hooks}, key=key)
        front = storefront(server, url, event_url)
        yield Trade(server, key, front, store, json.loads(document), hooks, catalog_url)


def storefront(server: Server, url: str | None, event_url: str | None) -> str:
    """Make a storefront; return its key."""
    command: list[str | Path] = [
        Path(sys.executable).with_name("mercato"), "partner", "create", "Front", "--kind", "marketfront",
        "--json", "--data-dir", server.data_dir,
    ]  # fmt: skip
    if event_url is not None:
        command += ["--event-url", event_url]
    made = subprocess.run(command, check=True, capture_output=True, env=environment(url))
    key: str = json.loads(made.stdout)["marketfrontKey"]
    return key


def post(path: str, body: Any, key: str, **headers: str) -> bytes:
    """Return the bytes of a POST."""
    data = json.dumps(body, separators=(",", ":")).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data
