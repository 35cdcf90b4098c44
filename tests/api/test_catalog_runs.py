"""Catalogs are pulled, switched and announced, over the wire."""

import asyncio
import json
import threading
from typing import Any
from uuid import UUID, uuid5

import msgspec
import pytest
from aiohttp import web
from standardwebhooks import Webhook
from tests.api.examples import in_turn
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.catalogs import dry_run, queries
from mercato.features.catalogs.builder import BUILD_SECONDS
from mercato.features.catalogs.ingest import time_limit
from mercato_catalog.diff import diff
from mercato_catalog.model import CompiledCatalog
from mercato_contract.catalogs import CatalogDiff, CatalogFault, PartnerWarning
from mercato_outbound.results import PullLimits

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/commerce/stores"
NOTIFY = "/v1/commerce/catalogset-notification"
BROKEN = CATALOG | {"sections": {"s1": {"sectionId": "s1", "itemIds": [ITEM, "gone"]}}}


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await mercato.live(pos, shop.host(CATALOG))


def renamed(name: str) -> dict[str, Any]:
    return CATALOG | {"items": {ITEM: {"itemId": ITEM, "name": name, "basePrice": "4.50"}}}


async def test_notify_answers_202_with_the_status_url_and_the_poll_interval(
    pos: Client, shop: MerchantServer, store: Any
):
    reply = await pos.post(f"{NOTIFY}?storeId={store['storeId']}", {"callbackUrl": shop.host(CATALOG)})
    body = reply.json()
    expected = f"{STORES}/{store['storeId']}/catalog-ingest/{body['catalogIngestId']}/status"
    assert (reply.status, body["statusUrl"]) == (202, expected)
    assert (reply.headers["Location"], reply.headers["Retry-After"]) == (expected, "2")


def test_a_run_has_the_time_for_the_builds_of_all_others_before_its_own():
    alone, last = (time_limit(PullLimits(), runs).total_seconds() for runs in (1, 8))
    assert last - alone == 7 * BUILD_SECONDS
    assert alone > PullLimits().total + BUILD_SECONDS


