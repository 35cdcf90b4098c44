"""Concurrent requests: one wins, the others get a refusal, and nothing is lost."""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest
from aiohttp import web
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service
from tests.sharing import shared
from tests.waiting import PATIENCE

from mercato_client.testing.caller import Answer

pytestmark = shared

PATH = "/v1/commerce/onboarding/stores"
STORES = "/v1/commerce/stores"
NOTIFY = "/v1/commerce/catalogset-notification"
MANY = 50


def request(url: str, name: str = "store-1") -> dict[str, Any]:
    return {"partnerStoreId": name, "name": "Test Store", "address": {}, "catalogCallbackUrl": url}


async def codes(*calls: Awaitable[Answer]) -> Counter[tuple[int, str | None]]:
    """Call all at once; count the statuses and error codes."""
    replies = await asyncio.gather(*calls)
    return Counter((r.status, r.json()["errorCode"] if r.status >= 400 else None) for r in replies)


async def test_of_fifty_registers_at_once_one_wins_and_every_other_is_shown_to_it(
    pos: Client, shop: MerchantServer
):
    url = shop.host(CATALOG)
    replies = await asyncio.gather(*(pos.post(PATH, request(url)) for _ in range(MANY)))
    assert Counter(reply.status for reply in replies) == {201: 1, 409: MANY - 1}
    assert len({reply.json()["onboardingId"] for reply in replies}) == 1
    assert len((await pos.get(PATH)).json()["onboardings"]) == 1


async def test_of_fifty_activates_at_once_one_makes_the_store(
    mercato: Service, pos: Client, shop: MerchantServer
):
    status = await mercato.onboard(pos, shop.host(CATALOG))
    path = f"{PATH}/{status['onboardingId']}/activate"
    counted = await codes(*(pos.post(path) for _ in range(MANY)))
    assert counted == {(200, None): 1, (409, "ONBOARDING_NOT_READY"): MANY - 1}
    assert len((await pos.get(STORES)).json()["stores"]) == 1


async def test_of_fifty_concurrent_notifications_as_many_are_accepted_as_may_wait(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    begun, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request) -> web.Response:
        begun.set()
        await go.wait()
        return web.json_response(CATALOG)

    path, body = f"{NOTIFY}?storeId={store['storeId']}", {"callbackUrl": shop.host(slowly, "/slow.json")}
    await pos.post(path, body)
    await asyncio.wait_for(begun.wait(), PATIENCE)
    try:
        counted = await codes(*(pos.post(path, body) for _ in range(MANY)))
    finally:
        go.set()
    assert counted == {(202, None): 10, (429, "RATE_LIMITED"): MANY - 10}


async def test_cancel_and_activate_at_once_leave_a_live_store_or_none(
    mercato: Service, pos: Client, shop: MerchantServer
):
    url = shop.host(CATALOG)
    ready = [await mercato.onboard(pos, url, name=f"s{number}") for number in range(6)]

    async def both(onboarding_id: str, *, first: bool) -> None:
        path = f"{PATH}/{onboarding_id}"
        calls = [pos.post(f"{path}/activate"), pos.call("DELETE", path)]
        replies = await asyncio.gather(*(calls if first else calls[::-1]))
        activated, cancelled = replies if first else replies[::-1]
        after = await pos.get(path)
        if activated.status == 200:
            assert (cancelled.status, after.json()["status"]) == (409, "active")
        else:
            assert (activated.status, cancelled.status, after.status) == (404, 204, 404)

    await asyncio.gather(*(both(one["onboardingId"], first=n % 2 == 0) for n, one in enumerate(ready)))
    stores = (await pos.get(STORES)).json()["stores"]
    live = [one for one in (await pos.get(PATH)).json()["onboardings"] if one["status"] == "active"]
    assert {one["storeId"] for one in stores} == {one["storeId"] for one in live}


