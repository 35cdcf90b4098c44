"""A partner lists, reads and redelivers its deliveries; old ones are deleted."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, update
from tests.databases import mostly_sqlite, on_both
from tests.servers import receiving, reply
from tests.webhooks.harness import TOKEN, Harness, job_of

from mercato.features.partners.model import Surface
from mercato.features.webhooks import attempts, deliveries, queries
from mercato.features.webhooks.model import CallResult, DeliveryNotFound
from mercato.features.webhooks.queries import delete_of_orders, prune_deliveries
from mercato.features.webhooks.tables import deliveries as delivery_rows
from mercato.features.webhooks.tables import delivery_attempts
from mercato.platform.db.tables import jobs
from mercato_contract.clock import new_id
from mercato_contract.refusals import ValidationFailed
from mercato_contract.webhooks import DeliveryStatus, WebhookDeliveryPage, WebhookDeliveryQuery
from mercato_contract.wire import as_json

pytestmark = mostly_sqlite

NOWHERE = "http://127.0.0.1:9/hooks"


async def page(harness: Harness, surface: Surface = Surface.COMMERCE, **options: Any) -> WebhookDeliveryPage:
    async with harness.db.read() as tx:
        return await deliveries.list_deliveries(tx, harness.caller(surface), WebhookDeliveryQuery(**options))


def ids(shown: WebhookDeliveryPage) -> list[UUID]:
    return [delivery.id for delivery in shown.deliveries]


# --- redelivery -------------------------------------------------------------------------------------------


async def test_a_redelivery_has_the_same_webhook_id_and_body_and_restarts_the_schedule(
    harness: Harness,
) -> None:
    async with receiving(reply(204), reply(500)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
        harness.now += timedelta(hours=1)
        begun = await harness.redeliver(delivery)
        assert (begun.status, begun.attempts) == (DeliveryStatus.PENDING, 1)
        await harness.attempt()
        assert await harness.wait_for_retry() == timedelta(seconds=5)
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert [a.number for a in (await harness.get(delivery)).attempt_log] == [1, 2]


async def test_a_redelivery_does_not_change_a_delivery_in_flight(harness: Harness) -> None:
    async with receiving() as receiver:
        delivery = await harness.push(receiver.url)
        for _ in range(3):
            assert (await harness.redeliver(delivery)).status is DeliveryStatus.PENDING
        assert len(await harness.jobs()) == 1
        await harness.attempt()
    assert len(receiver.requests) == 1


@on_both
async def test_two_concurrent_redeliveries_are_one(harness: Harness) -> None:
    async with receiving() as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
        await asyncio.gather(*(harness.redeliver(delivery) for _ in range(5)))
        assert len(await harness.jobs()) == 1
        await harness.attempt()
    assert len(receiver.requests) == 2


@on_both
async def test_a_redelivery_sends_a_delivery_that_waits_for_a_retry_at_once(harness: Harness) -> None:
    async with receiving(reply(500), reply(204)) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
        await harness.redeliver(delivery)
        await harness.attempt()
        assert (await harness.get(delivery)).status is DeliveryStatus.SUCCEEDED
        # The retry of the first round runs, and finds nothing to do.
        async with harness.db.write() as tx:
            await tx.execute(update(jobs).values(state="ready"))
        await harness.attempt()
    assert len(receiver.requests) == 2
    assert await harness.jobs() == []


# --- lists and details ------------------------------------------------------------------------------------


async def test_another_partners_delivery_is_not_found(harness: Harness) -> None:
    delivery = await harness.push(NOWHERE)
    for caller in (harness.caller(partner_id=new_id()), harness.caller(Surface.MARKETFRONT)):
        async with harness.db.write() as tx:
            with pytest.raises(DeliveryNotFound):
                await deliveries.get_delivery(tx, caller, delivery)
            with pytest.raises(DeliveryNotFound):
                await deliveries.redeliver(tx, caller, delivery, now=harness.now)
            assert ids(await deliveries.list_deliveries(tx, caller, WebhookDeliveryQuery())) == []
    with pytest.raises(DeliveryNotFound):
        await harness.get(new_id())


@on_both
async def test_pages_hold_every_delivery_once_newest_first(harness: Harness) -> None:
    pushed = [await harness.push(NOWHERE) for _ in range(7)]
    found: list[UUID] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        shown = await page(harness, limit=3, cursor=cursor)
        found, cursor, pages = found + ids(shown), shown.next_cursor, pages + 1
        if pages == 1:
            # A delivery that is added between two pages is on neither of the later ones.
            await harness.push(NOWHERE)
    assert found == sorted(pushed, reverse=True)
    assert pages == 3


async def test_an_invalid_cursor_is_422(harness: Harness) -> None:
    with pytest.raises(ValidationFailed):
        await page(harness, cursor="nonsense")


@on_both
async def test_deliveries_can_be_listed_by_status_type_and_store(harness: Harness) -> None:
    store = new_id()
    async with receiving(reply(204), reply(410)) as receiver:
        good = await harness.push(receiver.url, store_id=store)
        await harness.attempt()
        bad = await harness.push(receiver.url, type="catalog.sync.failed")
        await harness.attempt()
    waiting = await harness.push(NOWHERE, store_id=store)
    assert ids(await page(harness, status=DeliveryStatus.SUCCEEDED)) == [good]
    assert ids(await page(harness, status=DeliveryStatus.FAILED)) == [bad]
    assert ids(await page(harness, status=DeliveryStatus.PENDING)) == [waiting]
    assert ids(await page(harness, type="catalog.sync.failed")) == [bad]
    assert ids(await page(harness, store_id=store)) == sorted([good, waiting], reverse=True)
    assert ids(await page(harness, store_id=store, status=DeliveryStatus.FAILED)) == []


@on_both
async def test_a_page_without_matches_looks_at_a_bounded_number_and_names_the_next_page(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_SEARCHED", 2)
    wanted = await harness.push(NOWHERE, type="catalog.sync.failed")
    for _ in range(4):
        await harness.push(NOWHERE)
    first = await page(harness, type="catalog.sync.failed")
    assert (ids(first), first.next_cursor is None) == ([], False)
    second = await page(harness, type="catalog.sync.failed", cursor=first.next_cursor)
    third = await page(harness, type="catalog.sync.failed", cursor=second.next_cursor)
    assert (ids(second), ids(third), third.next_cursor) == ([], [wanted], None)


async def test_the_wire_form_has_every_member_of_the_contract_and_no_secret(harness: Harness) -> None:
    async with receiving(reply(500, b"sorry")) as receiver:
        delivery = await harness.push(receiver.url)
        await harness.attempt()
    raw = as_json(await harness.get(delivery))
    shown = json.loads(raw)
    assert set(shown) == {
        "id",
        "deliveryId",
        "type",
        "webhookId",
        "url",
        "storeId",
        "orderId",
        "status",
        "attempts",
        "nextAttemptAt",
        "error",
        "endpointDisabled",
        "endpointId",
        "createdAt",
        "updatedAt",
        "attemptLog",
        "body",
    }
    assert set(shown["attemptLog"][0]) == {"number", "at", "status", "ms", "error", "reply", "warning"}
    assert shown["attemptLog"][0]["reply"] == "sorry"
    assert shown["body"]["data"] == {"status": "succeeded", "errors": []}
    for hidden in (TOKEN, harness.partner.signing_secret, "Bearer", "v1,"):
        assert hidden.encode() not in raw
    listed = json.loads(as_json(await page(harness)))
    assert set(listed) == {"deliveries", "nextCursor"}
    assert set(listed["deliveries"][0]) == set(shown) - {"attemptLog", "body"}


# --- retention ------------------------------------------------------------------------------------------------


@on_both
async def test_old_deliveries_are_deleted_with_their_attempts_but_never_a_pending_one(
    harness: Harness,
) -> None:
    async with receiving() as receiver:
        done = await harness.push(receiver.url)
        await harness.attempt()
    pending = await harness.push(NOWHERE)
    async with harness.db.write() as tx:
        assert await prune_deliveries(tx, before=harness.now - timedelta(days=30)) == 0
        assert await prune_deliveries(tx, before=harness.now + timedelta(days=30), limit=500) == 1
        assert await tx.scalar(select(func.count()).select_from(delivery_attempts)) == 0
        left = await tx.all(select(delivery_rows.c.id))
    assert [row.id for row in left] == [pending] != [done]


@on_both
async def test_an_attempt_recorded_while_its_orders_deliveries_are_deleted_is_deleted_too(
    harness: Harness,
) -> None:
    order_id = new_id()
    await harness.push(NOWHERE, order_id=order_id)
    job = job_of(await harness.claim())

    async def forget() -> None:
        async with harness.db.write() as tx:
            await delete_of_orders(tx, [order_id])

    async with harness.db.write() as tx:
        [delivery] = await attempts.list_due(tx, job.payload, through=job.run_at, limit=1)
        result = CallResult(at=harness.now, ms=1, status=204, reply="Thank you, Ada Lovelace")
        assert await attempts.update_succeeded(tx, [delivery], now=harness.now)
        await attempts.insert_attempt_of_each(tx, [(delivery, result)])
        forgetting = asyncio.create_task(forget())
        # PostgreSQL waits for the delivery, SQLite for the writer; there is no event for either.
        await asyncio.sleep(0.3)
    await forgetting
    async with harness.db.read() as look:
        for table in (delivery_rows, delivery_attempts):
            assert await look.all(select(table)) == []
