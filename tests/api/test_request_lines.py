"""The log has a line for each notable request and for the milestones of orders: who and what, and no secret."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.api.trade import CUSTOMER, PLACE, Trade, trade
from tests.databases import mostly_sqlite, on_both
from tests.logs import log_plainly
from tests.service import MerchantServer, Service, service
from tests.waiting import PATIENCE

from mercato.features import offboarding
from mercato.features.orders import placement, resubmission
from mercato.features.partners.accounts import NewPartner
from mercato.http import edge
from mercato.platform.telemetry import configure_logs, logs
from mercato_contract.clock import now

pytestmark = mostly_sqlite

STORES = "/v1/commerce/stores"
Lines = Callable[[Service], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _json_lines() -> Iterator[None]:
    configure_logs(level="info", form="json")
    yield
    log_plainly()


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    def read(mercato: Service) -> list[dict[str, Any]]:
        mercato.app.event_log.flush()
        return [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]

    return read


@pytest.fixture
async def house(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def lines_of(found: list[dict[str, Any]], **own: Any) -> list[dict[str, Any]]:
    """Return the lines with these members.

    The services of other tests write lines in the same process: those of a test that has ended come after it.
    """
    return [line for line in found if line.items() >= own.items()]


def requests_in(found: list[dict[str, Any]], partner: NewPartner) -> list[str]:
    """Return the partner's operations."""
    return [line["operation"] for line in lines_of(found, event="request", partner_id=str(partner.id))]


async def test_a_refusal_is_logged_with_its_caller_and_reason(mercato: Service, lines: Lines):
    made, pos = await mercato.partner()
    await pos.get(f"{STORES}/x", headers={"X-Request-Id": "mine"})
    (line,) = lines_of(lines(mercato), event="request", partner_id=str(made.id))
    expected = {"request_id": "mine", "operation": "getStore", "status": 404, "error_code": "STORE_NOT_FOUND"}
    assert line.items() >= (expected | {"level": "info"}).items()
    assert line.keys() >= {"partner_id", "key_id", "ms", "timestamp"}


async def test_a_suspended_partners_refusal_is_logged_with_partner_and_key(mercato: Service, lines: Lines):
    made, client = await mercato.partner()
    assert made.commerce_key is not None
    await offboarding.suspend(mercato.app.db, made.id, now=now)
    assert (await client.get(STORES)).status == 403
    (line,) = lines_of(lines(mercato), event="request", partner_id=str(made.id))
    known = {"key_id": str(made.commerce_key.id), "status": 403, "error_code": "FORBIDDEN"}
    assert line.items() >= known.items()


async def test_requests_that_change_something_have_a_line_and_quick_reads_have_none(
    mercato: Service, shop: MerchantServer, lines: Lines
):
    made, pos = await mercato.partner()
    await pos.get(STORES)
    await pos.post("/v1/commerce/onboarding/stores", {
        "partnerStoreId": "s", "name": "S", "address": {}, "catalogCallbackUrl": shop.base,
    })  # fmt: skip
    assert requests_in(lines(mercato), made) == ["registerStore"]


