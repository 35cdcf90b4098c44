"""The sandbox storefront believes signed events only, takes each once, and puts them in their order."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.testing.calls import OLD_SECRET, SECRET, deliver
from tests.testing.test_merchant import signed

from mercato_client.testing import StorefrontDouble
from mercato_client.testing import events as module

ORDER = "01a1fd20-e7b7-755c-9221-318576f108e3"


@pytest.fixture
async def front() -> AsyncIterator[StorefrontDouble]:
    async with StorefrontDouble(secret=SECRET) as running:
        yield running


async def sent(
    front: StorefrontDouble, sequence: int, status: str = "pending", *, secret: str = SECRET
) -> int:
    """Send an event of the order and return the answer's status."""
    data = {"orderId": ORDER, "sequence": sequence, "order": {"orderId": ORDER, "status": status}}
    body = json.dumps({"type": "order.updated", "data": data}).encode()
    headers = signed(secret, body=body, webhook_id=f"event-{sequence}")
    return (await deliver(front.event_url, body, headers))[0]


async def test_a_late_event_is_kept_in_order_and_does_not_change_the_newest_state(
    front: StorefrontDouble,
) -> None:
    for sequence, status in ((1, "pending"), (3, "preparing")):
        assert await sent(front, sequence, status) == 204
    assert not front.complete(ORDER)
    assert await sent(front, 2, "confirmed") == 204
    assert (front.newest(ORDER)["status"], front.late, front.complete(ORDER)) == ("preparing", 1, True)


async def test_an_order_is_shown_as_its_newest_event_has_it(front: StorefrontDouble) -> None:
    async def shown() -> tuple[int, Any]:
        url = f"{front.url}/orders/{ORDER}"
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            return reply.status, await reply.json() if reply.status == 200 else None

    assert await shown() == (404, None)
    for sequence, status in ((2, "confirmed"), (1, "pending"), (2, "confirmed")):
        assert await sent(front, sequence, status) == 204
    assert await shown() == (200, {"orderId": ORDER, "status": "confirmed"})


async def test_a_ping_is_acknowledged_and_changes_no_order(front: StorefrontDouble) -> None:
    body = json.dumps({"type": "ping", "data": {"endpointId": ORDER}}).encode()
    assert (await deliver(front.endpoint_url, body, signed(SECRET, body=body)))[0] == 204
    assert (front.events, front.inbox.verified) == ({}, 1)


async def test_a_repeated_event_counts_once(front: StorefrontDouble) -> None:
    assert [await sent(front, 1), await sent(front, 1)] == [204, 204]
    assert (len(front.events[ORDER]), front.repeats, front.inbox.verified) == (1, 1, 2)


async def test_an_event_with_another_signature_is_refused(front: StorefrontDouble) -> None:
    assert await sent(front, 1, secret=OLD_SECRET) == 401
    assert (front.events, front.inbox.received, front.inbox.verified) == ({}, 1, 0)


async def test_waiting_for_an_event_returns_it_when_it_arrives(front: StorefrontDouble) -> None:
    waiting = asyncio.create_task(front.event(ORDER, 2))
    assert await sent(front, 1) == 204
    assert not waiting.done()
    assert await sent(front, 2, "confirmed") == 204
    assert (await waiting)["data"]["order"]["status"] == "confirmed"


async def test_events_are_bounded(front: StorefrontDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 1)
    assert [await sent(front, 1), await sent(front, 2), await sent(front, 1)] == [204, 503, 204]
