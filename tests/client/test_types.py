"""What a type checker makes of both clients: mypy reads this file, and nothing here is sent."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import assert_type
from uuid import UUID

from mercato_client import AsyncClient, Client, types


def test_the_sync_client_returns_typed_answers():
    def checked(client: Client, store_id: UUID) -> None:
        assert_type(client.get_store(store_id), types.Store)
        assert_type(client.cancel_onboarding(store_id), None)
        assert_type(client.wait_until_live(store_id, timeout=1), types.Store)
        assert_type(client.each_order(state="open"), Iterator[types.CommerceOrder])
        client.get_store()  # type: ignore[call-arg]
        client.list_stores(limit="ten")  # type: ignore[arg-type]

    assert callable(checked)


def test_the_async_client_returns_the_same_to_be_awaited():
    async def checked(client: AsyncClient, store_id: UUID) -> None:
        assert_type(await client.get_store(store_id), types.Store)
        assert_type(await asyncio.create_task(client.get_order(store_id)), types.CommerceOrder)
        assert_type(client.each_store(), AsyncIterator[types.Store])

    assert callable(checked)
