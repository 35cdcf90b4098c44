"""The sandbox merchant's till: says what an order costs with tax, and takes each order once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from aiohttp import web

from mercato.sandbox.inbox import Inbox, Received

TAX: Final = Decimal("0.05")
TAX_NAME: Final = "Sales tax, 5 %"

DECLINED_CARD: Final = "tok_sandbox_declined"
"""The card token that the bank declines."""

FIRST_NUMBER: Final = 1001

MOST_ORDERS: Final = 10_000
"""Orders that the book has room for; more are refused with 503, and so sent again later."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An order in the book, and what was answered to it for the first time."""

    data: Mapping[str, Any] = field(repr=False)
    answer: Mapping[str, Any]
    status: int

    @property
    def taken(self) -> bool:
        """Tell whether the order was taken, not refused."""
        return self.status == web.HTTPOk.status_code


@dataclass(slots=True)
class Till:
    """Answers `/validate` and `/place`. The book holds every order by its webhook-id, which is its orderId."""

    inbox: Inbox = field(default_factory=Inbox)
    book: dict[str, Entry] = field(default_factory=dict)
    validated: int = 0
    repeats: int = 0
    failed: int = 0
    is_down: bool = False

    @property
    def taken(self) -> list[str]:
        """Return the ids of the orders that were taken."""
        return [order_id for order_id, entry in self.book.items() if entry.taken]

    def go_down(self) -> None:
        """Fail from now on, in the worst way: an order is still written down, but its answer never leaves."""
        self.is_down = True

    def come_back(self) -> None:
        """Answer again, from the same book."""
        self.is_down = False

    async def answer_validate(self, request: web.Request) -> web.Response:
        """Answer what the order costs here: the tax is ours to say."""
        webhook = await self.inbox.read(request)
        if webhook.fault is not None:
            return web.Response(status=401)
        if self.is_down:
            return web.Response(status=503)
        self.validated += 1
        tax = tax_on(webhook.json()["data"]["order"]["amounts"]["subTotal"])
        amounts = {"taxes": tax, "taxesDescription": [{"amount": tax, "description": TAX_NAME}]}
        return web.json_response({"isValid": True, "amounts": amounts})

    async def answer_place(self, request: web.Request) -> web.Response:
        """Take the order, or say no. The same webhook-id again is the same order, and gets the first answer."""
        webhook = await self.inbox.read(request)
        if webhook.fault is not None:
            return web.Response(status=401)
        entry = self.book.get(webhook.webhook_id)
        if entry is None and len(self.book) < MOST_ORDERS:
            entry = self.book[webhook.webhook_id] = self._enter(webhook)
        elif entry is not None and not self.is_down:
            self.repeats += 1
        if entry is None or self.is_down:
            self.failed += 1
            return web.Response(status=503)
        return web.Response(
            status=entry.status, text=json.dumps(entry.answer), content_type="application/json"
        )

    def _enter(self, webhook: Received) -> Entry:
        data = webhook.json()["data"]
        if (data.get("payment") or {}).get("cardToken") == DECLINED_CARD:
            no = {"code": "PAYMENT_DECLINED", "message": "The bank declines this card."}
            return Entry(data, {"accepted": False, "errors": [no]}, web.HTTPPaymentRequired.status_code)
        number = f"A-{FIRST_NUMBER + len(self.taken)}"
        return Entry(data, {"accepted": True, "partnerOrderId": number}, web.HTTPOk.status_code)


def tax_on(amount: str) -> str:
    """Return the tax on a decimal amount, at the amount's own scale."""
    base = Decimal(amount)
    return str((base * TAX).quantize(base, rounding=ROUND_HALF_UP))
