"""Catalogs that are sent in the request, over the wire."""

import asyncio
import json
import os
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import ColumnElement, func, select, update
from tests.api.examples import in_turn
from tests.api.trade import Time
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.catalogs import periods, switches, uploads
from mercato.features.catalogs.tables import catalog_uploads
from mercato.platform.db.tables import jobs
from mercato_contract import clock
from mercato_contract.wire import parse_instant, rfc3339
from mercato_outbound.document import PIECE

pytestmark = [shared, mostly_sqlite]

STORES = "/v1/commerce/stores"
BROKEN = CATALOG | {"sections": {"s1": {"sectionId": "s1", "itemIds": [ITEM, "gone"]}}}
MENUS = os.environ.get("MERCATO_TEST_MENUS")


def renamed(name: str, **members: Any) -> dict[str, Any]:
    return CATALOG | {"items": {ITEM: {"itemId": ITEM, "name": name, "basePrice": "4.50"} | members}}


@pytest.fixture
async def store(mercato: Service, pos: Client, shop: MerchantServer) -> Any:
    return await mercato.live(pos, shop.host(CATALOG))


async def put(pos: Client, store: Any, document: Any, query: str = "") -> Any:
    """Send a document: a value for JSON, bytes, or a large one as a file."""
    path = f"{STORES}/{store['storeId']}/catalog{query}"
    if isinstance(document, BytesIO):
        return await pos.call("PUT", path, data=document)
    return await pos.call("PUT", path, document)


async def ended(mercato: Service, pos: Client, reply: Any) -> Any:
    assert reply.status == 202, reply.body
    return await mercato.until(
        pos, reply.json()["statusUrl"], lambda run: run["status"] in {"succeeded", "failed"}
    )


async def kept(mercato: Service) -> int:
    async with mercato.app.db.read() as tx:
        return int(await tx.scalar(select(func.count()).select_from(catalog_uploads)))


@own()
async def test_a_document_that_is_sent_is_served_as_one_that_is_pulled(
    mercato: Service, pos: Client, store: Any
):
    reply = await put(pos, store, renamed("Broth"))
    run_id = reply.json()["catalogIngestId"]
    expected = f"{STORES}/{store['storeId']}/catalog-ingest/{run_id}/status"
    assert (reply.json()["statusUrl"], reply.headers["Location"]) == (expected, expected)
    assert reply.headers["Retry-After"] == "2"
    run = await ended(mercato, pos, reply)
    assert (run["status"], run["errors"]) == ("succeeded", [])
    now = (await pos.get(f"{STORES}/{store['storeId']}")).json()
    assert now["catalogSetId"] == run["catalogSetId"] != store["catalogSetId"]
    served = (await pos.get(f"/v1/commerce/catalog-sets/{now['catalogSetId']}")).json()
    assert served["items"][ITEM]["name"] == "Broth"
    listed = (await pos.get(f"{STORES}/{store['storeId']}/catalog-ingest")).json()["runs"]
    assert [(one["catalogIngestId"], "callbackUrl" in one) for one in listed] == [(run_id, False)]
    assert await kept(mercato) == 0


async def test_the_same_document_again_succeeds_without_a_new_set(mercato: Service, pos: Client, store: Any):
    first = await ended(mercato, pos, await put(pos, store, renamed("Broth")))
    again = await ended(mercato, pos, await put(pos, store, renamed("Broth")))
    assert (again["status"], again["catalogSetId"]) == ("succeeded", first["catalogSetId"])


@in_turn(
    ("document", "path"),
    [(BROKEN, "/sections/s1/itemIds/1"), (b"", ""), (b"[1", ""), ({"items": 3}, "/items")],
)
@own()
async def test_a_document_with_faults_ends_the_run_failed_and_isnt_kept(
    mercato: Service, pos: Client, store: Any, document: Any, path: str
):
    run = await ended(mercato, pos, await put(pos, store, document))
    assert (run["status"], run["errors"][0]["path"]) == ("failed", path)
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == store["catalogSetId"]
    assert await kept(mercato) == 0


