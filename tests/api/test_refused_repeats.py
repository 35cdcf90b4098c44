"""A store that refuses a repeat may have accepted the order in the answer that was lost: it is told of the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.api.examples import example
from tests.api.test_order_replies import answering, replied
from tests.api.trade import MERCHANT, ORDERS, Trade, trade
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.generated import RUN
from tests.servers import (
    Script,
    Server,
    by_path,
    drop,
    hang,
    head,
    in_turn,
    raw,
    redirect,
    reply,
    reset,
    serve,
)
from tests.service import MerchantServer, service
from tests.waiting import PATIENCE

from mercato.features.orders import placement, queries, resubmission, submission
from mercato.features.orders.submission import MAY_HAVE_ARRIVED, NAMES_ITS_ORDER, SubmissionOutcome
from mercato.features.webhooks.model import CallResult
from mercato_client.testing.caller import Answer
from mercato_contract.replies import Acceptance

pytestmark = mostly_sqlite

UNKNOWN: dict[str, Script] = {
    "reset": reset(),
    "reset after the status": reset(head(200, content_length=500)),
    "closed": drop(),
    "breaks off": raw(head(200, content_length=500) + b'{"accepted": true'),
    "not HTTP": raw(b"\x00\xff\r\n\r\n"),
    "204": reply(204),
    "200 without a body": reply(200),
    "200 that isn't JSON": reply(200, b"<html>OK</html>"),
    "accepted isn't a boolean": replied({"accepted": "yes"}),
    "a redirect": redirect("/elsewhere", 307),
    "401": reply(401),
    "404": reply(404),
    "408": reply(408),
    "429": replied({}, 429),
    "500": reply(500),
    "502": reply(502),
    "504": reply(504),
}
"""First answers of which the service can't tell whether the store has accepted the order."""

REFUSALS: dict[str, tuple[Script, str]] = {
    "409": (replied({"message": "Order already exists"}, 409), "OTHER"),
    "409 without a body": (reply(409), "OTHER"),
    "400": (replied({"errorCode": "ITEM_UNAVAILABLE"}, 400), "ITEM_UNAVAILABLE"),
    "402": (replied({"errors": [{"code": "PAYMENT_DECLINED"}]}, 402), "PAYMENT_DECLINED"),
    "422": (replied({"errors": [{"code": "OTHER"}]}, 422), "OTHER"),
    "accepted: false": (replied({"accepted": False, "partnerOrderId": "A-7"}), "OTHER"),
    "a number and a reason": (
        replied({"partnerOrderId": "A-7", "errors": [{"code": "STORE_CLOSED"}]}, 409),
        "STORE_CLOSED",
    ),
    "a number and a code": (
        replied({"partnerOrderId": "A-7", "errorCode": "STORE_CLOSED"}, 409),
        "STORE_CLOSED",
    ),
    "a number and a no": (replied({"partnerOrderId": "A-7", "accepted": False}, 409), "OTHER"),
    "an unusable number": (replied({"partnerOrderId": ""}, 409), "OTHER"),
}