async def test_retry_and_register_at_once_leave_one_that_holds_the_name(
    mercato: Service, pos: Client, shop: MerchantServer
):
    failed = await mercato.onboard(pos, shop.base + "/none")
    url, path = shop.host(CATALOG), f"{PATH}/{failed['onboardingId']}/retry"
    calls = []
    for _ in range(MANY // 2):
        calls += [pos.post(path, {"catalogCallbackUrl": url}), pos.post(PATH, request(url))]
    counted = await codes(*calls)
    assert counted[200, None] + counted[201, None] == 1, counted
    assert {status for status, _ in counted} <= {200, 201, 409}
    waiting = [s for s in (await pos.get(PATH)).json()["onboardings"] if s["status"] != "catalog_failed"]
    assert len(waiting) == 1


async def test_of_fifty_retries_at_once_one_pulls_again(mercato: Service, pos: Client, shop: MerchantServer):
    failed = await mercato.onboard(pos, shop.base + "/none")
    go = asyncio.Event()

    async def slowly(_request: web.Request) -> web.Response:
        await go.wait()
        return web.json_response(CATALOG)

    body = {"catalogCallbackUrl": shop.host(slowly, "/slow.json")}
    path = f"{PATH}/{failed['onboardingId']}/retry"
    counted = await codes(*(pos.post(path, body) for _ in range(MANY)))
    go.set()
    assert counted == {(200, None): 1, (409, "ONBOARDING_NOT_FAILED"): MANY - 1}


async def test_fifty_cancels_at_once_cancel_once(mercato: Service, pos: Client, shop: MerchantServer):
    ready = await mercato.onboard(pos, shop.host(CATALOG))
    replies = await asyncio.gather(
        *(pos.call("DELETE", f"{PATH}/{ready['onboardingId']}") for _ in range(MANY))
    )
    assert Counter(reply.status for reply in replies) == {204: 1, 404: MANY - 1}


async def test_pauses_and_updates_at_once_all_take_effect(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}"
    calls = []
    for number in range(MANY // 5):
        calls += [
            pos.post(f"{path}/status", {"status": "paused", "pauseReason": f"r{number}"}),
            pos.call("PUT", path, {"phone": f"p{number}"}),
            pos.call("PUT", path, {"description": f"d{number}"}),
            pos.call("PUT", path, {"categories": [f"c{number}"]}),
            pos.post(f"{path}/item-availability", {"items": [{"itemId": ITEM, "available": False}]}),
        ]
    assert await codes(*calls) == {(200, None): MANY}
    now = (await pos.get(path)).json()
    assert (now["status"], now["unavailableItemIds"]) == ("paused", [ITEM])
    assert (now["pauseReason"][0], now["phone"][0], now["description"][0]) == ("r", "p", "d")
    assert now["categories"][0][0] == "c"
    assert (now["name"], now["catalogSetId"]) == (store["name"], store["catalogSetId"])


async def test_delivery_and_pickup_are_never_both_switched_off_by_two_at_once(
    mercato: Service, pos: Client, shop: MerchantServer
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}"
    calls = [pos.call("PUT", path, {name: False}) for name in ("deliveryAllowed", "pickupAllowed") * 10]
    counted = await codes(*calls)
    assert set(counted) == {(200, None), (422, "VALIDATION_FAILED")}
    now = (await pos.get(path)).json()
    assert now["deliveryAllowed"] != now["pickupAllowed"]


@pytest.mark.parametrize("round_", range(2))
async def test_a_switch_keeps_a_concurrent_pause_and_sold_out_items(
    mercato: Service, pos: Client, shop: MerchantServer, round_: int
):
    store = await mercato.live(pos, shop.host(CATALOG))
    path = f"{STORES}/{store['storeId']}"
    for number in range(5):
        on = bool((number + round_) % 2)
        document = shop.host(CATALOG | {"round": number}, f"/{number}.json")
        run, paused, gone = await asyncio.gather(
            mercato.run(pos, store["storeId"], document),
            pos.post(f"{path}/status", {"status": "paused" if on else "online"}),
            pos.post(f"{path}/item-availability", {"items": [{"itemId": ITEM, "available": not on}]}),
        )
        assert (run["status"], paused.status, gone.status) == ("succeeded", 200, 200)
        now = (await pos.get(path)).json()
        assert (now["status"], now["unavailableItemIds"]) == (("paused", [ITEM]) if on else ("online", []))
        assert now["catalogSetId"] != store["catalogSetId"]
        store = now
