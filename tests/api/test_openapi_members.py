"""The OpenAPI document as an integrator reads it, member by member."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.responses import responses_of
from tests.catalog.documents import STORE, built, cafe, outcome
from tests.databases import only_sqlite
from tests.service import ITEM, Service

from mercato.asgi import document, operations
from mercato.http.openapi.schemas import EXAMPLES
from mercato_catalog.model import Built
from mercato_contract.catalogs import CatalogSet
from mercato_contract.decoding import Decoder
from mercato_contract.problems import PROBLEMS

DOCUMENT: Any = json.loads(document())
SCHEMAS: Any = DOCUMENT["components"]["schemas"]


def operation_of(name: str) -> Any:
    return next(
        one for path in DOCUMENT["paths"].values() for one in path.values() if one["operationId"] == name
    )


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for below in value.values():
            yield from nodes(below)
    if isinstance(value, list):
        for below in value:
            yield from nodes(below)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_example_of_a_request_is_a_good_one(name: str):
    kind = next(op.takes for op in operations() if getattr(op.takes, "__name__", "") == name)
    assert kind is not None
    assert Decoder(kind)(json.dumps(EXAMPLES[name]).encode()) is not None
    assert SCHEMAS[name]["examples"] == [EXAMPLES[name]]


def test_place_requires_an_idempotency_key_of_1_to_255_printable_ascii_characters():
    key = next(one for one in operation_of("placeOrder")["parameters"] if one["name"] == "Idempotency-Key")
    assert (key["in"], key["required"], key["schema"]["maxLength"]) == ("header", True, 255)
    form = re.compile(key["schema"]["pattern"])
    assert form.search(key["example"])
    assert form.search("~")
    assert not form.search("")
    assert not form.search("é")


def test_money_that_is_answered_is_a_decimal_string():
    for amounts, members in (
        ("Amounts", ("subTotal", "total", "tip", "fees", "taxes")),
        ("AmountDetail", ("amount",)),
    ):
        for member in members:
            assert SCHEMAS[amounts]["properties"][member]["pattern"] == r"^-?\d+(\.\d+)?$", member


def test_fulfillment_is_exactly_one_variant_selected_by_mode():
    assert SCHEMAS["Fulfillment"]["discriminator"] == {
        "propertyName": "mode",
        "mapping": {
            "PICKUP": "#/components/schemas/PickupFulfillment",
            "DELIVERY_BY_MERCHANT": "#/components/schemas/DeliveryFulfillment",
        },
    }
    assert SCHEMAS["PickupFulfillment"]["properties"]["mode"] == {"type": "string", "enum": ["PICKUP"]}
    for holder in ("OrderCore", "PlaceOrderRequest", "Order", "CheckedOrder"):
        assert SCHEMAS[holder]["properties"]["fulfillment"] == {"$ref": "#/components/schemas/Fulfillment"}


def test_what_is_always_answered_is_required_and_what_may_be_left_out_is_not():
    order = SCHEMAS["Order"]
    assert {"partnerOrderId", "estimatedReadyAt", "cancelReason", "errors"} <= set(order["required"])
    assert "pointer" in SCHEMAS["OrderError"]["required"]
    assert "phone" not in SCHEMAS["Store"]["required"]
    assert {"pauseReason", "resumeAt"} <= set(SCHEMAS["Store"]["required"])
    assert "distance" not in SCHEMAS["DiscoveredStore"]["required"]


def test_no_optional_member_of_a_request_has_null_for_a_default():
    assert not [node for node in nodes(SCHEMAS) if "default" in node and node["default"] is None]


def test_a_request_type_has_the_amounts_of_an_answered_order_as_ignored_members():
    for name in ("ValidateAmounts", "PlaceAmounts"):
        assert SCHEMAS[name]["properties"].keys() == SCHEMAS["Amounts"]["properties"].keys()
        assert "required" not in SCHEMAS[name]
        assert SCHEMAS[name]["properties"]["fees"]["description"].startswith("Ignored")


def test_refusals_that_name_what_is_there_say_so():
    problem = SCHEMAS["ProblemDetail"]
    assert {"orderId", "onboardingId"} <= problem["properties"].keys()
    assert not {"orderId", "onboardingId"} & set(problem["required"])


def test_every_answer_has_a_request_id_and_refusals_have_the_headers_that_go_with_them():
    for path in DOCUMENT["paths"].values():
        for one in path.values():
            for status, answer in responses_of(one, DOCUMENT).items():
                assert "X-Request-Id" in answer["headers"], (one["operationId"], status)
    place = responses_of(operation_of("placeOrder"), DOCUMENT)
    assert "WWW-Authenticate" in place["401"]["headers"]
    assert {"Retry-After", "X-RateLimit-Reset"} <= place["429"]["headers"].keys()
    assert "Retry-After" in place["503"]["headers"]
    for status in ("201", "400", "409", "422"):
        assert "Idempotent-Replayed" in place[status]["headers"], status
    assert "Location" in operation_of("registerStore")["responses"]["409"]["headers"]


@pytest.mark.parametrize(
    ("event", "types"),
    [
        ("catalogSync", ["catalog.sync.failed", "catalog.sync.succeeded"]),
        ("orderValidate", ["order.validate"]),
        ("orderPlace", ["order.place"]),
        ("orderCancelled", ["order.cancelled"]),
        ("orderEvent", ["order.created", "order.updated"]),
    ],
)
def test_every_event_is_a_webhook_of_the_document(event: str, types: list[str]):
    told = DOCUMENT["webhooks"][event]["post"]
    schema = told["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[-1]
    assert sorted(SCHEMAS[schema]["properties"]["type"]["enum"]) == types
    assert SCHEMAS[schema]["required"] == ["type", "timestamp", "data"]
    headers = {one["name"] for one in told["parameters"]}
    assert {
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "Idempotency-Key",
        "traceparent",
    } <= headers


def published() -> list[Path]:
    """Return menus that others have published, where there are any beside the repository."""
    menus = Path(os.environ.get("MERCATO_TEST_MENUS") or Path(__file__).parents[3] / "shared" / "menus")
    return [path for path in sorted(menus.glob("*.json")) if not path.stem.endswith("-broken")]


EMPTYISH: dict[str, Any] = {
    "currency": None,
    "catalogs": [{"catalogId": "a", "name": None, "sectionIds": None, "availability": None}],
    "sections": None,
    "items": {ITEM: {"itemId": None, "name": None, "basePrice": None, "tags": None, "isAvailable": None}},
    "modifierGroups": [],
}


@pytest.mark.parametrize("document", [cafe(), {"items": {}}, EMPTYISH], ids=["café", "least", "nulls"])
def test_every_served_catalog_set_has_the_type_that_the_document_gives_it(document: dict[str, Any]):
    assert msgspec.json.decode(built(document).body, type=CatalogSet).store_id == STORE


@pytest.mark.skipif(not published(), reason="no published menus: set MERCATO_TEST_MENUS")
def test_published_menus_are_served_in_the_type_that_the_document_gives_them():
    for path in published():
        made = outcome(path.read_bytes())
        assert isinstance(made, Built), path.name
        assert msgspec.json.decode(made.body, type=CatalogSet).items, path.name


@only_sqlite
async def test_every_code_has_a_page_of_its_own(mercato: Service):
    for kind in PROBLEMS.values():
        page = await mercato.anonymous().get(f"/errors/{kind.code}")
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8"), kind.code
        assert f"<h1>{kind.code}</h1>".encode() in page.body
