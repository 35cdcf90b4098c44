"""Webhook endpoints: addresses that partners register for events, each with a secret and retries of its own."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import select, update
from tests.api.examples import in_turn
from tests.api.trade import Trade, trade
from tests.catalog.documents import cafe
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service, merchant, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features import offboarding
from mercato.features.partners import encryption
from mercato.features.partners.model import PartnerKind
from mercato.features.partners.tables import webhook_endpoints
from mercato.features.partners.vault import Vault
from mercato.features.webhooks import sender
from mercato.features.webhooks.tables import deliveries, failing_endpoints
from mercato_client import verify_webhook
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

FRONT = "/v1/marketfront/webhook-endpoints"
POS = "/v1/commerce/webhook-endpoints"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def register(client: Client, url: str, path: str = FRONT, **members: Any) -> Any:
    reply = await client.post(path, {"url": url} | members)
    assert reply.status == 201, reply.body
    return reply.json()


async def test_creating_an_endpoint_answers_201_and_where_it_is(here: Trade):
    for client, path in ((here.front, FRONT), (here.pos, POS)):
        made = await client.post(path, {"url": here.shop.base + "/mine"})
        assert made.status == 201
        assert made.headers["Location"] == f"{path}/{made.json()['endpointId']}"
        there = await client.get(made.headers["Location"])
        assert there.json().items() <= made.json().items()


async def put(client: Client, endpoint: Any, path: str = FRONT, **members: Any) -> Any:
    body = {
        name: endpoint[name] for name in ("url", "types", "storeIds", "description", "headers", "enabled")
    }
    reply = await client.call("PUT", f"{path}/{endpoint['endpointId']}", body | members)
    assert reply.status == 200, reply.body
    return reply.json()


async def calls(shop: MerchantServer, path: str, *, count: int) -> list[tuple[dict[str, str], bytes]]:
    """Return the next calls to a path of the merchant's server."""
    found: list[tuple[dict[str, str], bytes]] = []
    while len(found) < count:
        called, headers, body = await shop.webhook()
        if called == path:
            found.append((headers, body))
    return found


async def deliveries_of(here: Trade, endpoint: Any, **query: Any) -> Any:
    path = "/v1/marketfront/webhook-deliveries"
    reply = await here.front.get(path, params={"endpointId": endpoint["endpointId"]} | query)
    assert reply.status == 200, reply.body
    return reply.json()["deliveries"]


async def finished(here: Trade, endpoint: Any, *, count: int = 1) -> Any:
    """Wait until so many deliveries to the endpoint are final; return them, the oldest first."""
    path = f"/v1/marketfront/webhook-deliveries?endpointId={endpoint['endpointId']}"

    def is_done(page: Any) -> bool:
        ended = [one for one in page["deliveries"] if one["nextAttemptAt"] is None]
        return len(ended) >= count

    page = await here.mercato.until(here.front, path, is_done)
    return page["deliveries"][::-1]


# --- registering --------------------------------------------------------------------------------------


async def test_an_endpoint_gets_the_events_of_its_account_signed_with_its_own_secret(here: Trade):
    made = await register(here.front, here.shop.base + "/mine")
    assert made["secret"].startswith("whsec_")
    order = await here.placed()
    await here.update(order, status="confirmed")
    received = await calls(here.shop, "/mine", count=2)
    events = [verify_webhook(headers, body, [made["secret"]]) for headers, body in received]
    assert [event.type for event in events] == ["order.created", "order.updated"]
    read = (await here.front.get("/v1/marketfront/events")).json()["events"]
    assert [event["eventId"] for event in read] == [headers["webhook-id"] for headers, _ in received]
    assert [json.loads(body)["data"] for _, body in received] == [event["data"] for event in read]
    assert all("authorization" not in headers for headers, _ in received)


