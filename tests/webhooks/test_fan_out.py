"""An event is fanned out to webhook endpoints in the transaction that gives it its position: once, and in order."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from tests.events.support import write_event
from tests.servers import Peer, Request, receiving, reply
from tests.waiting import PATIENCE
from tests.webhooks.harness import Harness, working

from mercato.features.events.sequencer import WrittenEvent, number
from mercato.features.events.tables import event_positions
from mercato.features.partners.model import Surface
from mercato.features.webhooks.attempts import list_due
from mercato.features.webhooks.endpoints import WebhookEndpoints
from mercato.features.webhooks.model import PARTITIONS, DeliverJob
from mercato.features.webhooks.outbox import fan_out
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Write
from mercato_contract.clock import new_id, now
from mercato_contract.events import EventType
from mercato_contract.webhooks import WebhookEndpointRequest
from mercato_outbound.guard import ANY_ADDRESS

URL = "https://a.example/hooks"
TYPE = EventType.CATALOG_SYNC_SUCCEEDED


async def register(harness: Harness, url: str = URL, **members: Any) -> UUID:
    endpoints = WebhookEndpoints(harness.vault, now, new_id, ANY_ADDRESS)
    async with harness.db.write() as tx:
        made = await endpoints.create(
            tx, harness.caller(Surface.COMMERCE), WebhookEndpointRequest(url=url, **members)
        )
    return made.endpoint_id


async def write(harness: Harness, count: int = 1) -> list[UUID]:
    written = []
    for _ in range(count):
        async with harness.db.write() as tx:
            event = write_event(tx, harness.partner.id, type_=TYPE, surface=Surface.COMMERCE)
            written.append(event)
    return written


async def number_all(harness: Harness) -> None:
    async with harness.db.write() as tx:
        await number(tx, now=now(), fan_out=fan_out)


async def webhook_ids(harness: Harness) -> list[UUID]:
    async with harness.db.read() as tx:
        return [row.webhook_id for row in await tx.all(select(deliveries.c.webhook_id))]


async def test_an_event_is_fanned_out_once_whatever_fails_in_between(harness: Harness):
    await register(harness)
    written = await write(harness, 3)

    async def killed(tx: Write, rows: Sequence[WrittenEvent], after: int, at: datetime) -> None:
        await fan_out(tx, rows, after, at)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        async with harness.db.write() as tx:
            await number(tx, now=now(), fan_out=killed)
    assert await webhook_ids(harness) == []
    async with harness.db.read() as reader:
        assert await reader.all(select(event_positions)) == []
    await number_all(harness)
    await number_all(harness)
    assert sorted(await webhook_ids(harness)) == sorted(written)


async def test_two_sequencers_fan_out_each_event_once(harness: Harness):
    await register(harness)
    written = await write(harness, 20)
    await asyncio.gather(*(number_all(harness) for _ in range(4)))
    assert sorted(await webhook_ids(harness)) == sorted(written)


async def test_deliveries_of_one_batch_keep_the_order_of_their_events(harness: Harness):
    await register(harness)
    written = await write(harness, 40)
    await number_all(harness)
    found: dict[int, list[UUID]] = {}
    async with harness.db.read() as tx:
        for partition in range(PARTITIONS):
            job = DeliverJob(partner_id=harness.partner.id, url=URL, partition=partition)
            due = await list_due(tx, job, through=datetime(2999, 1, 1, tzinfo=UTC), limit=50)
            found[partition] = [one.webhook_id for one in due]
    assert sum(map(len, found.values())) == len(written)
    for ids in found.values():
        assert ids == [one for one in written if one in ids]


async def test_an_endpoint_gets_nothing_from_before_it_was_made(harness: Harness):
    await write(harness)
    await number_all(harness)
    await register(harness)
    await number_all(harness)
    assert await webhook_ids(harness) == []


async def test_an_endpoint_of_another_partner_or_surface_gets_nothing(harness: Harness):
    await register(harness)
    async with harness.db.write() as tx:
        write_event(tx, new_id(), type_=TYPE, surface=Surface.COMMERCE)
        write_event(tx, harness.partner.id, type_=EventType.ORDER_CREATED, surface=Surface.MARKETFRONT)
    await number_all(harness)
    assert await webhook_ids(harness) == []


async def test_an_endpoint_that_accepts_slowly_delays_no_other_of_its_account(harness: Harness):
    accepts = asyncio.Event()

    async def slowly(request: Request, peer: Peer) -> None:
        await accepts.wait()
        await reply(200)(request, peer)

    async with receiving(slowly) as slow, receiving() as quick:
        await register(harness, slow.url)
        await write(harness, 20)
        await number_all(harness)
        async with working(harness, seconds=PATIENCE):
            async with asyncio.timeout(PATIENCE):
                while not slow.requests:
                    await asyncio.sleep(0.01)
            await register(harness, quick.url)
            written = await write(harness, 20)
            await number_all(harness)
            async with asyncio.timeout(PATIENCE):
                while len(quick.requests) < len(written):
                    await asyncio.sleep(0.01)
            to_slow = select(deliveries.c.attempts).where(deliveries.c.url == slow.url)
            async with harness.db.read() as tx:
                assert {row.attempts for row in await tx.all(to_slow)} == {0}
            accepts.set()
