"""Calls to stores are in the delivery log with every attempt, and aren't redelivered."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.databases import mostly_sqlite, on_both
from tests.servers import receiving, reply
from tests.webhooks.harness import TRACE, Harness

from mercato.features.webhooks import deliveries, queries
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.platform import errors
from mercato_contract.clock import new_id
from mercato_contract.events import EventType
from mercato_contract.webhooks import DeliveryStatus, WebhookDeliveryQuery
from mercato_contract.wire import as_json

pytestmark = mostly_sqlite

URL = "https://store.example/hooks/place"
BODY = b'{"type":"order.place","data":{}}'


def attempt(harness: Harness, **changes: Any) -> CallResult:
    return replace(CallResult(at=harness.now, ms=12, status=200, reply="{}"), **changes)


def failed(harness: Harness, **changes: Any) -> CallResult:
    return attempt(harness, **{"status": 500, "error": "It answered 500.", "reply": "oops", **changes})


async def record(
    harness: Harness, *attempts: CallResult, partner_id: UUID | None = None, **changes: Any
) -> UUID:
    delivery_id = new_id()
    call = StoreCall(
        store_id=new_id(),
        partner_id=partner_id or harness.partner.id,
        url=URL,
        webhook_id=new_id(),
        body=BODY,
        traceparent=TRACE,
    )
    given = {
        "type": EventType.ORDER_PLACE,
        "body": BODY,
        "results": attempts,
        "status": DeliveryStatus.SUCCEEDED,
        "at": harness.now,
    }
    record = deliveries.CallRecord(id=delivery_id, call=call, **{**given, **changes})
    async with harness.db.write() as tx:
        await deliveries.record_store_call(tx, record)
    return delivery_id


async def listed(harness: Harness, **options: Any) -> list[UUID]:
    async with harness.db.read() as tx:
        page = await deliveries.list_deliveries(tx, harness.caller(), WebhookDeliveryQuery(**options))
    return [delivery.id for delivery in page.deliveries]


@on_both
async def test_a_store_call_is_logged_with_its_attempts_and_body(harness: Harness) -> None:
    order = new_id()
    delivery = await record(harness, failed(harness), attempt(harness), order_id=order)
    seen = await harness.get(delivery)
    assert (seen.type, seen.order_id, seen.url, seen.status) == (
        "order.place",
        order,
        URL,
        DeliveryStatus.SUCCEEDED,
    )
    assert (seen.attempts, seen.error, seen.next_attempt_at) == (2, None, None)
    assert [(a.number, a.status, a.ms, a.error, a.reply) for a in seen.attempt_log] == [
        (1, 500, 12, "It answered 500.", "oops"),
        (2, 200, 12, None, "{}"),
    ]
    assert bytes(seen.body) == BODY
    assert await harness.jobs() == []


async def test_a_call_that_was_not_sent_is_not_an_attempt_but_sets_the_error(harness: Harness) -> None:
    unsent = attempt(harness, status=None, reply=None, error="It was not called.", was_sent=False)
    delivery = await record(harness, failed(harness), unsent, status=DeliveryStatus.FAILED)
    seen = await harness.get(delivery)
    assert (seen.attempts, len(seen.attempt_log), seen.error) == (1, 1, "It was not called.")
    nothing = await harness.get(await record(harness, unsent, status=DeliveryStatus.FAILED))
    assert (nothing.attempts, nothing.attempt_log) == (0, [])


@on_both
async def test_more_attempts_are_added_to_the_orders_call_and_end_it(harness: Harness) -> None:
    order = new_id()
    delivery = await record(
        harness,
        failed(harness),
        order_id=order,
        status=DeliveryStatus.PENDING,
    )
    harness.now += timedelta(seconds=30)
    async with harness.db.write() as tx:
        found = await queries.find_store_call(tx, order)
        assert found == delivery
        assert await queries.find_store_call(tx, order, EventType.ORDER_VALIDATE) is None
        await deliveries.update_store_call(
            tx,
            found,
            [failed(harness), attempt(harness)],
            status=DeliveryStatus.SUCCEEDED,
            now=harness.now,
        )
    seen = await harness.get(delivery)
    assert (seen.status, seen.attempts, seen.error, seen.next_attempt_at) == (
        DeliveryStatus.SUCCEEDED,
        3,
        None,
        None,
    )
    assert [a.number for a in seen.attempt_log] == [1, 2, 3]


async def test_a_call_that_is_given_up_without_another_attempt_keeps_its_error(harness: Harness) -> None:
    delivery = await record(harness, failed(harness), status=DeliveryStatus.PENDING)
    async with harness.db.write() as tx:
        await deliveries.update_store_call(tx, delivery, [], status=DeliveryStatus.FAILED, now=harness.now)
    seen = await harness.get(delivery)
    assert (seen.status, seen.error, seen.attempts) == (DeliveryStatus.FAILED, "It answered 500.", 1)


async def test_attempts_of_a_call_that_was_pruned_are_ignored(harness: Harness) -> None:
    async with harness.db.write() as tx:
        await deliveries.update_store_call(
            tx, new_id(), [attempt(harness)], status=DeliveryStatus.SUCCEEDED, now=harness.now
        )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (EventType.ORDER_VALIDATE, "A validation is not sent again"),
        (EventType.ORDER_PLACE, "itself sends an order again"),
    ],
)
@pytest.mark.parametrize("status", [DeliveryStatus.PENDING, DeliveryStatus.FAILED])
async def test_a_store_call_is_not_redelivered_and_the_problem_says_why(
    harness: Harness, kind: str, words: str, status: DeliveryStatus
) -> None:
    delivery = await record(harness, failed(harness), type=kind, status=status)
    with pytest.raises(errors.Conflict, match=words):
        await harness.redeliver(delivery)
    assert await harness.jobs() == []
    assert (await harness.get(delivery)).status is status


@on_both
async def test_deliveries_are_listed_by_their_order(harness: Harness) -> None:
    order, other = new_id(), new_id()
    asked = await record(harness, attempt(harness), order_id=order)
    pushed = await harness.push("http://127.0.0.1:9/hooks", order_id=order)
    await harness.push("http://127.0.0.1:9/hooks", order_id=other)
    await record(harness, attempt(harness), type=EventType.ORDER_VALIDATE)
    # Of two in one millisecond either may be the newer.
    assert await listed(harness, order_id=order) == sorted((asked, pushed), reverse=True)
    assert await listed(harness, order_id=order, type="order.place") == [asked]
    assert await listed(harness, order_id=new_id()) == []


async def test_another_partners_order_lists_nothing(harness: Harness) -> None:
    order = new_id()
    await record(harness, attempt(harness), order_id=order, partner_id=new_id())
    assert await listed(harness, order_id=order) == []


async def test_the_wire_says_which_order_a_delivery_is_about(harness: Harness) -> None:
    order = new_id()
    about = json.loads(as_json(await harness.get(await record(harness, order_id=order))))
    assert about["orderId"] == str(order)
    assert (
        json.loads(as_json(await harness.get(await harness.push("http://127.0.0.1:9/"))))["orderId"] is None
    )


async def test_events_of_one_order_have_one_ordering_key(harness: Harness) -> None:
    order = new_id()
    async with receiving(reply(204)) as receiver:
        for _ in range(5):
            await harness.push(receiver.url, order_id=order)
        keys = {job.ordering_key for job in await harness.jobs()}
    assert len(keys) == 1


async def test_a_store_call_never_disables_its_endpoint(harness: Harness) -> None:
    base = "https://store.example/hooks"
    await record(harness, failed(harness, status=410), status=DeliveryStatus.FAILED)
    assert (await harness.get(await harness.push(base, type="order.place"))).endpoint_disabled is None
