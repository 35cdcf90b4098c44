"""The collection in docs/ works with a service unchanged, and every link of llms.txt works."""

import base64
import json
import re
from typing import Any
from uuid import uuid4

from tests.api.trade import trade
from tests.api.world import make_endpoint
from tests.catalog.documents import EXTRAS, MILK, TEA, cafe
from tests.databases import only_sqlite
from tests.docs.documents import ROOT
from tests.docs.test_links import leads_somewhere
from tests.service import Client, MerchantServer, Service
from tests.sharing import shared

from mercato.asgi import operations
from mercato.features.partners.model import PartnerKind
from mercato.http.operations import Access
from mercato_client.testing.caller import Answer
from mercato_contract.problems import PROBLEMS

pytestmark = shared

COLLECTION = json.loads((ROOT / "docs/mercato.postman_collection.json").read_text())
REQUESTS = [item for folder in COLLECTION["item"] for item in folder["item"]]
NOT_READ = {
    "INVALID_REQUEST",
    "VALIDATION_FAILED",
    "NOT_FOUND",
    "METHOD_NOT_ALLOWED",
    "UNSUPPORTED_MEDIA_TYPE",
}
NOT_LET_IN = {"UNAUTHENTICATED", "FORBIDDEN"}

_VARIABLE = re.compile(r"\{\{(\$?\w+)\}\}")
_LINK = re.compile(r"^- \[[^\]]+\]\((\S+)\)", re.MULTILINE)


def test_it_has_every_operation_that_is_not_for_browsers():
    made = {(item["request"]["method"], item["request"]["url"]["path"][-1]) for item in REQUESTS}
    there = [one for one in operations() if not one.path.startswith("/docs")]
    paths = [re.sub(r"\{(\w+)\}", r"{{\1}}", one.path).split("/")[-1] for one in there]
    assert made == {(one.method, path) for one, path in zip(there, paths, strict=True)}
    assert len(REQUESTS) == len(there)


@only_sqlite
async def test_every_request_of_the_collection_is_accepted(mercato: Service, shop: MerchantServer):
    known = await variables(mercato, shop)
    # What replaces the catalog, and what deletes an endpoint, comes last: the others name them.
    last = {"Put Catalog", "Delete Webhook Endpoint"}
    ordered = sorted(REQUESTS, key=lambda item: item["name"] in last)
    answers = [(item["name"], await send(mercato, item["request"], known)) for item in ordered]
    codes = [(name, reply.json().get("errorCode")) for name, reply in answers if reply.status >= 400]
    assert [one for one in codes if one[1] in NOT_READ | NOT_LET_IN] == []
    assert [name for name, reply in answers if reply.status >= 500] == []
    # Refusals here are caused by the current state: that store is live, that soup was sold out two requests ago.
    assert len(codes) <= len(REQUESTS) / 4, codes


def test_its_scripts_keep_ids_that_requests_use():
    kept = set(re.findall(r'collectionVariables\.set\("(\w+)"', json.dumps(COLLECTION).replace('\\"', '"')))
    assert kept >= {"onboardingId", "storeId", "catalogSetId", "orderId", "catalogIngestId"}
    assert kept <= {variable["key"] for variable in COLLECTION["variable"]}


def test_every_link_in_the_documents_llms_txt_works():
    page = ROOT / "docs/llms.txt"
    targets = _LINK.findall(page.read_text())
    assert len(targets) > len(list(operations()))
    assert [target for target in targets if not leads_somewhere(page, target)] == []


@only_sqlite
async def test_every_link_in_a_services_llms_txt_works(mercato: Service):
    front = mercato.anonymous()
    page = await front.get("/llms.txt")
    assert page.headers["Content-Type"] == "text/plain; charset=utf-8"
    text = page.body.decode()
    title, _, rest = text.partition("\n\n")
    assert (title, rest[:2]) == ("# Mercato", "> ")
    targets = [target.partition("#")[0] for target in _LINK.findall(text)]
    assert len(targets) == 2 + len(operations()) + len(PROBLEMS)
    for target in sorted(set(targets)):
        assert target.startswith(mercato.base)
        assert (await front.get(target.removeprefix(mercato.base))).status == 200, target


async def variables(mercato: Service, shop: MerchantServer) -> dict[str, str]:
    """Return what a reader has after Start here: keys, and ids of resources."""
    here = await trade(mercato, shop)
    shop.answers["cancel"] = {"accepted": True}
    made, client = await mercato.partner(PartnerKind.MARKETFRONT)
    front = made.marketfront_key
    assert front is not None
    order = (await here.place(here.order(), front=client)).json()
    run = await mercato.run(here.pos, here.store["storeId"], shop.host(cafe()))
    store = (await here.pos.get(f"/v1/commerce/stores/{here.store['storeId']}")).json()
    deliveries = (await here.pos.get("/v1/commerce/webhook-deliveries")).json()["deliveries"]
    agent = (await client.post("/v1/marketfront/agents", {"name": "Lunch"})).json()
    return {
        "baseUrl": "",
        "commerceKey": here.pos.key or "",
        "marketfrontKey": front.text,
        "marketfrontKeyId": str(front.id),
        "errorCode": "STORE_CLOSED",
        "storeId": here.store["storeId"],
        "catalogSetId": store["catalogSetId"],
        "onboardingId": here.store["onboardingId"],
        "orderId": order["orderId"],
        "catalogIngestId": run["catalogIngestId"],
        "deliveryId": deliveries[0]["id"],
        "agentId": agent["agentId"],
        "endpointId": await make_endpoint(here.pos, Access.COMMERCE, "mine"),
        "marketfront endpointId": await make_endpoint(client, Access.MARKETFRONT, "mine"),
        "itemId": TEA,
        "choiceId": MILK,
        "modifierGroupId": EXTRAS,
        "lineItemId": str(uuid4()),
        "$guid": str(uuid4()),
        "https://partner.example.com": shop.base,
    }


async def send(mercato: Service, request: Any, known: dict[str, str]) -> Answer:
    def filled(text: str) -> str:
        text = text.replace("https://partner.example.com", known["https://partner.example.com"])
        return _VARIABLE.sub(lambda match: known[match[1]], text)

    headers = {one["key"]: filled(one["value"]) for one in request["header"] if not one.get("disabled")}
    auth = request["auth"]
    said = {one["key"]: filled(one["value"]) for one in auth.get(auth["type"], ())}
    if auth["type"] == "basic":
        pair = base64.b64encode(f"{said['username']}:{said['password']}".encode()).decode()
        headers["Authorization"] = f"Basic {pair}"
    body = request.get("body")
    sent: bytes | None = None
    if body is not None:
        form = "&".join(f"{one['key']}={one['value']}" for one in body.get("urlencoded", ()))
        sent = (filled(body["raw"]) if body["mode"] == "raw" else form).encode()
    if "/v1/marketfront/webhook-endpoints" in request["url"]["raw"]:
        known = known | {"endpointId": known["marketfront endpointId"]}
    client = Client(mercato.base, said.get("token"), mercato.session)
    return await client.call(request["method"], filled(request["url"]["raw"]), sent, headers=headers)
