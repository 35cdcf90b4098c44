"""Stores and their availability over the wire."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select
from tests.api.examples import in_turn
from tests.api.trade import Time
from tests.calibration import cpu_within
from tests.databases import first_on_postgresql, mostly_sqlite, on_both, only_sqlite
from tests.live_stores import live_store
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.stores import places, queries, rules
from mercato.features.stores.model import Onboarding, SoldOut, StoreRow
from mercato.platform.db.tables import jobs

pytestmark = [shared, mostly_sqlite]

ONBOARDINGS = "/v1/commerce/onboarding/stores"
STORES = "/v1/commerce/stores"
BEVERLY_HILLS = {"lat": 34.1, "lng": -118.4}


@dataclass
class LateZone:
    """A lookup of time zones that waits until it is released."""

    started: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def late_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateZone]:
    late, look_up = LateZone(), places.timezone_at

    def timezone_at(latitude: float, longitude: float) -> str:
        late.started.set()
        late.released.wait(PATIENCE)
        return look_up(latitude, longitude)

    monkeypatch.setattr(places, "timezone_at", timezone_at)
    yield late
    late.released.set()


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await live_store(mercato, pos, shop, CATALOG, webhook=False)


def later(**delta: float) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).isoformat()


async def test_a_pause_is_stored_and_cleared_by_online(pos: Client, store: Any):
    path = f"{STORES}/{store['storeId']}/status"
    assert (await pos.get(path)).json() == {"status": "online", "pauseReason": None, "resumeAt": None}
    paused = await pos.post(
        path, {"status": "PAUSED", "pauseReason": "Busy", "resumeAt": "2099-01-31T20:30:00+02:00"}
    )
    expected = {"status": "paused", "pauseReason": "Busy", "resumeAt": "2099-01-31T18:30:00.000Z"}
    assert (paused.status, paused.json()) == (200, expected)
    assert (await pos.get(path)).json() == expected
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["status"] == "paused"
    online = await pos.post(path, {"status": "Online", "pauseReason": 3, "resumeAt": "yesterday"})
    assert online.json() == {"status": "online", "pauseReason": None, "resumeAt": None}


async def test_pausing_a_paused_store_replaces_reason_and_end(pos: Client, store: Any):
    path = f"{STORES}/{store['storeId']}/status"
    await pos.post(path, {"status": "paused", "pauseReason": "Busy", "resumeAt": later(hours=1)})
    assert (await pos.post(path, {"status": "paused"})).json() == {
        "status": "paused",
        "pauseReason": None,
        "resumeAt": None,
    }


@on_both
async def test_a_pause_whose_end_has_passed_is_online(pos: Client, store: Any, time: Time):
    path = f"{STORES}/{store['storeId']}/status"
    assert (await pos.post(path, {"status": "paused", "resumeAt": later(hours=1)})).status == 200
    assert (await pos.get(path)).json()["status"] == "paused"
    # The clock alone resumes it: nothing else happens to the store.
    time.ahead = timedelta(hours=1)
    assert (await pos.get(path)).json() == {"status": "online", "pauseReason": None, "resumeAt": None}


@only_sqlite
@in_turn(
    ("body", "status", "pointer"),
    [
        ({"status": "closed"}, 422, "/status"),
        ({"status": ""}, 422, "/status"),
        ({"status": 1}, 400, "/status"),
        ({}, 400, "/status"),
        ({"status": "paused", "resumeAt": "2020-01-01T00:00:00Z"}, 422, "/resumeAt"),
        ({"status": "paused", "resumeAt": "2099-01-01T00:00:00"}, 422, "/resumeAt"),
        ({"status": "paused", "resumeAt": 5}, 400, "/resumeAt"),
        ({"status": "paused", "pauseReason": []}, 400, "/pauseReason"),
    ],
)
async def test_an_invalid_availability_is_refused_with_a_pointer(
    pos: Client, store: Any, body: Any, status: int, pointer: str
):
    reply = await pos.post(f"{STORES}/{store['storeId']}/status", body)
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (status, pointer)
    assert (await pos.get(f"{STORES}/{store['storeId']}/status")).json()["status"] == "online"


@only_sqlite
@in_turn("number", ["1e999", "NaN", "-Infinity", "9" * 5000])
async def test_a_number_that_no_type_holds_is_ignored_with_online_and_of_the_wrong_type_with_a_pause(
    pos: Client, store: Any, number: str
):
    path = f"{STORES}/{store['storeId']}/status"
    members = f'"pauseReason": {number}, "resumeAt": {number}'
    paused = await pos.post(path, f'{{"status": "paused", {members}}}'.encode())
    assert (paused.status, [error["pointer"] for error in paused.json()["errors"]]) == (
        400,
        ["/pauseReason", "/resumeAt"],
    )
    online = await pos.post(path, f'{{"status": "online", {members}}}'.encode())
    assert online.json() == {"status": "online", "pauseReason": None, "resumeAt": None}
    both = f'{{"updates": [{{"storeId": "{store["storeId"]}", "status": "online", {members}}}]}}'
    assert (await pos.post(f"{STORES}/status", both.encode())).status == 200


@on_both
async def test_only_members_that_are_present_change_and_null_clears_five_of_them(pos: Client, store: Any):
    path = f"{STORES}/{store['storeId']}"
    full = {
        "name": "New",
        "phone": "+1 555",
        "logoUrl": "https://example.com/l.png",
        "description": "Fine",
        "webhookUrl": "https://example.com/h",
        "minimumOrderAmount": "10.5",
        "deliveryAllowed": False,
        "categories": ["pizza", "vegan"],
        "timezone": "Asia/Tokyo",
        "address": {"address1": "1 Main St", "city": "Springfield"},
    }
    changed = (await pos.call("PUT", path, full)).json()
    assert changed["minimumOrderAmount"] == "10.50"
    assert changed["address"] == {"street": "1 Main St", "city": "Springfield"}
    assert {
        name: changed[name] for name in ("name", "phone", "timezone", "deliveryAllowed", "categories")
    } == {
        "name": "New",
        "phone": "+1 555",
        "timezone": "Asia/Tokyo",
        "deliveryAllowed": False,
        "categories": ["pizza", "vegan"],
    }
    nulls = dict.fromkeys(full)
    cleared = (await pos.call("PUT", path, nulls)).json()
    assert not {"phone", "logoUrl", "description", "webhookUrl", "minimumOrderAmount"} & cleared.keys()
    assert cleared["name"] == "New"
    assert cleared["categories"] == ["pizza", "vegan"]
    assert (await pos.get(path)).json() == cleared


@only_sqlite
@in_turn(
    ("body", "status", "pointers"),
    [
        ({"deliveryAllowed": False, "pickupAllowed": False}, 422, ["/deliveryAllowed"]),
        ({"minimumOrderAmount": "1.005"}, 422, ["/minimumOrderAmount"]),
        ({"minimumOrderAmount": "-1"}, 422, ["/minimumOrderAmount"]),
        ({"minimumOrderAmount": "NaN"}, 422, ["/minimumOrderAmount"]),
        ({"minimumOrderAmount": 1.5}, 400, ["/minimumOrderAmount"]),
        ({"logoUrl": "x", "webhookUrl": "y", "timezone": "z"}, 422, ["/logoUrl", "/webhookUrl", "/timezone"]),
        ({"categories": ["", "a"]}, 422, ["/categories/0"]),
        ({"categories": ["a"] * 1001}, 422, ["/categories"]),
        ({"categories": ["a" * 255] * 51}, 422, ["/categories"]),
    ],
)
async def test_a_change_that_is_not_allowed_changes_nothing(
    pos: Client, store: Any, body: Any, status: int, pointers: list[str]
):
    path = f"{STORES}/{store['storeId']}"
    reply = await pos.call("PUT", path, body)
    assert reply.status == status
    assert [fault["pointer"] for fault in reply.json()["errors"]] == pointers
    assert (await pos.get(path)).json() == store


async def test_a_webhook_url_that_could_never_be_called_is_refused_by_update_store_and_warned_of_by_register(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path) as development:
        partner, pos = await development.partner()
        store = await development.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
        path = f"{STORES}/{store['storeId']}"
        before = (await pos.get(f"{ONBOARDINGS}/{store['onboardingId']}")).json()
        assert "WEBHOOK_URL_REFUSED" not in {warning["code"] for warning in before["warnings"]}
    async with service(database_url, tmp_path, allow_private_networks=False) as mercato:
        pos = Client(mercato.base, partner.key, mercato.session)
        for url, reason in [
            ("http://pos.example/hooks", "webhookUrl must begin with https://."),
            ("https://[::1]/hooks", "webhookUrl leads to an address that is not public. Use a host that"),
            ("https://10.1.2.3", "webhookUrl leads to an address that is not public. Use a host that"),
            ("https://user:word@pos.example", "webhookUrl must not contain a user name or password."),
        ]:
            refused = await pos.call("PUT", path, {"name": "New", "webhookUrl": url})
            assert refused.status == 422, refused.body
            [fault] = refused.json()["errors"]
            assert fault["pointer"] == "/webhookUrl"
            assert fault["message"].startswith(reason)
        # What the store has already may be sent back, and a name isn't looked up.
        changed = await pos.call("PUT", path, {"name": "New", "webhookUrl": store["webhookUrl"]})
        assert (changed.status, changed.json()["name"]) == (200, "New")
        body = {
            "partnerStoreId": "two",
            "name": "Two",
            "address": {},
            "catalogCallbackUrl": "https://x.invalid",
        }
        made = await pos.post(ONBOARDINGS, body | {"webhookUrl": "http://pos.example/hooks"})
        assert made.status == 201
        for status in (made.json(), (await pos.get(made.headers["Location"])).json()):
            [warning] = [one for one in status["warnings"] if one["code"] == "WEBHOOK_URL_REFUSED"]
            assert warning["pointer"] == "/webhookUrl"
            assert "must begin with https://" in warning["message"]
            assert "Update Store" in warning["message"]
        assert (await pos.call("PUT", path, {"webhookUrl": "https://nowhere.invalid/hooks"})).status == 200


@on_both
async def test_stores_are_listed_by_status_and_by_the_partners_own_id(
    mercato: Service, pos: Client, shop: MerchantServer
):
    one = await mercato.live(pos, shop.host(CATALOG), name="one")
    two = await mercato.live(pos, shop.host(CATALOG), name="two")
    await pos.post(f"{STORES}/{two['storeId']}/status", {"status": "paused"})

    async def ids(query: str) -> list[str]:
        return [entry["storeId"] for entry in (await pos.get(STORES + query)).json()["stores"]]

    assert await ids("") == [two["storeId"], one["storeId"]]
    assert await ids("?status=paused") == [two["storeId"]]
    assert await ids("?status=ONLINE") == [one["storeId"]]
    assert await ids("?partnerStoreId=one") == [one["storeId"]]
    page = (await pos.get(STORES + "?limit=1")).json()
    assert await ids(f"?limit=1&cursor={page['nextCursor']}") == [one["storeId"]]
    for bad in ("?limit=0", "?limit=101", "?status=closed", "?cursor=x"):
        assert (await pos.get(STORES + bad)).status == 422, bad


async def test_an_item_is_sold_out_until_an_instant_or_until_it_is_available(pos: Client, store: Any):
    path = f"{STORES}/{store['storeId']}/item-availability"
    gone = await pos.post(
        path, {"items": [{"itemId": ITEM.upper(), "available": False, "until": later(hours=1)}]}
    )
    assert (gone.status, gone.json()) == (200, {"unavailableItemIds": [ITEM]})
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["unavailableItemIds"] == [ITEM]
    back = await pos.post(path, {"items": [{"itemId": ITEM, "available": True}]})
    assert back.json() == {"unavailableItemIds": []}


async def test_an_item_is_sold_out_by_the_id_of_the_merchants_document(
    mercato: Service, pos: Client, shop: MerchantServer
):
    menu = {
        "items": {"soup": {"name": "Soup", "basePrice": "4.50"}, ITEM: {"name": "Tea", "basePrice": "2.00"}}
    }
    store = await mercato.live(pos, shop.host(menu, "/own.json"), name="own")
    path = f"{STORES}/{store['storeId']}/item-availability"
    by_id = (await pos.post(path, {"items": [{"itemId": "soup", "available": False}]})).json()
    await pos.post(path, {"items": [{"itemId": "soup", "available": True}]})
    by_partner_id = await pos.post(path, {"items": [{"partnerItemId": "soup", "available": False}]})
    assert (by_partner_id.status, by_partner_id.json()) == (200, by_id)
    both = await pos.post(path, {"items": [{"partnerItemId": ITEM, "available": False}]})
    assert ITEM in both.json()["unavailableItemIds"]
    unknown = await pos.post(path, {"items": [{"partnerItemId": "stew", "available": False}]})
    assert (unknown.status, unknown.json()["errors"][0]["pointer"]) == (422, "/items/0/partnerItemId")


async def test_an_item_is_named_by_exactly_one_id(pos: Client, store: Any):
    path = f"{STORES}/{store['storeId']}/item-availability"
    unnamed = await pos.post(path, {"items": [{"available": False}, {"itemId": ITEM, "available": False}]})
    assert (unnamed.status, unnamed.json()["errorCode"]) == (400, "INVALID_REQUEST")
    assert [one["pointer"] for one in unnamed.json()["errors"]] == ["/items/0"]
    twice = {"itemId": ITEM, "partnerItemId": ITEM, "available": False}
    both = await pos.post(path, {"items": [twice]})
    assert (both.status, both.json()["errors"][0]["pointer"]) == (422, "/items/0/partnerItemId")


async def test_an_unknown_item_is_422_and_nothing_changes(pos: Client, store: Any):
    path = f"{STORES}/{store['storeId']}/item-availability"
    items = [{"itemId": ITEM, "available": False}, {"itemId": str(uuid4()), "available": False}]
    reply = await pos.post(path, {"items": items})
    assert (reply.status, reply.json()["errors"][0]["pointer"]) == (422, "/items/1/itemId")
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["unavailableItemIds"] == []


@on_both
async def test_sold_out_items_survive_a_new_catalog(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    await pos.post(
        f"{STORES}/{store['storeId']}/item-availability", {"items": [{"itemId": ITEM, "available": False}]}
    )
    run = await mercato.run(pos, store["storeId"], shop.host(CATALOG | {"note": "new"}, "/new.json"))
    assert run["status"] == "succeeded"
    changed = (await pos.get(f"{STORES}/{store['storeId']}")).json()
    assert changed["unavailableItemIds"] == [ITEM]
    assert changed["catalogSetId"] != store["catalogSetId"]


async def test_an_item_that_a_new_catalog_lacks_can_be_marked_available_again(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    path = f"{STORES}/{store['storeId']}/item-availability"
    await pos.post(path, {"items": [{"itemId": ITEM, "available": False}]})
    run = await mercato.run(pos, store["storeId"], shop.host({"items": {}}, "/empty.json"))
    assert run["status"] == "succeeded"
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["unavailableItemIds"] == [ITEM]
    again = await pos.post(path, {"items": [{"itemId": ITEM, "available": False}]})
    assert (again.status, again.json()["errors"][0]["pointer"]) == (422, "/items/0/itemId")
    back = await pos.post(path, {"items": [{"itemId": ITEM, "available": True}]})
    assert (back.status, back.json()) == (200, {"unavailableItemIds": []})
    gone = await pos.post(path, {"items": [{"itemId": ITEM, "available": True}]})
    assert gone.status == 422, "the item is unknown"


@on_both
async def test_a_store_forgets_sold_out_items_that_its_set_lacks_only_if_they_are_too_many(
    mercato: Service, pos: Client, store: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rules, "MAX_ABSENT", 30)
    store_id, path = UUID(store["storeId"]), f"{STORES}/{store['storeId']}/item-availability"
    earlier = [SoldOut(uuid4(), None) for _ in range(31)]
    for count in (30, 31):
        async with mercato.app.db.write() as tx:
            await queries.replace_sold_out(tx, store_id, sold_out=earlier[:count], available=[])
        back = await pos.post(path, {"items": [{"itemId": ITEM, "available": True}]})
        assert len(back.json()["unavailableItemIds"]) == count, "only marking another item makes room"
        marked = await pos.post(path, {"items": [{"itemId": ITEM, "available": False}]})
        kept = {str(item.item_id) for item in earlier[:count]} if count == 30 else set()
        assert set(marked.json()["unavailableItemIds"]) == {ITEM, *kept}


@on_both
async def test_a_page_of_stores_with_many_sold_out_items_ends_early_and_leads_on(
    mercato: Service, pos: Client, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    assert queries.MAX_LISTED_ITEMS == 10_000
    monkeypatch.setattr(queries, "MAX_LISTED_ITEMS", 1_000)
    made = []
    for number in range(5):
        live = await mercato.live(pos, shop.host(CATALOG), name=f"many-{number}")
        made.append(live["storeId"])
        async with mercato.app.db.write() as tx:
            many = [SoldOut(uuid4(), None) for _ in range(600)]
            await queries.replace_sold_out(tx, UUID(live["storeId"]), sold_out=many, available=[])
    found: list[list[str]] = []
    query: dict[str, str] = {"limit": "100"}
    while not found or query["cursor"] is not None:
        page = (await pos.get(STORES, params=query)).json()
        assert all(len(one["unavailableItemIds"]) == 600 for one in page["stores"])
        found.append([one["storeId"] for one in page["stores"]])
        query["cursor"] = page["nextCursor"]
    assert found == [made[:2:-1], made[2:0:-1], made[:1]]


async def test_a_store_with_many_sold_out_items_is_read_in_time_that_grows_with_them(
    mercato: Service, store: Any
):
    many = [SoldOut(uuid4(), None) for _ in range(30_000)]
    store_id = UUID(store["storeId"])
    async with mercato.app.db.write() as tx:
        for at in range(0, len(many), 1000):
            await queries.replace_sold_out(tx, store_id, sold_out=many[at : at + 1000], available=[])
    with cpu_within(150):  # comparing each with each would take thousands
        assert len((await row_of(mercato, store)).sold_out) == len(many)


async def test_another_partners_store_is_not_found(mercato: Service, pos: Client, store: Any):
    _, other = await mercato.partner()
    path = f"{STORES}/{store['storeId']}"
    items = {"items": [{"itemId": ITEM, "available": False}]}
    answers = [
        await other.get(path),
        await other.call("PUT", path, {"name": "Mine"}),
        await other.get(f"{path}/status"),
        await other.post(f"{path}/status", {"status": "paused"}),
        await other.post(f"{path}/item-availability", items),
        await other.get(f"{path}/catalog-ingest"),
        await other.get(f"{path}/catalog-ingest/{uuid4()}/status"),
        await other.post(
            f"/v1/commerce/catalogset-notification?storeId={store['storeId']}", {"callbackUrl": "http://x"}
        ),
        await other.post(f"/v1/commerce/catalogset-validation?storeId={store['storeId']}", CATALOG),
    ]
    assert {(reply.status, reply.json()["errorCode"]) for reply in answers} == {(404, "STORE_NOT_FOUND")}
    assert (await other.get(STORES)).json()["stores"] == []
    assert (await pos.get(path)).json() == store


@on_both
async def test_a_late_time_zone_lookup_does_not_overwrite_the_merchants_own(
    mercato: Service, pos: Client, shop: MerchantServer, late_zone: LateZone
):
    store = await live_at(mercato, pos, shop, BEVERLY_HILLS)
    path = f"{STORES}/{store['storeId']}"
    mine = {"timezone": "Asia/Tokyo", "address": {"coordinates": {"lat": 35.7, "lng": 139.7}}}
    changed = (await pos.call("PUT", path, mine)).json()
    late_zone.released.set()
    async with asyncio.timeout(PATIENCE):
        while (await onboarding_of(mercato, store)).timezone == "UTC":
            await asyncio.sleep(0.02)
    assert (await pos.get(path)).json() == changed


@pytest.mark.parametrize("timezone", ["Asia/Tokyo", "UTC"])
@pytest.mark.parametrize("moves", [False, True])
@own()
@on_both
@first_on_postgresql
async def test_a_time_zone_that_is_set_during_its_lookup_is_kept(
    mercato: Service,
    pos: Client,
    shop: MerchantServer,
    late_zone: LateZone,
    moves: bool,  # a column of the table
    timezone: str,
):
    if moves:
        store = await mercato.live(pos, shop.host(CATALOG))
    else:
        store = await live_at(mercato, pos, shop, BEVERLY_HILLS)
    path = f"{STORES}/{store['storeId']}"
    if moves:
        await pos.call("PUT", path, {"address": {"coordinates": BEVERLY_HILLS}})
    await asyncio.to_thread(late_zone.started.wait, 10)
    assert (await pos.call("PUT", path, {"timezone": timezone})).status == 200
    late_zone.released.set()
    async with asyncio.timeout(PATIENCE):
        while await waiting_jobs(mercato):
            await asyncio.sleep(0.02)
    assert (await pos.get(path)).json()["timezone"] == timezone


async def test_coordinates_without_a_time_zone_give_it(
    mercato: Service, pos: Client, shop: MerchantServer, late_zone: LateZone
):
    store = await live_at(mercato, pos, shop, BEVERLY_HILLS)
    path = f"{STORES}/{store['storeId']}"
    late_zone.released.set()
    async with asyncio.timeout(PATIENCE):
        while (await pos.get(path)).json()["timezone"] == "UTC":
            await asyncio.sleep(0.02)
    assert (await pos.get(path)).json()["timezone"] == "America/Los_Angeles"


async def waiting_jobs(mercato: Service) -> int:
    kinds = (places.ONBOARDING_TIMEZONE, places.STORE_TIMEZONE)
    async with mercato.app.db.write() as tx:
        count = await tx.scalar(select(func.count()).where(jobs.c.kind.in_(kinds)))
    return int(count or 0)


async def live_at(mercato: Service, pos: Client, shop: MerchantServer, coordinates: object) -> Any:
    """Bring a store live that has coordinates and no time zone."""
    body = {"partnerStoreId": "at", "name": "At", "catalogCallbackUrl": shop.host(CATALOG)}
    reply = await pos.post(ONBOARDINGS, body | {"address": {"coordinates": coordinates}})
    path = reply.headers["Location"]
    await mercato.until(pos, path, lambda it: it["status"] == "ready_to_activate")
    return (await pos.post(path + "/activate")).json()


async def row_of(mercato: Service, store: Any) -> StoreRow:
    async with mercato.app.db.read() as tx:
        found = await queries.find_store(tx, UUID(store["storeId"]))
    assert found is not None
    return found


async def onboarding_of(mercato: Service, store: Any) -> Onboarding:
    async with mercato.app.db.read() as tx:
        found = await queries.find_onboarding_by_id(tx, UUID(store["onboardingId"]))
    assert found is not None
    return found
