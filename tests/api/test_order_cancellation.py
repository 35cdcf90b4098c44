"""A storefront cancels an order: once for each key, with the store's consent once it has the order."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import select
from tests.api.trade import MERCHANT, ORDERS, Time, Trade, trade
from tests.console.visiting import enter_as_partner
from tests.databases import mostly_sqlite, on_both
from tests.service import MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE, lengthening

from mercato.features.orders import cancellation, cancellation_calls
from mercato.features.orders.cancellation_calls import CANCEL_KIND, CancelJob
from mercato.features.orders.privacy import erase_all
from mercato.features.orders.tables import orders
from mercato.features.partners.model import PartnerKind
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import Job
from mercato_client.testing.caller import Answer
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]

CHANGED_MIND = {"reason": "CHANGED_MIND", "message": "Ada ordered twice"}


async def cancel(trading: Trade, order: Any, *, key: str | None = None, body: Any = CHANGED_MIND) -> Answer:
    headers = {"Idempotency-Key": key or str(uuid4())}
    return await trading.front.post(f"{ORDERS}/{order['orderId']}/cancel", body, headers=headers)


async def read(trading: Trade, order: Any) -> Any:
    return (await trading.front.get(f"{ORDERS}/{order['orderId']}")).json()


def refused(reply: Answer, code: str) -> str:
    assert (reply.status, reply.json()["errorCode"]) == (409, code), reply.body
    detail: str = reply.json()["detail"]
    return detail


async def calls_to(shop: MerchantServer, suffix: str, count: int) -> list[tuple[dict[str, str], Any]]:
    """Wait until so many webhooks came to this path; return them."""
    found: list[tuple[dict[str, str], Any]] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            path, headers, body = await shop.webhook()
            if path.endswith(suffix):
                found.append((headers, body))
    return found


@pytest.fixture
async def trading(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def test_a_store_that_consents_cancels_the_order_and_the_answer_is_pinned_to_the_key(
    trading: Trade, shop: MerchantServer
):
    order = await trading.placed()
    shop.answers["cancel"] = {"accepted": True}
    first = await cancel(trading, order, key="k-1")
    assert first.status == 200, first.body
    cancelled = first.json()
    assert (cancelled["state"], cancelled["cancelReason"]) == ("cancelled", "CHANGED_MIND")
    assert cancelled["cancellation"] == CHANGED_MIND | {
        "status": "accepted",
        "at": cancelled["cancellation"]["at"],
    }
    [(headers, body)] = await calls_to(shop, "/cancel", 1)
    envelope = json.loads(body)
    data = envelope["data"]
    assert (envelope["type"], data["orderId"], data["reason"]) == (
        "order.cancel",
        order["orderId"],
        "CHANGED_MIND",
    )
    assert headers["webhook-id"] == data["cancellationId"]
    assert data["partnerOrderId"] == "A-1"
    again = await cancel(trading, order, key="k-1")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert shop.received.empty()
    refused(await cancel(trading, order), "ORDER_CLOSED")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, {"accepted": False, "reason": "In the oven"}),
        *((status, {"detail": "In the oven"}) for status in (400, 402, 409, 422)),
        (422, {"errors": [1, {"code": "OTHER"}, {"message": "In the oven"}]}),
    ],
)
async def test_a_store_that_refuses_keeps_the_order_open_and_says_why(
    trading: Trade, shop: MerchantServer, status: int, said: Any
):
    async def refusal(_request: web.Request, _body: bytes) -> web.Response:
        return web.json_response(said, status=status)

    order = await trading.placed()
    shop.answers["cancel"] = refusal
    first = await cancel(trading, order, key="k-1")
    assert "In the oven" in refused(first, "CANCELLATION_REFUSED")
    assert first.json()["orderId"] == order["orderId"]
    now = await read(trading, order)
    assert (now["state"], now["cancellation"]["status"]) == ("open", "refused")
    again = await cancel(trading, order, key="k-1")
    assert again.body == first.body
    shop.answers["cancel"] = {"accepted": True}
    assert (await cancel(trading, order)).status == 200
    ids = {headers["webhook-id"] for headers, _ in await calls_to(shop, "/cancel", 2)}
    assert len(ids) == 2


@on_both
async def test_a_store_without_a_webhook_is_not_asked_and_pending_orders_are_cancelled(
    mercato: Service, shop: MerchantServer
):
    trading = await trade(mercato, shop, webhook=False)
    pending, begun = await trading.placed(), await trading.placed()
    assert (await cancel(trading, pending)).json()["state"] == "cancelled"
    await trading.update(begun, status="preparing")
    refused(await cancel(trading, begun), "CANCELLATION_REFUSED")
    assert (await read(trading, begun))["cancellation"]["status"] == "refused"


@pytest.mark.parametrize(
    ("webhook", "before", "after"),
    [
        (False, {"orderHandling": "automatic"}, {}),
        (True, {"orderHandling": "automatic"}, {}),
        # The store has accepted the order itself, and can't be asked any more.
        (True, {}, {"webhookUrl": None}),
    ],
)
async def test_nothing_says_that_a_store_refused_what_nobody_asked_it(
    mercato: Service, shop: MerchantServer, webhook: bool, before: dict[str, Any], after: dict[str, Any]
):
    trading = await trade(mercato, shop, webhook=webhook)
    path = f"/v1/commerce/stores/{trading.store['storeId']}"
    assert (await trading.pos.call("PUT", path, before)).status == 200
    order = await trading.placed()
    await trading.update(order, status="preparing")
    assert (await trading.pos.call("PUT", path, after)).status == 200
    reply = await cancel(trading, order)
    refused(reply, "CANCELLATION_REFUSED")
    assert "Nobody is called about this store's orders" in reply.json()["detail"]
    timeline = (await trading.front.get(f"{ORDERS}/{order['orderId']}/timeline")).json()["entries"]
    [entry] = [entry for entry in timeline if entry["type"] == "cancellation.refused"]
    assert entry["actor"] == "service"
    browser = await enter_as_partner(mercato, trading.front)
    page = await browser.open(f"/console/orders/{order['orderId']}")
    assert "Its cancellation was refused" in page.text
    assert "The store refused" not in page.text
    assert "The store says" not in page.text


async def test_what_a_store_says_is_its_reason_whatever_the_words(trading: Trade, shop: MerchantServer):
    order, words = (
        await trading.placed(),
        "Nobody is called about this store's orders, and the store has begun this one.",
    )
    shop.answers["cancel"] = {"accepted": False, "reason": words}
    assert f"Its reason: {words}" in refused(await cancel(trading, order), "CANCELLATION_REFUSED")


async def test_what_is_not_an_own_open_order_with_a_reason_and_a_key_is_refused(
    trading: Trade, mercato: Service
):
    order = await trading.placed()
    path = f"{ORDERS}/{order['orderId']}/cancel"
    missing = await trading.front.post(path, CHANGED_MIND)
    assert (missing.status, missing.json()["errorCode"]) == (400, "MISSING_IDEMPOTENCY_KEY")
    for body in (
        {},
        {"reason": ""},
        {"reason": "x" * 65},
        {"reason": "X", "message": "m" * 501},
        {"reason": 1},
        {"reason": " \t"},
        {"reason": "\N{NO-BREAK SPACE}"},
        {"reason": "CHANGED\aMIND"},
        {"reason": "CHANGED\nMIND"},
        {"reason": "CHANGED\n"},
    ):
        assert (await cancel(trading, order, body=body)).status in (400, 422), body
    unknown = await cancel(trading, {"orderId": str(uuid4())})
    assert (unknown.status, unknown.json()["errorCode"]) == (404, "ORDER_NOT_FOUND")
    _, other = await mercato.partner(PartnerKind.MARKETFRONT)
    foreign = await other.post(path, CHANGED_MIND, headers={"Idempotency-Key": "k"})
    assert (foreign.status, foreign.json()["errorCode"]) == (404, "ORDER_NOT_FOUND")
    await trading.update(order, state="completed")
    refused(await cancel(trading, order), "ORDER_CLOSED")


async def test_a_key_that_came_with_another_reason_is_refused(trading: Trade, shop: MerchantServer):
    order = await trading.placed()
    shop.answers["cancel"] = {"accepted": True}
    await cancel(trading, order, key="k-1")
    other = await cancel(trading, order, key="k-1", body={"reason": "ELSE"})
    assert (other.status, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    another = await cancel(trading, await trading.placed(), key="k-1")
    assert (another.status, another.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert other.json()["orderId"] == another.json()["orderId"] == order["orderId"]


async def test_a_cancellation_in_other_words_gets_the_first_answer(trading: Trade, shop: MerchantServer):
    order = await trading.placed()
    shop.answers["cancel"] = {"accepted": True}
    first = await cancel(trading, order, key="k-1", body={"reason": "ELSE", "message": None})
    again = await cancel(trading, order, key="k-1", body={"reason": "ELSE"})
    assert (first.status, again.status, again.body) == (200, 200, first.body)


@on_both
async def test_the_merchants_completion_while_the_store_is_asked_wins(trading: Trade, shop: MerchantServer):
    order = await trading.placed()

    async def complete(_request: web.Request, _body: bytes) -> web.Response:
        assert (await trading.update(order, state="completed")).status == 200
        return web.json_response({"accepted": True})

    shop.answers["cancel"] = complete
    refused(await cancel(trading, order), "ORDER_CLOSED")
    now = await read(trading, order)
    assert (now["state"], now["cancellation"]["status"]) == ("completed", "refused")
    timeline = (await trading.front.get(f"{ORDERS}/{order['orderId']}/timeline")).json()["entries"]
    [entry] = [entry for entry in timeline if entry["type"] == "cancellation.refused"]
    # These aren't the store's words: it has consented.
    assert (entry["actor"], entry["detail"]["refusal"]) == ("service", "The order was completed meanwhile.")


@on_both
async def test_two_cancellations_at_once_are_one_for_the_store(trading: Trade, shop: MerchantServer):
    order = await trading.placed()
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        asked.set()
        await go.wait()
        return web.json_response({"accepted": True})

    shop.answers["cancel"] = slowly
    first = asyncio.create_task(cancel(trading, order, key="k-1"))
    await asked.wait()
    same = await cancel(trading, order, key="k-1")
    assert (same.status, same.json()["errorCode"]) == (409, "REQUEST_IN_PROGRESS")
    second = asyncio.create_task(cancel(trading, order, key="k-2"))
    calls = await calls_to(shop, "/cancel", 2)
    go.set()
    replies = await asyncio.gather(first, second)
    assert [reply.status for reply in replies] == [200, 200]
    assert len({headers["webhook-id"] for headers, _ in calls}) == 1
    assert len({body for _, body in calls}) == 1


@on_both
async def test_a_key_whose_cancellation_ended_meanwhile_joins_the_newer_one(
    trading: Trade, shop: MerchantServer
):
    order = await trading.placed()
    calls = [asyncio.Event() for _ in range(3)]
    go = {1: asyncio.Event(), 3: asyncio.Event()}
    answered = {
        1: {"accepted": False},
        2: {"accepted": False, "reason": "In the oven"},
        3: {"accepted": True},
    }
    numbers = iter((1, 2, 3, 4))

    async def in_turns(_request: web.Request, _body: bytes) -> web.Response:
        number = next(numbers)
        if number > 3:
            return web.json_response(answered[3])
        calls[number - 1].set()
        if number in go:
            await go[number].wait()
        return web.json_response(answered[number])

    shop.answers["cancel"] = in_turns
    first = asyncio.create_task(cancel(trading, order, key="k-1"))
    await calls[0].wait()
    refused(await cancel(trading, order, key="k-2"), "CANCELLATION_REFUSED")
    newer = asyncio.create_task(cancel(trading, order, key="k-3"))
    await calls[2].wait()
    go[1].set()
    assert ((await first).status, (await first).json()["errorCode"]) == (503, "STORE_UNREACHABLE")
    assert (await cancel(trading, order, key="k-1")).json()["state"] == "cancelled"
    go[3].set()
    assert (await newer).json()["state"] == "cancelled"


# --- two systems of one merchant --------------------------------------------------------------------


@asynccontextmanager
async def being_asked(
    trading: Trade, shop: MerchantServer, answer: Any
) -> AsyncIterator[tuple[Any, "asyncio.Task[Answer]", asyncio.Event]]:
    """Yield an order whose store is called about its cancellation, the request, and what lets the store answer."""
    order = await trading.placed()
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        asked.set()
        await go.wait()
        return web.json_response(answer)

    shop.answers["cancel"] = slowly
    request = asyncio.create_task(cancel(trading, order))
    await asked.wait()
    try:
        yield order, request, go
    finally:
        go.set()
        await request


@on_both
@pytest.mark.parametrize("accepted", [True, False])
async def test_no_other_system_lets_an_order_go_on_while_its_store_is_called_about_the_cancellation(
    trading: Trade, shop: MerchantServer, accepted: bool
):
    async with being_asked(trading, shop, {"accepted": accepted}) as (order, request, go):
        kept = await trading.update(order, cancellation={"accepted": False, "reason": "On the grill"})
        assert "its answer decides" in refused(kept, "CONFLICT")
        assert (await read(trading, order))["cancellation"]["status"] == "requested"
        go.set()
        reply = await request
    now = await read(trading, order)
    assert (reply.status, now["state"], now["cancellation"]["status"]) == (
        (200, "cancelled", "accepted") if accepted else (409, "open", "refused")
    )


@on_both
@pytest.mark.parametrize(
    "decision",
    [{"cancellation": {"accepted": True}}, {"state": "cancelled", "cancelReason": "Out of bread"}],
)
async def test_a_store_that_is_called_hears_that_another_system_cancelled_the_order_whatever_it_answers(
    trading: Trade, shop: MerchantServer, decision: dict[str, Any]
):
    async with being_asked(trading, shop, {"accepted": False}) as (order, request, go):
        assert (await trading.update(order, **decision)).status == 200
        assert (await trading.update(order, **decision)).status == 200
        [(_, body)] = await calls_to(shop, "/order-cancelled", 1)
        told = json.loads(body)["data"]
        assert (told["orderId"], told["cancelReason"]) == (
            order["orderId"],
            decision.get("cancelReason", "CHANGED_MIND"),
        )
        go.set()
        assert (await request).status == 200
    now = await read(trading, order)
    assert (now["state"], now["cancellation"]["status"]) == ("cancelled", "accepted")
    assert shop.received.empty()


@on_both
async def test_of_a_store_and_another_system_that_decide_at_once_both_know_the_result(
    trading: Trade, shop: MerchantServer
):
    for answer in (True, False) * 3:
        for decision in (True, False):
            async with being_asked(trading, shop, {"accepted": answer}) as (order, request, go):
                update = asyncio.create_task(trading.update(order, cancellation={"accepted": decision}))
                go.set()
                decided, reply = await asyncio.gather(update, request)
            is_cancelled = (await read(trading, order))["state"] == "cancelled"
            assert is_cancelled is (answer or (decision and decided.status == HTTPStatus.OK))
            assert reply.status == (200 if is_cancelled else 409)
            if is_cancelled and not answer:
                [(_, body)] = await calls_to(shop, "/order-cancelled", 1)
                assert json.loads(body)["data"]["orderId"] == order["orderId"]
            await trading.update(order, state="completed")


# --- stores that don't answer ---------------------------------------------------------------------


@asynccontextmanager
async def impatient(
    database_url: str, data: Path, shop: MerchantServer, time: Time, *, seconds: float = 0.5
) -> AsyncIterator[Trade]:
    async with service(database_url, data, now=time, place_seconds=seconds) as mercato:
        yield await trade(mercato, shop, event_url=shop.base + "/events")


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    monkeypatch.setattr(cancellation, "SLACK", timedelta(seconds=0.1))
    monkeypatch.setattr(cancellation_calls, "RETRY_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr(cancellation_calls, "MIN_WAIT", timedelta(seconds=0.05))
    return Time()


async def broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def test_a_store_that_does_not_answer_is_asked_again_with_the_same_bytes_until_it_does(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        order = await trading.placed()
        shop.answers["cancel"] = broken
        first = await cancel(trading, order, key="k-1")
        assert (first.status, first.json()["errorCode"], first.json()["retryable"]) == (
            503,
            "STORE_UNREACHABLE",
            True,
        )
        assert (await read(trading, order))["cancellation"]["status"] == "requested"
        calls = await calls_to(shop, "/cancel", 3)
        assert len({(headers["webhook-id"], body) for headers, body in calls}) == 1
        shop.answers["cancel"] = {"accepted": True}
        path = f"{ORDERS}/{order['orderId']}"
        done = await trading.mercato.until(trading.front, path, lambda one: one["state"] == "cancelled")
        assert done["cancellation"]["status"] == "accepted"
        again = await cancel(trading, order, key="k-1")
        assert (again.status, again.json()["state"]) == (200, "cancelled")


async def test_a_store_that_never_answers_ends_the_cancellation_and_the_order_goes_on(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        order = await trading.placed()
        shop.answers["cancel"] = broken
        assert (await cancel(trading, order, key="k-1")).status == 503
        time.ahead = timedelta(minutes=11)
        path = f"{ORDERS}/{order['orderId']}"
        done = await trading.mercato.until(
            trading.front, path, lambda one: one["cancellation"]["status"] != "requested"
        )
        assert (done["state"], done["cancellation"]["status"]) == ("open", "unanswered")
        assert "did not answer" in refused(await cancel(trading, order, key="k-1"), "CANCELLATION_REFUSED")
        listed = (await trading.pos.get("/v1/commerce/webhook-deliveries?type=order.cancel")).json()
        assert [one["status"] for one in listed["deliveries"]] == ["failed"]


async def test_a_cancellation_is_given_up_only_after_the_store_was_asked_a_last_time(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        order = await trading.placed()
        shop.answers["cancel"] = broken
        assert (await cancel(trading, order)).status == 503
        # As after a longer outage of the service: the time is over, and the store has consented meanwhile.
        shop.answers["cancel"] = {"accepted": True}
        time.ahead = timedelta(minutes=11)
        ended = await trading.mercato.until(
            trading.front,
            f"{ORDERS}/{order['orderId']}",
            lambda one: one["cancellation"]["status"] != "requested",
        )
        assert (ended["state"], ended["cancellation"]["status"]) == ("cancelled", "accepted")


@on_both
async def test_after_an_outage_a_store_that_fails_once_more_is_asked_again_before_the_order_goes_on(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        order = await trading.placed()
        shop.answers["cancel"] = broken
        assert (await cancel(trading, order)).status == 503
        # As after a longer outage of the service: the time is over, and the store has consented meanwhile.
        attempts = 0

        async def fail_once(request: web.Request, body: bytes) -> web.StreamResponse:
            nonlocal attempts
            attempts += 1
            return web.Response(status=503) if attempts == 1 else web.json_response({"accepted": True})

        shop.answers["cancel"] = fail_once
        time.ahead = timedelta(minutes=11)
        ended = await trading.mercato.until(
            trading.front,
            f"{ORDERS}/{order['orderId']}",
            lambda one: one["cancellation"]["status"] != "requested",
        )
        assert (ended["state"], ended["cancellation"]["status"]) == ("cancelled", "accepted")
        assert attempts == 2


@on_both
async def test_before_the_store_has_answered_the_order_is_cancelled_at_once_and_the_store_is_told(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        shop.answers["place"] = broken
        reply = await trading.place(trading.order(), key="p-1")
        assert reply.status == 503
        order = reply.json()
        cancelled = await cancel(trading, order)
        assert (cancelled.status, cancelled.json()["cancellation"]["status"]) == (200, "accepted")
        [(_, body)] = await calls_to(shop, "/order-cancelled", 1)
        data = json.loads(body)["data"]
        assert (data["orderId"], data["cancelReason"]) == (order["orderId"], "CHANGED_MIND")
        refused(await trading.place(trading.order(), key="p-1"), "ORDER_CLOSED")


@on_both
async def test_each_change_of_a_cancellation_is_in_the_events_and_in_the_timeline(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        order = await trading.placed()
        shop.answers["cancel"] = {"accepted": False, "reason": "Too late"}
        await cancel(trading, order)
        events = [json.loads(body) for _, body in await calls_to(shop, "/events", 3)]
        shown = sorted((one["data"]["sequence"], one["type"]) for one in events)
        assert shown == [(1, "order.created"), (2, "order.updated"), (3, "order.updated")]
        last = max(events, key=lambda one: one["data"]["sequence"])
        assert last["data"]["order"]["cancellation"]["status"] == "refused"
        timeline = (await trading.pos.get(f"{MERCHANT}/{order['orderId']}/timeline")).json()
        types = [entry["type"] for entry in timeline["entries"]]
        assert [type_ for type_ in types if type_.startswith("cancellation")] == [
            "cancellation.requested",
            "cancellation.refused",
        ]


@own()
@on_both
async def test_an_erased_customers_cancellation_has_no_message_any_more(trading: Trade, shop: MerchantServer):
    order = await trading.placed()
    shop.answers["cancel"] = {"accepted": True}
    await cancel(trading, order)
    db = trading.mercato.app.db
    await erase_all(db, "ada@example.com")
    async with db.read() as tx:
        stored = await tx.scalar(select(orders.c.cancellation))
    assert "Ada" not in stored
    assert (await read(trading, order))["cancellation"]["message"] is None


@on_both
async def test_an_order_that_is_closed_otherwise_while_the_store_is_silent_ends_its_cancellation(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        shop.answers["cancel"] = broken
        completed, cancelled = await trading.placed(), await trading.placed()
        for order in (completed, cancelled):
            assert (await cancel(trading, order)).status == 503
        await trading.update(completed, state="completed")
        await trading.update(cancelled, state="cancelled", cancelReason="Out of bread")
        for order, status in ((completed, "refused"), (cancelled, "accepted")):
            path = f"{ORDERS}/{order['orderId']}"
            ended = await trading.mercato.until(
                trading.front, path, lambda one: one["cancellation"]["status"] != "requested"
            )
            assert ended["cancellation"]["status"] == status
        listed = (await trading.pos.get("/v1/commerce/webhook-deliveries?type=order.cancel")).json()
        assert {one["status"] for one in listed["deliveries"]} == {"failed"}


async def test_a_job_of_an_earlier_cancellation_does_not_end_a_newer_one(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        order = await trading.placed()
        shop.answers["cancel"] = {"accepted": False}
        refused(await cancel(trading, order), "CANCELLATION_REFUSED")
        [(headers, _)] = await calls_to(shop, "/cancel", 1)
        earlier = CancelJob(order_id=UUID(order["orderId"]), cancellation_id=UUID(headers["webhook-id"]))
        shop.answers["cancel"] = broken
        assert (await cancel(trading, order)).status == 503
        app, now = trading.mercato.app, clock.now()
        dead = Job(
            id=1,
            kind=CANCEL_KIND,
            group="",
            ordering_key="",
            payload=earlier,
            attempt=1,
            failures=0,
            losses=3,
            run_at=now,
            enqueued_at=now,
        )
        async with app.db.write() as tx:
            await app.cancellations.calls.give_up(tx, dead, "the process that ran it ended")
        assert (await read(trading, order))["cancellation"]["status"] == "requested"


@on_both
async def test_a_repeat_that_finds_the_order_closed_ends_its_cancellation_and_the_log_of_the_call(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time, monkeypatch: pytest.MonkeyPatch
):
    # So that no background work comes first.
    monkeypatch.setattr(cancellation, "SLACK", timedelta(minutes=1))
    async with impatient(database_url, tmp_path / "data", shop, time) as trading:
        shop.answers["cancel"] = broken
        order = await trading.placed()
        assert (await cancel(trading, order, key="k-1")).status == 503
        await trading.update(order, state="completed")
        refused(await cancel(trading, order, key="k-1"), "ORDER_CLOSED")
        assert (await read(trading, order))["cancellation"]["status"] == "refused"
        listed = (await trading.pos.get("/v1/commerce/webhook-deliveries?type=order.cancel")).json()
        assert [one["status"] for one in listed["deliveries"]] == ["failed"]
        async with trading.mercato.app.db.read() as tx:
            kinds = [row.kind for row in await tx.all(select(jobs.c.kind))]
        assert CANCEL_KIND not in kinds


async def test_an_attempt_that_fails_after_the_order_was_closed_does_not_count_as_the_stores_answer(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cancellation, "SLACK", timedelta(minutes=1))

    async def ended_before_its_time(trading: Trade) -> bool:
        order = await trading.placed()
        asked, go = asyncio.Event(), asyncio.Event()

        async def hangs(_request: web.Request, _body: bytes) -> web.Response:
            asked.set()
            await go.wait()
            return web.Response(status=500)

        shop.answers["cancel"] = hangs
        first = asyncio.create_task(cancel(trading, order, key="k-1"))
        await asked.wait()
        await trading.update(order, state="completed")
        second = await cancel(trading, order, key="k-2")
        go.set()
        if second.status == HTTPStatus.SERVICE_UNAVAILABLE:
            await first
            return False
        refused(second, "ORDER_CLOSED")
        refused(await first, "ORDER_CLOSED")
        listed = (await trading.pos.get("/v1/commerce/webhook-deliveries?type=order.cancel")).json()
        assert [one["status"] for one in listed["deliveries"]] == ["failed"]
        return True

    for seconds in lengthening(0.5):
        async with impatient(database_url, tmp_path / "data", shop, time, seconds=seconds) as trading:
            if await ended_before_its_time(trading):
                return
    pytest.fail("The store's time was over each time.")


@own()
@on_both
async def test_a_message_that_comes_after_the_customer_was_erased_is_neither_kept_nor_sent(
    trading: Trade, shop: MerchantServer
):
    order = await trading.placed()
    await erase_all(trading.mercato.app.db, "ada@example.com")
    shop.answers["cancel"] = {"accepted": True}
    assert (await cancel(trading, order)).json()["cancellation"]["message"] is None
    [(_, body)] = await calls_to(shop, "/cancel", 1)
    assert json.loads(body)["data"]["message"] is None


@own()
async def test_the_call_about_an_erased_customers_order_ends_in_the_log(trading: Trade, shop: MerchantServer):
    order = await trading.placed()
    await erase_all(trading.mercato.app.db, "ada@example.com")
    shop.answers["cancel"] = {"accepted": True, "reason": "Ada called"}
    assert (await cancel(trading, order)).json()["state"] == "cancelled"
    listed = (await trading.pos.get("/v1/commerce/webhook-deliveries?type=order.cancel")).json()
    assert [one["status"] for one in listed["deliveries"]] == ["succeeded"]
