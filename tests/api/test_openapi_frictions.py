"""What the OpenAPI document contains so that linters and client generators accept it."""

import json
from pathlib import Path
from typing import Any

from tests.databases import only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service, service

from mercato.asgi import document

DOCUMENT: Any = json.loads(document())
SCHEMAS: Any = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    operation
    for paths in (DOCUMENT["paths"], DOCUMENT["webhooks"])
    for path in paths.values()
    for operation in path.values()
]


def query_of(method: str, path: str) -> dict[str, Any]:
    parameters = DOCUMENT["paths"][path][method]["parameters"]
    return {one["name"]: one for one in parameters if one["in"] == "query"}


@only_sqlite
async def test_notifys_store_id_is_required_and_its_absence_has_its_own_code(pos: Client):
    notify, validate = "/v1/commerce/catalogset-notification", "/v1/commerce/catalogset-validation"
    assert query_of("post", notify)["storeId"]["required"] is True
    assert query_of("post", validate)["storeId"]["required"] is False
    reply = await pos.post(notify, {"callbackUrl": "https://example.com/menu.json"})
    assert (reply.status, reply.json()["errorCode"]) == (400, "MISSING_STORE_ID")


def test_every_parameter_and_every_tag_has_a_description():
    for operation in OPERATIONS:
        assert all(one["description"] for one in operation["parameters"]), operation["operationId"]
    described = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    assert all(described.values())
    assert described.keys() == {tag for operation in OPERATIONS for tag in operation["tags"]}


def test_served_entities_are_declared_with_their_own_ids():
    for name, own in (
        ("CatalogEntry", "catalogId"),
        ("CatalogSection", "sectionId"),
        ("CatalogItem", "itemId"),
        ("CatalogModifierGroup", "modifierGroupId"),
    ):
        assert own in SCHEMAS[name]["required"]
        assert SCHEMAS[name]["properties"][own] == {"type": "string"}


def test_a_stores_urls_are_uris():
    for name, members in (("Store", ("logoUrl", "webhookUrl")), ("MarketfrontStore", ("logoUrl",))):
        assert all(SCHEMAS[name]["properties"][member]["format"] == "uri" for member in members)


@only_sqlite
async def test_a_delivery_has_a_delivery_id_and_its_id_is_deprecated(
    mercato: Service, pos: Client, shop: MerchantServer
):
    for name in ("WebhookDelivery", "WebhookDeliveryDetail"):
        assert {"deliveryId", "id"} <= set(SCHEMAS[name]["required"])
        assert SCHEMAS[name]["properties"]["id"]["deprecated"] is True
        assert "deprecated" not in SCHEMAS[name]["properties"]["deliveryId"]
    store = await mercato.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
    await mercato.run(pos, store["storeId"], shop.host(CATALOG))
    [listed] = (await pos.get("/v1/commerce/webhook-deliveries")).json()["deliveries"]
    one = (await pos.get(f"/v1/commerce/webhook-deliveries/{listed['deliveryId']}")).json()
    assert listed["deliveryId"] == listed["id"] == one["deliveryId"] == one["id"]


@only_sqlite
async def test_servers_holds_the_public_url(database_url: str, tmp_path: Path):
    public = "https://api.example.com/mercato"
    async with service(database_url, tmp_path / "data", public_url=public) as mercato:
        served = (await mercato.anonymous().get("/openapi.json")).json()
    assert served["servers"] == [{"url": public}]
    assert DOCUMENT["servers"] == [{"url": "/"}]


def test_only_the_commerce_surface_has_partner_ids_on_its_lines():
    for name in ("CommerceLine", "CommerceModifierGroup"):
        assert any(member.startswith("partner") for member in SCHEMAS[name]["required"])
    for name in ("OrderLine", "OrderModifierGroup"):
        assert not any(member.startswith("partner") for member in SCHEMAS[name]["properties"])
    answers = DOCUMENT["paths"]["/v1/commerce/orders/{orderId}"]["get"]["responses"]
    schema = answers["200"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/CommerceOrder"}
