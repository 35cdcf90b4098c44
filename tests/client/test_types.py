"""What a type checker makes of both clients: mypy reads this file, and nothing here is sent."""

import asyncio
from typing import assert_type
from uuid import UUID

from mercato_client import AsyncClient, AsyncPages, Client, Pages, types


def test_the_sync_client_returns_typed_answers():
    def checked(client: Client, store_id: UUID) -> None:
        assert_type(client.get_store(store_id), types.Store)
        assert_type(client.cancel_onboarding(store_id), None)
        assert_type(client.wait_until_live(store_id, timeout=1), types.Store)
        assert_type(client.list_orders(state="open"), Pages[types.OrderPage, types.CommerceOrder])
        assert_type(client.list_orders(limit=1).page, types.OrderPage)
        for store in client.list_stores():
            assert_type(store, types.Store)
        for found in client.discover_stores(types.DiscoverRequest()):
            assert_type(found, types.DiscoveredStore)
        client.get_store()  # type: ignore[call-arg]
        client.list_stores(limit="ten")  # type: ignore[arg-type]

    assert callable(checked)


def test_the_async_client_returns_the_same_to_be_awaited():
    async def checked(client: AsyncClient, store_id: UUID) -> None:
        assert_type(await client.get_store(store_id), types.Store)
        assert_type(await asyncio.create_task(client.get_order(store_id)), types.CommerceOrder)
        assert_type(client.list_stores(), AsyncPages[types.StorePage, types.Store])
        assert_type(await client.list_stores(limit=1), types.StorePage)
        async for order in client.list_orders():
            assert_type(order, types.CommerceOrder)

    assert callable(checked)
