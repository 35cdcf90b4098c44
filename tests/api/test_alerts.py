"""The alerts of deploy/prometheus/alerts.yaml fire on what `/metrics` says of a store or partner in trouble."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml  # type: ignore[import-untyped]  # its types are a package of their own
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert, select, update
from tests.api.trade import VALIDATE, trade
from tests.service import MerchantServer, Service

from mercato.features.metrics import MAX_PARTNERS, OTHERS, CommerceMetrics
from mercato.features.orders.tables import orders as orders_table
from mercato.features.partners.tables import partners
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.features.webhooks.tables import failing_endpoints, failing_stores
from mercato.features.webhooks.trouble import find_trouble
from mercato.features.webhooks.unused_addresses import PAGE, forget_unused
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database
from mercato.platform.telemetry import metrics as platform_metrics
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato_contract import clock

ALERTS = Path(__file__).resolve().parents[2] / "deploy/prometheus/alerts.yaml"
RULES = {
    rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
}
THRESHOLD = re.compile(r"max(?: by \(\w+\) )?\((\w+)\) > (\d+)")

Samples = Mapping[str, Mapping[str, float]]
"""The values of each gauge by its label, or ''."""


@pytest.fixture(autouse=True)
def fresh_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_metrics, "QUEUE_SECONDS", 0.0)


async def figures(db: Database) -> Samples:
    """Return what a process of the service that shares nothing but the database says."""
    process = CommerceMetrics()
    process.watch_trouble(partial(find_trouble, db, clock.now))
    return read((await process.read()).decode())


def read(text: str) -> Samples:
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("partner", "")] = sample.value
    return found


def firing(alert: str, samples: Samples) -> set[str]:
    """Return the labels for which an alert fires whose expression is a greatest value and a threshold."""
    match = THRESHOLD.fullmatch(RULES[alert]["expr"])
    assert match is not None, "another form of expression: extend this"
    return {label for label, value in samples.get(match[1], {}).items() if value > float(match[2])}


async def broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def test_a_store_all_of_whose_calls_fail_fires_an_alert_until_one_succeeds(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    app = mercato.app
    shop.answers["validate"] = broken
    for _ in range(23):
        assert (await deal.front.post(VALIDATE, deal.order())).status == 503
    await app.store_health.flush()
    async with app.db.write() as tx:
        await tx.execute(update(failing_stores).values(failing_since=clock.now() - timedelta(minutes=11)))
    samples = read((await mercato.anonymous().get("/metrics")).body.decode())
    assert samples["mercato_stores_failing"] == {"": 1}
    [owner] = samples["mercato_partner_stores_failing"]
    async with app.db.read() as tx:
        [row] = await tx.all(failing_stores.select())
    assert owner == str(row.partner_id)
    assert firing("MercatoPartnerFails", samples) == {owner}
    assert firing("MercatoPartnerFails", await figures(app.db)) == {owner}, "every process says so"
    # The circuit breaker of this process stops calls now; another's lets one through.
    call = StoreCall(
        store_id=row.store_id,
        partner_id=row.partner_id,
        url=shop.base + "/hooks/place",
        webhook_id=clock.new_id(),
        body=b"",
        traceparent="",
    )
    app.store_health.record(call, CallResult(at=clock.now(), ms=1, status=200))
    await app.store_health.flush()
    assert firing("MercatoPartnerFails", await figures(app.db)) == set()


async def add_partners(db: Database, count: int) -> list[UUID]:
    ids = [clock.new_id() for _ in range(count)]
    async with db.write() as tx:
        for number, id_ in enumerate(ids):
            await tx.execute(
                insert(partners).values(
                    id=id_, name=f"P{number} {id_}", kind="commerce", limits="{}", created_at=clock.now()
                )
            )
    return ids


def failing_address(partner_id: UUID, **columns: Any) -> Any:
    since = clock.now() - timedelta(hours=2)
    row = {"partner_id": partner_id, "url": "https://pos.example/hooks", "failing_since": since}
    return insert(failing_endpoints).values(**row | columns)


async def test_one_bad_partner_of_fifty_fires_an_alert_that_names_it_alone(db: Database):
    ids = await add_partners(db, 50)
    async with db.write() as tx:
        await tx.execute(failing_address(ids[7]))
        await tx.execute(failing_address(ids[8], failing_since=clock.now() - timedelta(minutes=59)))
        await tx.execute(failing_address(ids[9], disabled_at=clock.now(), disabled_reason="410"))
    samples = await figures(db)
    assert firing("MercatoPartnerFails", samples) == {str(ids[7])}
    assert samples["mercato_partner_addresses_failing"] == {str(ids[7]): 1}
    assert samples["mercato_addresses_disabled"] == {"": 1}


async def test_an_address_that_nobody_uses_any_more_is_in_trouble_only_until_its_last_retry(
    mercato: Service, shop: MerchantServer
):
    here = await trade(mercato, shop, event_url=shop.base + "/events")
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    hooks = {"url": shop.base + "/own", "types": ["catalog.sync.failed"]}
    assert (await here.pos.post("/v1/commerce/webhook-endpoints", hooks)).status == 201
    shop.answers["order-cancelled"] = broken
    order = await here.placed()
    await mercato.app.orders.cancel(UUID(order["orderId"]), reason="Fraud")
    deliveries = f"/v1/commerce/webhook-deliveries?orderId={order['orderId']}&type=order.cancelled"
    [waiting] = (
        await mercato.until(
            here.pos, deliveries, lambda page: [one["attempts"] for one in page["deliveries"]] == [1]
        )
    )["deliveries"]
    assert (await here.pos.call("PUT", path, {"webhookUrl": shop.base + "/new?v=2"})).status == 200
    async with mercato.app.db.write() as tx:
        row = await tx.first(select(orders_table.c.partner_id, orders_table.c.storefront_id))
        assert row is not None
        used = [shop.base + "/new/catalog-sync?v=2", shop.base + "/own"]
        for url in (*used, "https://old.example/hooks/catalog-sync"):
            await tx.execute(failing_address(row.partner_id, url=url))
        disabled = {"disabled_at": clock.now(), "disabled_reason": "410"}
        for url in ("https://old.example/events", "https://old.example/hooks/catalog-sync"):
            await tx.execute(failing_address(row.storefront_id, url=url, **disabled))
        await tx.execute(failing_address(row.storefront_id, url=shop.base + "/events", **disabled))
    await forget_unused(mercato.app.db)
    async with mercato.app.db.read() as tx:
        left = {found.url for found in await tx.all(select(failing_endpoints.c.url))}
    assert left == {*used, shop.base + "/events", waiting["url"]}
    shop.answers["order-cancelled"] = None
    assert (
        await here.pos.post(f"/v1/commerce/webhook-deliveries/{waiting['deliveryId']}/redeliver")
    ).status == 200
    await mercato.until(here.pos, deliveries, lambda page: page["deliveries"][0]["status"] == "succeeded")
    await forget_unused(mercato.app.db)
    async with mercato.app.db.read() as tx:
        left = {found.url for found in await tx.all(select(failing_endpoints.c.url))}
    assert left == {*used, shop.base + "/events"}


@pytest.mark.parametrize("count", [PAGE - 1, PAGE, PAGE + 1])
async def test_every_address_that_nobody_uses_is_forgotten_however_many_there_are(db: Database, count: int):
    [partner_id] = await add_partners(db, 1)
    async with db.write() as tx:
        for number in range(count):
            await tx.execute(failing_address(partner_id, url=f"https://old.example/{number:04}"))
    assert await forget_unused(db) == count
    assert await forget_unused(db) == 0


async def test_the_worst_partners_have_metrics_of_their_own_and_the_rest_share_one(db: Database):
    ids = await add_partners(db, MAX_PARTNERS + 5)
    then = clock.now() - timedelta(hours=1)
    async with db.write() as tx:
        for number, id_ in enumerate(ids):
            for _ in range(2 if number >= 5 else 1):
                row = {
                    "store_id": clock.new_id(),
                    "partner_id": id_,
                    "failing_since": then,
                    "failed_at": then,
                }
                await tx.execute(insert(failing_stores).values(**row, calls=2))
        await tx.execute(update(partners).where(partners.c.id == ids[0]).values(suspended_at=then))
    samples = await figures(db)
    stores = samples["mercato_partner_stores_failing"]
    assert stores == {str(id_): 2 for id_ in ids[5:]} | {OTHERS: 4}, "a suspended partner isn't in trouble"
    assert samples["mercato_stores_failing"] == {"": 2 * MAX_PARTNERS + 4}
    assert firing("MercatoPartnerFails", samples) == {OTHERS, *map(str, ids[5:])}


async def test_a_backup_that_is_old_or_was_never_made_fires_an_alert(db: Database):
    assert "mercato_backup_age_seconds" not in await figures(db), "there is nothing to lose yet"
    [made] = await add_partners(db, 1)
    then = clock.now() - timedelta(days=2)
    async with db.write() as tx:
        await tx.execute(update(partners).where(partners.c.id == made).values(created_at=then))
    is_told = tx.dialect == "sqlite"
    never = firing("MercatoBackupOld", await figures(db))
    assert bool(never) == is_told, "PostgreSQL has tools of its own, which may never say so"
    set_context(WorkContext(action="backup", user="cron"))
    async with db.write() as tx:
        await audit(tx, "database")
    samples = await figures(db)
    assert samples["mercato_backup_age_seconds"][""] < 3600
    assert firing("MercatoBackupOld", samples) == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here")
def test_prometheus_itself_fires_them(tmp_path: Path):
    series = {
        'mercato_partner_failing_seconds{partner="a",instance="1"}': "0+300x20",
        'mercato_partner_failing_seconds{partner="a",instance="2"}': "0+300x20",
        'mercato_partner_failing_seconds{partner="b",instance="1"}': "60x20",
        'mercato_addresses_disabled{instance="1"}': "0x70 1x20",
        'mercato_backup_age_seconds{instance="1"}': "130000+300x20",
    }
    expected: dict[str, tuple[str, int]] = {
        "MercatoPartnerFails": ("10m", 1),
        "MercatoAddressDisabled": ("75m", 1),
        "MercatoBackupOld": ("10m", 1),
    }
    tests = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                        "eval_time": at,
                        "exp_samples": [{"labels": "{}", "value": count}],
                    }
                    for alert, (at, count) in expected.items()
                ],
            }
        ],
    }
    file = tmp_path / "alerts.test.yaml"
    file.write_text(yaml.safe_dump(tests))
    for command in (["check", "rules", str(ALERTS)], ["test", "rules", str(file)]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
