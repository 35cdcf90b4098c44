"""The OpenAPI document says what the service does: it validates, and nothing undocumented is ever answered."""

import asyncio
import warnings
from typing import Any

import pytest
from openapi_spec_validator import validate
from tests.databases import only_sqlite
from tests.service import CATALOG, Merchant, Service

from mercato import errors
from mercato.web.app import document, operations
from mercato.web.operations import Access

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
    import json

    return json.loads(document())


def test_every_commerce_operation_of_the_specification_is_declared_with_its_success_code():
    declared = {(op.method, op.path, op.status) for op in operations()}
    assert declared >= SPECIFIED


def test_the_document_is_valid_openapi():
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
    assert len({kind.code for kind in errors.every()}) == len(list(errors.every())) == 47


# The service under test shares the process, and its jitter comes from `random` while a request is being made up.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@only_sqlite
async def test_schemathesis_finds_no_5xx_and_no_undocumented_answer(mercato: Service, shop: Merchant):
    _, pos = await mercato.partner()
    store = await mercato.live(pos, shop.host(CATALOG))
    key = pos.key
    assert key is not None
    found = await asyncio.to_thread(_explore, mercato.base, key, store["storeId"])
    assert not found, "\n".join(found)


def _explore(base: str, key: str, store_id: str) -> list[str]:
    """Call every Commerce operation with generated requests; return what was found wrong."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_dict(decoded())
    found: list[str] = []
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]  # a broken document fails in a test above
        if not operation.path.startswith("/v1/"):
            continue

        @settings(
            max_examples=25,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def call(case: Any) -> None:
            if "storeId" in (case.path_parameters or {}):
                case.path_parameters["storeId"] = store_id
            response = case.call(base_url=base, headers={"Authorization": f"Bearer {key}"})
            try:
                case.validate_response(response, checks=checks)
            except BaseExceptionGroup as failures:
                # Noted, not raised: the same request to a store that has changed may be answered otherwise.
                found.extend(
                    f"{case.formatted_path} {case.body!r:.200}: {one}" for one in failures.exceptions
                )

        call()
    return found


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.id)
def test_every_operation_is_described(operation: Any):
    assert operation.summary
    assert operation.description
