"""Which sets a store has served, and switches back to them, over the wire."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import select, update
from standardwebhooks import Webhook
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.catalogs import periods
from mercato.features.catalogs.tables import catalog_sets as sets
from mercato.features.partners.model import PartnerKind
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/commerce/stores"


def renamed(name: str) -> dict[str, Any]:
    return CATALOG | {"items": {ITEM: {"itemId": ITEM, "name": name, "basePrice": "4.50"}}}


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await mercato.live(pos, shop.host(CATALOG))


async def current(pos: Client, store: Any) -> str:
    return str((await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"])


async def history(pos: Client, store: Any, query: str = "") -> Any:
    reply = await pos.get(f"{STORES}/{store['storeId']}/catalog-sets{query}")
    assert reply.status == 200, reply.body
    return reply.json()


async def activate(pos: Client, store: Any, set_id: object) -> Any:
    return await pos.post(f"{STORES}/{store['storeId']}/catalog-sets/{set_id}/activate")


async def switched(mercato: Service, pos: Client, shop: MerchantServer, store: Any, name: str) -> str:
    run = await mercato.run(pos, store["storeId"], shop.host(renamed(name), f"/{name}.json"))
    assert run["status"] == "succeeded"
    return await current(pos, store)


async def test_the_history_has_every_set_with_its_run_and_its_time(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    second = await switched(mercato, pos, shop, store, "Broth")
    newer, older = (await history(pos, store))["catalogSets"]
    runs = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()["runs"]
    assert (newer["catalogSetId"], newer["to"], newer["rolledBackFrom"]) == (second, None, None)
    assert [newer["catalogIngestId"]] == [run["catalogIngestId"] for run in runs]
    assert (older["catalogSetId"], older["catalogIngestId"]) == (store["catalogSetId"], None)
    assert older["from"] < older["to"] == newer["from"]
    assert newer["isKept"] is older["isKept"] is True
    page = await history(pos, store, "?limit=1")
    assert page["catalogSets"] == [newer]
    rest = await history(pos, store, f"?limit=1&cursor={page['nextCursor']}")
    assert (rest["catalogSets"], rest["nextCursor"]) == ([older], None)


async def test_an_earlier_set_is_served_again_and_the_partner_is_notified(
    mercato: Service, shop: MerchantServer
):
    made, pos = await mercato.partner()
    store = await mercato.live(pos, shop.host(CATALOG), webhook=shop.base + "/hooks")
    first, second = store["catalogSetId"], await switched(mercato, pos, shop, store, "Broth")
    await shop.webhook()
    reply = await activate(pos, store, first)
    assert (reply.status, reply.json()) == (200, {"catalogSetId": first, "rolledBackFrom": second})
    assert await current(pos, store) == first
    path, headers, body = await shop.webhook()
    event = Webhook(made.signing_secret or "").verify(body, headers)
    assert path == "/hooks/catalog-sync"
    assert (event["type"], event["data"]["status"]) == ("catalog.sync.succeeded", "succeeded")
    assert event["data"]["rolledBackFrom"] == second
    run = event["data"]["catalogIngestId"]
    assert headers["webhook-id"] == run
    runs = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()["runs"]
    assert [one["catalogIngestId"] == run for one in runs] == [True, False], "an id of its own"
    status = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest/{run}/status")).json()
    assert (status["status"], status["catalogSetId"]) == ("succeeded", first)
    again, left, before = (await history(pos, store))["catalogSets"]
    assert [one["catalogSetId"] for one in (again, left, before)] == [first, second, first]
    assert (again["catalogIngestId"], again["rolledBackFrom"], again["to"]) == (run, second, None)
    assert left["to"] == again["from"]
    assert before["to"] == left["from"]
    assert (before["catalogIngestId"], before["rolledBackFrom"]) == (None, None)


async def test_activating_the_set_that_is_served_gives_the_same_answer_and_no_event(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    assert (await activate(pos, store, store["catalogSetId"])).json() == {
        "catalogSetId": store["catalogSetId"],
        "rolledBackFrom": None,
    }
    await switched(mercato, pos, shop, store, "Broth")
    replies = [await activate(pos, store, store["catalogSetId"]) for _ in range(2)]
    assert replies[0].json() == replies[1].json()
    runs = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()["runs"]
    assert ["callbackUrl" in run for run in runs] == [False, True]


async def test_orders_are_priced_from_the_set_that_is_served_again(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    _, storefront = await mercato.partner(PartnerKind.MARKETFRONT)
    dearer = CATALOG | {"items": {ITEM: {"itemId": ITEM, "name": "Soup", "basePrice": "9.00"}}}
    await mercato.run(pos, store["storeId"], shop.host(dearer, "/dearer.json"))
    await activate(pos, store, store["catalogSetId"])
    line = {"itemId": ITEM, "quantity": 1, "modifierGroups": []}
    request = {"item": line, "storeId": store["storeId"], "catalogSetId": store["catalogSetId"]}
    async with asyncio.timeout(PATIENCE):
        while True:
            cart = (await storefront.post("/v1/marketfront/carts/add", request)).json()
            if cart["amounts"]["total"] == "4.50":
                break
    assert cart["catalogSetId"] == store["catalogSetId"]


async def test_sets_of_others_and_unknown_ones_are_404(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    other = await mercato.live(pos, shop.host(renamed("Other"), "/other.json"), name="store-2")
    stranger = (await mercato.partner())[1]
    for set_id in (other["catalogSetId"], uuid4(), "no-uuid"):
        reply = await activate(pos, store, set_id)
        assert (reply.status, reply.json()["errorCode"]) == (404, "CATALOGSET_NOT_FOUND")
    for reply in (
        await activate(stranger, store, store["catalogSetId"]),
        await stranger.get(f"{STORES}/{store['storeId']}/catalog-sets"),
    ):
        assert (reply.status, reply.json()["errorCode"]) == (404, "STORE_NOT_FOUND")
    reply = await pos.get(f"{STORES}/{store['storeId']}/catalog-sets?cursor=nonsense")
    assert reply.status in {400, 422}


@own()
async def test_a_set_that_is_no_longer_kept_is_409_and_stays_in_the_history(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    first = store["catalogSetId"]
    second = await switched(mercato, pos, shop, store, "Broth")
    await activate(pos, store, first)
    long_ago = clock.now() - timedelta(days=31)
    async with mercato.app.db.write() as tx:
        await tx.execute(update(sets).where(sets.c.id == UUID(second)).values(superseded_at=long_ago))
        # The first one was superseded, too, but is served again.
        assert await periods.prune_sets(tx, before=long_ago + timedelta(days=1), limit=100) == 1
    reply = await activate(pos, store, second)
    assert (reply.status, reply.json()["errorCode"]) == (409, "CATALOGSET_EXPIRED")
    assert await current(pos, store) == first
    listed = (await history(pos, store))["catalogSets"]
    assert {one["catalogSetId"]: one["isKept"] for one in listed} == {first: True, second: False}
    assert len(listed) == 3
    async with mercato.app.db.write() as tx:
        assert await periods.prune_periods(tx, before=clock.now() + timedelta(days=1), limit=100) == 2


async def test_a_run_that_ends_after_a_switch_back_switches_again(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    second = await switched(mercato, pos, shop, store, "Broth")
    go, begun = asyncio.Event(), asyncio.Event()

    def slowly(document: Any) -> Any:
        async def answer(_request: web.Request) -> web.Response:
            begun.set()
            await go.wait()
            return web.json_response(document)

        return answer

    # What the run finds: content of its own, that of the set that was served when it began, and that of the set that is
    # served when it ends.
    documents: list[dict[str, Any]] = [renamed("Bisque"), renamed("Broth"), CATALOG]
    for document in documents:
        await mercato.run(pos, store["storeId"], shop.host(renamed("Broth"), "/broth.json"))
        second = await current(pos, store)
        go.clear()
        begun.clear()
        url = shop.host(slowly(document), f"/{uuid4()}.json")
        accepted = await pos.post(
            f"/v1/commerce/catalogset-notification?storeId={store['storeId']}", {"callbackUrl": url}
        )
        await asyncio.wait_for(begun.wait(), PATIENCE)
        reply = await activate(pos, store, store["catalogSetId"])
        assert (reply.status, reply.json()["rolledBackFrom"]) == (200, second)
        go.set()
        run = await mercato.until(
            pos, accepted.json()["statusUrl"], lambda one: one["status"] in {"succeeded", "failed"}
        )
        assert run["status"] == "succeeded"
        assert run["catalogSetId"] == await current(pos, store)
        served = (await pos.get(f"/v1/commerce/catalog-sets/{run['catalogSetId']}")).json()
        assert served["items"][ITEM]["name"] == document["items"][ITEM]["name"]


@on_both
async def test_switches_at_the_same_time_leave_one_set_and_an_unbroken_history(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    known = [store["catalogSetId"]]
    known += [await switched(mercato, pos, shop, store, name) for name in ("Broth", "Bisque")]
    replies = await asyncio.gather(*(activate(pos, store, known[n % 3]) for n in range(12)))
    assert {reply.status for reply in replies} == {200}
    listed = (await history(pos, store))["catalogSets"]
    assert listed[0]["catalogSetId"] == await current(pos, store)
    assert [one["to"] for one in listed[:1]] == [None]
    for later, earlier in pairwise(listed):
        assert later["from"] == earlier["to"]
        assert later["rolledBackFrom"] in {earlier["catalogSetId"], None}


@on_both
async def test_switches_of_two_processes_leave_one_set_and_never_a_half(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    data = tmp_path / "data"
    async with service(database_url, data) as one, service(database_url, data) as two:
        made, pos = await one.partner()
        store = await one.live(pos, shop.host(CATALOG))
        other = Client(two.base, made.key, two.session)
        known = [store["catalogSetId"]]
        for number in range(5):
            path = f"{STORES}/{store['storeId']}/catalog"
            accepted, *replies = await asyncio.gather(
                (pos if number % 2 else other).call("PUT", path, renamed(f"Broth {number}")),
                *(activate(client, store, known[-1 - number % len(known)]) for client in (pos, other)),
            )
            run = await one.until(
                pos, accepted.json()["statusUrl"], lambda run: run["status"] in {"succeeded", "failed"}
            )
            assert (run["status"], {reply.status for reply in replies}) == ("succeeded", {200})
            known.append(run["catalogSetId"])
        now = await current(pos, store)
        assert await current(other, store) == now
        listed = (await history(other, store, "?limit=100"))["catalogSets"]
        assert {one["catalogSetId"] for one in listed} == set(known)
        assert (listed[0]["catalogSetId"], listed[0]["to"]) == (now, None)
        async with one.app.db.read() as tx:
            served = await tx.all(select(sets.c.id).where(sets.c.superseded_at.is_(None)))
        assert [str(row.id) for row in served] == [now]
        # Clocks of two processes may differ by less than a switch takes.
        for later, earlier in pairwise(sorted(listed, key=lambda one: str(one["from"]), reverse=True)):
            assert later["from"] == earlier["to"]