@own()
async def test_the_secret_is_in_the_first_answer_alone_and_sealed_in_the_database(here: Trade):
    made = await register(here.front, here.shop.base + "/mine", headers={"X-Tenant": "tenant-secret-7"})
    expected = made.copy()
    secret = expected.pop("secret")
    assert (await here.front.get(f"{FRONT}/{made['endpointId']}")).json() == expected
    assert (await here.front.get(FRONT)).json() == {"endpoints": [expected], "nextCursor": None}
    assert expected["headers"] == {"X-Tenant": "***"}
    async with here.mercato.app.db.read() as tx:
        row = await tx.first(select(webhook_endpoints))
    assert row is not None
    assert secret.encode() not in row.credentials
    assert b"tenant-secret-7" not in row.credentials


@own()
@on_both
async def test_one_row_holds_an_event_however_many_endpoints_get_it(here: Trade):
    made = [await register(here.front, f"{here.shop.base}/{number}") for number in range(3)]
    await here.placed()
    for endpoint in made:
        await finished(here, endpoint)
    async with here.mercato.app.db.read() as tx:
        rows = await tx.all(
            select(deliveries.c.webhook_id, deliveries.c.body).where(deliveries.c.endpoint_id.is_not(None))
        )
    assert len(rows) == 3
    assert len({row.webhook_id for row in rows}) == 1
    assert {bytes(row.body) for row in rows} == {b""}


@pytest.mark.parametrize(
    ("wanted", "types"),
    [
        ({"types": ["order.updated"]}, ["order.updated"]),
        ({"types": ["order.updated", "order.created"]}, ["order.created", "order.updated"]),
        ({"types": None}, ["order.created", "order.updated"]),
        ({"types": ["order.updated"] * 1000}, ["order.updated"]),
        ({"storeIds": ["{storeId}"]}, ["order.created", "order.updated"]),
        ({"storeIds": ["{storeId}"], "types": ["order.created"]}, ["order.created"]),
        ({"enabled": False}, []),
    ],
)
async def test_an_endpoint_gets_what_it_asks_for(here: Trade, wanted: Any, types: list[str]):
    text = json.dumps(wanted).replace("{storeId}", here.store["storeId"])
    made = await register(here.front, here.shop.base + "/mine", **json.loads(text))
    everything = await register(here.front, here.shop.base + "/all")
    order = await here.placed()
    await here.update(order, status="confirmed")
    await finished(here, everything, count=2)
    assert [one["type"] for one in (await deliveries_of(here, made))[::-1]] == types


async def test_events_of_other_stores_are_not_sent_to_an_endpoint_with_store_ids(here: Trade):
    pos, url = (await here.mercato.partner())[1], here.shop.host(cafe(), "/other.json")
    other = await here.mercato.live(pos, url, name="other")
    made = await register(here.front, here.shop.base + "/mine", storeIds=[other["storeId"]])
    everything = await register(here.front, here.shop.base + "/all")
    await here.placed()
    await finished(here, everything)
    assert await deliveries_of(here, made) == []


async def test_a_merchants_endpoint_gets_its_catalog_runs_and_never_a_call_to_its_store(here: Trade):
    made = await register(here.pos, here.shop.base + "/mine", POS)
    await here.placed()
    url = here.shop.host(cafe(), "/new.json")
    assert (await here.mercato.run(here.pos, here.store["storeId"], url))["status"] == "succeeded"
    [(headers, body)] = await calls(here.shop, "/mine", count=1)
    event = verify_webhook(headers, body, [made["secret"]])
    assert event.type == "catalog.sync.succeeded"
    assert "authorization" not in headers, "the account's token is for its stores"


async def test_an_endpoint_for_catalog_runs_does_not_replace_the_stores_own_address(here: Trade):
    types = ["catalog.sync.succeeded", "catalog.sync.failed"]
    # Also one that is at the store's base.
    for address in ("/mine", "/hooks"):
        await register(here.pos, here.shop.base + address, POS, types=types)
    for document, type_ in ((cafe(), types[0]), ({"items": []}, types[1])):
        run = await here.mercato.run(here.pos, here.store["storeId"], here.shop.host(document, "/new.json"))
        got: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            while len(got) < 3:
                path, headers, body = await here.shop.webhook()
                if json.loads(body)["type"] == type_:
                    got[path] = headers["webhook-id"]
        assert got == dict.fromkeys(("/hooks/catalog-sync", "/hooks", "/mine"), run["catalogIngestId"])


