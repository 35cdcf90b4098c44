"""Events and changes of stores, read from a cursor at the reader's own pace."""

import asyncio
import json
from base64 import urlsafe_b64decode
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, select, update
from tests.api.examples import in_turn
from tests.api.trade import CUSTOMER, Time, Trade, trade
from tests.catalog.documents import cafe
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service, service
from tests.sharing import own, shared

from mercato.features import offboarding
from mercato.features.events import tables
from mercato.features.events.feed import PER_PARTNER
from mercato.features.events.sequencer import number
from mercato.features.orders.privacy import erase_all
from mercato.features.partners.model import PartnerKind
from mercato.features.stores.tables import stores
from mercato.features.upkeep import Upkeep
from mercato.features.webhooks.model import OPERATOR_TYPES
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

COMMERCE = "/v1/commerce/events"
MARKETFRONT = "/v1/marketfront/events"
CHANGES = "/v1/marketfront/stores/changes"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def page(client: Client, path: str, after: str | None = None, **query: Any) -> Any:
    query |= {} if after is None else {"after": after}
    reply = await client.get(path, params={name: str(value) for name, value in query.items()})
    assert reply.status == 200, reply.body
    return reply.json()


def position_of(cursor: str) -> int:
    return int.from_bytes(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[:8])


async def follow(client: Client, path: str, *, count: int, after: str | None = None) -> Any:
    """Read until there are so many entries; return them and the cursor."""
    found: list[Any] = []
    while len(found) < count:
        read = await page(client, path, after, wait=25)
        found += read.get("events", read.get("changes"))
        after = read["nextCursor"]
    return found, after


async def test_every_event_of_a_partner_is_in_its_feed_whether_pushed_or_not(here: Trade):
    order = await here.placed()
    await here.update(order, status="confirmed")
    events, _ = await follow(here.front, MARKETFRONT, count=2)
    assert [event["type"] for event in events] == ["order.created", "order.updated"]
    assert [event["storeSequence"] for event in events] == [1, 2]
    assert {event["storeId"] for event in events} == {here.store["storeId"]}
    assert [event["data"]["sequence"] for event in events] == [1, 2]
    assert events[1]["data"]["order"]["status"] == "confirmed"
    assert (await page(here.pos, COMMERCE))["events"] == []


async def test_an_event_has_the_id_of_its_webhook_and_its_data(mercato: Service, shop: MerchantServer):
    pos = (await mercato.partner())[1]
    store = await mercato.live(pos, url := shop.host(cafe()), webhook=shop.base + "/hooks")
    accepted = await pos.post(
        f"/v1/commerce/catalogset-notification?storeId={store['storeId']}", {"callbackUrl": url}
    )
    assert accepted.status == 202, accepted.body
    [event], _ = await follow(pos, COMMERCE, count=1)
    _, headers, body = await shop.webhook()
    told = json.loads(body)
    assert event["eventId"] == headers["webhook-id"]
    assert {name: event[name] for name in ("type", "timestamp", "data")} == told


async def test_next_cursor_is_always_given_and_leads_on(here: Trade):
    first = await page(here.front, MARKETFRONT)
    assert first == {"events": [], "nextCursor": first["nextCursor"], "hasMore": False}
    for _ in range(3):
        await here.placed()
    found, after = await follow(here.front, MARKETFRONT, count=3, after=first["nextCursor"])
    assert (await page(here.front, MARKETFRONT, after))["events"] == []
    read = await page(here.front, MARKETFRONT, first["nextCursor"], limit=2)
    assert (read["events"], read["hasMore"]) == (found[:2], True)
    rest = await page(here.front, MARKETFRONT, read["nextCursor"], limit=2)
    assert (rest["events"], rest["hasMore"]) == (found[2:], False)


@on_both
async def test_filters_choose_types_and_stores(here: Trade):
    order = await here.placed()
    await here.update(order, status="confirmed")
    await follow(here.front, MARKETFRONT, count=2)
    for query, types in [
        ({"types": "order.updated"}, ["order.updated"]),
        ({"types": "order.updated, order.created"}, ["order.created", "order.updated"]),
        ({"types": "order.cancelled"}, []),
        ({"storeId": here.store["storeId"]}, ["order.created", "order.updated"]),
        ({"storeId": str(clock.new_id())}, []),
    ]:
        read = await page(here.front, MARKETFRONT, **query)
        assert [event["type"] for event in read["events"]] == types, query
        assert (await page(here.front, MARKETFRONT, read["nextCursor"]))["events"] == [], query


