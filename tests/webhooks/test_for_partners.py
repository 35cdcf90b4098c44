"""Decisions §2, §9: a partner lists its deliveries, reads one, and has it sent again; the old ones go."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, update
from tests.servers import receiving, reply
from tests.webhooks.house import TOKEN, House, job_of

from mercato.domain.partners.model import Surface
from mercato.domain.webhooks import attempts, deliveries
from mercato.domain.webhooks.model import CallResult, DeliveryStatus
from mercato.domain.webhooks.retention import delete_of_orders, prune
from mercato.domain.webhooks.wire import WebhookDeliveryPage, WebhookDeliveryQuery
from mercato.kernel import errors
from mercato.kernel.clock import new_id
from mercato.kernel.db.tables import deliveries as delivery_rows
from mercato.kernel.db.tables import delivery_attempts, jobs
from mercato.kernel.wire import as_json

NOWHERE = "http://127.0.0.1:9/hooks"


async def page(house: House, surface: Surface = Surface.COMMERCE, **options: Any) -> WebhookDeliveryPage:
    async with house.db.read() as tx:
        return await deliveries.list_deliveries(tx, house.caller(surface), WebhookDeliveryQuery(**options))


def ids(shown: WebhookDeliveryPage) -> list[UUID]:
    return [delivery.id for delivery in shown.deliveries]


# --- redelivery -------------------------------------------------------------------------------------------


async def test_a_redelivery_has_the_same_webhook_id_and_body_and_begins_the_schedule_anew(
    house: House,
) -> None:
    async with receiving(reply(204), reply(500)) as receiver:
        delivery = await house.push(receiver.url)
        await house.attempt()
        house.now += timedelta(hours=1)
        begun = await house.redeliver(delivery)
        assert (begun.status, begun.attempts) == (DeliveryStatus.PENDING, 1)
        await house.attempt()
        assert await house.wait_for_retry() == timedelta(seconds=5)
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert [a.number for a in (await house.get(delivery)).attempt_log] == [1, 2]


async def test_a_delivery_in_flight_is_left_alone_by_a_redelivery(house: House) -> None:
    async with receiving() as receiver:
        delivery = await house.push(receiver.url)
        for _ in range(3):
            assert (await house.redeliver(delivery)).status is DeliveryStatus.PENDING
        assert len(await house.jobs()) == 1
        await house.attempt()
    assert len(receiver.requests) == 1


async def test_a_redelivery_asked_for_twice_at_once_is_one(house: House) -> None:
    async with receiving() as receiver:
        delivery = await house.push(receiver.url)
        await house.attempt()
        await asyncio.gather(*(house.redeliver(delivery) for _ in range(5)))
        assert len(await house.jobs()) == 1
        await house.attempt()
    assert len(receiver.requests) == 2


async def test_a_delivery_that_waits_for_a_retry_waits_no_longer(house: House) -> None:
    async with receiving(reply(500), reply(204)) as receiver:
        delivery = await house.push(receiver.url)
        await house.attempt()
        await house.redeliver(delivery)
        await house.attempt()
        assert (await house.get(delivery)).status is DeliveryStatus.SUCCEEDED
        # The retry of the first round wakes up, and finds that there is nothing to do.
        async with house.db.write() as tx:
            await tx.execute(update(jobs).values(state="ready"))
        await house.attempt()
    assert len(receiver.requests) == 2
    assert await house.jobs() == []


# --- what the partner sees ----------------------------------------------------------------------------------


async def test_another_partners_delivery_looks_like_none(house: House) -> None:
    delivery = await house.push(NOWHERE)
    for caller in (house.caller(partner_id=new_id()), house.caller(Surface.MARKETFRONT)):
        async with house.db.write() as tx:
            with pytest.raises(errors.DeliveryNotFound):
                await deliveries.get_delivery(tx, caller, delivery)
            with pytest.raises(errors.DeliveryNotFound):
                await deliveries.redeliver(tx, caller, delivery, now=house.now)
            assert ids(await deliveries.list_deliveries(tx, caller, WebhookDeliveryQuery())) == []
    with pytest.raises(errors.DeliveryNotFound):
        await house.get(new_id())


async def test_pages_hold_every_delivery_once_newest_first(house: House) -> None:
    pushed = [await house.push(NOWHERE) for _ in range(7)]
    found: list[UUID] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        shown = await page(house, limit=3, cursor=cursor)
        found, cursor, pages = found + ids(shown), shown.next_cursor, pages + 1
        if pages == 1:
            # One that comes while somebody turns the pages is on none of the later ones.
            await house.push(NOWHERE)
    assert found == sorted(pushed, reverse=True)
    assert pages == 3


async def test_a_cursor_that_no_list_gave_is_422(house: House) -> None:
    with pytest.raises(errors.ValidationFailed):
        await page(house, cursor="nonsense")


async def test_deliveries_can_be_listed_by_status_type_and_store(house: House) -> None:
    store = new_id()
    async with receiving(reply(204), reply(410)) as receiver:
        good = await house.push(receiver.url, store_id=store)
        await house.attempt()
        bad = await house.push(receiver.url, type="catalog.sync.failed")
        await house.attempt()
    waiting = await house.push(NOWHERE, store_id=store)
    assert ids(await page(house, status=DeliveryStatus.SUCCEEDED)) == [good]
    assert ids(await page(house, status=DeliveryStatus.FAILED)) == [bad]
    assert ids(await page(house, status=DeliveryStatus.PENDING)) == [waiting]
    assert ids(await page(house, type="catalog.sync.failed")) == [bad]
    assert ids(await page(house, store_id=store)) == sorted([good, waiting], reverse=True)
    assert ids(await page(house, store_id=store, status=DeliveryStatus.FAILED)) == []


async def test_the_wire_form_has_every_member_of_the_contract_and_no_secret(house: House) -> None:
    async with receiving(reply(500, b"sorry")) as receiver:
        delivery = await house.push(receiver.url)
        await house.attempt()
    raw = as_json(await house.get(delivery))
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
        "createdAt",
        "updatedAt",
        "attemptLog",
        "body",
    }
    assert set(shown["attemptLog"][0]) == {"number", "at", "status", "ms", "error", "reply"}
    assert shown["attemptLog"][0]["reply"] == "sorry"
    assert shown["body"]["data"] == {"status": "succeeded", "errors": []}
    for hidden in (TOKEN, house.partner.signing_secret, "Bearer", "v1,"):
        assert hidden.encode() not in raw
    listed = json.loads(as_json(await page(house)))
    assert set(listed) == {"deliveries", "nextCursor"}
    assert set(listed["deliveries"][0]) == set(shown) - {"attemptLog", "body"}


# --- retention ------------------------------------------------------------------------------------------------


async def test_old_deliveries_go_with_their_attempts_but_never_a_pending_one(house: House) -> None:
    async with receiving() as receiver:
        done = await house.push(receiver.url)
        await house.attempt()
    pending = await house.push(NOWHERE)
    async with house.db.write() as tx:
        assert await prune(tx, before=house.now - timedelta(days=30)) == 0
        assert await prune(tx, before=house.now + timedelta(days=30), limit=500) == 1
        assert await tx.scalar(select(func.count()).select_from(delivery_attempts)) == 0
        left = await tx.all(select(delivery_rows.c.id))
    assert [row.id for row in left] == [pending] != [done]


async def test_an_attempt_that_is_written_down_while_its_order_is_forgotten_is_forgotten_too(
    house: House,
) -> None:
    order_id = new_id()
    await house.push(NOWHERE, order_id=order_id)
    job = job_of(await house.take())

    async def forget() -> None:
        async with house.db.write() as tx:
            await delete_of_orders(tx, [order_id])

    async with house.db.write() as tx:
        [delivery] = await attempts.list_due(tx, job.payload, through=job.run_at, limit=1)
        result = CallResult(at=house.now, ms=1, status=204, reply="Thank you, Ada Lovelace")
        assert await attempts.update_delivery(
            tx, delivery, now=house.now, attempts=1, status=DeliveryStatus.SUCCEEDED
        )
        await attempts.insert_next_attempts(tx, [(delivery, result)])
        forgetting = asyncio.create_task(forget())
        # On PostgreSQL it waits for the delivery, on SQLite for the writer; there is no event for either.
        await asyncio.sleep(0.3)
    await forgetting
    async with house.db.read() as look:
        for table in (delivery_rows, delivery_attempts):
            assert await look.all(select(table)) == []