EXISTS = {
    "partnerOrderId": "A-7",
    "message": "Order already exists",
    "estimatedReadyAt": "2030-01-31T18:30:00Z",
}


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(submission, "MIN_ATTEMPT_SECONDS", 0.05)
    monkeypatch.setattr(placement, "SLACK", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "RETRY_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "MIN_WAIT", timedelta(seconds=0.05))
    monkeypatch.setattr(resubmission, "POLL_SECONDS", 0.1)


@asynccontextmanager
async def running(
    database_url: str, data: Path, shop: MerchantServer, **options: Any
) -> AsyncIterator[Trade]:
    async with service(database_url, data, **{"place_seconds": PATIENCE} | options) as mercato:
        yield await trade(mercato, shop, event_url=shop.base + "/events")


@asynccontextmanager
async def store_of(here: Trade, *places: Script) -> AsyncIterator[Server]:
    """Run a store that answers placements in turn, and agrees to everything else."""
    scripts = {
        "/validate": replied({"isValid": True}),
        "/place": in_turn(*places),
        "/order-cancelled": reply(204),
    }
    async with serve(by_path(scripts)) as store:
        await answering(here, store.url)
        yield store


def paths(store: Server) -> list[str]:
    return [request.path for request in store.requests if request.path != "/validate"]


async def notice(store: Server) -> Any:
    """Wait until the store is told that an order is cancelled; return what it is told."""
    async with asyncio.timeout(PATIENCE):
        while "/order-cancelled" not in paths(store):
            store.arrived.clear()
            await store.arrived.wait()
    told = [json.loads(request.body) for request in store.requests if request.path == "/order-cancelled"]
    assert len(told) == 1
    return told[0]["data"]


async def entry(here: Trade, order_id: str, type_: str) -> Any:
    """Return the detail of the order's one timeline entry of the type."""
    entries = (await here.pos.get(f"{MERCHANT}/{order_id}/timeline")).json()["entries"]
    (found,) = [one["detail"] for one in entries if one["type"] == type_]
    return found


async def cancelled_and_told(here: Trade, store: Server, order_id: str, code: str, why: str) -> None:
    """Assert that the order is cancelled, the store told once, and that the timeline says why."""
    told = await notice(store)
    assert (told["orderId"], told["cancelReason"]) == (order_id, code)
    order = (await here.pos.get(f"{MERCHANT}/{order_id}")).json()
    assert (order["state"], order["cancelReason"]) == ("cancelled", code)
    assert (await entry(here, order_id, "refused"))["storeNotified"] == why


def refused(answer: Answer, code: str) -> str:
    problem = answer.json()
    assert (answer.status, problem["errorCode"]) == (400, code), problem
    order_id: str = problem["orderId"]
    return order_id


@only_sqlite
@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.long)])
async def test_a_refusal_after_an_unknown_outcome_cancels_the_order_and_the_store_is_told(
    database_url: str, tmp_path: Path, shop: MerchantServer, database_kind: str, share: int
):
    """`make test` tries every third refusal, after each outcome other ones; `make test-long` tries all."""
    tried = [
        (unknown, name)
        for number, unknown in enumerate(UNKNOWN, RUN)
        for name in [*REFUSALS][number % share :: share]
    ]
    async with running(database_url, tmp_path / "data", shop) as here:
        for unknown, name in tried:
            refusal, code = REFUSALS[name]
            with example((unknown, name)):
                async with store_of(here, UNKNOWN[unknown], refusal) as store:
                    order_id = refused(await here.place(here.order()), code)
                    assert paths(store)[:2] == ["/place", "/place"]
                    await cancelled_and_told(here, store, order_id, code, MAY_HAVE_ARRIVED)


@only_sqlite
async def test_a_store_that_refuses_the_first_call_is_not_told(
    database_url: str, tmp_path: Path, shop: MerchantServer, database_kind: str
):
    async with running(database_url, tmp_path / "data", shop) as here:
        for refusal, code in REFUSALS.values():
            async with store_of(here, refusal) as store:
                order_id = refused(await here.place(here.order()), code)
                assert "storeNotified" not in await entry(here, order_id, "refused")
                assert paths(store) == ["/place"]
        page = (await here.pos.get("/v1/commerce/webhook-deliveries?type=order.cancelled")).json()
        assert page["deliveries"] == []


@only_sqlite
@pytest.mark.parametrize("arrived", [False, True])
async def test_a_call_that_made_no_connection_leaves_no_doubt(
    database_url: str, tmp_path: Path, shop: MerchantServer, database_kind: str, arrived: bool
):
    """The store was down, or its circuit open: what it answers then is its first answer."""
    async with (
        running(database_url, tmp_path / "data", shop) as here,
        store_of(here, REFUSALS["409"][0]) as store,
    ):
        submit = submission.Submitter.submit

        async def after_another(self: Any, made: Any, *, seconds: float) -> SubmissionOutcome:
            outcome = await submit(self, made, seconds=seconds)
            earlier = CallResult(at=here.mercato.app.clock(), ms=1, error="x", may_have_arrived=arrived)
            return SubmissionOutcome(outcome.reply, (earlier, *outcome.calls))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submission.Submitter, "submit", after_another)
            order_id = refused(await here.place(here.order()), "OTHER")
        assert ("storeNotified" in await entry(here, order_id, "refused")) is arrived
        if arrived:
            await notice(store)