@on_both
async def test_a_run_succeeds_once_the_store_has_switched(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    run = await mercato.run(pos, store["storeId"], shop.host(renamed("Broth"), "/new.json"))
    assert (run["status"], run["errors"]) == ("succeeded", [])
    now = (await pos.get(f"{STORES}/{store['storeId']}")).json()
    assert now["catalogSetId"] != store["catalogSetId"]


async def test_a_run_that_fails_keeps_the_old_catalog_and_says_where(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    run = await mercato.run(pos, store["storeId"], shop.host(BROKEN, "/new.json"))
    assert run["status"] == "failed"
    assert [fault["path"] for fault in run["errors"]] == ["/sections/s1/itemIds/1"]
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == store["catalogSetId"]


async def test_a_page_of_runs_with_many_faults_ends_early_and_leads_on(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any, monkeypatch: pytest.MonkeyPatch
):
    assert queries.MAX_PAGE_CHARS == 1024 * 1024
    monkeypatch.setattr(queries, "MAX_PAGE_CHARS", 100 * 1024)
    item = {"name": "", "basePrice": "1,00" + "9" * 80, "modifierGroupIds": ["x" * 200]}
    url = shop.host({"items": {f"{place}".rjust(200, "k"): item for place in range(100)}}, "/broken.json")
    runs = [(await mercato.run(pos, store["storeId"], url))["catalogIngestId"] for _ in range(5)]
    found: list[str] = []
    query: dict[str, str] = {"limit": "100"}
    pages = 0
    while pages == 0 or query["cursor"] is not None:
        reply = await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest", params=query)
        assert len(reply.body) < 300_000
        found += [run["catalogIngestId"] for run in reply.json()["runs"]]
        query["cursor"], pages = reply.json()["nextCursor"], pages + 1
    assert pages > 1
    assert found == runs[::-1]


async def test_identical_content_succeeds_without_a_new_set(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    spaced = json.dumps(CATALOG, indent=2).encode()
    run = await mercato.run(pos, store["storeId"], shop.host(spaced, "/new.json"))
    assert run["status"] == "succeeded"
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == store["catalogSetId"]


async def test_the_etag_is_sent_only_to_the_url_it_came_from(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    seen: list[str | None] = []

    async def tagged(request: web.Request) -> web.Response:
        seen.append(request.headers.get("If-None-Match"))
        if request.headers.get("If-None-Match") == '"v1"':
            return web.Response(status=304)
        return web.json_response(renamed("Tagged"), headers={"ETag": '"v1"'})

    url, other = shop.host(tagged, "/tagged.json"), shop.host(tagged, "/other.json")
    for each in (url, url, other):
        assert (await mercato.run(pos, store["storeId"], each))["status"] == "succeeded"
    assert seen == [None, '"v1"', None]


async def test_500_three_times_and_then_200_ends_succeeded(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    answers = iter([500, 503, 429])

    async def flaky(_request: web.Request) -> web.Response:
        status = next(answers, 200)
        return web.json_response(renamed("Flaky"), status=status)

    assert (await mercato.run(pos, store["storeId"], shop.host(flaky, "/flaky.json")))[
        "status"
    ] == "succeeded"


@own()
async def test_runs_of_a_store_go_one_at_a_time_in_the_order_of_notification(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    running = most = 0
    order: list[str] = []

    async def watch(request: web.Request) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        order.append(request.path)
        await asyncio.sleep(0)
        running -= 1
        return web.json_response(renamed(request.path))

    urls = [shop.host(watch, f"/{number}.json") for number in range(5)]
    last = ""
    for url in urls:
        reply = await pos.post(f"{NOTIFY}?storeId={store['storeId']}", {"callbackUrl": url})
        last = reply.json()["statusUrl"]
    await mercato.until(pos, last, lambda run: run["status"] == "succeeded")
    assert (order, most) == ([f"/{number}.json" for number in range(5)], 1)
    history = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest?limit=4")).json()
    assert [run["callbackUrl"] for run in history["runs"]] == urls[:0:-1]
    assert {run["status"] for run in history["runs"]} == {"succeeded"}
    rest = await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest?cursor={history['nextCursor']}")
    # The onboarding's own pull is not in the store's history.
    assert [run["callbackUrl"] for run in rest.json()["runs"]] == [urls[0]]


async def test_the_eleventh_waiting_run_of_a_store_is_429_with_retry_after(
    pos: Client, shop: MerchantServer, store: Any
):
    go, begun = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request) -> web.Response:
        begun.set()
        await go.wait()
        return web.json_response(CATALOG)

    body, path = {"callbackUrl": shop.host(slowly, "/slow.json")}, f"{NOTIFY}?storeId={store['storeId']}"
    assert (await pos.post(path, body)).status == 202
    await asyncio.wait_for(begun.wait(), PATIENCE)
    replies = [await pos.post(path, body) for _ in range(11)]
    assert [reply.status for reply in replies] == [202] * 10 + [429]
    problem = replies[-1].json()
    assert (problem["errorCode"], problem["retryable"]) == ("RATE_LIMITED", True)
    assert replies[-1].headers["Retry-After"] == str(problem["retryAfter"])
    go.set()


async def test_one_partners_backlog_delays_no_other(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    go = asyncio.Event()

    async def slowly(_request: web.Request) -> web.Response:
        await go.wait()
        return web.json_response(CATALOG)

    slow = shop.host(slowly, "/slow.json")
    for number in range(6):
        body = {"partnerStoreId": f"b{number}", "name": "B", "address": {}, "catalogCallbackUrl": slow}
        assert (await pos.post("/v1/commerce/onboarding/stores", body)).status == 201
    _, other = await mercato.partner()
    assert (await mercato.onboard(other, shop.host(CATALOG)))["status"] == "ready_to_activate"
    go.set()


async def test_a_failed_and_a_succeeded_run_are_pushed_signed_with_the_runs_id(
    mercato: Service, shop: MerchantServer
):
    partner, client = await mercato.partner(webhook_token="shop-token")
    store = await mercato.live(client, shop.host(CATALOG), webhook=shop.base + "/hooks?tenant=7")
    for document, status in ((BROKEN, "failed"), (renamed("Fresh"), "succeeded")):
        run = await mercato.run(client, store["storeId"], shop.host(document, "/next.json"))
        path, headers, body = await shop.webhook()
        event = Webhook(partner.signing_secret).verify(body, headers)
        assert path == "/hooks/catalog-sync?tenant=7"
        assert headers["authorization"] == "Bearer shop-token"
        assert headers["webhook-id"] == headers["idempotency-key"] == run["catalogIngestId"]
        assert event["type"] == f"catalog.sync.{status}"
        assert event["timestamp"] == run["updatedAt"]
        assert event["data"] == {
            "catalogIngestId": run["catalogIngestId"],
            "storeId": store["storeId"],
            "status": status,
            "errors": run["errors"],
            "warnings": run["warnings"],
        }
    # The onboarding's own pull pushed nothing.
    assert shop.received.empty()
    deliveries = (await client.get("/v1/commerce/webhook-deliveries")).json()["deliveries"]
    assert [entry["type"] for entry in deliveries] == ["catalog.sync.succeeded", "catalog.sync.failed"]


async def test_without_a_webhook_url_nothing_is_pushed(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    await mercato.run(pos, store["storeId"], shop.host(renamed("Quiet"), "/next.json"))
    assert (await pos.get("/v1/commerce/webhook-deliveries")).json()["deliveries"] == []


@only_sqlite
@in_turn(
    ("query", "body", "status", "code"),
    [
        ("", {"callbackUrl": "http://x/"}, 400, "MISSING_STORE_ID"),
        ("?storeId=", {"callbackUrl": "http://x/"}, 400, "MISSING_STORE_ID"),
        ("?storeId=abc", {"callbackUrl": "http://x/"}, 404, "STORE_NOT_FOUND"),
        (
            "?storeId=0190f5fe-7e3b-7ccc-8000-abcdef012345",
            {"callbackUrl": "http://x/"},
            404,
            "STORE_NOT_FOUND",
        ),
        ("?storeId={}", {"callbackUrl": ""}, 422, "VALIDATION_FAILED"),
        ("?storeId={}", {"callbackUrl": "catalog.json"}, 422, "VALIDATION_FAILED"),
        ("?storeId={}", {"callbackUrl": "file:///etc/passwd"}, 422, "VALIDATION_FAILED"),
        ("?storeId={}", {"callbackUrl": None}, 400, "INVALID_REQUEST"),
        ("?storeId={}", {}, 400, "INVALID_REQUEST"),
        ("?storeId={}", b"{", 400, "INVALID_REQUEST"),
    ],
)
async def test_an_invalid_notification_is_refused_at_once(
    pos: Client, store: Any, query: str, body: Any, status: int, code: str
):
    reply = await pos.post(NOTIFY + query.replace("{}", store["storeId"]), body)
    assert (reply.status, reply.json()["errorCode"]) == (status, code)


async def test_a_run_of_another_store_is_not_found(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    other = await mercato.live(pos, shop.host(CATALOG), name="other")
    run = await mercato.run(pos, store["storeId"], shop.host(CATALOG))
    path = f"{STORES}/{other['storeId']}/catalog-ingest/{run['catalogIngestId']}/status"
    assert (await pos.get(path)).json()["errorCode"] == "CATALOG_INGEST_NOT_FOUND"


async def test_a_dry_run_reports_every_fault_and_changes_nothing(pos: Client, store: Any):
    path = "/v1/commerce/catalogset-validation"
    bad = (await pos.post(path, BROKEN)).json()
    assert (bad["valid"], [fault["path"] for fault in bad["errors"]]) == (False, ["/sections/s1/itemIds/1"])
    good = (await pos.post(path, CATALOG)).json()
    assert (good["valid"], good["errors"], good["diff"]) == (True, [], None)
    assert good["summary"]["items"] == 1
    against = (await pos.post(f"{path}?storeId={store['storeId']}", renamed("Broth"))).json()
    assert against["diff"] is not None
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json() == store
    assert (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()["runs"] == []


async def test_a_dry_run_compares_a_menu_beside_the_requests_of_others(
    pos: Client, store: Any, monkeypatch: pytest.MonkeyPatch
):
    """Of a document of a hundred megabytes that takes most of a second."""
    threads: list[int] = []

    def observed(before: CompiledCatalog, after: CompiledCatalog) -> CatalogDiff:
        threads.append(threading.get_ident())
        return diff(before, after)

    monkeypatch.setattr(dry_run, "diff", observed)
    path = f"/v1/commerce/catalogset-validation?storeId={store['storeId']}"
    assert (await pos.post(path, renamed("Broth"))).json()["diff"]["items"]["changed"]["count"] == 1
    assert threads != [threading.get_ident()]


async def test_a_dry_run_names_the_ids_that_are_served_and_none_that_are_not(pos: Client, store: Any):
    path = "/v1/commerce/catalogset-validation"
    document = {"items": {"tea": {"name": "Tea", "basePrice": "1.00"}}}
    [without] = (await pos.post(path, document)).json()["warnings"]
    assert without["message"].endswith(
        "one is derived for each store that serves it, so no two stores have the same."
    )
    [of_store] = (await pos.post(f"{path}?storeId={store['storeId']}", document)).json()["warnings"]
    assert of_store["message"].endswith(f"it is served as {uuid5(UUID(store['onboardingId']), 'tea')}.")


async def test_a_price_that_is_a_json_number_is_warned_of_by_dry_runs_and_runs(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    document = {"items": {ITEM: {"name": "Soup", "basePrice": 11.1}}}
    dry = (await pos.post("/v1/commerce/catalogset-validation", document)).json()
    run = await mercato.run(pos, store["storeId"], shop.host(document))
    assert (dry["valid"], run["status"]) == (True, "succeeded")
    message, path = "The price 11.1 is a JSON number; prices are strings.", f"/items/{ITEM}/basePrice"
    warning = {"code": "number-price", "message": message, "path": path, "pointer": path}
    assert dry["warnings"] == [warning]
    assert warning in run["warnings"]


async def test_catalog_faults_warnings_and_dry_run_answers_have_one_shape(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    document = {"items": {ITEM: {"basePrice": "1.234"}}}
    dry = (await pos.post("/v1/commerce/catalogset-validation", document)).json()
    run = await mercato.run(pos, store["storeId"], shop.host(document))
    path = f"/items/{ITEM}"
    [fault], [warning] = dry["errors"], dry["warnings"]
    assert (fault["code"], fault["path"], fault["pointer"]) == ("invalid-price", *[f"{path}/basePrice"] * 2)
    assert (warning["code"], warning["path"], warning["pointer"]) == ("no-name", path, path)
    assert run["errors"] == [fault]
    assert warning in run["warnings"]
    listed = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()["runs"][0]
    assert (listed["errors"], listed["warnings"]) == (run["errors"], run["warnings"])
    assert all(set(one) == set(fault) for one in (*run["errors"], *run["warnings"]))
    unreachable = (
        await pos.post("/v1/commerce/catalogset-validation", {"callbackUrl": shop.base + "/x"})
    ).json()
    lost = await mercato.run(pos, store["storeId"], shop.base + "/x")
    assert [{**one, "message": ""} for one in (*unreachable["errors"], *lost["errors"])] == [
        {"code": "not-fetched", "message": "", "path": "", "pointer": ""}
    ] * 2


def test_faults_and_warnings_that_were_stored_in_their_former_shapes_are_read():
    fault = msgspec.json.decode(b'{"message":"Bad","path":"/items/a"}', type=CatalogFault)
    assert (fault.code, fault.path, fault.pointer) == ("other", "/items/a", "/items/a")
    warning = msgspec.json.decode(
        b'{"code":"no-name","message":"?","pointer":"/items/a"}', type=PartnerWarning
    )
    assert (warning.code, warning.path, warning.pointer) == ("no-name", "/items/a", "/items/a")


async def test_a_dry_run_pulls_a_callback_url(pos: Client, shop: MerchantServer):
    path = "/v1/commerce/catalogset-validation"
    assert (await pos.post(path, {"callbackUrl": shop.host(CATALOG)})).json()["valid"] is True
    failed = (await pos.post(path, {"callbackUrl": shop.base + "/none"})).json()
    assert (failed["valid"], failed["errors"][0]["path"]) == (False, "")
    assert (await pos.post(path, {"callbackUrl": "nonsense"})).status == 422
    for wrong in (3, None, ["http://x/"]):
        refused = await pos.post(path, {"callbackUrl": wrong})
        assert (refused.status, refused.json()["errors"][0]["pointer"]) == (400, "/callbackUrl")


@only_sqlite
@in_turn("body", [b"", b"{}", b'{"sections": {}}', b"[]", b"3"])
async def test_a_dry_run_of_neither_a_document_nor_a_callback_url_is_400(pos: Client, body: bytes):
    refused = await pos.post("/v1/commerce/catalogset-validation", body)
    assert (refused.status, refused.json()["errorCode"]) == (400, "INVALID_REQUEST")
    pointers = [error["pointer"] for error in refused.json()["errors"]]
    assert pointers == (["/items", "/callbackUrl"] if body.startswith(b"{") else [""])


async def test_a_third_dry_run_of_a_partner_at_one_time_is_429(
    mercato: Service, pos: Client, shop: MerchantServer
):
    go = asyncio.Event()

    async def slowly(_request: web.Request) -> web.Response:
        await go.wait()
        return web.json_response(CATALOG)

    path, body = "/v1/commerce/catalogset-validation", {"callbackUrl": shop.host(slowly, "/slow.json")}
    tasks = [asyncio.create_task(pos.post(path, body)) for _ in range(3)]
    done, _ = await asyncio.wait(tasks, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = [task.result() for task in done]
    assert (refused.status, refused.json()["errorCode"]) == (429, "RATE_LIMITED")
    # Another partner isn't delayed, and dry runs in progress finish.
    assert (await (await mercato.partner())[1].post(path, CATALOG)).status == 200
    go.set()
    assert sorted([(await task).status for task in tasks]) == [200, 200, 429]


@in_turn("document", [b"<html></html>", b"", b"[]", b'{"items":', b"\xff", b"[" * 100_000])
async def test_documents_that_are_not_catalogs_fail_the_run_with_a_readable_message(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any, document: bytes
):
    run = await mercato.run(pos, store["storeId"], shop.host(document, "/bad.json"))
    assert run["status"] == "failed"
    assert run["errors"][0]["message"]
    assert "127.0.0.1" not in json.dumps(run)
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == store["catalogSetId"]


async def test_the_history_repeats_no_more_of_a_callback_url_than_a_page_can_hold(
    mercato: Service, pos: Client, store: Any
):
    run = await mercato.run(pos, store["storeId"], "http://127.0.0.1:1/" + "x" * 20_000)
    assert run["status"] == "failed"
    history = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()
    assert len(history["runs"][0]["callbackUrl"]) == 8192
