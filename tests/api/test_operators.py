"""What operators see and do by `mercato order` and `mercato store`, beside a running service."""

import asyncio
import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.api.test_metrics import figures
from tests.api.trade import CUSTOMER, MERCHANT, ORDERS, Trade, trade
from tests.databases import mostly_sqlite, on_both
from tests.partners.test_commands import Shell, shell
from tests.service import MerchantServer, Service
from tests.waiting import PATIENCE

from mercato.features import offboarding
from mercato.features.partners import accounts
from mercato.platform.telemetry import configure_logs
from mercato_contract import clock

pytestmark = mostly_sqlite

__all__ = ["shell"]

STORES = "/v1/commerce/stores"


class Operator:
    """Runs commands beside the service, in a thread, as its loop goes on."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        return await asyncio.to_thread(self.shell, *arguments, code=code)

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "--json"))

    @property
    def err(self) -> str:
        return self.shell.err


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


@pytest.fixture
def operator(shell: Shell, here: Trade, monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setenv("COLUMNS", "80")
    # The service runs in this process, and its log must not stand between what commands print.
    monkeypatch.setenv("MERCATO_LOG_LEVEL", "error")
    configure_logs(level="error", form="console")
    shell.data_dir = Path(here.mercato.app.settings.data_dir)
    return Operator(shell)


async def cancel_notices(shop: MerchantServer) -> tuple[Any, Any]:
    """Return the bodies of the next order.cancelled to the store and of the storefront's event of it, in any order."""
    told = event = None
    while told is None or event is None:
        path, _, body = await shop.webhook()
        if path == "/hooks/order-cancelled":
            told = json.loads(body)["data"]
        elif path == "/events" and json.loads(body)["data"]["order"]["state"] == "cancelled":
            event = json.loads(body)
    return told, event


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


async def orders_of(operator: Operator, *filters: str) -> list[str]:
    return [one["orderId"] for one in (await operator.json("order", "list", *filters))["orders"]]


@on_both
async def test_orders_are_listed_newest_first_by_state_partner_store_and_time(
    here: Trade, operator: Operator
):
    first, second = [(await here.placed())["orderId"] for _ in range(2)]
    assert (await here.update({"orderId": first}, state="completed")).status == 200
    assert await orders_of(operator) == [second, first]
    assert await orders_of(operator, "--state", "open") == [second]
    assert await orders_of(operator, "--state", "completed") == [first]
    assert await orders_of(operator, "--since", "1h") == [second, first]
    assert await orders_of(operator, "--since", "2100-01-01T00:00:00Z") == []
    assert await orders_of(operator, "--store", here.store["storeId"]) == [second, first]
    listed = (await operator.json("order", "list"))["orders"][0]
    for side in ("partnerId", "storefrontId"):
        assert await orders_of(operator, "--partner", listed[side], "--state", "open") == [second]
    assert (listed["state"], listed["status"], listed["total"], listed["partnerOrderId"]) == (
        "open",
        "pending",
        "5.80",
        "A-1",
    )
    page = await operator.json("order", "list", "--limit", "1")
    assert page["nextBefore"] == second
    assert await orders_of(operator, "--before", page["nextBefore"]) == [first]
    await operator("order", "list", "--limit", "1")
    assert f"mercato order list --before {second}" in operator.err


@on_both
async def test_a_list_fits_80_columns_and_its_short_ids_are_accepted(here: Trade, operator: Operator):
    order = await here.placed()
    await here.placed()
    lines = rows(await operator("order", "list"))
    assert max(map(len, lines)) <= 80
    assert " pending " in lines[-1], "the state is never cut"
    short = lines[-1].split()[0]
    shown = await operator.json("order", "show", short)
    assert shown["orderId"] == order["orderId"]
    assert len(short) < len(order["orderId"])
    await operator("order", "show", order["orderId"][:2], code=1)
    assert "More than one order fits" in operator.err
    assert (await operator.json("order", "show", order["orderId"][-8:]))["orderId"] == order["orderId"]
    store = here.store["storeId"]
    assert (await operator.json("store", "show", store[-8:]))["storeId"] == store
    await operator("order", "show", "ffff", code=1)
    assert "There is no order ffff" in operator.err