@pytest.mark.skipif(MENUS is None, reason="MERCATO_TEST_MENUS names no directory of published menus")
@pytest.mark.parametrize("name", ["deliverect-docs-broken.json", "swiggy-louis-burger-broken.json"])
async def test_a_published_menu_that_is_broken_is_reported_as_the_dry_run_does(
    mercato: Service, pos: Client, store: Any, name: str
):
    document = (Path(MENUS or "") / name).read_bytes()
    dry = (await pos.post(f"/v1/commerce/catalogset-validation?storeId={store['storeId']}", document)).json()
    run = await ended(mercato, pos, await put(pos, store, document))
    assert (run["status"], run["errors"]) == ("failed", dry["errors"])


@own()
async def test_a_document_of_60_mb_is_413_before_its_body(mercato: Service, pos: Client, store: Any):
    reply = await put(pos, store, BytesIO(b" " * 60_000_000))
    assert (reply.status, reply.json()["errorCode"]) == (413, "PAYLOAD_TOO_LARGE")
    assert await kept(mercato) == 0


async def test_a_document_of_several_pieces_arrives_whole(mercato: Service, pos: Client, store: Any):
    # Random text doesn't compress: it takes several rows.
    document = json.dumps(renamed("Broth", description=os.urandom(2_000_000).hex())).encode()
    assert len(document) > 3 * PIECE
    run = await ended(mercato, pos, await put(pos, store, BytesIO(document)))
    assert run["status"] == "succeeded", run


async def test_other_peoples_stores_and_unknown_ones_are_404(mercato: Service, store: Any):
    stranger = (await mercato.partner())[1]
    for store_id in (store["storeId"], uuid4(), "no-uuid"):
        reply = await put(stranger, {"storeId": store_id}, CATALOG)
        assert (reply.status, reply.json()["errorCode"]) == (404, "STORE_NOT_FOUND")


async def test_one_partner_sends_a_few_at_a_time_and_keeps_a_bounded_number_of_bytes(
    mercato: Service, pos: Client, store: Any, monkeypatch: pytest.MonkeyPatch
):
    receiving, partner_id = mercato.app.stores.receiving, await partner_of(mercato, store)
    with receiving.slot(partner_id), receiving.slot(partner_id):
        reply = await put(pos, store, renamed("Broth"))
        assert (reply.status, reply.json()["errorCode"]) == (429, "RATE_LIMITED")
        assert reply.json()["retryAfter"]
    monkeypatch.setattr(uploads, "MAX_KEPT", 0)
    assert (await put(pos, store, renamed("Broth"))).status == 429
    monkeypatch.undo()
    assert (await ended(mercato, pos, await put(pos, store, renamed("Broth"))))["status"] == "succeeded"


async def partner_of(mercato: Service, store: Any) -> UUID:
    row = await mercato.app.cache.find(UUID(store["storeId"]))
    assert row is not None
    return row.partner_id


