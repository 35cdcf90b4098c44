"""The OpenAPI document is valid, and describes every operation completely."""

import json
import warnings
from typing import Any

import pytest
from tests.databases import only_sqlite
from tests.service import Service

from mercato.asgi import document, operations
from mercato.http.operations import Access
from mercato_contract.problems import PROBLEMS
from mercato_contract.refusals import Problem

SPECIFIED = {
    ("POST", "/v1/commerce/onboarding/stores", 201),
    ("GET", "/v1/commerce/onboarding/stores", 200),
    ("GET", "/v1/commerce/onboarding/stores/{onboardingId}", 200),
    ("DELETE", "/v1/commerce/onboarding/stores/{onboardingId}", 204),
    ("POST", "/v1/commerce/onboarding/stores/{onboardingId}/activate", 200),
    ("POST", "/v1/commerce/onboarding/stores/{onboardingId}/retry", 200),
    ("POST", "/v1/commerce/catalogset-notification", 202),
    ("POST", "/v1/commerce/catalogset-validation", 200),
    ("GET", "/v1/commerce/stores/{storeId}/catalog-ingest/{catalogIngestId}/status", 200),
    ("GET", "/v1/commerce/stores/{storeId}/catalog-ingest", 200),
    ("GET", "/v1/commerce/stores/{storeId}/status", 200),
    ("POST", "/v1/commerce/stores/{storeId}/status", 200),
    ("POST", "/v1/commerce/stores/{storeId}/item-availability", 200),
    ("GET", "/v1/commerce/stores", 200),
    ("GET", "/v1/commerce/stores/{storeId}", 200),
    ("PUT", "/v1/commerce/stores/{storeId}", 200),
    ("GET", "/v1/commerce/webhook-deliveries", 200),
    ("GET", "/v1/commerce/webhook-deliveries/{deliveryId}", 200),
    ("POST", "/v1/commerce/webhook-deliveries/{deliveryId}/redeliver", 200),
}


def decoded() -> Any:
    return json.loads(document())


def test_every_commerce_operation_of_the_specification_is_declared_with_its_success_code():
    declared = {(op.method, op.path, op.status) for op in operations()}
    assert declared >= SPECIFIED


def test_every_operation_succeeds_with_200_unless_it_creates_accepts_or_ends_something():
    others = {
        "registerStore": 201,
        "placeOrder": 201,
        "adjustOrder": 201,
        "createConsoleLink": 201,
        "createCommerceWebhookEndpoint": 201,
        "createMarketfrontWebhookEndpoint": 201,
        "createAgent": 201,
        "notifyCatalogUpdate": 202,
        "putCatalog": 202,
        "redeliverCommerceWebhooks": 202,
        "redeliverMarketfrontWebhooks": 202,
        "cancelOnboarding": 204,
        "cancelCatalogActivation": 204,
        "deleteCommerceWebhookEndpoint": 204,
        "deleteMarketfrontWebhookEndpoint": 204,
        "revokeAgent": 204,
    }
    assert {operation.id: operation.status for operation in operations() if operation.status != 200} == others


def test_the_document_is_valid_openapi():
    # Pydantic comes with it, which takes a twentieth of the time in which a worker collects the tests.
    from openapi_spec_validator import validate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the validator's own dependencies
        validate(decoded())


def test_every_commerce_operation_asks_for_a_commerce_key():
    for operation in operations():
        if operation.path.startswith("/v1/commerce/"):
            assert operation.access is Access.COMMERCE, operation.path


def test_operations_have_ids_of_their_own():
    ids = [operation.id for operation in operations()]
    assert len(ids) == len(set(ids))


def test_every_code_of_the_contract_is_a_class():
    assert sorted(kind.code for kind in Problem.__subclasses__()) == sorted(PROBLEMS)
    assert len(PROBLEMS) == 58


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.id)
def test_every_operation_is_described(operation: Any):
    assert operation.summary
    assert operation.description


@pytest.mark.parametrize("status", ["400", "401", "403", "413", "415", "422", "429", "500", "503"])
def test_a_refusal_that_operations_share_is_written_once(status: str):
    whole = [
        json.dumps(response, sort_keys=True)
        for methods in decoded()["paths"].values()
        for operation in methods.values()
        for at, response in operation["responses"].items()
        if at == status and "$ref" not in response
    ]
    # What an operation writes out is special: no other with the same credentials has it more than three times.
    assert all(whole.count(response) <= 3 for response in whole)


@only_sqlite
async def test_the_document_is_served_without_white_space_and_compressed(mercato: Service):
    for coding, encoded in (("identity", None), ("gzip", "gzip"), ("br", None), ("gzip;q=0", None)):
        reply = await mercato.anonymous().get("/openapi.json", headers={"Accept-Encoding": coding})
        assert reply.json() == decoded(), coding
        assert reply.headers.get("Content-Encoding") == encoded, coding
        assert reply.headers["Vary"] == "Accept-Encoding"
    assert len(document()) < 400_000
    assert document() == json.dumps(decoded(), separators=(",", ":"), ensure_ascii=False).encode()