async def test_repeats_of_the_storefront_that_join_an_order_are_told_of_its_refusal(
    database_url: str, tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resubmission, "POLL_SECONDS", 3_600.0)  # no background attempts
    async with (
        running(database_url, tmp_path / "data", shop, place_seconds=0.4) as here,
        store_of(here, hang(), REFUSALS["409"][0]) as store,
    ):
        first = (await here.place(here.order(), key="k")).json()
        assert first["errorCode"] == "STORE_UNREACHABLE"
        order_id = refused(await here.place_until_answered(here.order(), key="k"), "OTHER")
        assert order_id == first["orderId"]
        await cancelled_and_told(here, store, order_id, "OTHER", MAY_HAVE_ARRIVED)


@on_both
async def test_a_refused_background_attempt_is_told(database_url: str, tmp_path: Path, shop: MerchantServer):
    async with (
        running(database_url, tmp_path / "data", shop, place_seconds=0.4) as here,
        store_of(here, hang(), REFUSALS["422"][0]) as store,
    ):
        order_id = (await here.place(here.order(), key="k")).json()["orderId"]
        await cancelled_and_told(here, store, order_id, "OTHER", MAY_HAVE_ARRIVED)
        assert refused(await here.place(here.order(), key="k"), "OTHER") == order_id


# --- 409 with the store's own number ----------------------------------------------------------------------


@only_sqlite
async def test_after_an_unknown_outcome_a_409_that_names_the_stores_order_is_its_acceptance(
    database_url: str, tmp_path: Path, shop: MerchantServer, database_kind: str
):
    async with running(database_url, tmp_path / "data", shop) as here:
        for unknown, script in UNKNOWN.items():
            with example(unknown):
                async with store_of(here, script, replied(EXISTS, 409)) as store:
                    order = await here.placed()
                    assert (order["state"], order["partnerOrderId"]) == ("open", "A-7")
                    assert order["estimatedReadyAt"] == "2030-01-31T18:30:00.000Z"
                    assert paths(store) == ["/place", "/place"]
                    assert await entry(here, order["orderId"], "accepted") == {}


async def test_a_409_that_names_the_stores_order_keeps_the_sale_in_the_background_too(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with (
        running(database_url, tmp_path / "data", shop, place_seconds=0.4) as here,
        store_of(here, hang(), replied({"partnerOrderId": 7}, 409)) as store,
    ):
        order_id = (await here.place(here.order(), key="k")).json()["orderId"]
        path = f"{ORDERS}/{order_id}"
        await here.mercato.until(here.front, path, lambda order: order["partnerOrderId"] == "7")
        assert (await here.place(here.order(), key="k")).status == 201
        assert set(paths(store)) == {"/place"}


@only_sqlite
async def test_a_409_to_the_first_call_is_a_refusal_and_a_store_that_names_its_order_is_told(
    database_url: str, tmp_path: Path, shop: MerchantServer, database_kind: str
):
    async with (
        running(database_url, tmp_path / "data", shop) as here,
        store_of(here, replied(EXISTS, 409)) as store,
    ):
        order_id = refused(await here.place(here.order()), "OTHER")
        await cancelled_and_told(here, store, order_id, "OTHER", NAMES_ITS_ORDER)


# --- overlapping calls ------------------------------------------------------------------------------------


@on_both
async def test_a_store_that_accepts_an_order_after_it_has_refused_it_is_told(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    """Two processes call at once, as they may if their clocks differ; the refusal is recorded first."""
    async with (
        running(database_url, tmp_path / "data", shop) as here,
        store_of(here, REFUSALS["409"][0]) as store,
    ):
        app, found = here.mercato.app, []
        submit = submission.Submitter.submit

        async def overlapped(self: Any, made: Any, *, seconds: float) -> Any:
            async with app.db.read() as tx:
                order = await queries.get_order(tx, made.call.webhook_id)
                found.append(await self.find(tx, order))
            return await submit(self, made, seconds=seconds)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submission.Submitter, "submit", overlapped)
            order_id = refused(await here.place(here.order()), "OTHER")
        assert paths(store) == ["/place"]
        late = SubmissionOutcome(Acceptance(partner_order_id="A-7"), ())
        for _ in range(2):
            async with app.db.write() as tx:
                order = await app.placements.submitter.record(tx, found[0], late, notify_unanswered=True)
            assert (order.id, order.partner_order_id) == (UUID(order_id), None)
        assert (await notice(store))["orderId"] == order_id
        assert (await entry(here, order_id, "accepted.late"))["storeNotified"]
        assert (await here.front.get(f"{ORDERS}/{order_id}")).json()["state"] == "cancelled"
