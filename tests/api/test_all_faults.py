"""All faults of a request are listed at once; 400 if any is of form."""

from typing import Any

import pytest
from tests.databases import only_sqlite
from tests.service import Client, Service
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind

pytestmark = shared

ID = "0190f5fe-7e3b-7ccc-8000-00000000000a"
BAD, FORM = "VALIDATION_FAILED", "INVALID_REQUEST"
CART = {"storeId": ID, "catalogSetId": ID, "lineItems": []}
ORDER = {"cart": CART, "clientContext": {"ip": "192.0.2.1", "userAgent": "a"}}
LATER = {"mode": "PICKUP", "scheduleType": "SCHEDULED"}

QUERIES = [
    ("/v1/commerce/stores?limit=0&status=closed&cursor=x", 3),
    ("/v1/commerce/onboarding/stores?limit=101&cursor=", 2),
    ("/v1/commerce/orders?limit=0&state=done&cursor=x&storeId=y", 4),
    ("/v1/commerce/webhook-deliveries?limit=0&cursor=x&status=y&storeId=z", 4),
]


@only_sqlite
@pytest.mark.parametrize(("path", "many"), QUERIES)
async def test_every_fault_of_a_query_is_listed(pos: Client, path: str, many: int):
    reply = await pos.get(path)
    assert (reply.status, reply.json()["errorCode"]) == (422, BAD)
    assert [(error["code"], error["pointer"]) for error in reply.json()["errors"]] == [(BAD, None)] * many


COMMERCE: list[tuple[str, str, Any, int, set[tuple[str, str]]]] = [
    (
        "POST",
        "/v1/commerce/onboarding/stores",
        {"partnerStoreId": "", "name": 1, "address": {}, "catalogCallbackUrl": "x", "timezone": "Mars"},
        400,
        {(BAD, "/partnerStoreId"), (FORM, "/name"), (BAD, "/catalogCallbackUrl"), (BAD, "/timezone")},
    ),
    (
        "PUT",
        f"/v1/commerce/stores/{ID}",
        {"name": "", "timezone": "Mars", "minimumOrderAmount": "-1.00"},
        422,
        {(BAD, "/name"), (BAD, "/timezone"), (BAD, "/minimumOrderAmount")},
    ),
    (
        "PUT",
        f"/v1/commerce/stores/{ID}",
        {"logoUrl": "x", "phone": 5, "minimumOrderAmount": "much"},
        400,
        {(BAD, "/logoUrl"), (FORM, "/phone"), (BAD, "/minimumOrderAmount")},
    ),
    (
        "POST",
        f"/v1/commerce/orders/{ID}/status",
        {"status": "pending", "state": "done", "estimatedReadyAt": 5, "cancelReason": ""},
        400,
        {(BAD, "/status"), (BAD, "/state"), (FORM, "/estimatedReadyAt"), (BAD, "/cancelReason")},
    ),
]


@only_sqlite
@pytest.mark.parametrize(("method", "path", "body", "status", "wanted"), COMMERCE)
async def test_every_fault_of_a_merchants_request_is_listed(
    pos: Client, method: str, path: str, body: Any, status: int, wanted: set[tuple[str, str]]
):
    check(await pos.call(method, path, body), status, wanted)


MARKETFRONT: list[tuple[str, Any, int, set[tuple[str, str]]]] = [
    (
        "stores/discover",
        {"location": {"lat": 1}, "fulfillmentType": "boat", "limit": 0},
        400,
        {(FORM, "/location"), (BAD, "/fulfillmentType"), (BAD, "/limit")},
    ),
    (
        "orders/validate",
        ORDER | {"fulfillment": LATER, "amounts": {"tip": "-1.00"}, "customer": 5},
        400,
        {(BAD, "/fulfillment/scheduledTime"), (BAD, "/amounts/tip"), (FORM, "/customer")},
    ),
    (
        "orders/place",
        ORDER | {"fulfillment": LATER, "payment": "cash", "amounts": {"tip": "-0.5", "total": "x"}},
        400,
        {
            (BAD, "/fulfillment/scheduledTime"),
            (BAD, "/amounts/tip"),
            (BAD, "/amounts/total"),
            (FORM, "/payment"),
        },
    ),
    (
        "carts/add",
        {"item": {"itemId": ID, "quantity": 1, "modifierGroups": []}},
        400,
        {("MISSING_STORE_ID", "/storeId"), ("CATALOGSET_REQUIRED", "/catalogSetId")},
    ),
]


@only_sqlite
@pytest.mark.parametrize(("path", "body", "status", "wanted"), MARKETFRONT)
async def test_every_fault_of_a_storefronts_request_is_listed(
    mercato: Service, path: str, body: Any, status: int, wanted: set[tuple[str, str]]
):
    _, storefront = await mercato.partner(PartnerKind.MARKETFRONT)
    reply = await storefront.post(f"/v1/marketfront/{path}", body, headers={"Idempotency-Key": "k"})
    check(reply, status, wanted)


def check(reply: Any, status: int, wanted: set[tuple[str, str]]) -> None:
    listed = [(error["code"], error["pointer"]) for error in reply.json()["errors"]]
    assert (reply.status, sorted(listed)) == (status, sorted(wanted))
