"""The simulated merchants' web server: hosts catalogs, takes orders, and writes down every webhook it was sent."""

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from tests.prove.books import MerchantBook, Shop, Taken
from tests.prove.documents import document
from tests.prove.moods import Dropped, Moods, drop

from mercato.testing.inbox import Inbox, Received

DECLINED: Final = "tok_declined"
FAILS_ONCE: Final = "tok_fails_once"

SILENT: Final = 0.06
"""The share of orders that a store never answers, though it may have written them down."""


@dataclass(slots=True)
class Merchants:
    """All of them, behind one port. `on_taken` is called with each order that was written down."""

    book: MerchantBook
    moods: Moods
    chance: random.Random
    on_taken: Callable[[str], None]
    base: str = ""
    inboxes: list[Inbox] = field(default_factory=list)
    webhooks: int = 0
    _unpaid: set[str] = field(default_factory=set)

    def application(self) -> web.Application:
        """Return the web server's application."""
        app = web.Application()
        app.router.add_get("/catalogs/{shop}/{version}", self.host)
        app.router.add_post("/hooks/{shop}/{what}", self.receive)
        return app

    def webhook_url(self, shop: Shop) -> str:
        """Return the `webhookUrl` of a shop."""
        return f"{self.base}/hooks/{shop.name}"

    def catalog_url(self, shop: Shop, *, fixed: bool) -> str:
        """Return where the newest catalog is: under an address of its own, or where the newest always is."""
        return f"{self.base}/catalogs/{shop.name}/{shop.version if fixed else 'current'}"

    async def host(self, request: web.Request) -> web.StreamResponse:
        """Answer a pull."""
        try:
            refusal = await self.moods.suffer(request)
        except Dropped:
            return web.Response(status=500)
        if refusal is not None:
            return refusal
        shop = self.book.shops[request.match_info["shop"]]
        asked = request.match_info["version"]
        version = shop.version if asked == "current" else int(asked)
        body = json.dumps(document(shop.name, version, broken=version in shop.broken)).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(body=body, content_type="application/json", headers={"ETag": tag})

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Answer a webhook."""
        shop = self.book.shops[request.match_info["shop"]]
        received = await self.inboxes[shop.merchant].read(request)
        self.webhooks += 1
        if received.fault is not None:
            self.book.mail.forged.append(f"{received.path} {received.webhook_id}: {received.fault}")
            return web.Response(status=401)
        try:
            match request.match_info["what"]:
                case "validate":
                    return await self._validate(request, received)
                case "place":
                    return await self._place(request, received, shop)
                case _:
                    return await self._event(request, received)
        except Dropped:
            return web.Response(status=500)

    async def _validate(self, request: web.Request, received: Received) -> web.Response:
        refusal = await self.moods.suffer(request)
        sub_total = received.json()["data"]["order"]["amounts"]["subTotal"]
        tax = f"{int(float(sub_total) * 5) / 100:.2f}"
        amounts = {"taxes": tax, "taxesDescription": [{"amount": tax, "description": "Tax"}]}
        return refusal or web.json_response({"isValid": True, "amounts": amounts})

    async def _place(self, request: web.Request, received: Received, shop: Shop) -> web.Response:
        """Decide at the first time, write it down before or after the trouble; later, say the same again."""
        order_id = received.webhook_id
        self.book.mail.note(order_id, received.body)
        works_first = self.chance.random() < 1 / 2
        taken = self._decide(received, shop) if works_first else self.book.orders.get(order_id)
        refusal = await self.moods.suffer(request)
        if taken is None and (refusal is None):
            taken = self._decide(received, shop)
        if taken is None or taken.silent or refusal is not None:
            if taken is not None and taken.silent and self.chance.random() < 1 / 2:
                drop(request)
            return refusal or web.Response(status=503)
        status, answer = taken.answer
        return web.json_response(answer, status=status)

    def _decide(self, received: Received, shop: Shop) -> Taken:
        order_id, data = received.webhook_id, received.json()["data"]
        if order_id in self.book.orders:
            return self.book.orders[order_id]
        number = f"N-{len(self.book.orders) + 1}"
        no = self._refusal(data)
        taken = Taken(
            store=shop.name,
            accepted=no is None,
            answer=no or (200, {"accepted": True, "partnerOrderId": number}),
            number=number if no is None else None,
            silent=no is None and self.chance.random() < SILENT,
        )
        self.book.orders[order_id] = taken
        if taken.accepted and not taken.silent:
            self.on_taken(order_id)
        return taken

    def _refusal(self, data: Any) -> tuple[int, Any] | None:
        card = (data.get("payment") or {}).get("cardToken")
        key = data["order"]["customer"]["partnerUserId"]
        if card == DECLINED:
            return 402, {"accepted": False, "errors": [{"code": "PAYMENT_DECLINED", "message": "No."}]}
        if card == FAILS_ONCE and key not in self._unpaid:
            self._unpaid.add(key)
            return 402, {"accepted": False, "errors": [{"code": "PAYMENT_FAILED", "message": "Again."}]}
        return None

    async def _event(self, request: web.Request, received: Received) -> web.Response:
        self.book.mail.note(received.webhook_id, received.body)
        refusal = await self.moods.suffer_once(request, received.webhook_id)
        if refusal is not None:
            return refusal
        said = received.json()
        self.book.mail.acknowledged.add(received.webhook_id)
        if said["type"] == "order.cancelled":
            self.book.cancelled.add(said["data"]["orderId"])
        else:
            self.book.synced[said["data"]["catalogIngestId"]] = said["data"]["status"]
        return web.Response(status=204)