async def test_an_endpoints_own_headers_are_sent_and_can_not_replace_ours(here: Trade):
    own = {"X-Tenant": "7", "Authorization": "Bearer mine"}
    made = await register(here.front, here.shop.base + "/mine", headers=own)
    await here.placed()
    [(headers, body)] = await calls(here.shop, "/mine", count=1)
    assert (headers["x-tenant"], headers["authorization"]) == ("7", "Bearer mine")
    verify_webhook(headers, body, [made["secret"]])


async def test_a_reply_that_repeats_a_header_is_masked_in_the_log(here: Trade):
    here.shop.answers["mine"] = {"got": "Bearer very-secret"}
    made = await register(here.front, here.shop.base + "/mine", headers={"X-Key": "Bearer very-secret"})
    await here.placed()
    [sent] = await finished(here, made)
    read = (await here.front.get(f"/v1/marketfront/webhook-deliveries/{sent['deliveryId']}")).json()
    assert read["attemptLog"][0]["reply"] == '{"got": "***"}'


# --- what is refused ----------------------------------------------------------------------------------


@pytest.fixture
async def registered(here: Trade) -> Any:
    return await register(here.front, here.shop.base + "/mine")


@only_sqlite
@in_turn(
    ("body", "status", "pointer"),
    [
        ({}, 400, "/url"),
        ({"url": 7}, 400, "/url"),
        ({"url": None}, 400, "/url"),
        ({"url": "https://a.example", "enabled": "yes"}, 400, "/enabled"),
        ({"url": "https://a.example", "headers": {"X": 7}}, 400, "/headers/X"),
        ({"url": "https://a.example", "storeIds": "all"}, 400, "/storeIds"),
        ({"url": "ftp://a.example"}, 422, "/url"),
        ({"url": "a.example"}, 422, "/url"),
        ({"url": "https://user:password@a.example/"}, 422, "/url"),
        ({"url": "https://2130706433/"}, 422, "/url"),
        ({"url": "https://a.example/hooks#orders"}, 422, "/url"),
        ({"url": "https://a.example/hooks#"}, 422, "/url"),
        ({"url": "https://a.example/" + "a" * 2048}, 422, "/url"),
        ({"url": "https://a.example", "types": ["order.place"]}, 422, "/types/0"),
        ({"url": "https://a.example", "types": ["order.created", "ping"]}, 422, "/types/1"),
        ({"url": "https://a.example", "types": ["catalog.sync.failed"]}, 422, "/types/0"),
        ({"url": "https://a.example", "types": []}, 422, "/types"),
        ({"url": "https://a.example", "types": ["order.created"] * 1001}, 422, "/types"),
        ({"url": "https://a.example", "storeIds": []}, 422, "/storeIds"),
        ({"url": "https://a.example", "storeIds": ["x"]}, 422, "/storeIds/0"),
        ({"url": "https://a.example", "description": "a\nb"}, 422, "/description"),
        ({"url": "https://a.example", "description": "a" * 201}, 422, "/description"),
        ({"url": "https://a.example", "headers": {"Host": "b"}}, 422, "/headers/Host"),
        ({"url": "https://a.example", "headers": {"content-length": "1"}}, 422, "/headers/content-length"),
        ({"url": "https://a.example", "headers": {"Webhook-Id": "1"}}, 422, "/headers/Webhook-Id"),
        ({"url": "https://a.example", "headers": {"Transfer-Encoding": "x"}}, 422, None),
        ({"url": "https://a.example", "headers": {"": "1"}}, 422, "/headers"),
        ({"url": "https://a.example", "headers": {"A b": "1"}}, 422, "/headers/A b"),
        ({"url": "https://a.example", "headers": {"A~/b": "1"}}, 422, "/headers/A~0~1b"),
        ({"url": "https://a.example", "headers": {"X": "a\r\nHost: b"}}, 422, "/headers/X"),
        ({"url": "https://a.example", "headers": {"X": "é"}}, 422, "/headers/X"),
        ({"url": "https://a.example", "headers": {"X": ""}}, 422, "/headers/X"),
        ({"url": "https://a.example", "headers": {"X": "***"}}, 422, "/headers/X"),
        ({"url": "https://a.example", "headers": {"X": "a", "x": "b"}}, 422, "/headers/x"),
        ({"url": "https://a.example", "headers": {f"X-{n}": "a" for n in range(21)}}, 422, "/headers"),
        ({"url": "https://a.example", "headers": {"X": "a" * 1025}}, 422, "/headers/X"),
    ],
)
async def test_what_an_endpoint_may_not_say_is_refused_where_it_is(
    here: Trade, registered: Any, body: Any, status: int, pointer: str | None
):
    for reply in (
        await here.front.post(FRONT, body),
        await here.front.call("PUT", f"{FRONT}/{registered['endpointId']}", body),
    ):
        assert reply.status == status, reply.body
        pointers = [fault["pointer"] for fault in reply.json()["errors"]]
        assert pointer is None or pointers == [pointer]