@pytest.mark.parametrize(
    ("settings", "operations"),
    [
        ({"request_log": "all"}, ["listStores", "getStore"]),
        ({"request_log": "off"}, []),
        ({"slow_ms": 599}, ["listStores", "getStore"]),
        ({"slow_ms": 601}, ["getStore"]),
    ],
)
async def test_the_settings_choose_the_requests_with_a_line(
    database_url: str, tmp_path: Path, lines: Lines, settings: dict[str, Any], operations: list[str],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    # Each request takes 600 ms by this clock.
    monkeypatch.setattr(edge, "perf_counter", map(float, count(0, 0.6)).__next__)
    async with service(database_url, tmp_path / "data", **settings) as mercato:
        made, client = await mercato.partner()
        await client.get(STORES)
        await client.get(f"{STORES}/x")
        assert requests_in(lines(mercato), made) == operations


async def test_the_lines_hold_no_key_query_body_or_customer(house: Trade, capsys: pytest.CaptureFixture[str]):
    await house.placed()
    await house.front.get(f"/v1/marketfront/stores/x?at={house.front.key}")
    await house.front.post(
        PLACE, house.order(customer=CUSTOMER | {"phone": 7}), headers={"Idempotency-Key": "hush"}
    )
    house.mercato.app.event_log.flush()
    text = capsys.readouterr().err
    assert '"order placed"' in text
    for secret in (house.front.key, house.pos.key, *map(str, CUSTOMER.values()), "hush", "203.0.113.7"):
        assert secret is not None
        assert secret not in text


async def test_an_order_has_a_line_for_each_milestone(house: Trade, lines: Lines):
    order = await house.placed()
    await house.update(order, state="cancelled", cancelReason="Ada asked us to")
    house.shop.answers["place"] = {"accepted": False, "errors": [{"code": "STORE_CLOSED", "message": "no"}]}
    assert (await house.place(house.order())).status >= 400
    ours = lines_of(lines(house.mercato), store_id=house.store["storeId"])
    found = [line for line in ours if line["event"].startswith("order ")]
    assert [line["event"] for line in found] == [
        "order placed",
        "order cancelled",
        "order placed",
        "order refused",
    ]
    placed, cancelled, _, refused = found
    assert placed["order_id"] == cancelled["order_id"] == order["orderId"]
    assert placed["store_id"] == house.store["storeId"]
    assert (cancelled["reason"], refused["reason"]) == ("OTHER", "STORE_CLOSED")


async def test_a_store_without_an_answer_leaves_the_line_order_unanswered(
    database_url: str, tmp_path: Path, shop: MerchantServer, lines: Lines
):
    async with service(database_url, tmp_path / "data", place_seconds=1.5) as mercato:
        house = await trade(mercato, shop)

        shop.answers["place"] = _broken
        assert (await house.place(house.order())).status == 503
        ours = lines_of(lines(mercato), store_id=house.store["storeId"])
    assert "order unanswered" in [line["event"] for line in ours]


@on_both
async def test_an_order_that_is_sent_again_and_given_up_has_a_line_for_both(
    database_url: str, tmp_path: Path, shop: MerchantServer, lines: Lines, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(placement, "SLACK", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "RETRY_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "MIN_WAIT", timedelta(seconds=0.05))
    monkeypatch.setattr(resubmission, "POLL_SECONDS", 0.1)
    async with service(
        database_url, tmp_path / "data", place_seconds=1.4, place_resend_seconds=1.6
    ) as mercato:
        house = await trade(mercato, shop)
        shop.answers["place"] = _broken
        order_id = (await house.place(house.order())).json()["orderId"]
        path = f"/v1/marketfront/orders/{order_id}"
        await mercato.until(house.front, path, lambda order: order["state"] == "cancelled")
        ours = lines_of(lines(mercato), order_id=order_id)
        found = [line for line in ours if line["event"] in {"order resent", "order given up"}]
    assert found[0]["event"] == "order resent"
    assert found[-1]["event"] == "order given up"
    assert (found[-1]["order_id"], found[-1]["reason"]) == (order_id, "STORE_UNREACHABLE")
    assert found[0]["action"] == "order.submission"


async def test_an_endpoint_that_is_disabled_has_a_line(mercato: Service, shop: MerchantServer, lines: Lines):
    async def gone(*_: Any) -> web.Response:
        return web.Response(status=410)

    house = await trade(mercato, shop)
    shop.answers["catalog-sync"] = gone
    await mercato.run(house.pos, house.store["storeId"], shop.host(b"{", "/broken.json"))
    await shop.webhook()
    caller = await mercato.app.callers.get((house.pos.key or "").encode())
    disabled = {"event": "endpoint disabled", "partner_id": str(caller.partner_id)}
    async with asyncio.timeout(PATIENCE):
        while not (found := lines_of(lines(mercato), **disabled)):
            await asyncio.sleep(0.02)
    assert found[0].items() >= {"level": "warning"}.items()
    assert found[0].keys() >= {"delivery_id", "reason"}
    assert shop.base not in json.dumps(found)


async def test_a_code_that_a_store_made_up_is_not_logged(house: Trade, lines: Lines):
    error = {"code": "ADA_LOVELACE_IS_BANNED", "message": "no"}
    house.shop.answers["place"] = {"accepted": False, "errors": [error]}
    assert (await house.place(house.order())).status >= 400
    found = lines(house.mercato)
    assert "ADA" not in json.dumps(found)
    (line,) = lines_of(found, operation="placeOrder", store_id=house.store["storeId"])
    assert line["error_code"] == "OTHER"


@on_both
async def test_lines_that_cannot_wait_are_dropped_and_counted(
    mercato: Service, lines: Lines, monkeypatch: pytest.MonkeyPatch
):
    lines(mercato)
    monkeypatch.setattr(logs, "MAX_WAITING", 2)
    for number in range(5):
        mercato.app.event_log.record("request", number=number)
    found = lines(mercato)
    assert [line.get("number", line.get("count")) for line in found] == [0, 1, 3]
    assert "dropped" in found[-1]["event"]


async def _broken(*_: Any) -> web.Response:
    return web.Response(status=500)
