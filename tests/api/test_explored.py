"""Every operation, called with generated requests on both databases, answers only what is documented."""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from tests.api.trade import tea, trade
from tests.api.world import make_endpoint
from tests.databases import KINDS, new_database
from tests.generated import RUN
from tests.service import Client, MerchantServer, Service, merchant, service

from mercato.asgi import document
from mercato.http.operations import Access

EXAMPLES: Final = 2
"""Generated requests for each operation, every second with valid values. Making one costs more than answering it."""

SHARES: Final = 3
"""Of so many operations `make test` tries one, each run another one."""

WORDED: dict[str, set[int]] = {"validateOrder": {503}, "placeOrder": {503}, "cancelOrder": {503}}
"""Operations whose 5xx may be caused by a store that doesn't answer."""


LINE = "0190f5fe-7e3b-7ccc-8000-00000000000e"
GOOD: dict[str, Any] = {
    "callbackUrl": "http://nobody@127.0.0.1/",
    "state": None,
    "lineItemId": LINE,
    "quantity": 3,
    "amounts": {"tip": "1.00"},
    "validatedOrderToken": None,
    "payment": {"type": "external"},
}
GOOD_FULFILLMENT = {"mode": "PICKUP", "scheduleType": "ASAP"}

ONCE = {
    "activateStore",
    "cancelCatalogActivation",
    "cancelOnboarding",
    "getAccessToken",
    "retryOnboarding",
    "updateOrderStatus",
}
"""Operations that work once per onboarding, run or order, or need a valid key; each has its own tests."""


@dataclass
class Subject:
    """Ids of existing resources on a kind of database, by the names of members and parameters."""

    kind: str
    base: str
    keys: dict[str, str]
    ids: dict[str, str]


Services = list[tuple[str, Service, MerchantServer]]
"""Services, each with its kind of database and a merchant."""


@pytest.fixture
async def services(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Services]:
    """A service on each kind of database: both get the same requests."""
    chosen = request.config.getoption("--database")
    made: Services = []
    async with AsyncExitStack() as stack:
        for kind in [one for one in KINDS if chosen in {None, one}]:
            # The merchant outlives the service, so that the last calls end at once.
            shop = await stack.enter_async_context(merchant())
            url = await stack.enter_async_context(new_database(kind))
            mercato = await stack.enter_async_context(service(url, tmp_path / kind))
            made.append((kind, mercato, shop))
        yield made


async def make_subject(kind: str, mercato: Service, shop: MerchantServer) -> Subject:
    here = await trade(mercato, shop, event_url=shop.base + "/events")
    shop.answers["cancel"] = {"accepted": True}
    placed = await here.placed()
    run = await mercato.run(here.pos, here.store["storeId"], here.shop.base + "/catalog.json")
    tea = here.order()["cart"]["lineItems"][0]["itemId"]
    ids = {name: here.store[name] for name in ("storeId", "catalogSetId", "onboardingId")}
    # One for each path: exploring the first one deletes it.
    for access, client in ((Access.COMMERCE, here.pos), (Access.MARKETFRONT, here.front)):
        for place in ("{endpointId}", "test", "rotate-secret"):
            path = f"/v1/{access.name.lower()}/webhook-endpoints/{place}"
            ids[path] = await make_endpoint(client, access, place.strip("{}"))
    agent = (await here.front.post("/v1/marketfront/agents", {"name": "Explorer"})).json()
    assert here.pos.key is not None
    assert here.front.key is not None
    return Subject(
        kind,
        mercato.base,
        {"commerce": here.pos.key, "marketfront": here.front.key},
        ids
        | {
            "orderId": placed["orderId"],
            "catalogIngestId": run["catalogIngestId"],
            "/v1/commerce/": await _delivery(here.pos, "commerce", "catalog.sync.succeeded"),
            "/v1/marketfront/": await _delivery(here.front, "marketfront", "order.created"),
            "agentId": agent["agentId"],
            "itemId": tea,
            "name": "start.js",
            "errorCode": "OTHER",
        },
    )


async def _delivery(client: Client, surface: str, kind: str) -> str:
    listed = await client.get(f"/v1/{surface}/webhook-deliveries?type={kind}")
    delivery_id: str = listed.json()["deliveries"][0]["id"]
    return delivery_id


# The service under test shares the process, and its jitter comes from `random` while a request is being made up.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
async def test_no_operation_answers_5xx_or_what_is_not_documented(services: Services):
    await explored(services, slice(RUN % SHARES, None, SHARES), EXAMPLES)


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.long
async def test_no_operation_answers_5xx_or_what_is_not_documented_to_more_requests(services: Services):
    await explored(services, slice(None), 2 * EXAMPLES)