@only_sqlite
@in_turn(
    ("query", "status", "code"),
    [
        ({"types": "order.place"}, 422, "VALIDATION_FAILED"),
        ({"types": ""}, 422, "VALIDATION_FAILED"),
        ({"limit": "501"}, 422, "VALIDATION_FAILED"),
        ({"limit": "0"}, 422, "VALIDATION_FAILED"),
        ({"wait": "26"}, 422, "VALIDATION_FAILED"),
        ({"after": ""}, 400, "INVALID_CURSOR"),
        ({"after": "x"}, 400, "INVALID_CURSOR"),
        ({"after": "A" * 24}, 400, "INVALID_CURSOR"),
        ({"after": "A" * 129}, 422, "VALIDATION_FAILED"),
        ({"storeId": "x"}, 422, "VALIDATION_FAILED"),
    ],
)
async def test_what_a_feed_cant_be_asked_is_refused(here: Trade, query: Any, status: int, code: str):
    reply = await here.front.get(MARKETFRONT, params=query)
    assert (reply.status, reply.json()["errorCode"]) == (status, code), reply.body


async def test_a_cursor_of_another_partner_surface_or_list_is_refused(here: Trade, mercato: Service):
    other = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    own = (await page(here.front, MARKETFRONT))["nextCursor"]
    changed = ("B" if own[0] != "B" else "C") + own[1:]
    for client, path, cursor in [
        (other, MARKETFRONT, own),
        (here.pos, COMMERCE, own),
        (here.front, CHANGES, own),
        (here.front, MARKETFRONT, changed),
        (here.front, MARKETFRONT, (await page(here.front, CHANGES))["nextCursor"]),
    ]:
        reply = await client.get(path, params={"after": cursor})
        assert (reply.status, reply.json()["errorCode"]) == (400, "INVALID_CURSOR"), reply.body
    assert (await here.front.get(MARKETFRONT, params={"after": own})).status == 200


@own()
async def test_a_waiting_reader_is_answered_by_the_event(here: Trade):
    before = await page(here.front, MARKETFRONT)
    waiting = asyncio.create_task(page(here.front, MARKETFRONT, before["nextCursor"], wait=25))
    while not here.mercato.app.feeds.waiters.count:
        await asyncio.sleep(0)
    order = await here.placed()
    answer = await waiting
    assert [event["data"]["orderId"] for event in answer["events"]] == [order["orderId"]]
    assert not here.mercato.app.feeds.waiters.count


async def test_a_waiting_reader_gets_an_empty_page_in_the_end(here: Trade):
    read = await page(here.front, MARKETFRONT, wait=1)
    assert (read["events"], read["hasMore"]) == ([], False)


@own()
@on_both
async def test_more_than_sixteen_readers_of_a_partner_are_answered_at_once(here: Trade, mercato: Service):
    other = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    waiters = mercato.app.feeds.waiters
    waiting = [asyncio.create_task(page(here.front, MARKETFRONT, wait=25)) for _ in range(PER_PARTNER)]
    while waiters.count < PER_PARTNER:
        await asyncio.sleep(0)
    one_more = await page(here.front, MARKETFRONT, wait=25)
    assert one_more["events"] == []
    assert not any(task.done() for task in waiting)
    others = asyncio.create_task(page(other, MARKETFRONT, wait=25))
    while waiters.count < PER_PARTNER + 1:
        await asyncio.sleep(0)
    # What ends the process answers everybody.
    waiters.close()
    for answer in await asyncio.gather(*waiting, others):
        assert answer["events"] == []


