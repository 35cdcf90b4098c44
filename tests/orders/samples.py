"""A sample store with its catalog and orders. Tests replace their members."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace
from tests.catalog.documents import CAKE, EXTRAS, LEMON, MILK, SET, STORE, TEA, cafe, compiled

from mercato.features.orders.checks import OrderCheck, check_order
from mercato.features.stores.model import StoreRow
from mercato_contract.clock import new_id
from mercato_contract.decoding import Decoder
from mercato_contract.placements import OrderCore, PlaceOrderRequest
from mercato_contract.problems import OrderError
from mercato_contract.stores import Address

Json = dict[str, Any]

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
"""A Wednesday."""

PARTNER = UUID("0190f5fe-7e3b-7ccc-8000-0000000000a1")
STOREFRONT = UUID("0190f5fe-7e3b-7ccc-8000-0000000000a2")

SHOP = StoreRow(
    id=STORE,
    onboarding_id=UUID("0190f5fe-7e3b-7ccc-8000-000000000001"),
    partner_id=PARTNER,
    partner_store_id="shop-1",
    name="Café",
    address=Address(),
    latitude=None,
    longitude=None,
    phone=None,
    timezone="UTC",
    timezone_given=True,
    logo_url=None,
    description=None,
    webhook_url=None,
    categories=(),
    delivery_allowed=True,
    pickup_allowed=True,
    minimum_order_amount=None,
    minimum_order_currency=None,
    paused=False,
    pause_reason=None,
    resume_at=None,
    created_at=NOW,
    updated_at=NOW,
    version=1,
    catalog_set_id=SET,
    currency="USD",
    sold_out=(),
)

core = Decoder(OrderCore)
placing = Decoder(PlaceOrderRequest)


def shop(**changes: Any) -> StoreRow:
    return replace(SHOP, **changes)


def line(item: str, quantity: int = 1, *choices: Json, **more: Any) -> Json:
    groups = [{"modifierGroupId": EXTRAS, "lineItems": list(choices)}] if choices else []
    return {"itemId": item, "quantity": quantity, "modifierGroups": groups} | more


def order(*lines: Json, **members: Any) -> Json:
    """Return an order of a tea with lemon and a cake, for pickup."""
    lines = lines or (line(TEA, 2, line(LEMON)), line(CAKE))
    return {
        "cart": {"catalogSetId": str(SET), "storeId": str(STORE), "lineItems": list(lines)},
        "clientContext": {"ip": "203.0.113.7", "userAgent": "test"},
        "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
    } | members


def delivery(address: Json | None, **more: Any) -> Json:
    return {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "deliveryType": "DOOR_TO_DOOR",
        "address": address,
    } | more


HOME = {"address1": "1 Main St", "city": "Springfield", "postalCode": "12345"}


def checked(
    body: Json | None = None, *, store: StoreRow = SHOP, document: Json | None = None, now: datetime = NOW
) -> OrderCheck:
    request = core(msgspec.json.encode(body or order()))
    return check_order(request, store=store, catalog=compiled(document or cafe()), now=now, new_id=new_id)


def codes(errors: tuple[OrderError, ...]) -> list[tuple[str, str | None]]:
    return [(error.code, error.pointer) for error in errors]


__all__ = ["CAKE", "EXTRAS", "LEMON", "MILK", "SET", "STORE", "TEA", "cafe"]
