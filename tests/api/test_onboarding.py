"""Onboarding over the wire."""

import asyncio
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import update
from tests.api.examples import in_turn
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.catalogs import queries
from mercato.features.catalogs.tables import catalog_runs
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

PATH = "/v1/commerce/onboarding/stores"


def request(url: str, name: str = "store-1", **more: object) -> dict[str, object]:
    return {"partnerStoreId": name, "name": "Test", "address": {}, "catalogCallbackUrl": url} | more


async def test_a_store_is_registered_pulled_validated_and_activated(
    mercato: Service, pos: Client, shop: MerchantServer
):
    reply = await pos.post(PATH, request(shop.host(CATALOG), webhookUrl=shop.base + "/hooks"))
    assert reply.status == 201
    first = reply.json()
    assert first["status"] == "pending_catalog"
    assert "storeId" not in first
    assert "error" not in first
    assert reply.headers["Location"] == f"{PATH}/{first['onboardingId']}"
    ready = await mercato.until(pos, reply.headers["Location"], lambda s: s["status"] == "ready_to_activate")
    assert "storeId" not in ready
    store = (await pos.post(f"{PATH}/{first['onboardingId']}/activate")).json()
    assert store["status"] == "online"
    assert store["partnerStoreId"] == "store-1"
    active = (await pos.get(reply.headers["Location"])).json()
    assert (active["status"], active["storeId"]) == ("active", store["storeId"])
    assert (await pos.get(f"/v1/commerce/stores/{store['storeId']}")).json() == store


async def test_a_catalog_that_fails_leaves_catalog_failed_with_every_error(
    mercato: Service, pos: Client, shop: MerchantServer
):
    broken = CATALOG | {"sections": {"s1": {"sectionId": "s1", "itemIds": ["x", "y"]}}}
    status = await mercato.onboard(pos, shop.host(broken))
    assert status["status"] == "catalog_failed"
    assert [fault["path"] for fault in status["errors"]] == [
        "/sections/s1/itemIds/0",
        "/sections/s1/itemIds/1",
    ]
    assert status["error"].endswith("(and 1 more)")


async def test_a_failed_pull_is_catalog_failed_and_names_no_host(
    mercato: Service, pos: Client, shop: MerchantServer
):
    status = await mercato.onboard(pos, shop.base + "/nothing.json")
    assert status["status"] == "catalog_failed"
    assert "404" in status["error"]
    assert "127.0.0.1" not in status["error"]


async def test_a_second_register_of_a_live_store_answers_409_and_where_it_is(
    mercato: Service, pos: Client, shop: MerchantServer
):
    first = await mercato.onboard(pos, shop.host(CATALOG))
    again = await pos.post(PATH, request(shop.host(CATALOG)))
    assert (again.status, again.json()["errorCode"]) == (409, "STORE_ALREADY_REGISTERED")
    assert again.json()["onboardingId"] == first["onboardingId"]
    assert again.headers["Location"] == f"{PATH}/{first['onboardingId']}"
    await pos.post(f"{PATH}/{first['onboardingId']}/activate")
    assert (await pos.post(PATH, request(shop.host(CATALOG)))).status == 409


@on_both
async def test_of_concurrent_registers_of_one_store_exactly_one_wins(pos: Client, shop: MerchantServer):
    url = shop.host(CATALOG)
    replies = await asyncio.gather(*(pos.post(PATH, request(url)) for _ in range(8)))
    assert sorted(reply.status for reply in replies) == [201] + [409] * 7
    won = next(reply.json()["onboardingId"] for reply in replies if reply.status == 201)
    assert {reply.json()["onboardingId"] for reply in replies} == {won}


async def test_after_a_failure_or_a_cancel_register_starts_a_new_onboarding(
    mercato: Service, pos: Client, shop: MerchantServer
):
    failed = await mercato.onboard(pos, shop.base + "/nothing.json")
    second = await mercato.onboard(pos, shop.host(CATALOG))
    assert second["onboardingId"] != failed["onboardingId"]
    assert (await pos.call("DELETE", f"{PATH}/{second['onboardingId']}")).status == 204
    third = await mercato.onboard(pos, shop.host(CATALOG))
    assert third["onboardingId"] not in {failed["onboardingId"], second["onboardingId"]}