async def test_a_cursor_from_before_the_kept_events_has_expired(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    time = Time()
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        here = await trade(mercato, shop)
        start = await page(here.front, MARKETFRONT)
        await here.placed()
        _, end = await follow(here.front, MARKETFRONT, count=1)
        time.ahead = timedelta(days=94)
        await upkeep(mercato, time).once()
        reply = await here.front.get(MARKETFRONT, params={"after": start["nextCursor"]})
        assert (reply.status, reply.json()["errorCode"]) == (410, "CURSOR_EXPIRED")
        assert (await page(here.front, MARKETFRONT, end))["events"] == []
        again = await page(here.front, MARKETFRONT)
        assert again["events"] == []
        assert position_of(again["nextCursor"]) == position_of(end)


@own()
async def test_no_event_is_skipped_for_a_reader_of_a_database_that_was_set_back(
    here: Trade, mercato: Service
):
    """A restored backup gives the numbers since it was made once more, to other events."""
    # The store itself has its number, which a moment ago nothing had.
    _, stores_before = await follow(here.front, CHANGES, count=1)
    start = await page(here.front, MARKETFRONT)
    async with mercato.app.db.read() as tx:
        last = await tx.scalar(select(tables.sequencer.c.last))
    await here.placed()
    _, end = await follow(here.front, MARKETFRONT, count=1, after=start["nextCursor"])
    await here.pos.post(f"/v1/commerce/stores/{here.store['storeId']}/status", {"status": "paused"})
    _, stores_end = await follow(here.front, CHANGES, count=1, after=stores_before)
    async with mercato.app.db.write() as tx:
        for table in (tables.event_positions, tables.store_changes):
            await tx.execute(delete(table).where(table.c.position > last))
        await tx.execute(update(tables.sequencer).values(last=last))
    for path, cursor in ((MARKETFRONT, end), (CHANGES, stores_end)):
        reply = await here.front.get(path, params={"after": cursor, "wait": "25"})
        assert (reply.status, reply.json()["errorCode"]) == (410, "CURSOR_EXPIRED")
        assert "earlier state" in reply.json()["detail"]
    assert (await page(here.front, MARKETFRONT, start["nextCursor"]))["events"] == []
    await here.pos.post(f"/v1/commerce/stores/{here.store['storeId']}/status", {"status": "online"})
    await here.placed()
    assert (await follow(here.front, MARKETFRONT, count=1, after=start["nextCursor"]))[0]


async def test_a_reader_who_comes_back_after_as_much_has_happened_again_is_told_too(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    """Its position has an event, but another one than it has passed."""
    time = Time()
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        here = await trade(mercato, shop)
        stores, status = here.store["storeId"], f"/v1/commerce/stores/{here.store['storeId']}/status"
        start = await page(here.front, MARKETFRONT)
        _, stores_before = await read_all(here.front, CHANGES)
        async with mercato.app.db.read() as tx:
            last = await tx.scalar(select(tables.sequencer.c.last))
        await here.placed()
        await here.pos.post(status, {"status": "paused"})
        _, end = await follow(here.front, MARKETFRONT, count=1, after=start["nextCursor"])
        _, stores_end = await follow(here.front, CHANGES, count=1, after=stores_before)
        assert (await page(here.front, MARKETFRONT, end))["events"] == []
        async with mercato.app.db.write() as tx:
            for table in (tables.event_positions, tables.store_changes):
                await tx.execute(delete(table).where(table.c.position > last))
            await tx.execute(update(tables.sequencer).values(last=last))
        time.ahead = timedelta(minutes=30)
        await here.pos.post(status, {"status": "online"})
        for _ in range(4):
            await here.placed()
        found, after = await follow(here.front, MARKETFRONT, count=4, after=start["nextCursor"])
        assert position_of(after) > position_of(end)
        for path, cursor in ((MARKETFRONT, end), (CHANGES, stores_end)):
            reply = await here.front.get(path, params={"after": cursor})
            assert (reply.status, reply.json()["errorCode"]) == (410, "CURSOR_EXPIRED"), path
            assert "earlier state" in reply.json()["detail"]
        # Who has seen nothing of what is gone reads on.
        assert (await page(here.front, MARKETFRONT, after))["events"] == []
        assert len((await page(here.front, MARKETFRONT, start["nextCursor"]))["events"]) == len(found)
        kept, _ = await read_all(here.front, CHANGES, stores_before)
        assert [change["storeId"] for change in kept] == [stores]


async def test_a_feed_is_read_on_after_a_clock_was_ahead(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    time = Time()
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        here = await trade(mercato, shop)
        other = await mercato.live(here.pos, shop.host(cafe(), "/b.json"), name="Other")
        events = (await page(here.front, MARKETFRONT))["nextCursor"]
        _, changes = await read_all(here.front, CHANGES)
        ends = {MARKETFRONT: events, CHANGES: changes}
        for store, ahead in ((here.store, timedelta(minutes=30)), (other, timedelta())):
            time.ahead = ahead
            await here.placed()
            await here.pos.post(f"/v1/commerce/stores/{store['storeId']}/status", {"status": "paused"})
            await here.pos.post(f"/v1/commerce/stores/{store['storeId']}/status", {"status": "online"})
            for path, end in ends.items():
                _, ends[path] = await follow(here.front, path, count=1, after=end)
        for path, begin in ((MARKETFRONT, events), (CHANGES, changes)):
            first = await page(here.front, path, begin, limit=1)
            assert first["hasMore"], path
            assert not (await page(here.front, path, first["nextCursor"], limit=1))["hasMore"], path


async def test_a_page_of_large_orders_ends_early_and_leads_on(here: Trade, mercato: Service):
    names = {clock.new_id().hex: str(place) * 80 for place in range(100, 300)}
    items = {
        str(UUID(item)): {"itemId": str(UUID(item)), "name": name, "basePrice": "1.00"}
        for item, name in names.items()
    }
    sections = {"all": {"sectionId": "all", "itemIds": [*items]}}
    menu = {"currency": "USD", "items": items, "sections": sections}
    store = await mercato.live(here.pos, here.shop.host(menu, "/large.json"), name="large")
    shown = (await here.front.get(f"/v1/marketfront/stores/{store['storeId']}")).json()
    lines = [{"itemId": item, "quantity": 1, "modifierGroups": []} for item in items]
    cart = {"storeId": store["storeId"], "catalogSetId": shown["catalogSetId"], "lineItems": lines}
    orders = [(await here.place(here.order(cart=cart))).json()["orderId"] for _ in range(60)]
    async with mercato.app.db.write() as tx:
        await number(tx, now=clock.now())
    for client, path, after, name in (
        (here.front, MARKETFRONT, "after", "events"),
        (here.front, "/v1/marketfront/orders", "cursor", "orders"),
        (here.pos, "/v1/commerce/orders", "cursor", "orders"),
    ):
        query: dict[str, str] = {"limit": "100"}
        found: list[str] = []
        pages = 0
        while pages == 0 or query[after] is not None:
            reply = await client.get(path, params=query)
            assert len(reply.body) < 6_000_000, path
            read, pages = reply.json(), pages + 1
            found += [one.get("orderId") or one["data"]["orderId"] for one in read[name]]
            query[after] = read["nextCursor"]
            if read.get("hasMore") is False:
                break
        assert pages > 1, path
        assert sorted(found) == sorted(orders), path


def upkeep(mercato: Service, time: Time) -> Upkeep:
    return Upkeep(mercato.app.db, time, catalog_days=90, delivery_days=90)


@own()
@on_both
async def test_an_erased_customers_events_stay_without_the_customer(here: Trade):
    delivery = {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "instructions": "Ring twice",
        "deliveryType": "LEAVE_AT_DOOR",
        "address": {"address1": "1 Main St", "city": "Springfield", "postalCode": "62701"},
    }
    order = await here.placed(here.order(fulfillment=delivery))
    await here.mercato.app.orders.cancel(UUID(order["orderId"]), reason="CANCELLED_BY_OPERATOR")
    before, _ = await follow(here.front, MARKETFRONT, count=2)
    [cancelled], _ = await follow(here.pos, COMMERCE, count=1)
    assert "Lovelace" in json.dumps(before)
    assert "Main St" in json.dumps(cancelled)
    await erase_all(here.mercato.app.db, CUSTOMER["email"])
    after, _ = await follow(here.front, MARKETFRONT, count=2)
    [erased], _ = await follow(here.pos, COMMERCE, count=1)
    for text in ("Lovelace", "Main St", "Ring twice", "203.0.113.7", CUSTOMER["phone"], CUSTOMER["email"]):
        assert text not in json.dumps([after, erased])
    for one, other in zip([*before, cancelled], [*after, erased], strict=True):
        assert (one["eventId"], one["storeSequence"]) == (other["eventId"], other["storeSequence"])
        assert one["data"]["order"]["amounts"] == other["data"]["order"]["amounts"]


@own()
@on_both
async def test_a_deleted_partners_events_are_deleted(here: Trade, mercato: Service):
    made, other = await mercato.partner(PartnerKind.MARKETFRONT)
    order = (await here.place(here.order(), front=other)).json()
    await follow(other, MARKETFRONT, count=1)
    await here.update(order, state="cancelled", cancelReason="OTHER")
    await offboarding.delete(mercato.app.db, made.id, now=clock.now)
    async with mercato.app.db.write() as tx:
        await number(tx, now=clock.now())
    for table in ("events", "event_positions", "new_events", "store_sequences"):
        assert await rows(mercato, table, made.id) == [], table


async def rows(mercato: Service, table: str, partner_id: Any) -> Any:
    columns = getattr(tables, table)
    async with mercato.app.db.read() as tx:
        if table == "events":
            return await tx.all(select(columns))
        return await tx.all(select(columns).where(columns.c.partner_id == partner_id))


# --- changes of stores ----------------------------------------------------------------------------


@own()
async def test_a_reader_that_starts_at_nothing_sees_every_live_store_once(here: Trade, mercato: Service):
    other = await mercato.live(here.pos, here.shop.host(cafe()), name="store-2")
    await here.pos.post(f"/v1/commerce/stores/{other['storeId']}/status", {"status": "paused"})
    async with mercato.app.db.write() as tx:
        await number(tx, now=clock.now())
    read = await page(here.front, CHANGES)
    assert [change["storeId"] for change in read["changes"]] == [here.store["storeId"], other["storeId"]]
    assert {tuple(change["kinds"]) for change in read["changes"]} == {
        ("profile", "status", "catalog", "items")
    }
    assert (await page(here.front, CHANGES, read["nextCursor"]))["changes"] == []


@pytest.mark.parametrize(
    ("path", "method", "body", "kinds"),
    [
        ("", "PUT", {"name": "Renamed"}, ["profile"]),
        ("/status", "POST", {"status": "paused"}, ["status"]),
        ("/item-availability", "POST", None, ["items"]),
        ("?catalog", "POST", None, ["catalog"]),
    ],
)
@own()
async def test_a_change_names_its_kind(here: Trade, path: str, method: str, body: Any, kinds: list[str]):
    _, after = await follow(here.front, CHANGES, count=1)
    url = f"/v1/commerce/stores/{here.store['storeId']}{path}"
    if path.startswith("/item"):
        body = {"items": [{"itemId": here.order()["cart"]["lineItems"][0]["itemId"], "available": False}]}
    elif path == "?catalog":
        changed = cafe()
        changed["sections"][next(iter(changed["sections"]))]["name"] = "Renamed"
        url = f"/v1/commerce/catalogset-notification?storeId={here.store['storeId']}"
        body = {"callbackUrl": here.shop.host(changed, "/changed.json")}
    reply = await here.pos.call(method, url, body)
    assert reply.status < 300, reply.body
    [change], _ = await follow(here.front, CHANGES, count=1, after=after)
    assert (change["storeId"], change["kinds"]) == (here.store["storeId"], kinds)


@own()
async def test_changes_of_one_store_are_one_entry_with_all_kinds_since_the_cursor(here: Trade):
    _, after = await follow(here.front, CHANGES, count=1)
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    await here.pos.post(path + "/status", {"status": "paused"})
    _, between = await follow(here.front, CHANGES, count=1, after=after)
    await here.pos.call("PUT", path, {"name": "Renamed"})
    await follow(here.front, CHANGES, count=1, after=between)
    assert [change["kinds"] for change in (await page(here.front, CHANGES, after))["changes"]] == [
        ["profile", "status"]
    ]
    assert [change["kinds"] for change in (await page(here.front, CHANGES, between))["changes"]] == [
        ["profile"]
    ]


@own()
async def test_a_change_that_storefronts_dont_see_is_none(here: Trade):
    _, after = await follow(here.front, CHANGES, count=1)
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    await here.pos.call("PUT", path, {"webhookUrl": here.shop.base + "/elsewhere"})
    await here.pos.post(path + "/status", {"status": "paused"})
    changes, _ = await follow(here.front, CHANGES, count=1, after=after)
    assert [change["kinds"] for change in changes] == [["status"]]


@on_both
async def test_what_is_sent_again_is_no_change_of_a_store(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    time = Time()
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        here = await trade(mercato, shop)
        path = f"/v1/commerce/stores/{here.store['storeId']}"
        item = here.order()["cart"]["lineItems"][0]["itemId"]
        later, paused = "2099-01-01T00:00:00Z", {"status": "paused"}
        soon = (time() + timedelta(hours=1)).isoformat()
        steps: list[tuple[str, Any, bool]] = [
            ("", {"name": "Renamed", "categories": ["Soup"], "address": {"city": "Madison"}}, True),
            ("/status", paused, True),
            ("/status", paused | {"pauseReason": "Nobody is here"}, False),
            ("/status", paused | {"resumeAt": later}, True),
            ("/status", paused | {"resumeAt": soon}, True),
            # By then it has ended by itself.
            ("/status", {"status": "online"}, False),
            ("/item-availability", {"items": [{"itemId": item, "available": False}]}, True),
            ("/item-availability", {"items": [{"itemId": item, "available": False, "until": later}]}, False),
            ("/item-availability", {"items": [{"itemId": item, "available": True}]}, True),
        ]
        kinds = {"": "profile", "/status": "status", "/item-availability": "items"}
        _, after = await follow(here.front, CHANGES, count=1)
        for place, (below, body, is_change) in enumerate(steps):
            if body == {"status": "online"}:
                time.ahead = timedelta(hours=2)
            for is_seen in (is_change, False):
                reply = await here.pos.call("POST" if below else "PUT", path + below, body)
                assert reply.status == 200, reply.body
                async with mercato.app.db.write() as tx:
                    await number(tx, now=time())
                read = await page(here.front, CHANGES, after)
                after = read["nextCursor"]
                assert [one["kinds"] for one in read["changes"]] == [[kinds[below]]] * is_seen, place


@own()
async def test_the_stores_of_a_suspended_merchant_are_gone_until_it_is_resumed(here: Trade, mercato: Service):
    _, after = await follow(here.front, CHANGES, count=1)
    async with mercato.app.db.read() as tx:
        owner = await tx.scalar(select(stores.c.partner_id))
    await offboarding.suspend(mercato.app.db, owner, now=clock.now)
    [gone], after = await follow(here.front, CHANGES, count=1, after=after)
    assert (gone["storeId"], gone["kinds"]) == (here.store["storeId"], ["gone"])
    assert (await page(here.front, CHANGES))["changes"] == []
    await offboarding.resume(mercato.app.db, owner, now=clock.now)
    [back], _ = await follow(here.front, CHANGES, count=1, after=after)
    assert back["kinds"] == ["profile", "status", "catalog", "items"]
    assert len((await page(here.front, CHANGES))["changes"]) == 1


async def read_all(client: Client, path: str, after: str | None = None) -> tuple[list[Any], str]:
    """Read pages of one change until there are no more; return all changes and the cursor."""
    found: list[Any] = []
    while True:
        read = await page(client, path, after, limit=1)
        found += read["changes"]
        after = read["nextCursor"]
        if not read["hasMore"]:
            return found, read["nextCursor"]


@own()
async def test_a_change_isnt_lost_when_its_store_moves_past_a_page(here: Trade, mercato: Service):
    other = await mercato.live(here.pos, here.shop.host(cafe()), name="store-2")
    _, after = await follow(here.front, CHANGES, count=2)
    mine, others = (f"/v1/commerce/stores/{store['storeId']}" for store in (here.store, other))
    await here.pos.call("PUT", mine, {"name": "Renamed"})
    await here.pos.call("PUT", others, {"name": "Renamed, too"})
    await here.pos.post(mine + "/status", {"status": "paused"})
    async with mercato.app.db.write() as tx:
        await number(tx, now=clock.now())
    changes, end = await read_all(here.front, CHANGES, after)
    assert [(one["storeId"], one["kinds"]) for one in changes] == [
        (other["storeId"], ["profile"]),
        (here.store["storeId"], ["profile", "status"]),
    ]
    middle = (await page(here.front, CHANGES, after, limit=1))["nextCursor"]
    assert "=" not in middle
    for changed in (middle[:-1], middle + "A", middle[:-1] + "_", "B" + middle[1:]):
        reply = await here.front.get(CHANGES, params={"after": changed})
        assert (reply.status, reply.json()["errorCode"]) == (400, "INVALID_CURSOR"), changed
    await here.pos.post(mine + "/status", {"status": "online"})
    [change], _ = await follow(here.front, CHANGES, count=1, after=end)
    assert change["kinds"] == ["status"]


async def test_a_cursor_to_which_a_later_version_has_added_positions_is_read(here: Trade, mercato: Service):
    """While versions run side by side, a reader comes to either. It was a 500."""
    for number_ in range(3):
        await mercato.live(here.pos, here.shop.host(cafe()), name=f"store-{number_ + 2}")
    async with mercato.app.db.write() as tx:
        await number(tx, now=clock.now())
    made, client = await mercato.partner()
    feed = f"{made.id}.commerce"
    for path, reader, name in ((CHANGES, here.front, "stores"), (COMMERCE, client, feed)):
        after = (await page(reader, path, limit=1))["nextCursor"]
        cursors = mercato.app.feeds.cursors
        later = cursors.write(*cursors.read(after, feed=name), 7, feed=name)
        assert await page(reader, path, later) == await page(reader, path, after)


@own()
async def test_a_reader_that_starts_at_nothing_gets_all_kinds_on_every_page(here: Trade, mercato: Service):
    other = await mercato.live(here.pos, here.shop.host(cafe()), name="store-2")
    for store in (here.store, other):
        await here.pos.post(f"/v1/commerce/stores/{store['storeId']}/status", {"status": "paused"})
    async with mercato.app.db.write() as tx:
        await number(tx, now=clock.now())
    changes, _ = await read_all(here.front, CHANGES)
    assert [one["kinds"] for one in changes] == [["profile", "status", "catalog", "items"]] * 2


@on_both
async def test_a_reader_that_starts_at_nothing_reads_past_stores_that_are_long_gone(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    time = Time()
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        here = await trade(mercato, shop)
        await mercato.live(here.pos, shop.host(cafe()), name="store-2")
        made, pos = await mercato.partner()
        await mercato.live(pos, shop.host(cafe()), name="store-3")
        kept = (await follow(here.front, CHANGES, count=3))[1]
        first = await page(here.front, CHANGES, limit=1)
        await offboarding.suspend(mercato.app.db, made.id, now=time)
        [gone], _ = await follow(here.front, CHANGES, count=1, after=kept)
        assert gone["kinds"] == ["gone"]
        assert len((await read_all(here.front, CHANGES))[0]) == 2
        time.ahead = timedelta(days=94)
        await upkeep(mercato, time).once()
        assert len((await read_all(here.front, CHANGES))[0]) == 2
        for old in (kept, first["nextCursor"]):
            # Of these readers, one has seen the store, and the other may have.
            reply = await here.front.get(CHANGES, params={"after": old})
            assert (reply.status, reply.json()["errorCode"]) == (410, "CURSOR_EXPIRED")


@pytest.mark.parametrize("type_", sorted(OPERATOR_TYPES))
async def test_events_of_operators_are_no_types_of_a_partners_feed(here: Trade, type_: str):
    for client, path in ((here.pos, COMMERCE), (here.front, MARKETFRONT)):
        refused = await client.get(path, params={"types": type_})
        assert (refused.status, refused.json()["errorCode"]) == (422, "VALIDATION_FAILED")
        assert not any(
            other in refused.json()["detail"].partition("The feed has")[2] for other in OPERATOR_TYPES
        )