async def test_null_is_the_same_as_absent(here: Trade):
    nothing: dict[str, Any] = dict.fromkeys(("types", "storeIds", "description", "headers", "enabled"))
    body = nothing | {"url": here.shop.base + "/mine"}
    made = (await here.front.post(FRONT, body)).json()
    assert (made["types"], made["headers"], made["enabled"]) == (None, {}, True)
    path = f"{FRONT}/{made['endpointId']}/rotate-secret"
    assert (await here.front.post(path, {"overlapHours": None})).status == 200


async def test_unknown_members_are_ignored(here: Trade):
    made = await register(here.front, here.shop.base + "/mine", secret="whsec_AAAA", colour="red")
    assert made["secret"] != "whsec_AAAA"


async def test_stores_of_others_can_not_be_named_on_the_commerce_surface(here: Trade):
    stranger = (await here.mercato.partner())[1]
    body = {"url": here.shop.base + "/mine", "storeIds": [here.store["storeId"]]}
    assert (await here.pos.post(POS, body)).status == 201
    refused = await stranger.post(POS, body)
    assert (refused.status, refused.json()["errorCode"]) == (404, "STORE_NOT_FOUND")
    unknown = body | {"storeIds": [str(clock.new_id())], "url": here.shop.base + "/b"}
    assert (await here.front.post(FRONT, unknown)).status == 404


async def test_an_endpoint_of_another_partner_is_not_found(here: Trade):
    made = await register(here.front, here.shop.base + "/mine")
    other = (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]
    one = f"{FRONT}/{made['endpointId']}"
    for method, path, body in [
        ("GET", one, None),
        ("PUT", one, {"url": "https://a.example"}),
        ("DELETE", one, None),
        ("POST", one + "/test", None),
        ("POST", one + "/rotate-secret", None),
        ("GET", f"{FRONT}/nonsense", None),
    ]:
        assert (await other.call(method, path, body)).status == 404, (method, path)
    assert (await other.get(FRONT)).json()["endpoints"] == []


async def test_an_account_has_at_most_ten_endpoints_each_with_its_own_url(here: Trade):
    for number in range(9):
        await register(here.front, f"{here.shop.base}/{number}")
    taken = await here.front.post(FRONT, {"url": f"{here.shop.base}/0"})
    assert (taken.status, taken.json()["errorCode"]) == (409, "CONFLICT")
    two = await asyncio.gather(
        *(here.front.post(FRONT, {"url": f"{here.shop.base}/more/{number}"}) for number in range(2))
    )
    assert sorted(reply.status for reply in two) == [201, 409]
    last = (await here.front.get(FRONT)).json()["endpoints"]
    assert len(last) == 10
    moved = await here.front.call("PUT", f"{FRONT}/{last[1]['endpointId']}", {"url": f"{here.shop.base}/0"})
    assert moved.status == 409


NEVER_CALLED = [("https://127.0.0.1:1/", "not public"), ("http://a.example/", "must begin with https://")]