async def test_an_order_is_shown_with_what_happened_to_it_and_without_its_customer(
    here: Trade, operator: Operator
):
    order = await here.placed()
    text = await operator("order", "show", order["orderId"])
    for part in ("2 x Tea", "5.80", "order.place", "accepted", here.store["storeId"]):
        assert part in text
    assert "order.place to the store, attempt 1: HTTP 200" in text
    shown = await operator("order", "show", order["orderId"], "--json")
    for hidden in (CUSTOMER["email"], CUSTOMER["lastName"], "203.0.113.7"):
        assert hidden not in text + shown
    assert [one["type"] for one in json.loads(shown)["timeline"]][:2] == ["placed", "webhook.attempt"]


async def test_an_adjusted_order_is_shown_with_its_new_total_and_without_its_customers_name(
    here: Trade, operator: Operator
):
    order = await here.placed()
    body = {"type": "refund", "amount": "1.00", "reason": "Lovelace was unhappy"}
    path = f"{MERCHANT}/{order['orderId']}/adjustments"
    assert (await here.pos.post(path, body, headers={"Idempotency-Key": "k"})).status == 201
    text = await operator("order", "show", order["orderId"])
    assert "refund of 1.00 USD: ***" in text
    assert "Total after adjustments: 4.80 USD" in text
    assert "adjustment: refund, amount: 1.00 USD" in text
    shown = await operator.json("order", "show", order["orderId"])
    assert (shown["total"], shown["totalAfterAdjustments"]) == ("5.80", "4.80")
    assert [one["amount"] for one in shown["adjustments"]] == ["1.00"]
    assert "Lovelace" not in text + json.dumps(shown)


@on_both
async def test_an_order_that_is_cancelled_by_an_operator_is_cancelled_for_both_sides(
    here: Trade, operator: Operator
):
    order = await here.placed()
    await operator("order", "cancel", order["orderId"])
    assert "Nothing was changed" in operator.err
    assert (await here.front.get(f"{ORDERS}/{order['orderId']}")).json()["state"] == "open"

    await operator("order", "cancel", order["orderId"], "--reason", "Fraud", "--yes")
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        read = (await client.get(f"{path}/{order['orderId']}")).json()
        assert (read["state"], read["cancelReason"]) == ("cancelled", "Fraud")
    told, event = await cancel_notices(here.shop)
    assert (told["orderId"], told["cancelReason"]) == (order["orderId"], "Fraud")
    assert (event["type"], event["data"]["order"]["cancelReason"]) == ("order.updated", "Fraud")
    last = (await operator.json("order", "show", order["orderId"]))["timeline"]
    assert ("cancelled", "service") in {(one["type"], one["actor"]) for one in last}
    entry = (await operator.json("audit", "--action", "order cancel"))["entries"][0]
    assert entry["actor"] == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert (entry["subjectId"], entry["detail"]) == (
        order["orderId"],
        {"state": "cancelled", "cancelReason": "Fraud"},
    )

    await operator("order", "cancel", order["orderId"])
    assert "cancelled already" in operator.err


