"""A storefront that quotes orders and places them: what every test of quotes starts from."""

from collections import Counter
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from tests.api.trade import MERCHANT, Trade
from tests.service import Client

from mercato.features.orders.idempotency import OrderOutcome, PlacedOrder
from mercato.features.partners.model import Caller
from mercato.features.quotes.model import ApprovalRequest, FoundQuote, NewQuote, QuotePlacement
from mercato.platform.problem_details import Origin, ProblemFormat
from mercato.platform.telemetry.tracing import new_trace
from mercato_contract.placements import OrderCore

_order = msgspec.json.Decoder(OrderCore).decode


def origin() -> Origin:
    return Origin("http://127.0.0.1", "test", "0" * 32, ProblemFormat.JSON)


@dataclass
class Quoting:
    """A live store, and a storefront that quotes orders."""

    trade: Trade

    async def caller(self, client: Client | None = None) -> Caller:
        key = (client or self.trade.front).key
        assert key is not None
        return await self.trade.mercato.app.callers.get(key.encode())

    async def quote(self, order: Any = None, *, client: Client | None = None) -> NewQuote:
        """Quote an order of two teas (5.80), or this one."""
        core = _order(msgspec.json.encode(order or self.trade.order()))
        quotes = self.trade.mercato.app.quotes
        return await quotes.quote(await self.caller(client), core, trace=new_trace())

    async def place(
        self,
        quote: NewQuote | UUID,
        *,
        total: str = "5.80",
        payment: Any = None,
        client: Client | None = None,
        caller: Caller | None = None,
    ) -> OrderOutcome | ApprovalRequest:
        quote_id = quote if isinstance(quote, UUID) else quote.id
        paid = None if payment is None else msgspec.Raw(msgspec.json.encode(payment))
        return await self.trade.mercato.app.quotes.place(
            caller or await self.caller(client),
            quote_id,
            QuotePlacement(total=total, payment=paid),
            trace=new_trace(),
            make_origin=origin,
        )

    async def placed(self, quote: NewQuote | UUID, **options: Any) -> PlacedOrder:
        outcome = await self.place(quote, **options)
        assert isinstance(outcome, PlacedOrder), outcome
        return outcome

    async def find(self, quote: NewQuote, *, client: Client | None = None) -> FoundQuote:
        return await self.trade.mercato.app.quotes.find(await self.caller(client), quote.id)

    async def orders(self) -> list[str]:
        """Return the ids of the merchant's orders."""
        listed = (await self.trade.pos.get(f"{MERCHANT}?limit=100")).json()["orders"]
        return [order["orderId"] for order in listed]

    def calls(self) -> Counter[str]:
        """Return how often the merchant got each order since the last call."""
        received = self.trade.shop.received
        calls = [received.get_nowait() for _ in range(received.qsize())]
        return Counter(headers["webhook-id"] for path, headers, _ in calls if path.endswith("/place"))
