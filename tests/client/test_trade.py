"""A merchant and a storefront, each by the client alone, against the whole service."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.documents import CAKE, TEA, cafe
from tests.client.awaited import KINDS, Awaited, opened
from tests.databases import only_sqlite
from tests.service import MerchantServer, Service, merchant, service

from mercato.features.partners.model import PartnerKind
from mercato_client import (
    AsyncClient,
    Client,
    as_cart,
    errors,
    instant,
    to_place,
    types,
    verify_webhook,
)
from mercato_contract import clock

pytestmark = [only_sqlite, pytest.mark.parametrize("kind", KINDS)]

Kind = type[Client | AsyncClient]


@pytest.fixture
async def shop() -> AsyncIterator[MerchantServer]:
    async with merchant() as server:
        yield server


@pytest.fixture
async def mercato(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[Service]:
    assert shop.base
    async with service(database_url, tmp_path / "data") as running:
        yield running


@pytest.fixture
async def pos(mercato: Service, kind: Kind) -> AsyncIterator[Awaited]:
    _, plain = await mercato.partner()
    async with opened(kind, mercato.base, plain.key or "") as client:
        yield client


@pytest.fixture
async def front(mercato: Service, kind: Kind) -> AsyncIterator[Awaited]:
    _, plain = await mercato.partner(PartnerKind.MARKETFRONT)
    async with opened(kind, mercato.base, plain.key or "") as client:
        yield client


def onboarding(url: str, name: str = "1", **more: Any) -> types.OnboardingRequest:
    address = types.AddressRequest(city="Madison", state="WI")
    return types.OnboardingRequest(
        partner_store_id=name, name="Café", address=address, catalog_callback_url=url, **more
    )


async def live(pos: Awaited, url: str, **more: Any) -> types.Store:
    registered = await pos.register_store(onboarding(url, **more))
    store: types.Store = await pos.wait_until_live(registered.onboarding_id, timeout=60)
    return store


def order_of(cart: types.Cart, **more: Any) -> types.OrderCore:
    return types.OrderCore(
        cart=cart,
        client_context=types.ClientContext(ip="203.0.113.7", user_agent="shop/1.0"),
        fulfillment=types.PickupFulfillment(schedule_type=types.ScheduleType.ASAP),
        amounts=types.ValidateAmounts(tip="1.00"),
        **more,
    )


def item(item_id: str) -> types.LineItem:
    line: Any = {"item_id": item_id, "modifier_groups": [], "quantity": 2}
    return types.LineItem(**line)


async def test_a_store_goes_live_changes_and_gets_another_catalog(pos: Awaited, shop: MerchantServer):
    store = await live(pos, shop.host(cafe()))
    assert store.status is types.StoreStatusValue.ONLINE
    onboarding_id = (await pos.list_onboardings()).onboardings[0].onboarding_id
    assert await pos.wait_until_live(onboarding_id) == await pos.get_store(store.store_id) == store
    changed = await pos.update_store(store.store_id, types.StoreUpdate(phone="+1 555 0100"))
    assert changed.phone == "+1 555 0100"
    paused = await pos.set_store_status(
        store.store_id, types.StoreStatusUpdate(status="paused", pause_reason="Busy")
    )
    assert paused == await pos.get_store_status(store.store_id)
    assert [one.store_id for one in await pos.entries("list_stores", status="paused")] == [store.store_id]
    gone = await pos.set_item_availability(
        store.store_id, [types.ItemAvailabilityEntry(item_id=CAKE, available=False)]
    )
    assert [str(one) for one in gone.unavailable_item_ids] == [CAKE]
    menu = cafe()
    menu["items"][TEA]["basePrice"] = "2.75"
    answer = await pos.validate_catalog_set(menu, store_id=store.store_id)
    assert answer.valid
    assert answer.diff.items.repriced.count == 1
    run = await pos.replace_catalog(store.store_id, shop.host(menu, "/new.json"))
    assert run.status.value == "succeeded"
    seen = await pos.wait_until_ingested(store.store_id, run.catalog_ingest_id)
    assert seen == await pos.get_catalog_ingest_status(store.store_id, run.catalog_ingest_id)
    assert [
        one.catalog_ingest_id for one in await pos.entries("list_catalog_ingest_runs", store.store_id)
    ] == [run.catalog_ingest_id]


async def test_a_catalog_is_sent_scheduled_cancelled_and_switched_back(pos: Awaited, shop: MerchantServer):
    store = await live(pos, shop.host(cafe()))
    menu = cafe()
    menu["items"][TEA]["basePrice"] = "2.75"
    run = await pos.publish_catalog(store.store_id, menu)
    assert run.status.value == "succeeded"
    later = clock.now() + timedelta(days=1)
    scheduled = await pos.publish_catalog(store.store_id, cafe(), activate_at=later)
    assert (scheduled.status.value, scheduled.activate_at) == ("processing", instant(later))
    assert await pos.cancel_catalog_activation(store.store_id, scheduled.catalog_ingest_id) is None
    back = await pos.activate_catalog_set(store.store_id, store.catalog_set_id)
    assert (back.catalog_set_id, back.rolled_back_from) == (store.catalog_set_id, run.catalog_set_id)
    sets = await pos.entries("list_catalog_sets", store.store_id)
    assert [one.catalog_set_id for one in sets] == [
        store.catalog_set_id,
        run.catalog_set_id,
        store.catalog_set_id,
    ]
    assert sets[0].ends_at is None


async def test_a_catalog_that_fails_is_reported_with_every_pointer_and_can_be_fixed(
    pos: Awaited, shop: MerchantServer
):
    menu = cafe()
    menu["items"].pop(CAKE)
    registered = await pos.register_store(onboarding(shop.host(menu)))
    with pytest.raises(errors.CatalogFailedError) as failed:
        await pos.wait_until_live(registered.onboarding_id, timeout=60)
    assert isinstance(failed.value.status, types.OnboardingStatus)
    assert [one.path for one in failed.value.status.errors] == [
        "/sections/33333333-3333-5333-8333-333333333333/itemIds/1"
    ]
    assert failed.value.status.errors[0].path in str(failed.value)
    with pytest.raises(errors.ConflictError) as twice:
        await pos.activate_store(registered.onboarding_id)
    assert twice.value.code == "ONBOARDING_NOT_READY"
    await pos.retry_onboarding(registered.onboarding_id, catalog_callback_url=shop.host(cafe(), "/good.json"))
    store = await pos.wait_until_live(registered.onboarding_id, timeout=60)
    with pytest.raises(errors.CatalogFailedError):
        await pos.replace_catalog(store.store_id, shop.host(menu, "/bad.json"), timeout=60)
    assert len(await pos.entries("list_onboardings")) == 1


async def test_a_storefront_finds_prices_validates_places_and_follows(
    pos: Awaited, front: Awaited, shop: MerchantServer
):
    store = await live(pos, shop.host(cafe()))
    found = (await front.discover_stores(types.DiscoverRequest(query="tea"))).stores[0]
    assert found.store_id == store.store_id
    assert (await front.get_marketfront_store(store.store_id)).is_open
    assert (await front.get_store_availability(store.store_id)).reason == "OPEN"
    menu = await front.get_catalog_set(found.catalog_set_id)
    assert menu.items[TEA].base_price == "2.50"
    cart = await front.add_cart_item(
        types.AddCartItemRequest(item=item(TEA), store_id=found.store_id, catalog_set_id=found.catalog_set_id)
    )
    cart = await front.add_cart_item(types.AddCartItemRequest(item=item(CAKE), cart=as_cart(cart)))
    line = cart.line_items[1].line_item_id
    cart = await front.update_cart_item(
        types.UpdateCartItemRequest(cart=as_cart(cart), line_item_id=line, quantity=1)
    )
    assert cart.amounts.total == "9.00"
    cart = await front.remove_cart_item(types.RemoveCartItemRequest(cart=as_cart(cart), line_item_id=line))
    core = order_of(as_cart(cart))
    validated = await front.validate_order(core)
    assert validated.order.amounts.total == "6.00"
    request = to_place(core, validated, payment={"type": "external"})
    placed = await front.place_order(request, idempotency_key="one")
    assert await front.place_order(request, idempotency_key="one") == placed
    with pytest.raises(errors.ConflictError) as used:
        await front.place_order(request)
    assert (used.value.code, used.value.members["orderId"]) == ("ORDER_ALREADY_PLACED", str(placed.order_id))
    assert used.value.idempotency_key not in {None, "one"}
    assert (await front.get_marketfront_order(placed.order_id)).state == "open"
    with pytest.raises(errors.DeadlineError) as late:
        await front.wait_until_closed(placed.order_id, timeout=3.0)
    assert isinstance(late.value.last, types.Order)
    assert [one.order_id for one in await pos.entries("list_orders", state="open")] == [placed.order_id]
    await pos.update_order_status(placed.order_id, types.OrderStatusUpdate(status="ready"))
    await pos.update_order_status(placed.order_id, types.OrderStatusUpdate(state="completed"))
    closed = await front.wait_until_closed(placed.order_id, timeout=60)
    assert (closed.state, closed.status) == ("completed", "ready")
    theirs = await pos.get_order(placed.order_id)
    names = [name for name in types.Order.__struct_fields__ if name != "cart"]
    assert [getattr(theirs, name) for name in names] == [getattr(closed, name) for name in names]
    assert [line.line_item_id for line in theirs.cart.line_items] == [
        line.line_item_id for line in closed.cart.line_items
    ]
    # The merchant also reads the ids of its own document.
    assert all(line.partner_item_id for line in theirs.cart.line_items)
    entries = (await front.get_marketfront_order_timeline(placed.order_id)).entries
    assert len(entries) == len((await pos.get_order_timeline(placed.order_id)).entries) > 2


async def test_every_page_of_a_list_is_read(pos: Awaited, front: Awaited, shop: MerchantServer):
    names = [str(number) for number in range(3)]
    url = shop.host(cafe())
    ids = [(await pos.register_store(onboarding(url, name))).onboarding_id for name in names]
    stores = await asyncio.gather(*(pos.wait_until_live(one, timeout=60) for one in ids))
    expected = {store.store_id for store in stores}
    page = await pos.list_stores(limit=2)
    assert (len(page.stores), page.next_cursor is None) == (2, False)
    assert {one.store_id for one in await pos.entries("list_stores", limit=1)} == expected
    requested = types.DiscoverRequest(limit=1)
    assert {one.store_id for one in await front.entries("discover_stores", requested)} == expected


async def test_webhooks_are_verified_listed_and_redelivered(
    mercato: Service, shop: MerchantServer, kind: Kind
):
    made, plain = await mercato.partner()
    async with opened(kind, mercato.base, plain.key or "") as pos:
        store = await live(pos, shop.host(cafe()), webhook_url=shop.base + "/hooks")
        run = await pos.replace_catalog(store.store_id, shop.host(cafe(), "/again.json"))
        path, headers, body = await shop.webhook()
        event = verify_webhook(headers, body, made.signing_secret)
        assert path == "/hooks/catalog-sync"
        assert isinstance(event.data, types.CatalogSyncWebhookData)
        assert event.data.catalog_ingest_id == run.catalog_ingest_id
        delivery = (await pos.entries("list_commerce_webhook_deliveries", type=event.type))[0]
        assert (await pos.redeliver_commerce_webhook(delivery.id)).webhook_id == delivery.webhook_id
        assert (await shop.webhook())[2] == body
        assert bytes((await pos.get_commerce_webhook_delivery(delivery.id)).body) == body
        explained = await pos.explain_webhook_signature(
            types.ExplainSignatureRequest(headers=headers, body=body.decode() + " ")
        )
        assert (explained.valid, explained.code) == (False, "BODY_RESERIALISED")


async def test_a_wrong_key_another_surface_and_a_missing_resource_are_different_errors(
    pos: Awaited, front: Awaited, mercato: Service, kind: Kind
):
    async with opened(kind, mercato.base, "mk_commerce_wrong") as stranger:
        with pytest.raises(errors.AuthenticationError) as wrong:
            await stranger.list_stores()
    assert (wrong.value.status, wrong.value.code) == (401, "UNAUTHENTICATED")
    assert wrong.value.request_id
    assert wrong.value.request_id in str(wrong.value)
    with pytest.raises(errors.AuthorizationError):
        await front.list_stores()
    with pytest.raises(errors.NotFoundError) as missing:
        await pos.get_store("a/../b?c")
    assert missing.value.code == "STORE_NOT_FOUND"


async def test_a_refused_request_names_every_fault_by_its_pointer(pos: Awaited):
    with pytest.raises(errors.ValidationError) as refused:
        await pos.register_store(onboarding("nowhere", webhook_url="neither"))
    assert {error.pointer for error in refused.value.errors} == {"/catalogCallbackUrl", "/webhookUrl"}
    assert "/webhookUrl" in str(refused.value)
    assert (refused.value.status, refused.value.category) == (422, "validation")


async def test_an_onboarding_can_be_cancelled(pos: Awaited, shop: MerchantServer):
    registered = await pos.register_store(onboarding(shop.host(cafe())))
    await pos.cancel_onboarding(registered.onboarding_id)
    with pytest.raises(errors.NotFoundError):
        await pos.wait_until_live(registered.onboarding_id)