async def explored(services: Services, share: slice, examples: int) -> None:
    import schemathesis

    every: list[Any] = [
        result.ok()  # type: ignore[union-attr]  # a broken document fails in a test of its own
        for result in schemathesis.openapi.from_dict(json.loads(document())).get_all_operations()
    ]
    found: list[str] = []
    answered: Answered = defaultdict(set)
    for surface in ("commerce", "marketfront", ""):
        # Operations of one surface end what those of another need.
        subjects = [await make_subject(*one) for one in services]
        chosen = [operation for operation in every[share] if _surface(operation.path) == surface]
        await asyncio.to_thread(explore, subjects, chosen, examples, found, answered)
    assert not found, "\n".join(found)
    # Refused requests alone prove nothing: each operation must have succeeded at least once.
    idle = {key: those for key, those in answered.items() if key[1] not in ONCE and min(those) >= 300}
    assert idle == {}


Answered = dict[tuple[str, str], set[int]]
"""The statuses that were seen, by the kind of database and the operation."""


def explore(
    subjects: list[Subject], operations: list[Any], examples: int, found: list[str], answered: Answered
) -> None:
    """Call operations with generated requests; add the faults to `found`, and the statuses seen to `answered`."""
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    documented = [status_code_conformance, content_type_conformance, response_schema_conformance]
    turns: Counter[str] = Counter()
    tries = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def try_out(operation: Any) -> None:
        name = operation.definition.raw["operationId"]

        def call(case: Any) -> None:
            turns[name] += 1
            body, parts = case.body, (case.path_parameters, case.query, case.headers)
            for subject in subjects:
                case.path_parameters, case.query, case.headers = map(copy, parts)
                case.body = body
                call_one(case, subject)

        def call_one(case: Any, subject: Subject) -> None:
            headers = _aimed(case, operation.path, subject)
            if turns[name] % 2:
                (case.headers or {}).pop("If-Match", None)
                case.body = _mended(case.body, operation.path, subject.ids)
            answer = case.call(base_url=subject.base, headers=headers)
            answered[subject.kind, name].add(answer.status_code)
            checks = documented + ([] if answer.status_code in WORDED.get(name, ()) else [not_a_server_error])
            try:
                case.validate_response(answer, checks=checks)
            except BaseExceptionGroup as failures:
                # Recorded, not raised: the same request may get another answer once the store has changed.
                where = f"{name} on {subject.kind}"
                found.extend(f"{where} {case.body!r:.200}: {one}" for one in failures.exceptions)

        tries(given(case=operation.as_strategy())(call))()

    for operation in operations:
        try_out(operation)


def _surface(path: str) -> str:
    second = path.split("/")[2] if path.startswith("/v1/") else ""
    return second if second in {"commerce", "marketfront"} else ""


def _aimed(case: Any, path: str, subject: Subject) -> dict[str, str]:
    """Point a request at existing resources where it has members for their ids; return its headers."""
    # Operations of both surfaces are called with a Commerce key.
    surface = "commerce" if path.startswith(("/v1/webhooks/", "/v1/console/", "/mcp")) else _surface(path)
    ids = subject.ids | {"deliveryId": subject.ids.get(f"/v1/{surface}/", "")}
    ids["endpointId"] = subject.ids.get(path.replace("/{endpointId}/", "/"), "")
    for name in case.path_parameters or {}:
        case.path_parameters[name] = ids.get(name, case.path_parameters[name])
    if "storeId" in (case.query or {}):
        case.query["storeId"] = ids["storeId"]
    case.body = _with_ids(case.body, ids)
    headers = {"Authorization": f"Bearer {subject.keys[surface]}"} if surface in subject.keys else {}
    return headers | ({"Idempotency-Key": str(uuid4())} if path.endswith(("/place", "/cancel")) else {})


def _with_ids(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_with_ids(one, ids) for one in value]
    if isinstance(value, dict):
        return {name: ids[name] if name in ids else _with_ids(one, ids) for name, one in value.items()}
    return value


def _mended(body: Any, path: str, ids: dict[str, str]) -> Any:
    """Return a generated body with valid values where these decide whether the request can succeed."""
    if not isinstance(body, dict):
        return body
    good = [tea() | {"lineItemId": LINE}]
    mended = body | {name: value for name, value in GOOD.items() if name in body}
    if isinstance(body.get("cart"), dict):
        mended["cart"] = body["cart"] | {"lineItems": good}
    if isinstance(body.get("fulfillment"), dict):
        mended["fulfillment"] = GOOD_FULFILLMENT
    if path.endswith("/item-availability"):
        mended["items"] = [{"itemId": ids["itemId"], "available": False}]
    if path.endswith("/status"):
        mended["status"] = "confirmed" if "orders" in path else "online"
    if path == "/mcp":
        mended = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "x"}}
    if path.endswith("/catalogset-validation"):
        mended["items"] = {}
    if path.endswith("/webhook-endpoints/{endpointId}"):
        mended = {"url": "http://127.0.0.1:1/explored"}
    if "item" in body:
        mended |= {"item": good[0], "storeId": ids["storeId"], "catalogSetId": ids["catalogSetId"]}
    return mended
