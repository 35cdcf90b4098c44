"""Decisions §9: what a store was asked stands in the delivery log with every attempt, and isn't redelivered."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.servers import receiving, reply
from tests.webhooks.house import TRACE, House

from mercato.domain.webhooks import deliveries
from mercato.domain.webhooks.event_types import EventType
from mercato.domain.webhooks.model import CallResult, DeliveryStatus, StoreCall
from mercato.domain.webhooks.wire import WebhookDeliveryQuery
from mercato.kernel import errors
from mercato.kernel.clock import new_id
from mercato.kernel.wire import as_json

URL = "https://store.example/hooks/place"
BODY = b'{"type":"order.place","data":{}}'


def attempt(house: House, **changes: Any) -> CallResult:
    return replace(CallResult(at=house.now, ms=12, status=200, reply="{}"), **changes)


def failed(house: House, **changes: Any) -> CallResult:
    return attempt(house, **{"status": 500, "error": "It answered 500.", "reply": "oops", **changes})


async def record(house: House, *attempts: CallResult, partner_id: UUID | None = None, **changes: Any) -> UUID:
    delivery_id = new_id()
    call = StoreCall(
        store_id=new_id(),
        partner_id=partner_id or house.partner.id,
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
        "now": house.now,
    }
    async with house.db.write() as tx:
        await deliveries.record_store_call(tx, call, delivery_id=delivery_id, **{**given, **changes})
    return delivery_id


async def listed(house: House, **options: Any) -> list[UUID]:
    async with house.db.read() as tx:
        page = await deliveries.list_deliveries(tx, house.caller(), WebhookDeliveryQuery(**options))
    return [delivery.id for delivery in page.deliveries]


async def test_a_question_stands_in_the_log_with_its_attempts_and_body(house: House) -> None:
    order = new_id()
    delivery = await record(house, failed(house), attempt(house), order_id=order)
    seen = await house.get(delivery)
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
    assert await house.jobs() == []


async def test_a_call_that_was_not_made_is_no_attempt_but_says_why(house: House) -> None:
    unsent = attempt(house, status=None, reply=None, error="It was not called.", was_sent=False)
    delivery = await record(house, failed(house), unsent, status=DeliveryStatus.FAILED)
    seen = await house.get(delivery)
    assert (seen.attempts, len(seen.attempt_log), seen.error) == (1, 1, "It was not called.")
    nothing = await house.get(await record(house, unsent, status=DeliveryStatus.FAILED))
    assert (nothing.attempts, nothing.attempt_log) == (0, [])


async def test_further_attempts_are_added_to_the_orders_question_and_end_it(house: House) -> None:
    order = new_id()
    delivery = await record(
        house,
        failed(house),
        order_id=order,
        status=DeliveryStatus.PENDING,
    )
    house.now += timedelta(seconds=30)
    async with house.db.write() as tx:
        found = await deliveries.find_store_call(tx, order)
        assert found == delivery
        assert await deliveries.find_store_call(tx, order, EventType.ORDER_VALIDATE) is None
        await deliveries.update_store_call(
            tx,
            found,
            [failed(house), attempt(house)],
            status=DeliveryStatus.SUCCEEDED,
            now=house.now,
        )
    seen = await house.get(delivery)
    assert (seen.status, seen.attempts, seen.error, seen.next_attempt_at) == (
        DeliveryStatus.SUCCEEDED,
        3,
        None,
        None,
    )
    assert [a.number for a in seen.attempt_log] == [1, 2, 3]


async def test_a_question_that_is_given_up_without_another_attempt_keeps_its_error(house: House) -> None:
    delivery = await record(house, failed(house), status=DeliveryStatus.PENDING)
    async with house.db.write() as tx:
        await deliveries.update_store_call(tx, delivery, [], status=DeliveryStatus.FAILED, now=house.now)
    seen = await house.get(delivery)
    assert (seen.status, seen.error, seen.attempts) == (DeliveryStatus.FAILED, "It answered 500.", 1)


async def test_attempts_of_a_question_that_was_pruned_go_nowhere(house: House) -> None:
    async with house.db.write() as tx:
        await deliveries.update_store_call(
            tx, new_id(), [attempt(house)], status=DeliveryStatus.SUCCEEDED, now=house.now
        )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (EventType.ORDER_VALIDATE, "A validation is not sent again"),
        (EventType.ORDER_PLACE, "itself sends an order again"),
    ],
)
@pytest.mark.parametrize("status", [DeliveryStatus.PENDING, DeliveryStatus.FAILED])
async def test_a_question_is_not_redelivered_and_the_problem_says_why(
    house: House, kind: str, words: str, status: DeliveryStatus
) -> None:
    delivery = await record(house, failed(house), type=kind, status=status)
    with pytest.raises(errors.Conflict, match=words):
        await house.redeliver(delivery)
    assert await house.jobs() == []
    assert (await house.get(delivery)).status is status


async def test_deliveries_are_listed_by_their_order(house: House) -> None:
    order, other = new_id(), new_id()
    asked = await record(house, attempt(house), order_id=order)
    pushed = await house.push("http://127.0.0.1:9/hooks", order_id=order)
    await house.push("http://127.0.0.1:9/hooks", order_id=other)
    await record(house, attempt(house), type=EventType.ORDER_VALIDATE)
    assert await listed(house, order_id=order) == [pushed, asked]
    assert await listed(house, order_id=order, type="order.place") == [asked]
    assert await listed(house, order_id=new_id()) == []


async def test_another_partners_order_lists_nothing(house: House) -> None:
    order = new_id()
    await record(house, attempt(house), order_id=order, partner_id=new_id())
    assert await listed(house, order_id=order) == []


async def test_the_wire_says_which_order_a_delivery_is_about(house: House) -> None:
    order = new_id()
    about = json.loads(as_json(await house.get(await record(house, order_id=order))))
    assert about["orderId"] == str(order)
    assert json.loads(as_json(await house.get(await house.push("http://127.0.0.1:9/"))))["orderId"] is None


async def test_events_of_one_order_come_in_their_order_unless_another_subject_is_given(house: House) -> None:
    order = new_id()
    async with receiving(reply(204)) as receiver:
        for _ in range(5):
            await house.push(receiver.url, order_id=order)
        keys = {job.ordering_key for job in await house.jobs()}
    assert len(keys) == 1


async def test_a_question_never_disables_its_address(house: House) -> None:
    base = "https://store.example/hooks"
    await record(house, failed(house, status=410), status=DeliveryStatus.FAILED)
    assert (await house.get(await house.push(base, suffix="place"))).endpoint_disabled is None
