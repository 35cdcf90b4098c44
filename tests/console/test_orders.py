"""An order's page: every call to either side, as the merchant, the storefront and an operator may each see it."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from tests.api.trade import Trade, trade
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.service import Merchant, service
from tests.waiting import PATIENCE

from mercato.features.orders import jobs as order_jobs
from mercato.features.orders import placement


async def _broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def _calls_of(deal: Trade, order_id: str) -> list[Any]:
    path = f"/v1/commerce/orders/{order_id}/timeline"
    entries = (await deal.pos.get(path)).json()["entries"]
    return [one["detail"] for one in entries if one["type"] == "webhook.attempt"]


async def _until_called(deal: Trade, order_id: str, event: str, to: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(
            (one["event"], one["to"], one["succeeded"]) == (event, to, True)
            for one in await _calls_of(deal, order_id)
        ):
            await asyncio.sleep(0.02)


async def test_each_audience_sees_every_call_about_an_order_and_only_its_own_reasons(
    database_url: str, tmp_path: Path, shop: Merchant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(placement, "SLACK", timedelta(seconds=0.1))
    monkeypatch.setattr(order_jobs, "RETRY_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr(order_jobs, "MIN_WAIT", timedelta(seconds=0.05))
    async with service(database_url, tmp_path / "data", place_seconds=1.4) as mercato:
        deal = await trade(mercato, shop, event_url=shop.base + "/events")
        answer = shop.answers["place"]
        shop.answers["place"] = _broken
        order_id = (await deal.place(deal.order())).json()["orderId"]
        shop.answers["place"] = answer
        await _until_called(deal, order_id, "order.place", "store")
        assert (await deal.update({"orderId": order_id}, status="confirmed")).status == 200
        cancelled = await mercato.app.orders.cancel(UUID(order_id), reason="Fraud")
        assert cancelled.cancel_reason == "Fraud"
        await _until_called(deal, order_id, "order.cancelled", "store")
        await _until_called(deal, order_id, "order.updated", "storefront")
        calls = await _calls_of(deal, order_id)
        for enter, sees_store, sees_storefront in (
            (enter_as_operator(mercato), True, True),
            (enter_as_partner(mercato, deal.pos), True, False),
            (enter_as_partner(mercato, deal.front), False, True),
        ):
            browser, _ = await enter
            page = await browser.open(f"/console/orders/{order_id}")
            rows = page.rows("Timeline")
            assert [row[1] for row in rows if row[1] != "call"][:1] == ["placed"]
            assert {"accepted", "updated", "cancelled"} <= {row[1] for row in rows}
            shown = [row[2] for row in rows if row[1] == "call"]
            assert len(shown) >= len(calls)
            failed = [text for text in shown if "order.place to the store" in text and "HTTP 500" in text]
            assert failed, "the call that failed, with its status"
            assert all(("500" in text.partition(" ms")[2]) == sees_store for text in failed), "and its reason"
            assert any("order.cancelled to the store, attempt 1: HTTP 20" in text for text in shown)
            assert any("order.updated to the storefront, attempt 1: HTTP 20" in text for text in shown)
            own = {"store": sees_store, "storefront": sees_storefront}
            for text in shown:
                to = "storefront" if "to the storefront" in text else "store"
                assert text.endswith("Delivery") == own[to], text
            assert any("reason: Fraud" in row[2] for row in rows)
            links = [one.text for one in page.root.all("a")]
            assert "Deliveries about this order" in links
            assert (await browser.open(page.link("Deliveries about this order"))).rows("Deliveries")
            assert (await browser.open(page.link(deal.store["name"]))).status == 200
            assert ("Merchant:" in page.text) == (sees_store and sees_storefront)
