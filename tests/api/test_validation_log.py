"""Validations that a store answered are in its partner's delivery log: all rejections, a sample of acceptances."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.api.trade import CUSTOMER, VALIDATE, Trade, trade
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service

from mercato.features import offboarding
from mercato.features.orders.privacy import erase_all
from mercato.features.stores.tables import stores
from mercato.features.upkeep import Upkeep
from mercato.features.webhooks import validation_log
from mercato.features.webhooks.queries import delete_of_partner
from mercato.features.webhooks.tables import answered_validations, deliveries, delivery_attempts
from mercato.platform.db.errors import DatabaseUnavailable
from mercato_contract import clock

pytestmark = mostly_sqlite

LOG = "/v1/commerce/webhook-deliveries"
NO = {"errors": [{"code": "ITEM_UNAVAILABLE", "message": "No buns today."}]}


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def logged(here: Trade) -> list[Any]:
    """Return the recorded validations, newest first."""
    await here.mercato.app.validation_log.flush()
    page = (await here.pos.get(f"{LOG}?type=order.validate&limit=100")).json()
    found: list[Any] = page["deliveries"]
    return found


async def detail(here: Trade, delivery: Any) -> Any:
    return (await here.pos.get(f"{LOG}/{delivery['deliveryId']}")).json()


async def rows(here: Trade) -> list[int]:
    """Return the numbers of rows of the tables that record a validation."""
    async with here.mercato.app.db.read() as tx:
        tables = (answered_validations, deliveries, delivery_attempts)
        return [await tx.scalar(select(func.count()).select_from(table)) for table in tables]


async def test_a_merchant_sees_why_its_store_rejected_an_order(here: Trade):
    here.shop.answers["validate"] = NO
    assert not (await here.validate(here.order(customer=CUSTOMER)))["isValid"]
    (one,) = await logged(here)
    assert (one["type"], one["status"], one["attempts"], one["error"]) == (
        "order.validate",
        "succeeded",
        1,
        None,
    )
    whole = await detail(here, one)
    assert whole["body"]["data"]["order"]["customer"]["email"] == CUSTOMER["email"]
    (attempt,) = whole["attemptLog"]
    assert (attempt["status"], attempt["error"]) == (200, None)
    assert "No buns today." in attempt["reply"]
    assert (await here.front.get("/v1/marketfront/webhook-deliveries")).json()["deliveries"] == []


async def test_every_rejection_is_recorded_and_of_the_acceptances_one_a_second(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(validation_log, "monotonic", lambda: 7.1)
    for _ in range(3):
        await here.validate(here.order())
    here.shop.answers["validate"] = NO
    for _ in range(3):
        await here.validate(here.order())
    replies = [(await detail(here, one))["attemptLog"][0]["reply"] for one in await logged(here)]
    assert ["No buns" in reply for reply in replies] == [True, True, True, False]
    here.shop.answers["validate"] = {"isValid": True}
    monkeypatch.setattr(validation_log, "monotonic", lambda: 8.0)
    await here.validate(here.order())
    assert len(await logged(here)) == 5


async def test_a_recorded_validation_is_not_sent_again(here: Trade):
    await here.validate(here.order())
    (one,) = await logged(here)
    refused = await here.pos.post(f"{LOG}/{one['deliveryId']}/redeliver")
    assert (refused.status, refused.json()["errorCode"]) == (409, "CONFLICT")
    assert "The next validation of the storefront calls the store again" in refused.json()["detail"]


async def test_of_a_partners_acceptances_and_rejections_the_last_are_kept(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(validation_log, "KEPT", 2)
    monkeypatch.setattr(validation_log, "monotonic", count().__next__)
    for answer in ({"isValid": True}, NO):
        here.shop.answers["validate"] = answer
        for number in range(4):
            await here.validate(here.order(customer=CUSTOMER | {"firstName": f"A{number}"}))
            await here.mercato.app.validation_log.flush()
    assert await rows(here) == [4, 4, 4]
    names = [
        (await detail(here, one))["body"]["data"]["order"]["customer"]["firstName"]
        for one in await logged(here)
    ]
    assert names == ["A3", "A2", "A3", "A2"]


@on_both
async def test_a_validation_is_answered_while_the_log_cannot_be_written(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    def away() -> Any:
        raise DatabaseUnavailable("gone")

    here.shop.answers["validate"] = NO
    with monkeypatch.context() as patch:
        patch.setattr(here.mercato.app.db, "write", away)
        assert (await here.front.post(VALIDATE, here.order())).status == 200
        await here.mercato.app.validation_log.flush()
    assert len(await logged(here)) == 1


async def test_validations_that_cannot_be_queued_are_dropped_and_counted(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    here = await trade(mercato, shop)
    monkeypatch.setattr(mercato.app.validation_log._waiting, "_max_size", 0)
    assert (await here.validate(here.order()))["isValid"]
    assert await logged(here) == []
    metrics = (await mercato.anonymous().get("/metrics")).body.decode()
    assert 'mercato_validation_log_dropped_total{reason="queue_full"} 1.0' in metrics


async def test_more_rejections_than_anybody_reads_are_dropped_and_counted(
    mercato: Service, here: Trade, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(validation_log, "monotonic", lambda: 7.0)
    monkeypatch.setitem(validation_log.PER_SECOND, False, 2)
    here.shop.answers["validate"] = NO
    for _ in range(3):
        await here.validate(here.order())
    assert len(await logged(here)) == 2
    metrics = (await mercato.anonymous().get("/metrics")).body.decode()
    assert 'mercato_validation_log_dropped_total{reason="partner_limit"} 1.0' in metrics


@on_both
async def test_a_validation_that_waits_while_its_partner_is_deleted_is_not_recorded(here: Trade):
    db = here.mercato.app.db
    await here.validate(here.order())
    async with db.read() as tx:
        partner_id = await tx.scalar(select(stores.c.partner_id))
    await offboarding.delete(db, partner_id, now=clock.now)
    await here.mercato.app.validation_log.flush()
    assert await rows(here) == [0, 0, 0]


@pytest.mark.parametrize("name", ["+1 202-555-0143", "\uff21da@Example.com"])
async def test_a_recorded_validation_forgets_an_erased_customer_however_it_spells_them(
    here: Trade, name: str
):
    store = f"/v1/commerce/stores/{here.store['storeId']}"
    assert (await here.pos.call("PUT", store, {"address": {"country": "US"}})).status == 200
    await here.validate(here.order(customer=CUSTOMER | {"phone": "(202) 555-0143"}))
    other = CUSTOMER | {"email": "bob@example.com", "phone": "(202) 555-0144"}
    here.shop.answers["validate"] = NO
    await here.validate(here.order(customer=other))
    assert len(await logged(here)) == 2
    await erase_all(here.mercato.app.db, name)
    [left] = await logged(here)
    assert (await detail(here, left))["body"]["data"]["order"]["customer"]["email"] == "bob@example.com"


@pytest.mark.parametrize("how", ["retention", "offboarding"])
@on_both
async def test_recorded_validations_go_with_the_delivery_log(here: Trade, how: str):
    await here.validate(here.order())
    await here.mercato.app.validation_log.flush()
    assert await rows(here) == [1, 1, 1]
    if how == "retention":
        later = clock.now() + timedelta(days=31)
        await Upkeep(here.mercato.app.db, lambda: later, catalog_days=30, delivery_days=30).once()
    else:
        async with here.mercato.app.db.write() as tx:
            (partner_id,) = [
                row.partner_id for row in await tx.all(select(answered_validations.c.partner_id))
            ]
            await delete_of_partner(tx, partner_id, limit=10)
    assert await rows(here) == [0, 0, 0]