@on_both
async def test_a_url_that_could_never_be_called_is_refused_with_a_pointer_when_it_is_set(
    database_url: str, tmp_path: Path
):
    async with service(database_url, tmp_path, allow_private_networks=False) as mercato:
        client = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
        made = await register(client, "https://a.example/")
        for url, reason in [*NEVER_CALLED, ("http://169.254.169.254/latest/meta-data", "https://")]:
            for method, path in [("POST", FRONT), ("PUT", f"{FRONT}/{made['endpointId']}")]:
                refused = await client.call(method, path, {"url": url})
                assert (refused.status, refused.json()["errorCode"]) == (422, "VALIDATION_FAILED")
                [fault] = refused.json()["errors"]
                assert fault["pointer"] == "/url"
                assert reason in fault["message"]
        [kept] = (await client.get(FRONT)).json()["endpoints"]
        assert kept["url"] == "https://a.example/"
        # No name is looked up: this one doesn't exist, and what it resolves to is checked at each call.
        await register(client, "https://nowhere.invalid/")


async def test_an_endpoint_that_may_no_longer_be_called_can_be_disabled_and_deleted(
    database_url: str, tmp_path: Path
):
    async with service(database_url, tmp_path) as mercato:
        partner, client = await mercato.partner(PartnerKind.MARKETFRONT)
        made = await register(client, "http://127.0.0.1:1/")
    async with service(database_url, tmp_path, allow_private_networks=False) as mercato:
        client = Client(mercato.base, partner.key, mercato.session)
        path = f"{FRONT}/{made['endpointId']}"
        disabled = await client.call("PUT", path, {"url": "http://127.0.0.1:1/", "enabled": False})
        assert (disabled.status, disabled.json()["enabled"]) == (200, False)
        assert (await client.call("DELETE", path)).status == 204


async def test_a_forbidden_address_is_never_called(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path) as mercato:
        partner, client = await mercato.partner(PartnerKind.MARKETFRONT)
        metadata = await client.post(FRONT, {"url": "http://169.254.169.254/latest/meta-data"})
        assert metadata.status == 422
        registered = [(await register(client, url), reason) for url, reason in NEVER_CALLED]
    async with service(database_url, tmp_path, allow_private_networks=False) as mercato:
        client = Client(mercato.base, partner.key, mercato.session)
        for made, reason in registered:
            reply = await client.post(f"{FRONT}/{made['endpointId']}/test")
            assert reply.status == 200
            path = f"/v1/marketfront/webhook-deliveries/{reply.json()['deliveryId']}"
            tried = await mercato.until(client, path, lambda one: one["attempts"] == 1)
            assert tried["attemptLog"][0]["status"] is None
            assert reason in tried["error"]


# --- addresses that are set elsewhere -----------------------------------------------------------------


async def test_a_stores_webhook_url_is_listed_and_can_not_be_changed_here(here: Trade):
    [listed] = (await here.pos.get(POS)).json()["endpoints"]
    expected = {"endpointId": here.store["storeId"], "kind": "webhookUrl", "url": here.shop.base + "/hooks"}
    assert {name: listed[name] for name in expected} == expected
    assert (listed["storeIds"], listed["enabled"]) == ([here.store["storeId"]], True)
    one = f"{POS}/{listed['endpointId']}"
    assert (await here.pos.get(one)).json() == listed
    for method, path in [("DELETE", one), ("POST", one + "/test"), ("POST", one + "/rotate-secret")]:
        refused = await here.pos.call(method, path)
        assert (refused.status, refused.json()["errorCode"]) == (409, "CONFLICT"), path
    assert (await here.pos.call("PUT", one, {"url": "https://a.example"})).status == 409


async def test_an_event_url_is_listed_and_not_registered_twice(mercato: Service, shop: MerchantServer):
    here = await trade(mercato, shop, event_url=shop.base + "/events")
    [listed] = (await here.front.get(FRONT)).json()["endpoints"]
    assert (listed["kind"], listed["url"]) == ("eventUrl", shop.base + "/events")
    assert (await here.front.call("DELETE", f"{FRONT}/{listed['endpointId']}")).status == 409
    assert (await here.front.post(FRONT, {"url": shop.base + "/events"})).status == 409
    made = await register(here.front, shop.base + "/mine")
    moved = await here.front.call("PUT", f"{FRONT}/{made['endpointId']}", {"url": shop.base + "/events"})
    assert moved.status == 409


