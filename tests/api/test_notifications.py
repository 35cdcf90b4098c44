"""Operators are told by webhook that a partner fails, and that an address was disabled."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from sqlalchemy import insert, select
from tests.api.trade import VALIDATE, Trade, trade
from tests.databases import mostly_sqlite, on_both
from tests.partners.test_commands import Shell, fresh, shell
from tests.service import MerchantServer, Service

from mercato.features.partners.tables import partners
from mercato.features.webhooks.model import AS_OPERATORS, OPERATORS
from mercato.features.webhooks.notifications import Notifications
from mercato.features.webhooks.tables import deliveries, failing_partners, failing_stores
from mercato_client import verify_webhook
from mercato_contract import clock
from mercato_contract.events import EndpointDisabledData, PartnerFailingData
from mercato_contract.refusals import ValidationFailed
from mercato_contract.webhooks import WebhookEndpointRequest

pytestmark = mostly_sqlite

__all__ = ["fresh", "shell"]


async def answer_500(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def answer_410(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=410)


async def register(mercato: Service, url: str, *types: str) -> str:
    """Register an endpoint of the operators; return its secret."""
    app = mercato.app
    async with app.db.write() as tx:
        made = await app.endpoints.create(
            tx, AS_OPERATORS, WebhookEndpointRequest(url=url, types=list(types) or None)
        )
    return made.secret


async def next_told(shop: MerchantServer, path: str, secret: str) -> Any:
    """Return the data of the next webhook at the path."""
    while True:
        called, headers, body = await shop.webhook()
        if called == path:
            return verify_webhook(headers, body, [secret]).data


async def look(mercato: Service) -> None:
    await Notifications(mercato.app.db, mercato.app.clock, mercato.app.new_id).once()


async def told_of_failing(mercato: Service) -> list[str]:
    async with mercato.app.db.read() as tx:
        rows = await tx.all(select(deliveries.c.type).where(deliveries.c.partner_id == OPERATORS))
    return [row.type for row in rows]


async def fail(deal: Trade) -> UUID:
    deal.shop.answers["validate"] = answer_500
    for _ in range(2):
        assert (await deal.front.post(VALIDATE, deal.order())).status == 503
    await deal.mercato.app.store_health.flush()
    async with deal.mercato.app.db.read() as tx:
        owner: UUID = await tx.scalar(select(failing_stores.c.partner_id))
    return owner


@on_both
async def test_operators_are_told_once_of_a_partner_that_fails_until_it_recovers(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    secret = await register(mercato, shop.base + "/ops")
    owner = await fail(deal)
    for _ in range(3):
        await asyncio.gather(look(mercato), look(mercato))
    data = await next_told(shop, "/ops", secret)
    assert isinstance(data, PartnerFailingData)
    assert (data.partner_id, data.stores, data.addresses) == (owner, 1, 0)
    assert [str(store_id) for store_id in data.store_ids] == [deal.store["storeId"]]
    async with mercato.app.db.read() as tx:
        assert data.partner == await tx.scalar(select(partners.c.name).where(partners.c.id == owner))
    assert await told_of_failing(mercato) == ["partner.failing"], "once, whoever looks and how often"
    deal.shop.answers["validate"] = {"isValid": True}
    await deal.validate(deal.order())
    await mercato.app.store_health.flush()
    await look(mercato)
    await fail(deal)
    await look(mercato)
    assert isinstance(await next_told(shop, "/ops", secret), PartnerFailingData)
    assert await told_of_failing(mercato) == ["partner.failing"] * 2, "again after it was well"


@on_both
async def test_a_thousand_partners_that_fail_at_once_are_told_in_batches_the_worst_first(mercato: Service):
    await register(mercato, "http://127.0.0.1:9/ops", "partner.failing")
    ids = [clock.new_id() for _ in range(150)]
    then = clock.now() - timedelta(hours=1)
    async with mercato.app.db.write() as tx:
        for number, id_ in enumerate(ids):
            row = {"id": id_, "name": f"P{number}", "kind": "commerce", "limits": "{}", "created_at": then}
            await tx.execute(insert(partners).values(**row))
            failing = {
                "store_id": clock.new_id(),
                "partner_id": id_,
                "failing_since": then,
                "failed_at": then,
            }
            await tx.execute(insert(failing_stores).values(**failing, calls=2))
    for told in (100, 150, 150):
        await look(mercato)
        async with mercato.app.db.read() as tx:
            assert len(await tx.all(select(failing_partners))) == told


async def test_operators_are_told_of_an_address_that_is_disabled_without_what_grants_access_to_it(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    secret = await register(mercato, shop.base + "/ops", "endpoint.disabled")
    shop.answers["mine"] = answer_410
    made = await deal.front.post("/v1/marketfront/webhook-endpoints", {"url": shop.base + "/mine?key=hush"})
    assert made.status == 201
    await deal.placed()
    data = await next_told(shop, "/ops", secret)
    assert isinstance(data, EndpointDisabledData)
    assert data.origin == shop.base
    assert "410" in data.reason
    async with mercato.app.db.read() as tx:
        name = await tx.scalar(select(partners.c.name).where(partners.c.id == data.partner_id))
    assert data.partner == name


async def test_only_operators_endpoints_can_ask_for_operators_events(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    for client, path in ((deal.front, "marketfront"), (deal.pos, "commerce")):
        body = {"url": shop.base + "/mine", "types": ["partner.failing"]}
        refused = await client.post(f"/v1/{path}/webhook-endpoints", body)
        assert (refused.status, refused.json()["errors"][0]["pointer"]) == (422, "/types/0")
    with pytest.raises(ValidationFailed):
        await register(mercato, shop.base + "/ops", "order.created")
    await register(mercato, shop.base + "/ops")
    await fail(deal)
    await look(mercato)
    for client, path in ((deal.front, "marketfront"), (deal.pos, "commerce")):
        events = (await client.get(f"/v1/{path}/events")).json()["events"]
        assert "partner.failing" not in {event["type"] for event in events}
        listed = (await client.get(f"/v1/{path}/webhook-endpoints")).json()["endpoints"]
        assert shop.base + "/ops" not in {endpoint["url"] for endpoint in listed}


@on_both
def test_an_operator_adds_lists_tests_and_removes_an_endpoint_by_command(shell: Shell, database_url: str):
    made = shell.json("notification", "add", "https://ops.example/mercato", "--type", "partner.failing")
    assert made["secret"].startswith("whsec_")
    shown = shell("notification", "list")
    assert "ops.example" in shown
    assert made["secret"] not in shown
    [listed] = shell.json("notification", "list")["endpoints"]
    assert (listed["types"], listed["enabled"]) == (["partner.failing"], True)
    shell("notification", "test", made["endpointId"])
    assert [one["type"] for one in shell.json("webhooks", "list")["deliveries"]] == ["ping"]
    shell("notification", "add", "https://ops.example/other", "--type", "order.created", code=1)
    assert "partner.failing" in shell.err
    shell("notification", "add", "http://10.0.0.1/other", code=2)
    assert "tell this command, too: MERCATO_ALLOW_PRIVATE_NETWORKS=true mercato notification add" in shell.err
    shell("notification", "add", "ftp://ops.example/other", code=1)
    assert "MERCATO_ALLOW_PRIVATE_NETWORKS" not in shell.err
    shell("notification", "enable", made["endpointId"])
    shell("notification", "remove", made["endpointId"])
    assert shell.json("notification", "list") == {"endpoints": []}
    entries = shell.json("audit")["entries"]
    assert [one["action"] for one in entries if one["action"].startswith("notification")] == [
        "notification remove",
        "notification enable",
        "notification test",
        "notification add",
    ]