async def test_an_operators_cancellation_is_logged_and_counted_by_the_service(
    here: Trade, operator: Operator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MERCATO_LOG_LEVEL", "info")
    monkeypatch.setenv("MERCATO_LOG_FORMAT", "json")
    order = await here.placed()
    await operator("order", "cancel", order["orderId"], "--yes")
    async with asyncio.timeout(PATIENCE):
        while not (counted := (await figures(here.mercato)).get("mercato_orders_cancelled_total")):
            await asyncio.sleep(0.02)
    assert counted == {("CANCELLED_BY_OPERATOR",): 1}
    here.mercato.app.event_log.flush()
    written = operator.err + capsys.readouterr().err
    (line,) = [json.loads(one) for one in written.splitlines() if '"order cancelled"' in one]
    assert (line["order_id"], line["reason"], line["actor"]) == (
        order["orderId"],
        "CANCELLED_BY_OPERATOR",
        "service",
    )


async def test_a_completed_order_cannot_be_cancelled(here: Trade, operator: Operator):
    order = await here.placed()
    assert (await here.update(order, state="completed")).status == 200
    await operator("order", "cancel", order["orderId"], "--yes", code=1)
    assert "The order is completed" in operator.err


@on_both
async def test_a_cancelled_order_is_not_sent_to_a_store_that_has_not_answered(
    here: Trade, operator: Operator
):
    async def broken(_request: web.Request, _body: bytes) -> web.Response:
        return web.Response(status=500)

    body = here.order() | {"validatedOrderToken": await here.token(here.order())}
    here.shop.answers["place"] = broken
    placing = asyncio.create_task(here.place(body, key="one"))
    while not (found := await orders_of(operator, "--state", "open")):
        pass
    await operator("order", "cancel", found[0], "--yes")
    assert (await operator.json("order", "show", found[0]))["answer"] == "given_up"
    reply = await placing
    assert (reply.status, reply.json()["errorCode"]) == (409, "ORDER_CLOSED")
    told, _event = await cancel_notices(here.shop)
    assert told["orderId"] == found[0]


@on_both
async def test_a_store_that_an_operator_pauses_takes_no_orders_until_it_is_resumed(
    here: Trade, operator: Operator
):
    store_id = here.store["storeId"]
    await operator("store", "pause", store_id, "--reason", "Flood", "--until", "2h")
    assert "is paused until" in operator.err
    said = await here.validate(here.order())
    assert [one["code"] for one in said["order"]["errors"]] == ["STORE_CLOSED"]
    status = (await here.pos.get(f"{STORES}/{store_id}/status")).json()
    assert (status["status"], status["pauseReason"]) == ("paused", "Flood")
    listed = (await operator.json("store", "list", "--status", "paused"))["stores"]
    assert [one["storeId"] for one in listed] == [store_id]
    assert (await operator.json("store", "list", "--status", "online"))["stores"] == []

    await operator("store", "resume", store_id[:14])
    assert "is online" in operator.err
    assert (await here.validate(here.order()))["isValid"]
    actions = {one["action"] for one in (await operator.json("audit"))["entries"]}
    assert actions >= {"store pause", "store resume"}


@on_both
async def test_a_store_is_listed_and_shown_even_if_its_partner_is_suspended(here: Trade, operator: Operator):
    store_id = here.store["storeId"]
    listed = (await operator.json("store", "list", "--since", "1h"))["stores"][0]
    assert (listed["storeId"], listed["status"], listed["suspended"]) == (store_id, "online", False)
    async with here.mercato.app.db.read() as tx:
        merchant = await accounts.get_partner_named(tx, listed["partner"])
    await offboarding.suspend(here.mercato.app.db, merchant.id, now=clock.now)
    lines = rows(await operator("store", "list", "--partner", str(merchant.id)))
    assert "hidden" in lines[-1]
    assert max(map(len, lines)) <= 80
    text = await operator("store", "show", store_id)
    assert "its partner is suspended" in text
    assert here.shop.base in text
    assert "/hooks" not in text
    await operator("store", "pause", store_id)
    await offboarding.resume(here.mercato.app.db, merchant.id, now=clock.now)
    assert (await here.pos.get(f"{STORES}/{store_id}/status")).json()["status"] == "paused"


@on_both
async def test_a_store_whose_last_calls_failed_is_listed_and_shown_so(here: Trade, operator: Operator):
    store_id = here.store["storeId"]
    assert (await operator.json("store", "list", "--in-trouble"))["stores"] == []
    here.shop.answers["validate"] = _broken
    for _ in range(2):
        assert (await here.front.post("/v1/marketfront/orders/validate", here.order())).status == 503
    await here.mercato.app.store_health.flush()
    [found] = (await operator.json("store", "list", "--in-trouble"))["stores"]
    assert (found["storeId"], found["failing"]["calls"], found["warnings"]) == (store_id, 2, [])
    lines = rows(await operator("store", "list"))
    assert "unreachable" in lines[-1]
    assert max(map(len, lines)) <= 80
    text = await operator("store", "show", store_id)
    assert "unreachable: its last 2 calls failed, since " in text
    assert "Last error" in text


async def _broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


@on_both
async def test_a_store_that_nobody_is_called_for_is_listed_and_shown_so(here: Trade, operator: Operator):
    store_id = here.store["storeId"]
    assert (await operator.json("store", "list"))["stores"][0]["warnings"] == []
    body = {"webhookUrl": None}
    assert (await here.pos.call("PUT", f"{STORES}/{store_id}", body)).status == 200
    assert (await operator.json("store", "list"))["stores"][0]["warnings"] == ["ORDERS_UNSEEN"]
    assert "Orders are accepted by the service; nobody is called" in await operator("store", "show", store_id)
    order = await here.placed()
    shown = await operator("order", "show", order["orderId"])
    assert "The service accepted the order" in shown
    assert "The store accepted" not in shown


@on_both
async def test_refused_requests_of_all_partners_are_listed_by_code_partner_store_and_time(
    here: Trade, operator: Operator
):
    store_id = here.store["storeId"]
    assert (await here.pos.get(f"{STORES}/{clock.new_id()}")).status == 404
    assert (await here.pos.post(f"{STORES}/{store_id}/status", {"status": "asleep"})).status == 422
    assert (await here.mercato.anonymous().get(STORES)).status == 401

    async def codes(*filters: str) -> list[str]:
        return [one["errorCode"] for one in (await operator.json("request", "list", *filters))["requests"]]

    while len(found := await codes()) < 3:
        await here.mercato.app.request_log.flush()
    # Ids of one millisecond have no order.
    assert sorted(found) == ["STORE_NOT_FOUND", "UNAUTHENTICATED", "VALIDATION_FAILED"]
    assert await codes("--code", "store_not_found") == ["STORE_NOT_FOUND"]
    assert await codes("--store", store_id, "--since", "1h") == ["VALIDATION_FAILED"]
    assert await codes("--since", "2100-01-01T00:00:00Z") == []
    listed = {one["errorCode"]: one for one in (await operator.json("request", "list"))["requests"]}
    refused, faulty = listed["UNAUTHENTICATED"], listed["VALIDATION_FAILED"]
    assert (refused["partnerId"], refused["keyId"], refused["status"]) == (None, None, 401)
    assert [one["pointer"] for one in faulty["errors"]] == ["/status"]
    assert sorted(await codes("--partner", faulty["partnerId"])) == ["STORE_NOT_FOUND", "VALIDATION_FAILED"]
    assert await codes("--before", min(one["id"] for one in listed.values())) == []
    lines = rows(await operator("request", "list"))
    assert max(map(len, lines)) <= 80
    assert any("setStoreSt" in line for line in lines)


async def test_invalid_arguments_are_refused_with_the_reason(here: Trade, operator: Operator):
    await operator("store", "pause", here.store["storeId"], "--until", "2020-01-01T00:00:00Z", code=1)
    assert "must be in the future" in operator.err
    await operator("store", "pause", here.store["storeId"], "--until", "soon", code=2)
    assert "as 2h or 3d" in operator.err
    await operator("order", "cancel", "0", "--reason", " ", code=2)
    assert "--reason is empty" in operator.err