async def test_a_document_survives_the_process_that_accepted_it(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data") as first:
        made, pos = await first.partner()
        store = await first.live(pos, shop.host(CATALOG))
    async with service(database_url, tmp_path / "data", works=False) as second:
        pos = Client(second.base, made.key, second.session)
        reply = await put(pos, store, renamed("Broth"))
        assert reply.status == 202
        assert await kept(second) == 1
    async with service(database_url, tmp_path / "data") as third:
        pos = Client(third.base, made.key, third.session)
        assert (await ended(third, pos, reply))["status"] == "succeeded"
        assert await kept(third) == 0


# --- later ----------------------------------------------------------------------------------------


def soon(**ahead: float) -> str:
    return rfc3339(clock.now() + timedelta(**ahead))


async def wake(mercato: Service) -> None:
    """Let the jobs of planned switches run now."""
    planned = (jobs.c.kind == switches.KIND) & (jobs.c.state == "waiting")
    async with mercato.app.db.write() as tx:
        await tx.execute(update(jobs).where(planned).values(run_at=clock.now()))


async def arrive(mercato: Service, time: Time, at: str) -> None:
    """Let an instant come, for the service's clock and for the switches that wait."""
    time.ahead = parse(at) - clock.now() + timedelta(milliseconds=1)
    await wake(mercato)


async def waiting(mercato: Service, *such: ColumnElement[bool]) -> int:
    """Return how many jobs of planned switches there are."""
    async with mercato.app.db.read() as tx:
        return int(await tx.scalar(select(func.count()).where(jobs.c.kind == switches.KIND, *such)))


async def scheduled(mercato: Service, pos: Client, reply: Any) -> Any:
    assert reply.status == 202, reply.body
    return await mercato.until(
        pos,
        reply.json()["statusUrl"],
        lambda run: "catalogSetId" in run or run["status"] in {"succeeded", "failed"},
    )


@on_both
async def test_a_catalog_is_built_at_once_and_served_at_its_instant(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any, time: Time
):
    at = soon(hours=1)
    reply = await pos.post(
        f"/v1/commerce/catalogset-notification?storeId={store['storeId']}",
        {"callbackUrl": shop.host(renamed("Later"), "/later.json"), "activateAt": at},
    )
    run = await scheduled(mercato, pos, reply)
    assert (run["status"], run["activateAt"]) == ("processing", at)
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == store["catalogSetId"]
    # A switch before that instant leaves it in place.
    sooner = await ended(mercato, pos, await put(pos, store, renamed("Sooner")))
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == sooner["catalogSetId"]
    assert (await pos.get(reply.json()["statusUrl"])).json()["status"] == "processing"
    await arrive(mercato, time, at)
    done = await ended(mercato, pos, reply)
    assert (done["status"], done["catalogSetId"]) == ("succeeded", run["catalogSetId"])
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == run["catalogSetId"]
    listed = (await pos.get(f"{STORES}/{store['storeId']}/catalog-sets")).json()["catalogSets"]
    assert [one["catalogSetId"] for one in listed] == [
        run["catalogSetId"],
        sooner["catalogSetId"],
        store["catalogSetId"],
    ]
    assert listed[0]["catalogIngestId"] == reply.json()["catalogIngestId"]
    assert listed[0]["from"] >= at


def parse(text: str) -> datetime:
    at = parse_instant(text)
    assert at is not None
    return at


async def test_the_content_that_is_served_can_be_scheduled_too(
    mercato: Service, pos: Client, store: Any, time: Time
):
    at = soon(hours=1)
    reply = await put(pos, store, CATALOG, f"?activateAt={at}")
    assert (await scheduled(mercato, pos, reply))["catalogSetId"] == store["catalogSetId"]
    await ended(mercato, pos, await put(pos, store, renamed("Sooner")))
    await arrive(mercato, time, at)
    assert (await ended(mercato, pos, reply))["status"] == "succeeded"
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == store["catalogSetId"]


async def test_a_document_that_is_unchanged_at_its_url_is_processed_and_waits_for_its_instant(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any, time: Time
):
    async def tagged(request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match") == '"v1"':
            return web.Response(status=304)
        return web.json_response(renamed("Tagged"), headers={"ETag": '"v1"'})

    path, url = (
        f"/v1/commerce/catalogset-notification?storeId={store['storeId']}",
        shop.host(tagged, "/t.json"),
    )
    served = await ended(mercato, pos, await pos.post(path, {"callbackUrl": url}))
    at = soon(hours=1)
    reply = await pos.post(path, {"callbackUrl": url, "activateAt": at})
    run = await scheduled(mercato, pos, reply)
    assert (run["status"], run["catalogSetId"]) == ("processing", served["catalogSetId"])
    await ended(mercato, pos, await put(pos, store, renamed("Sooner")))
    await arrive(mercato, time, at)
    assert (await ended(mercato, pos, reply))["status"] == "succeeded"
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == served["catalogSetId"]


@on_both
async def test_a_document_with_faults_fails_at_once_also_with_an_instant(
    mercato: Service, pos: Client, store: Any
):
    reply = await put(pos, store, BROKEN, f"?activateAt={soon(days=1)}")
    assert (await ended(mercato, pos, reply))["status"] == "failed"


@in_turn("at", ["2020-01-01T00:00:00Z", "2090-01-01T00:00:00Z", "tomorrow", "2090-01-01T00:00:00", ""])
async def test_an_instant_that_is_past_too_far_or_none_is_422(
    pos: Client, shop: MerchantServer, store: Any, at: str
):
    body = {"callbackUrl": shop.host(CATALOG), "activateAt": at}
    reply = await pos.post(f"/v1/commerce/catalogset-notification?storeId={store['storeId']}", body)
    assert (reply.status, [one["pointer"] for one in reply.json()["errors"]]) == (422, ["/activateAt"])
    reply = await put(pos, store, CATALOG, f"?activateAt={at}")
    assert (reply.status, [one["pointer"] for one in reply.json()["errors"]]) == (422, [None])


async def test_an_instant_of_another_type_is_400_and_null_is_none(
    mercato: Service, pos: Client, shop: MerchantServer, store: Any
):
    path = f"/v1/commerce/catalogset-notification?storeId={store['storeId']}"
    body = {"callbackUrl": shop.host(renamed("Broth")), "unknown": 1}
    assert (await pos.post(path, body | {"activateAt": 1})).status == 400
    run = await ended(mercato, pos, await pos.post(path, body | {"activateAt": None}))
    assert run["status"] == "succeeded"


@on_both
async def test_a_scheduled_switch_can_be_cancelled(mercato: Service, pos: Client, store: Any, time: Time):
    reply = await put(pos, store, renamed("Later"), f"?activateAt={soon(hours=1)}")
    run = await scheduled(mercato, pos, reply)
    path = reply.json()["statusUrl"].removesuffix("/status") + "/activation"
    stranger = (await mercato.partner())[1]
    assert (await stranger.call("DELETE", path)).status == 404
    assert (
        await pos.call("DELETE", f"{STORES}/{store['storeId']}/catalog-ingest/{uuid4()}/activation")
    ).status == 404
    # A repeat, after an answer that was lost, gets the same answer.
    assert [(await pos.call("DELETE", path)).status for _ in range(2)] == [204, 204]
    done = await ended(mercato, pos, reply)
    said = f"The switch at {run['activateAt']} was cancelled. The store keeps its catalog."
    assert (done["status"], [error["message"] for error in done["errors"]]) == ("failed", [said])
    await arrive(mercato, time, run["activateAt"])
    async with asyncio.timeout(PATIENCE):
        while await waiting(mercato):
            await asyncio.sleep(0.02)
    assert (await pos.get(f"{STORES}/{store['storeId']}")).json()["catalogSetId"] == store["catalogSetId"]
    # The set is kept, as a superseded one is, and can be served all the same.
    reply = await pos.post(f"{STORES}/{store['storeId']}/catalog-sets/{run['catalogSetId']}/activate")
    assert reply.json() == {"catalogSetId": run["catalogSetId"], "rolledBackFrom": store["catalogSetId"]}


@pytest.mark.parametrize(("ahead", "least", "most"), [(600, 500, 600), (86_400, 3600, 3600)])
async def test_retry_after_is_the_time_left_until_the_switch_and_at_most_an_hour(
    mercato: Service, pos: Client, store: Any, ahead: int, least: int, most: int
):
    now = await put(pos, store, renamed("Now"))
    assert now.headers["Retry-After"] == "2"
    reply = await put(pos, store, renamed("Later"), f"?activateAt={soon(seconds=ahead)}")
    assert least <= int(reply.headers["Retry-After"]) <= most
    await scheduled(mercato, pos, reply)
    status = await pos.get(reply.json()["statusUrl"])
    assert least <= int(status.headers["Retry-After"]) <= most
    await ended(mercato, pos, now)
    assert "Retry-After" not in (await pos.get(now.json()["statusUrl"])).headers


async def test_retry_after_just_before_the_switch_is_as_without_an_instant(
    mercato: Service, pos: Client, store: Any, time: Time
):
    reply = await put(pos, store, renamed("Later"), f"?activateAt={soon(hours=1)}")
    await scheduled(mercato, pos, reply)
    time.ahead = timedelta(hours=1) - timedelta(seconds=1)
    assert (await pos.get(reply.json()["statusUrl"])).headers["Retry-After"] == "2"


async def test_what_has_switched_or_has_no_instant_cannot_be_cancelled(
    mercato: Service, pos: Client, store: Any, time: Time
):
    at = soon(hours=1)
    for query in ("", f"?activateAt={at}"):
        reply = await put(pos, store, renamed(f"Broth{len(query)}"), query)
        if query:
            await scheduled(mercato, pos, reply)
            await arrive(mercato, time, at)
        assert (await ended(mercato, pos, reply))["status"] == "succeeded"
        refused = await pos.call("DELETE", reply.json()["statusUrl"].removesuffix("/status") + "/activation")
        assert (refused.status, refused.json()["errorCode"]) == (409, "CONFLICT")


async def test_scheduled_switches_survive_a_restart_and_go_in_the_order_of_their_instants(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with service(database_url, tmp_path / "data", now=time) as first:
        made, pos = await first.partner()
        store = await first.live(pos, shop.host(CATALOG))
        last = soon(hours=2)
        late = await put(pos, store, renamed("Last"), f"?activateAt={last}")
        early = await put(pos, store, renamed("Early"), f"?activateAt={soon(hours=1)}")
        for reply in (late, early):
            assert (await scheduled(first, pos, reply))["status"] == "processing"
    async with service(database_url, tmp_path / "data", now=time) as second:
        await arrive(second, time, last)
        pos = Client(second.base, made.key, second.session)
        runs = [await ended(second, pos, reply) for reply in (early, late)]
        assert [run["status"] for run in runs] == ["succeeded", "succeeded"]
        now = (await pos.get(f"{STORES}/{store['storeId']}")).json()
        assert now["catalogSetId"] == runs[1]["catalogSetId"]


@on_both
async def test_a_switch_waits_while_the_services_clock_is_before_its_instant(
    mercato: Service, pos: Client, store: Any, time: Time
):
    at = soon(hours=1)
    reply = await put(pos, store, renamed("Later"), f"?activateAt={at}")
    await scheduled(mercato, pos, reply)
    await wake(mercato)
    async with asyncio.timeout(PATIENCE):
        # It is put off for as long as a clock may be trusted.
        while await waiting(mercato, jobs.c.run_at > clock.now() + switches.RECHECK / 10) == 0:
            await asyncio.sleep(0.02)
    assert (await pos.get(reply.json()["statusUrl"])).json()["status"] == "processing"
    await arrive(mercato, time, at)
    done = await ended(mercato, pos, reply)
    assert done["status"] == "succeeded"
    assert done["updatedAt"] >= at


@own()
async def test_retention_keeps_a_set_until_its_instant(mercato: Service, pos: Client, store: Any):
    reply = await put(pos, store, CATALOG, f"?activateAt={soon(days=80)}")
    await scheduled(mercato, pos, reply)
    later = await put(pos, store, renamed("Later"), f"?activateAt={soon(days=80)}")
    await scheduled(mercato, pos, later)
    await ended(mercato, pos, await put(pos, store, renamed("Sooner")))
    async with asyncio.timeout(PATIENCE), mercato.app.db.write() as tx:
        assert await periods.prune_sets(tx, before=clock.now() + timedelta(days=79), limit=100) == 0
        assert await periods.prune_sets(tx, before=clock.now() + timedelta(days=81), limit=100) == 1


async def test_a_store_has_a_bounded_number_of_scheduled_switches(
    mercato: Service, pos: Client, store: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mercato.features.catalogs.ingest.MAX_SCHEDULED", 1)
    await scheduled(mercato, pos, await put(pos, store, renamed("A"), f"?activateAt={soon(days=1)}"))
    reply = await put(pos, store, renamed("B"), f"?activateAt={soon(days=1)}")
    assert (reply.status, reply.json()["errorCode"]) == (409, "CONFLICT")
