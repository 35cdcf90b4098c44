"""A store that takes orders and a storefront that places them: what every test of orders starts from."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from tests.catalog.documents import EXTRAS, LEMON, MILK, TEA, cafe
from tests.live_stores import live_store
from tests.service import Client, MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.features.partners.model import PartnerKind
from mercato_client.testing.caller import Answer
from mercato_contract import clock

ORDERS = "/v1/marketfront/orders"
VALIDATE = f"{ORDERS}/validate"
PLACE = f"{ORDERS}/place"
MERCHANT = "/v1/commerce/orders"

CUSTOMER = {"email": "ada@example.com", "firstName": "Ada", "lastName": "Lovelace", "phone": "+15550100"}
ADDRESS = {"address1": "1 Main St", "city": "Springfield", "postalCode": "62701", "state": "IL"}


def line(item: str, quantity: int = 1, *groups: Any, **more: Any) -> dict[str, Any]:
    return {"itemId": item, "quantity": quantity, "modifierGroups": list(groups)} | more


def tea(quantity: int = 2) -> dict[str, Any]:
    """Tea with milk and lemon: 2.90 each."""
    return line(TEA, quantity, {"modifierGroupId": EXTRAS, "lineItems": [line(MILK), line(LEMON)]})


@dataclass
class Time:
    """A clock that a test can advance. With `begun` it stands still from there, however slow the machine is."""

    ahead: timedelta = field(default_factory=timedelta)
    begun: datetime | None = None

    def __call__(self) -> datetime:
        return (self.begun or clock.now()) + self.ahead


@dataclass
class Trade:
    """A live store with its merchant's client, and a storefront's client."""

    mercato: Service
    shop: MerchantServer
    pos: Client
    front: Client
    store: Any

    def order(self, *lines: Any, **members: Any) -> dict[str, Any]:
        """Return an order of two teas (5.80), or of these lines."""
        return {
            "cart": {
                "storeId": self.store["storeId"],
                "catalogSetId": self.store["catalogSetId"],
                "lineItems": list(lines) or [tea()],
            },
            "clientContext": {"ip": "203.0.113.7", "userAgent": "shop/1.0"},
            "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
            "customer": CUSTOMER,
        } | members

    async def validate(self, order: Any) -> Any:
        reply = await self.front.post(VALIDATE, order)
        assert reply.status == 200, reply.body
        return reply.json()

    async def token(self, order: Any) -> str:
        said = await self.validate(order)
        assert said["isValid"], said
        token: str = said["validatedOrderToken"]
        return token

    async def place(self, order: Any, *, key: str | None = None, front: Client | None = None) -> Answer:
        headers = {"Idempotency-Key": key or str(uuid4())}
        return await (front or self.front).post(PLACE, order, headers=headers)

    async def place_until_answered(self, order: Any, *, key: str) -> Answer:
        """Repeat a placement, as clients do: on a busy machine the store's answer may come too late for the first."""
        async with asyncio.timeout(PATIENCE):
            while (reply := await self.place(order, key=key)).status == HTTPStatus.SERVICE_UNAVAILABLE:
                pass
        return reply

    async def placed(self, order: Any = None) -> Any:
        """Place an order and return it."""
        reply = await self.place(order or self.order())
        assert reply.status == 201, reply.body
        return reply.json()

    async def update(self, order: Any, **change: Any) -> Answer:
        return await self.pos.post(f"{MERCHANT}/{order['orderId']}/status", change)


async def trade(
    mercato: Service,
    shop: MerchantServer,
    *,
    webhook: bool = True,
    catalog: Any = None,
    pulls: bool = False,
    **front_options: Any,
) -> Trade:
    """Return a live store whose webhooks accept everything, and a storefront. With `pulls` the catalog is pulled."""
    shop.answers |= {"validate": {"isValid": True}, "place": {"accepted": True, "partnerOrderId": "A-1"}}
    pos = (await mercato.partner(webhook_token="from-pos"))[1]
    front = (await mercato.partner(PartnerKind.MARKETFRONT, **front_options))[1]
    document = catalog or cafe()
    if pulls:
        store = await mercato.live(
            pos, shop.host(document), webhook=shop.base + "/hooks" if webhook else None
        )
    else:
        store = await live_store(mercato, pos, shop, document, webhook=webhook)
    return Trade(mercato, shop, pos, front, store)