@on_both
async def test_a_cancelled_onboarding_answers_404_and_its_pull_is_discarded(
    mercato: Service, pos: Client, shop: MerchantServer
):
    pulled, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request) -> web.Response:
        pulled.set()
        await go.wait()
        return web.json_response(CATALOG)

    started = (await pos.post(PATH, request(shop.host(slowly)))).json()
    await asyncio.wait_for(pulled.wait(), PATIENCE)
    path = f"{PATH}/{started['onboardingId']}"
    assert (await pos.call("DELETE", path)).status == 204
    go.set()
    assert (await pos.get(path)).json()["errorCode"] == "ONBOARDING_NOT_FOUND"
    assert (await pos.call("DELETE", path)).status == 404
    assert (await pos.post(f"{path}/activate")).status == 404
    assert (await pos.post(f"{path}/retry")).status == 404
    # The name is free again at once.
    assert (await mercato.onboard(pos, shop.host(CATALOG, "/second.json")))["status"] == "ready_to_activate"


async def test_an_active_onboarding_cannot_be_cancelled(mercato: Service, pos: Client, shop: MerchantServer):
    status = await mercato.onboard(pos, shop.host(CATALOG))
    await pos.post(f"{PATH}/{status['onboardingId']}/activate")
    reply = await pos.call("DELETE", f"{PATH}/{status['onboardingId']}")
    assert (reply.status, reply.json()["errorCode"]) == (409, "ONBOARDING_ACTIVE")


async def test_retry_pulls_a_failed_onboarding_again_from_a_new_url(
    mercato: Service, pos: Client, shop: MerchantServer
):
    failed = await mercato.onboard(pos, shop.base + "/nothing.json")
    path = f"{PATH}/{failed['onboardingId']}"
    reply = await pos.post(f"{path}/retry", {"catalogCallbackUrl": shop.host(CATALOG)})
    assert (reply.status, reply.json()["status"]) == (200, "pending_catalog")
    await mercato.until(pos, path, lambda status: status["status"] == "ready_to_activate")
    again = await pos.post(f"{path}/retry")
    assert (again.status, again.json()["errorCode"]) == (409, "ONBOARDING_NOT_FAILED")


async def test_retry_of_a_failed_onboarding_whose_store_was_registered_again_is_refused(
    mercato: Service, pos: Client, shop: MerchantServer
):
    failed = await mercato.onboard(pos, shop.base + "/nothing.json")
    second = await mercato.onboard(pos, shop.host(CATALOG))
    reply = await pos.post(f"{PATH}/{failed['onboardingId']}/retry")
    assert (reply.status, reply.json()["errorCode"]) == (409, "STORE_ALREADY_REGISTERED")
    assert reply.json()["onboardingId"] == second["onboardingId"]


async def test_activate_before_ready_is_refused_and_names_the_state(
    mercato: Service, pos: Client, shop: MerchantServer
):
    failed = await mercato.onboard(pos, shop.base + "/nothing.json")
    reply = await pos.post(f"{PATH}/{failed['onboardingId']}/activate")
    assert (reply.status, reply.json()["errorCode"]) == (409, "ONBOARDING_NOT_READY")
    assert "catalog_failed" in reply.json()["detail"]
    assert "storeId" not in reply.json()