async def test_pages_list_every_address_once(here: Trade):
    for number in range(3):
        await register(here.pos, f"{here.shop.base}/{number}", POS)
        url = here.shop.host(cafe(), f"/{number}.json")
        await here.mercato.live(here.pos, url, name=f"more-{number}", webhook=here.shop.base + "/hooks")
    found: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": "2"} | ({} if cursor is None else {"cursor": cursor})
        page = (await here.pos.get(POS, params=query)).json()
        assert len(page["endpoints"]) <= 2
        found += [one["endpointId"] for one in page["endpoints"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert (len(found), len(set(found))) == (7, 7)


# --- changing -----------------------------------------------------------------------------------------


async def test_a_change_replaces_everything_but_headers_that_are_left_out(here: Trade):
    made = await register(
        here.front,
        here.shop.base + "/mine",
        types=["order.created"],
        storeIds=[here.store["storeId"]],
        description="Ours",
        headers={"X-A": "one", "X-B": "two"},
    )
    reply = await here.front.call("PUT", f"{FRONT}/{made['endpointId']}", {"url": here.shop.base + "/other"})
    changed = reply.json()
    assert changed["headers"] == {"X-A": "***", "X-B": "***"}
    for name in ("types", "storeIds", "description"):
        assert changed[name] is None, name
    assert "secret" not in changed
    kept = await put(here.front, changed, headers={"X-A": "***", "X-C": "three"})
    assert kept["headers"] == {"X-A": "***", "X-C": "***"}
    await here.placed()
    [(headers, _)] = await calls(here.shop, "/other", count=1)
    assert (headers["x-a"], headers["x-c"], "x-b" in headers) == ("one", "three", False)


async def test_headers_do_not_follow_an_endpoint_to_another_host(here: Trade):
    made = await register(here.front, "https://a.example/mine", headers={"Authorization": "Bearer mine"})
    path = f"{FRONT}/{made['endpointId']}"
    moved = await here.front.call("PUT", path, {"url": here.shop.base + "/mine"})
    assert moved.json()["headers"] == {}
    again = await here.front.call("PUT", path, {"url": "https://b.example", "headers": {"X": "***"}})
    assert again.status == 422


@on_both
async def test_what_waits_for_a_retry_is_sent_to_the_new_url(here: Trade):
    made = await register(here.front, "http://127.0.0.1:1/nobody")
    await here.placed()
    path = f"/v1/marketfront/webhook-deliveries?endpointId={made['endpointId']}"
    await here.mercato.until(
        here.front, path, lambda page: [o["attempts"] for o in page["deliveries"]] == [1]
    )
    await put(here.front, made, url=here.shop.base + "/mine")
    # The retry is due in five seconds.
    [(headers, body)] = await calls(here.shop, "/mine", count=1)
    verify_webhook(headers, body, [made["secret"]])
    [sent] = await finished(here, made)
    assert (sent["status"], sent["attempts"], sent["url"]) == ("succeeded", 2, here.shop.base + "/mine")


async def test_a_redelivery_goes_to_the_new_url(here: Trade):
    made = await register(here.front, here.shop.base + "/mine")
    await here.placed()
    [sent] = await finished(here, made)
    await calls(here.shop, "/mine", count=1)
    await put(here.front, made, url=here.shop.base + "/new")
    reply = await here.front.post(f"/v1/marketfront/webhook-deliveries/{sent['deliveryId']}/redeliver")
    assert reply.status == 200, reply.body
    [(headers, _)] = await calls(here.shop, "/new", count=1)
    assert headers["webhook-id"] == sent["webhookId"]


async def test_nothing_is_sent_to_a_deleted_endpoint_and_its_log_stays(here: Trade):
    made = await register(here.front, "http://127.0.0.1:1/nobody")
    await here.placed()
    path = f"/v1/marketfront/webhook-deliveries?endpointId={made['endpointId']}"
    await here.mercato.until(
        here.front, path, lambda page: [o["attempts"] for o in page["deliveries"]] == [1]
    )
    assert (await here.front.call("DELETE", f"{FRONT}/{made['endpointId']}")).status == 204
    assert (await here.front.get(f"{FRONT}/{made['endpointId']}")).status == 404
    assert (await here.front.get(FRONT)).json()["endpoints"] == []
    [ended] = await finished(here, made)
    assert (ended["status"], ended["attempts"]) == ("failed", 1)
    assert ended["error"] == "The webhook endpoint was deleted."
    again = await here.front.post(f"/v1/marketfront/webhook-deliveries/{ended['deliveryId']}/redeliver")
    assert again.status == 409


async def test_a_disabled_endpoint_gets_nothing_until_it_is_enabled(here: Trade):
    made = await register(here.front, here.shop.base + "/mine", enabled=False)
    everything = await register(here.front, here.shop.base + "/all")
    assert (await here.front.post(f"{FRONT}/{made['endpointId']}/test")).status == 409
    order = await here.placed()
    await finished(here, everything)
    await put(here.front, made, enabled=True)
    await here.update(order, status="confirmed")
    [sent] = await finished(here, made)
    assert sent["type"] == "order.updated"


async def test_an_endpoint_that_answers_410_is_disabled_and_a_change_enables_it(here: Trade):
    async def gone(*_: Any) -> web.Response:
        return web.Response(status=410)

    here.shop.answers["mine"] = gone
    made = await register(here.front, here.shop.base + "/mine")
    other = await register(here.front, here.shop.base + "/other")
    order = await here.placed()
    [failed] = await finished(here, made)
    assert failed["status"] == "failed"
    [read, fine] = (await here.front.get(FRONT)).json()["endpoints"]
    assert (read["enabled"], "410" in read["disabledReason"]) == (False, True)
    assert (fine["enabled"], fine["disabledReason"]) == (True, None)
    assert (await here.front.post(f"{FRONT}/{made['endpointId']}/test")).status == 409
    await here.update(order, status="confirmed")
    stored = (await finished(here, made, count=2))[-1]
    assert (stored["status"], stored["attempts"]) == ("failed", 0)
    await finished(here, other, count=2)
    here.shop.answers.pop("mine")
    assert (await put(here.front, read, enabled=True))["enabled"]
    reply = await here.front.post(f"/v1/marketfront/webhook-deliveries/{stored['deliveryId']}/redeliver")
    assert reply.status == 200
    assert (await finished(here, made, count=2))[-1]["status"] == "succeeded"


# --- testing and rotating -----------------------------------------------------------------------------


async def test_a_test_is_a_signed_ping_in_the_log_and_not_in_the_feed(here: Trade):
    made = await register(here.front, here.shop.base + "/mine", types=["order.created"])
    await register(here.front, here.shop.base + "/other")
    reply = await here.front.post(f"{FRONT}/{made['endpointId']}/test")
    assert reply.status == 200, reply.body
    path, headers, body = await here.shop.webhook()
    while path != "/mine":
        assert path != "/other"
        path, headers, body = await here.shop.webhook()
    event = verify_webhook(headers, body, [made["secret"]])
    assert event.type == "ping"
    assert json.loads(body)["data"] == {"endpointId": made["endpointId"]}
    [sent] = await finished(here, made)
    assert (sent["deliveryId"], sent["type"]) == (reply.json()["deliveryId"], "ping")
    assert (await here.front.get("/v1/marketfront/events")).json()["events"] == []


async def test_a_ping_that_fails_says_why(here: Trade):
    made = await register(here.front, "http://127.0.0.1:1/nobody")
    reply = await here.front.post(f"{FRONT}/{made['endpointId']}/test")
    path = f"/v1/marketfront/webhook-deliveries/{reply.json()['deliveryId']}"
    tried = await here.mercato.until(here.front, path, lambda one: one["attempts"] == 1)
    assert tried["attemptLog"][0]["error"] is not None


async def test_after_a_rotation_both_secrets_verify(here: Trade):
    made = await register(here.front, here.shop.base + "/mine")
    path = f"{FRONT}/{made['endpointId']}"
    rotated = (await here.front.post(path + "/rotate-secret")).json()
    assert rotated["secret"] != made["secret"]
    await here.front.post(path + "/test")
    [(headers, body)] = await calls(here.shop, "/mine", count=1)
    for secret in (made["secret"], rotated["secret"]):
        verify_webhook(headers, body, [secret])
    last = (await here.front.post(path + "/rotate-secret", {"overlapHours": 0})).json()
    await here.front.post(path + "/test")
    [(headers, body)] = await calls(here.shop, "/mine", count=1)
    verify_webhook(headers, body, [last["secret"]])
    assert len(headers["webhook-signature"].split()) == 1
    for hours in (-1, 2161):
        assert (await here.front.post(path + "/rotate-secret", {"overlapHours": hours})).status == 422


@own()
@on_both
async def test_credentials_are_resealed_with_a_new_encryption_key(here: Trade):
    await register(here.front, here.shop.base + "/mine")
    app = here.mercato.app
    newer = Vault([b"n" * 32, *app.vault._roots])
    async with app.db.write() as tx:
        await encryption.reseal(tx, newer, after=None, limit=100)
    async with app.db.read() as tx:
        row = await tx.first(select(webhook_endpoints.c.credentials))
        assert row is not None
        assert newer.is_current(row.credentials)
        assert await encryption.count_unreadable(tx, Vault([b"n" * 32]), limit=10) == 0


@own()
async def test_a_partners_endpoints_are_deleted_with_it(mercato: Service, shop: MerchantServer):
    partner, client = await mercato.partner(PartnerKind.MARKETFRONT)
    await register(client, shop.base + "/mine")
    await offboarding.delete(mercato.app.db, partner.id, now=clock.now)
    async with mercato.app.db.read() as tx:
        assert await tx.all(select(webhook_endpoints)) == []


async def test_the_signature_of_an_endpoints_webhook_is_explained_with_its_own_secret(here: Trade):
    await register(here.front, here.shop.base + "/mine")
    await here.placed()
    [(headers, body)] = await calls(here.shop, "/mine", count=1)
    mine = {name: value for name, value in headers.items() if name.startswith("webhook-")}
    explained = await here.front.post("/v1/webhooks/explain", {"headers": mine, "body": body.decode()})
    assert explained.json()["valid"], explained.body


@on_both
async def test_dead_endpoints_delay_no_other_of_the_same_account(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # The first pause lasts until the end, however slow the machine is.
    monkeypatch.setattr(sender, "PAUSE_SECONDS", PATIENCE)
    async with merchant() as shop, service(database_url, tmp_path, webhook_seconds=1.2) as mercato:
        here = await trade(mercato, shop)
        released = asyncio.Event()

        async def hang(*_: Any) -> web.Response:
            await released.wait()
            return web.Response()

        shop.answers["dead"] = hang
        # More than the calls of one account that run at a time.
        dead = [await register(here.front, f"{shop.base}/{number}/dead") for number in range(9)]
        await register(here.front, shop.base + "/mine")
        order = await here.placed()
        for endpoint in dead:
            path = f"/v1/marketfront/webhook-deliveries?endpointId={endpoint['endpointId']}"
            await mercato.until(here.front, path, lambda page: any(o["attempts"] for o in page["deliveries"]))
        [_] = await calls(shop, "/mine", count=1)
        await here.update(order, status="confirmed")
        while True:
            path, _, body = await shop.webhook()
            if json.loads(body)["type"] == "order.updated":
                break
        assert path == "/mine", "the dead ones are paused"
        released.set()


@own()
@on_both
async def test_a_failing_address_is_recorded_for_each_endpoint(here: Trade):
    dead = await register(here.front, "http://127.0.0.1:1/nobody")
    await register(here.front, here.shop.base + "/mine")
    await here.placed()
    path = f"/v1/marketfront/webhook-deliveries?endpointId={dead['endpointId']}"
    await here.mercato.until(
        here.front, path, lambda page: [o["attempts"] for o in page["deliveries"]] == [1]
    )
    async with here.mercato.app.db.write() as tx:
        assert [row.url for row in await tx.all(select(failing_endpoints.c.url))] == [dead["url"]]
        await tx.execute(update(failing_endpoints).values(failing_since=clock.from_ms(0)))
    await calls(here.shop, "/mine", count=1)