@on_both
async def test_concurrent_activates_create_one_store(mercato: Service, pos: Client, shop: MerchantServer):
    status = await mercato.onboard(pos, shop.host(CATALOG))
    path = f"{PATH}/{status['onboardingId']}/activate"
    replies = await asyncio.gather(*(pos.post(path) for _ in range(8)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 7
    refused = [reply.json() for reply in replies if reply.status == 409]
    assert {problem["errorCode"] for problem in refused} == {"ONBOARDING_NOT_READY"}
    # Who lost the answer has what it needs.
    assert len({reply.json()["storeId"] for reply in replies}) == 1
    assert len((await pos.get("/v1/commerce/stores")).json()["stores"]) == 1


@only_sqlite
@in_turn(
    ("member", "value", "status"),
    [
        ("catalogCallbackUrl", "/relative", 422),
        ("catalogCallbackUrl", "ftp://example.com/x", 422),
        ("catalogCallbackUrl", "http://", 422),
        ("catalogCallbackUrl", "https://exa mple.com", 422),
        ("catalogCallbackUrl", "https://[::1", 422),
        ("catalogCallbackUrl", "http://x:99999/", 422),
        ("catalogCallbackUrl", f"http://x:{'9' * 1000}/", 422),
        ("catalogCallbackUrl", "http://x:0/", 422),
        ("webhookUrl", "http://[::1]:65536/", 422),
        ("catalogCallbackUrl", 3, 400),
        ("webhookUrl", "gopher://x", 422),
        ("timezone", "Mars/Olympus", 422),
        ("partnerStoreId", "", 422),
        ("name", None, 400),
        ("address", "Main Street", 400),
        ("address", {"street": 3}, 400),
        ("address", {"coordinates": {"lat": 91, "lng": 0}}, 422),
    ],
)
async def test_an_invalid_registration_is_refused_with_pointers(
    pos: Client, member: str, value: object, status: int
):
    reply = await pos.post(PATH, request("https://example.com/c.json") | {member: value})
    assert reply.status == status, reply.body
    assert all(fault["pointer"].startswith(f"/{member}") for fault in reply.json()["errors"])


@on_both
async def test_onboardings_are_listed_newest_first_in_pages(pos: Client, shop: MerchantServer):
    for number in range(3):
        await pos.post(PATH, request(shop.host(CATALOG), f"store-{number}"))
    first = (await pos.get(f"{PATH}?limit=2")).json()
    assert [entry["partnerStoreId"] for entry in first["onboardings"]] == ["store-2", "store-1"]
    second = (await pos.get(f"{PATH}?limit=2&cursor={first['nextCursor']}")).json()
    assert [entry["partnerStoreId"] for entry in second["onboardings"]] == ["store-0"]
    assert second["nextCursor"] is None


async def test_another_partners_onboarding_is_not_found(mercato: Service, pos: Client, shop: MerchantServer):
    mine = await mercato.onboard(pos, shop.host(CATALOG))
    _, other = await mercato.partner()
    path = f"{PATH}/{mine['onboardingId']}"
    assert (await other.get(path)).status == 404
    assert (await other.call("DELETE", path)).status == 404
    assert (await other.post(f"{path}/activate")).status == 404
    assert (await other.post(f"{path}/retry")).status == 404
    assert (await other.get(PATH)).json()["onboardings"] == []
    assert (await other.get(f"{PATH}/{uuid4()}")).json()["errorCode"] == "ONBOARDING_NOT_FOUND"
    assert (await other.get(f"{PATH}/not-a-uuid")).json()["errorCode"] == "ONBOARDING_NOT_FOUND"


async def test_a_us_postal_code_gives_the_store_its_time_zone(
    mercato: Service, pos: Client, shop: MerchantServer
):
    body = request(shop.host(CATALOG)) | {"address": {"postalCode": "90210", "country": "US"}}
    onboarding = (await pos.post(PATH, body)).json()["onboardingId"]
    await mercato.until(pos, f"{PATH}/{onboarding}", lambda s: s["status"] == "ready_to_activate")
    store = (await pos.post(f"{PATH}/{onboarding}/activate")).json()
    path = f"/v1/commerce/stores/{store['storeId']}"
    await mercato.until(pos, path, lambda s: s["timezone"] == "America/Los_Angeles")


@only_sqlite
@in_turn(
    ("member", "value"),
    [
        ("timezone", ""),
        ("timezone", "localtime"),
        ("webhookUrl", "https://example.com:http/"),
        ("webhookUrl", "https://example.com:-1/"),
        ("webhookUrl", "https://[::1]x/"),
        ("catalogCallbackUrl", "http://user:word@example.com:8o/"),
    ],
)
async def test_a_time_zone_or_uri_that_only_looks_like_one_is_422(pos: Client, member: str, value: str):
    reply = await pos.post(PATH, request("https://example.com/c.json") | {member: value})
    assert (reply.status, [fault["pointer"] for fault in reply.json()["errors"]]) == (422, [f"/{member}"])


@on_both
async def test_a_retry_and_a_register_that_take_a_free_name_at_once_leave_one_that_holds_it(
    mercato: Service, pos: Client, shop: MerchantServer
):
    for number in range(5):
        name = f"free-{number}"
        failed = await mercato.onboard(pos, shop.base + "/nothing.json", name=name)
        second = await mercato.onboard(pos, shop.host(CATALOG), name=name)
        assert (await pos.call("DELETE", f"{PATH}/{second['onboardingId']}")).status == 204
        # The failed one lost its name to the second, which was cancelled: both requests below may take it.
        retry, register = await asyncio.gather(
            pos.post(f"{PATH}/{failed['onboardingId']}/retry", {"catalogCallbackUrl": shop.host(CATALOG)}),
            pos.post(PATH, request(shop.host(CATALOG), name)),
        )
        assert (retry.status, register.status) in {(200, 409), (409, 201)}, (retry.body, register.body)


@own()
@on_both
async def test_a_retry_counts_even_if_the_clock_of_the_failed_run_was_ahead(
    mercato: Service, pos: Client, shop: MerchantServer
):
    status = await mercato.onboard(pos, shop.host(b"[]"))
    ahead = clock.new_id().int + (60_000 << 80)
    async with mercato.app.db.write() as tx:
        await tx.execute(update(catalog_runs).values(id=UUID(int=ahead)))
    shop.host(CATALOG)
    path = f"{PATH}/{status['onboardingId']}"
    assert (await pos.post(f"{path}/retry")).json()["status"] == "pending_catalog"
    ended = await mercato.until(pos, path, lambda it: it["status"] in {"ready_to_activate", "catalog_failed"})
    assert ended["status"] == "ready_to_activate"


async def test_activating_an_active_onboarding_is_an_error_that_names_its_store(
    mercato: Service, pos: Client, shop: MerchantServer
):
    status = await mercato.onboard(pos, shop.host(CATALOG))
    path = f"{PATH}/{status['onboardingId']}/activate"
    first = (await pos.post(path)).json()
    paused = await pos.post(f"/v1/commerce/stores/{first['storeId']}/status", {"status": "paused"})
    assert paused.status == 200
    again = await pos.post(path)
    assert (again.status, again.json()["errorCode"]) == (409, "ONBOARDING_NOT_READY")
    assert again.json()["storeId"] == first["storeId"]
    assert "The onboarding is active already" in again.json()["detail"]
    assert (await pos.get(f"/v1/commerce/stores/{first['storeId']}")).json()["status"] == "paused"


@on_both
async def test_a_page_of_onboardings_with_many_faults_ends_early_and_leads_on(
    mercato: Service, pos: Client, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    assert queries.MAX_PAGE_CHARS == 1024 * 1024
    monkeypatch.setattr(queries, "MAX_PAGE_CHARS", 100 * 1024)
    item = {"name": "", "basePrice": "1,00" + "9" * 80, "modifierGroupIds": ["x" * 200]}
    url = shop.host({"items": {f"{place}".rjust(200, "k"): item for place in range(100)}}, "/broken.json")
    made = []
    for number in range(5):
        reply = await pos.post(PATH, request(url, f"store-{number}"))
        made.append(reply.json()["onboardingId"])
    for onboarding in made:
        await mercato.until(pos, f"{PATH}/{onboarding}", lambda s: s["status"] == "catalog_failed")
    found: list[str] = []
    query: dict[str, str] = {"limit": "100"}
    pages = 0
    while pages == 0 or query["cursor"] is not None:
        reply = await pos.get(PATH, params=query)
        assert len(reply.body) < 300_000
        found += [one["onboardingId"] for one in reply.json()["onboardings"]]
        query["cursor"], pages = reply.json()["nextCursor"], pages + 1
    assert pages > 1
    assert found == made[::-1]
