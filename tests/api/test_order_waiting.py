"""An order whose store doesn't answer is kept, joined, resent, and finally accepted or cancelled."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from msgspec import structs
from sqlalchemy import delete, insert, or_, select, text, update
from tests.api.trade import CUSTOMER, MERCHANT, ORDERS, Trade, tea, trade
from tests.console.test_lists import Recorder
from tests.service import MerchantServer, service
from tests.waiting import PATIENCE

from mercato.features.orders import placement, queries, resubmission, submission
from mercato.features.orders.privacy import erase_customer
from mercato.features.orders.tables import order_submissions
from mercato.features.webhooks.tables import deliveries, delivery_attempts
from mercato.platform.db.tables import jobs
from mercato.platform.jobs import enqueue
from mercato_client.testing.caller import Answer
from mercato_contract.clock import new_id

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
CARD = {"type": "cardOnFile", "cardToken": "tok_card_4242", "processorType": "stripe"}


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "SLACK", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "RETRY_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr(resubmission, "MIN_WAIT", timedelta(seconds=0.05))
    monkeypatch.setattr(resubmission, "POLL_SECONDS", 0.1)


@asynccontextmanager
async def running(
    database_url: str, data: Path, shop: MerchantServer, **options: Any
) -> AsyncIterator[Trade]:
    # The first background attempt waits until the request's time is over.
    settings = {"place_seconds": 0.6, "place_resend_seconds": 600.0} | options
    async with service(database_url, data, **settings) as mercato:
        yield await trade(mercato, shop, event_url=shop.base + "/events")


@pytest.fixture
async def foreground(
    database_url: str, tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Trade]:
    """A trade without background work once the store is live."""
    monkeypatch.setattr(resubmission, "POLL_SECONDS", 3_600.0)
    async with running(database_url, tmp_path / "data", shop, place_seconds=1.4) as here:
        await here.mercato.app.worker.stop(grace=placement.SLACK)
        yield here


@pytest.fixture
async def patient(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[Trade]:
    """A trade in which the store may be slow."""
    async with running(database_url, tmp_path / "data", shop, place_seconds=PATIENCE) as here:
        yield here


def is_silent(shop: MerchantServer) -> None:
    """Make the store's answers unusable."""

    async def broken(_request: web.Request, _body: bytes) -> web.Response:
        return web.Response(status=500)

    shop.answers["place"] = broken


def unreachable(reply: Answer) -> str:
    said = reply.json()
    assert (reply.status, said["errorCode"], said["retryable"]) == (503, "STORE_UNREACHABLE", True), said
    order_id: str = said["orderId"]
    return order_id


async def received(shop: MerchantServer, path: str, count: int = 1) -> list[tuple[dict[str, str], bytes]]:
    """Wait until so many webhooks arrived at the path; return them all."""
    found: list[tuple[dict[str, str], bytes]] = []
    while len(found) < count:
        came, headers, body = await shop.webhook()
        if came == path:
            found.append((headers, body))
    return found


async def submissions(here: Trade) -> int:
    async with here.mercato.app.db.read() as tx:
        waiting = or_(deliveries.c.give_up_at.is_not(None), deliveries.c.payment.is_not(None))
        earlier = await tx.all(select(order_submissions))
        return len(await tx.all(select(deliveries.c.id).where(waiting))) + len(earlier)


async def give_up(here: Trade, *, at: datetime) -> None:
    """Set when a waiting order is given up."""
    async with here.mercato.app.db.write() as tx:
        waiting = deliveries.c.give_up_at.is_not(None)
        await tx.execute(update(deliveries).where(waiting).values(give_up_at=at))
        await tx.execute(
            update(jobs)
            .where(jobs.c.kind.in_([resubmission.SUBMIT_KIND, resubmission.RESEND_KIND]))
            .values(run_at=at)
        )


async def submit_again(here: Trade, order_id: str, *, attempted_at: datetime | None = None) -> None:
    """Enqueue a background attempt, the first one without `attempted_at`, and no other."""
    id_ = UUID(order_id)
    async with here.mercato.app.db.write() as tx:
        order = await queries.get_order(tx, id_)
        await tx.execute(delete(jobs).where(jobs.c.dedup == id_.hex))
        await resubmission.schedule(
            tx, id_, store_id=order.store_id, partner_id=order.partner_id, attempted_at=attempted_at
        )


async def test_a_repeat_joins_the_order_with_the_same_bytes_under_the_same_id(foreground: Trade):
    here = foreground
    order = here.order(payment=CARD)
    is_silent(here.shop)
    order_id = unreachable(await here.place(order, key="k"))
    assert order_id == unreachable(await here.place(order, key="k"))
    other = await here.place(here.order(tea(1)), key="k")
    assert (other.status, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    mine = (await here.front.get(f"{ORDERS}/{order_id}")).json()
    assert (mine["state"], mine["status"], mine["partnerOrderId"]) == ("open", "pending", None)
    here.shop.answers["place"] = {"accepted": True, "partnerOrderId": "A"}
    joined = await here.place_until_answered(order, key="k")
    assert (joined.status, joined.json()["orderId"], joined.json()["partnerOrderId"]) == (201, order_id, "A")
    calls = await received(here.shop, "/hooks/place", 3)
    assert {headers["webhook-id"] for headers, _ in calls} == {order_id}
    assert {headers["idempotency-key"] for headers, _ in calls} == {order_id}
    assert len({body for _, body in calls}) == 1
    assert json.loads(calls[0][1])["data"]["payment"] == CARD
    assert await submissions(here) == 0
    replayed = await here.place(order, key="k")
    assert replayed.headers["Idempotent-Replayed"] == "true"
    assert replayed.body == joined.body
    assert len((await here.pos.get(MERCHANT)).json()["orders"]) == 1


async def stored_by_the_previous_release(here: Trade, order_id: str) -> None:
    """Keep a waiting order's submission as the previous release does: sealed as a whole, in a table of its own."""
    app, id_ = here.mercato.app, UUID(order_id)
    async with app.db.write() as tx:
        found = await app.placements.submitter.find(tx, await queries.get_order(tx, id_))
        assert found is not None
        body = found.call.body.decode()
        row = {
            "order_id": id_,
            "url": found.base_url,
            "body": app.vault.seal(body, context=f"order submission {order_id}"),
            "give_up_at": found.give_up_at,
        }
        await tx.execute(insert(order_submissions).values(row))
        await tx.execute(delete(deliveries).where(deliveries.c.id == found.delivery_id))
        await tx.execute(
            delete(delivery_attempts).where(delivery_attempts.c.delivery_id == found.delivery_id)
        )
        await tx.execute(delete(jobs).where(jobs.c.dedup == id_.hex))
        await enqueue(tx, "order.submit", resubmission.SubmitJob(order_id=id_), dedup=id_.hex)


async def test_an_order_that_the_previous_release_has_stored_is_joined_with_the_same_bytes(foreground: Trade):
    here = foreground
    is_silent(here.shop)
    order_id = unreachable(await here.place(here.order(payment=CARD), key="k"))
    await stored_by_the_previous_release(here, order_id)
    assert order_id == unreachable(await here.place(here.order(payment=CARD), key="k"))
    assert await submissions(here) == 1
    here.shop.answers["place"] = {"accepted": True, "partnerOrderId": "A"}
    joined = await here.place_until_answered(here.order(payment=CARD), key="k")
    assert (joined.status, joined.json()["orderId"]) == (201, order_id)
    assert len({body for _, body in await received(here.shop, "/hooks/place", 3)}) == 1
    assert await submissions(here) == 0
    page = (await here.pos.get("/v1/commerce/webhook-deliveries?type=order.place")).json()["deliveries"]
    assert [(one["status"], one["attempts"]) for one in page] == [("succeeded", 2)]


async def test_background_work_resends_an_order_that_the_previous_release_has_stored(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with running(database_url, tmp_path / "data", shop) as here:
        await here.mercato.app.worker.stop(grace=placement.SLACK)
        is_silent(here.shop)
        order_id = unreachable(await here.place(here.order(payment=CARD), key="k"))
        await stored_by_the_previous_release(here, order_id)
        front = here.front.key
    shop.answers["place"] = {"accepted": True, "partnerOrderId": "late"}
    async with service(database_url, tmp_path / "data") as mercato:
        path = f"{ORDERS}/{order_id}"
        client = replace(mercato.anonymous(), key=front)
        await mercato.until(client, path, lambda order: order["partnerOrderId"] == "late")
        async with mercato.app.db.read() as tx:
            assert await tx.all(select(order_submissions)) == []


async def test_a_customer_who_is_erased_during_the_call_of_the_store_stays_erased(foreground: Trade):
    here = foreground
    is_silent(here.shop)
    order_id = unreachable(await here.place(here.order(payment=CARD), key="k"))
    async with here.mercato.app.db.write() as tx:
        assert await erase_customer(tx, CUSTOMER["email"], after=None, limit=10) == (1, None)
    here.shop.answers["place"] = {"accepted": True, "partnerOrderId": "A"}
    placed = await here.place_until_answered(here.order(payment=CARD), key="k")
    assert (placed.status, placed.json()["orderId"]) == (201, order_id)
    assert CUSTOMER["email"] in (await received(here.shop, "/hooks/place", 2))[-1][1].decode()
    # Nor is the store's answer stored, which may repeat it.
    page = (await here.pos.get("/v1/commerce/webhook-deliveries?type=order.place")).json()
    assert page["deliveries"] == []


async def test_a_repeat_joins_even_if_its_order_could_not_be_placed_any_more(foreground: Trade):
    here = foreground
    is_silent(here.shop)
    order_id = unreachable(await here.place(here.order(), key="k"))
    await here.pos.post(f"/v1/commerce/stores/{here.store['storeId']}/status", {"status": "paused"})
    here.shop.answers["place"] = {"accepted": True}
    joined = await here.place_until_answered(here.order(), key="k")
    assert (joined.status, joined.json()["orderId"]) == (201, order_id)


async def test_a_rejected_resend_cancels_the_order(foreground: Trade):
    here = foreground
    token = await here.token(here.order())
    is_silent(here.shop)
    order = here.order(validatedOrderToken=token)
    order_id = unreachable(await here.place(order, key="k"))
    here.shop.answers["place"] = {"accepted": False, "errors": [{"code": "STORE_CLOSED"}]}
    refused = await here.place_until_answered(order, key="k")
    assert (refused.status, refused.json()["errorCode"]) == (400, "STORE_CLOSED")
    assert refused.json()["orderId"] == order_id
    assert (await here.front.get(f"{ORDERS}/{order_id}")).json()["state"] == "cancelled"
    here.shop.answers["place"] = {"accepted": True}
    assert (await here.place_until_answered(order, key="another")).status == 201


async def test_within_one_request_a_failing_store_is_called_again(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with running(database_url, tmp_path / "data", shop, place_seconds=PATIENCE) as here:
        calls = []

        async def once_down(request: web.Request, body: bytes) -> web.Response:
            calls.append((request.headers["webhook-id"], request.headers["webhook-signature"], body))
            if len(calls) == 1:
                return web.Response(status=503)
            return web.json_response({"accepted": True})

        here.shop.answers["place"] = once_down
        placed = await here.placed()
        assert [call[0] for call in calls] == [placed["orderId"]] * 2
        assert calls[0][2] == calls[1][2]
        path = f"{MERCHANT}/{placed['orderId']}/timeline"
        attempts = [
            (entry["detail"]["status"], entry["detail"]["succeeded"])
            for entry in (await here.pos.get(path)).json()["entries"]
            if entry["type"] == "webhook.attempt" and entry["detail"]["event"] == "order.place"
        ]
        assert attempts == [(503, False), (200, True)]


async def test_background_work_resends_the_order_until_it_is_accepted(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with running(database_url, tmp_path / "data", shop) as here:
        is_silent(here.shop)
        order_id = unreachable(await here.place(here.order(payment=CARD), key="k"))
        first = (await received(here.shop, "/hooks/place", 2))[0]
        here.shop.answers["place"] = {"accepted": True, "partnerOrderId": "late"}
        path = f"{ORDERS}/{order_id}"
        await here.mercato.until(here.front, path, lambda order: order["partnerOrderId"] == "late")
        again = (await received(here.shop, "/hooks/place"))[-1]
        assert again[1] == first[1]
        assert again[0]["webhook-id"] == order_id
        assert await submissions(here) == 0
        reply = await here.place(here.order(payment=CARD), key="k")
        assert (reply.status, reply.json()["orderId"]) == (201, order_id)


async def test_the_storefront_gets_an_event_of_a_late_rejection(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with running(database_url, tmp_path / "data", shop) as here:
        is_silent(here.shop)
        order_id = unreachable(await here.place(here.order(), key="k"))
        created = json.loads((await received(here.shop, "/events"))[0][1])
        assert (created["type"], created["data"]["sequence"]) == ("order.created", 1)
        here.shop.answers["place"] = {"accepted": False, "errors": [{"code": "PAYMENT_DECLINED"}]}
        updated = json.loads((await received(here.shop, "/events"))[0][1])
        assert (updated["type"], updated["data"]["sequence"]) == ("order.updated", 2)
        order = updated["data"]["order"]
        assert (order["orderId"], order["state"], order["cancelReason"]) == (
            order_id, "cancelled", "PAYMENT_DECLINED",
        )  # fmt: skip
        reply = await here.place(here.order(), key="k")
        assert (reply.status, reply.json()["errorCode"]) == (400, "PAYMENT_DECLINED")


async def test_an_order_that_its_store_never_accepted_is_cancelled_and_both_partners_are_notified(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    # The request has the time that a busy machine needs to record that it got no answer.
    times = {"place_seconds": 1.4, "place_resend_seconds": 0.5}
    async with running(database_url, tmp_path / "data", shop, **times) as here:
        is_silent(here.shop)
        order_id = unreachable(await here.place(here.order(payment=CARD), key="k"))
        told: dict[str, Any] = {}
        while {"/hooks/order-cancelled", "cancelled"} - told.keys():
            path, headers, body = await here.shop.webhook()
            said = json.loads(body)
            if path == "/hooks/order-cancelled":
                told[path] = (headers, said)
            elif path == "/events" and said["data"]["order"]["state"] == "cancelled":
                told["cancelled"] = said
        headers, said = told["/hooks/order-cancelled"]
        assert said["type"] == "order.cancelled"
        assert (said["data"]["orderId"], said["data"]["cancelReason"]) == (order_id, "STORE_UNREACHABLE")
        assert "payment" not in said["data"]
        assert headers["webhook-id"] != order_id
        order = (await here.front.get(f"{ORDERS}/{order_id}")).json()
        assert (order["state"], order["cancelReason"]) == ("cancelled", "STORE_UNREACHABLE")
        assert await submissions(here) == 0
        # A store that answers now changes nothing, and the key returns the outcome.
        here.shop.answers["place"] = {"accepted": True}
        late = await here.place(here.order(payment=CARD), key="k")
        assert (late.status, late.json()["errorCode"], late.json()["orderId"]) == (
            409, "ORDER_CLOSED", order_id,
        )  # fmt: skip
        timeline = (await here.pos.get(f"{MERCHANT}/{order_id}/timeline")).json()["entries"]
        assert [e["type"] for e in timeline if e["type"] != "webhook.attempt"] == [
            "placed", "unanswered", "cancelled",
        ]  # fmt: skip


async def test_a_store_gets_no_order_after_the_notice_of_its_cancellation(
    database_url: str, tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    """A repeat joins the order just before it is given up, and has time left for more attempts than that."""
    # Attempts 0, 0.05, 0.15, 0.35 and 0.75 s after a request: the last of the repeat's would come after the notice.
    monkeypatch.setattr(submission, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(submission, "MIN_ATTEMPT_SECONDS", 0.05)
    async with running(database_url, tmp_path / "data", shop, place_seconds=1.0) as here:
        is_silent(here.shop)
        order_id = unreachable(await here.place(here.order(), key="k"))
        while not here.shop.received.empty():
            here.shop.received.get_nowait()
        await give_up(here, at=here.mercato.app.clock() + timedelta(seconds=0.3))
        again = await here.place(here.order(), key="k")
        assert again.json()["orderId"] == order_id
        told: list[str] = []
        while "/hooks/order-cancelled" not in told:
            told.append((await here.shop.webhook())[0])
        await asyncio.sleep(0.7)
        told += [here.shop.received.get_nowait()[0] for _ in range(here.shop.received.qsize())]
        assert "/hooks/place" in told
        assert "/hooks/place" not in told[told.index("/hooks/order-cancelled") :], told
        assert (await here.place(here.order(), key="k")).json()["errorCode"] == "ORDER_CLOSED"


async def test_an_answer_after_the_cancel_comes_too_late(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    """The store's answer hangs while the order is given up: it stays cancelled, and the store is notified."""
    async with running(database_url, tmp_path / "data", shop, place_seconds=PATIENCE) as here:
        go, calls = asyncio.Event(), 0

        async def slowly(_request: web.Request, _body: bytes) -> web.Response:
            nonlocal calls
            calls += 1
            if calls > 1:  # the last attempt before the order is given up
                return web.Response(status=500)
            await go.wait()
            return web.json_response({"accepted": True, "partnerOrderId": "late"})

        here.shop.answers["place"] = slowly
        asked = asyncio.create_task(here.place(here.order(), key="k"))
        (headers, _), *_ = await received(here.shop, "/hooks/place")
        await give_up(here, at=LONG_AGO)
        await submit_again(here, headers["webhook-id"])
        await received(here.shop, "/hooks/order-cancelled")
        go.set()
        reply = await asked
        assert (reply.status, reply.json()["errorCode"]) == (409, "ORDER_CLOSED")
        order = (await here.pos.get(f"{MERCHANT}/{reply.json()['orderId']}")).json()
        assert (order["state"], order["partnerOrderId"]) == ("cancelled", None)


@pytest.mark.parametrize("attempted_at", [None, LONG_AGO])
async def test_before_an_order_is_given_up_a_last_attempt_is_made_however_late(
    database_url: str, tmp_path: Path, shop: MerchantServer, attempted_at: datetime | None
):
    """It expires before the first background attempt, or long after one."""
    async with running(database_url, tmp_path / "data", shop) as here:
        await here.mercato.app.worker.stop(grace=placement.SLACK)  # no background work
        is_silent(here.shop)
        order_id = unreachable(await here.place(here.order(), key="k"))
        await give_up(here, at=LONG_AGO)
        await submit_again(here, order_id, attempted_at=attempted_at)
    shop.answers["place"] = {"accepted": True, "partnerOrderId": "late"}
    async with service(database_url, tmp_path / "data") as mercato:
        front = replace(mercato.anonymous(), key=here.front.key)
        path = f"{ORDERS}/{order_id}"
        order = await mercato.until(front, path, lambda order: order["partnerOrderId"] is not None)
    assert (order["state"], order["partnerOrderId"]) == ("open", "late")


async def kinds_of_jobs(here: Trade, order_id: UUID) -> list[str]:
    async with here.mercato.app.db.read() as tx:
        return [row.kind for row in await tx.all(select(jobs.c.kind).where(jobs.c.dedup == order_id.hex))]


async def test_an_order_that_waits_without_a_job_gets_one_once_its_request_must_have_ended(foreground: Trade):
    """However its request ended, however many processes look, and even if the clock was set back."""
    here = foreground
    is_silent(here.shop)
    id_ = UUID(unreachable(await here.place(here.order(), key="k")))
    app, db = here.mercato.app, here.mercato.app.db
    async with db.read() as tx:
        placed = (await queries.get_order(tx, id_)).created_at

    async def look(at: datetime) -> list[str]:
        """Let two processes look at once; return the kinds of the order's jobs."""
        found = structs.replace(app.resubmissions, clock=lambda: at)
        await asyncio.gather(found.enqueue_due(), found.enqueue_due())
        return await kinds_of_jobs(here, id_)

    async def without_jobs() -> None:
        async with db.write() as tx:
            await tx.execute(delete(jobs).where(jobs.c.dedup == id_.hex))

    ended = placed + app.placements.lease + timedelta(milliseconds=1)
    assert await look(placed + app.placements.lease) == []
    assert await look(ended) == [resubmission.SUBMIT_KIND]
    # A later attempt is its job as well.
    await submit_again(here, str(id_), attempted_at=placed)
    assert await look(ended) == [resubmission.RESEND_KIND]
    # One that could not be run is none.
    async with db.write() as tx:
        await tx.execute(update(jobs).where(jobs.c.dedup == id_.hex).values(state="dead"))
    assert sorted(await look(ended)) == [resubmission.RESEND_KIND, resubmission.SUBMIT_KIND]
    await without_jobs()
    assert await look(placed - resubmission.SKEW) == []
    assert await look(placed - timedelta(hours=1)) == [resubmission.SUBMIT_KIND]
    await without_jobs()
    here.shop.answers["place"] = {"accepted": True}
    assert (await here.place(here.order(), key="k")).status == 201
    assert await look(ended) == []


async def test_more_orders_than_one_transaction_takes_get_their_jobs(
    foreground: Trade, monkeypatch: pytest.MonkeyPatch
):
    here = foreground
    monkeypatch.setattr(resubmission, "BATCH", 2)
    is_silent(here.shop)
    ids = [
        UUID(unreachable(one)) for one in await asyncio.gather(*(here.place(here.order()) for _ in range(5)))
    ]
    later = here.mercato.app.clock() + timedelta(minutes=1)
    await structs.replace(here.mercato.app.resubmissions, clock=lambda: later).enqueue_due()
    assert [await kinds_of_jobs(here, id_) for id_ in ids] == [[resubmission.SUBMIT_KIND]] * 5


async def test_orders_without_a_job_are_found_by_indexes_among_many_deliveries_and_jobs(foreground: Trade):
    here = foreground
    is_silent(here.shop)
    await asyncio.gather(*(here.place(here.order()) for _ in range(3)))
    db, now = here.mercato.app.db, here.mercato.app.clock()
    async with db.write() as tx:
        row = await tx.first(select(deliveries).where(deliveries.c.give_up_at.is_not(None)))
        assert row is not None
        ended = row._asdict() | {"give_up_at": None}
        await tx.execute(insert(deliveries), [ended | {"id": new_id()} for _ in range(3_000)])
        dead = {"ordering_key": "k", "group_key": "", "payload": "{}", "run_at": now, "enqueued_at": now}
        dead |= {"kind": resubmission.SUBMIT_KIND, "state": "dead"}
        await tx.execute(insert(jobs), [dead | {"dedup": new_id().hex} for _ in range(3_000)])
        await tx.execute(text("ANALYZE"))
    async with db.read() as tx:
        recorder: Any = Recorder(tx)
        kinds = (resubmission.SUBMIT_KIND, resubmission.RESEND_KIND)
        found = await queries.list_unattended(
            recorder, before=now + timedelta(hours=1), after=now + timedelta(hours=2), kinds=kinds, limit=2
        )
        assert len(found) == 2
        [statement] = recorder.statements
        explain = "EXPLAIN QUERY PLAN" if db.dialect == "sqlite" else "EXPLAIN"
        plan = "\n".join(str(row) for row in await tx.all(text(f"{explain} {statement}")))
    assert "ix_deliveries_unanswered" in plan, plan
    assert "uq_jobs_dedup" in plan, plan
    assert "Seq Scan on jobs" not in plan, plan


async def test_a_first_resend_does_not_wait_for_later_attempts(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with running(database_url, tmp_path / "data", shop, resend_concurrency=1) as here:
        hangs, go = asyncio.Event(), asyncio.Event()
        calls: dict[str, int] = {}

        async def slowly(_request: web.Request, body: bytes) -> web.Response:
            order_id = json.loads(body)["data"]["orderId"]
            calls[order_id] = calls.get(order_id, 0) + 1
            if order_id == stuck and calls[order_id] > 1:
                hangs.set()
                await go.wait()
            if order_id == stuck:
                return web.Response(status=500)
            return web.json_response({"accepted": True, "partnerOrderId": "first"})

        is_silent(here.shop)
        stuck = unreachable(await here.place(here.order(), key="stuck"))
        here.shop.answers["place"] = slowly
        await hangs.wait()
        is_silent(here.shop)
        order_id = unreachable(await here.place(here.order(), key="first"))
        here.shop.answers["place"] = slowly
        path = f"{ORDERS}/{order_id}"
        await here.mercato.until(here.front, path, lambda order: order["partnerOrderId"] == "first")
        go.set()


async def test_a_merchants_update_before_its_reply_counts(patient: Trade):
    here = patient

    async def updates_first(_request: web.Request, body: bytes) -> web.Response:
        order_id = json.loads(body)["data"]["orderId"]
        ready = "2100-01-01T10:00:00.000Z"
        reply = await here.pos.post(
            f"{MERCHANT}/{order_id}/status", {"status": "preparing", "estimatedReadyAt": ready}
        )
        assert reply.status == 200, reply.body
        return web.json_response(
            {"accepted": True, "partnerOrderId": "A", "estimatedReadyAt": "2099-01-01T10:00:00Z"}
        )

    here.shop.answers["place"] = updates_first
    reply = await here.place(here.order(), key="k")
    order = reply.json()
    assert (reply.status, order["status"], order["partnerOrderId"]) == (201, "preparing", "A")
    assert order["estimatedReadyAt"] == "2100-01-01T10:00:00.000Z"
    assert await submissions(here) == 0


async def test_a_merchants_cancel_comes_before_its_later_rejection(patient: Trade):
    here = patient

    async def cancels_first(_request: web.Request, body: bytes) -> web.Response:
        order_id = json.loads(body)["data"]["orderId"]
        change = {"state": "cancelled", "cancelReason": "no tea"}
        assert (await here.pos.post(f"{MERCHANT}/{order_id}/status", change)).status == 200
        return web.json_response({"accepted": False, "errors": [{"code": "STORE_CLOSED"}]})

    here.shop.answers["place"] = cancels_first
    reply = await here.place(here.order(), key="k")
    assert (reply.status, reply.json()["state"], reply.json()["cancelReason"]) == (201, "cancelled", "no tea")


async def test_a_merchants_update_accepts_a_waiting_order(foreground: Trade):
    here = foreground
    is_silent(here.shop)
    order_id = unreachable(await here.place(here.order(payment=CARD), key="k"))
    assert (await here.update({"orderId": order_id}, status="confirmed")).status == 200
    assert await submissions(here) == 0
    reply = await here.place(here.order(payment=CARD), key="k")
    assert (reply.status, reply.json()["status"]) == (201, "confirmed")
    logged = (await here.pos.get("/v1/commerce/webhook-deliveries?type=order.place")).json()["deliveries"]
    assert [one["status"] for one in logged] == ["succeeded"]


async def test_a_store_that_repeats_its_answer_changes_nothing_the_second_time(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    calls = []

    async def late_then_again(_request: web.Request, body: bytes) -> web.StreamResponse:
        calls.append(body)
        if len(calls) == 1:
            await asyncio.sleep(1.2)  # longer than any attempt: the answer comes too late
        return web.json_response({"accepted": True, "partnerOrderId": "first"})

    async with running(database_url, tmp_path / "data", shop, place_seconds=0.4) as here:
        await here.mercato.app.worker.stop(grace=placement.SLACK)  # no background work
        here.shop.answers["place"] = late_then_again
        order_id = unreachable(await here.place(here.order(), key="k"))
        reply = await here.place_until_answered(here.order(), key="k")
    assert (reply.status, reply.json()["orderId"], reply.json()["partnerOrderId"]) == (201, order_id, "first")
    assert len(set(calls)) == 1


async def test_a_store_that_moves_gets_the_orders_that_wait(foreground: Trade, shop: MerchantServer):
    here = foreground
    is_silent(here.shop)
    order_id = unreachable(await here.place(here.order(), key="k"))
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    await here.pos.call("PUT", path, {"webhookUrl": shop.base + "/new?x=1"})
    here.shop.answers["place"] = {"accepted": True}
    assert (await here.place(here.order(), key="k")).status == 201
    headers, _ = (await received(here.shop, "/new/place?x=1"))[0]
    assert headers["webhook-id"] == order_id


async def test_a_store_without_a_webhook_takes_orders_by_itself(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data") as mercato:
        here = await trade(mercato, shop, webhook=False)
        token = await here.token(here.order(payment=CARD))
        placed = await here.placed(here.order(payment=CARD, validatedOrderToken=token))
        assert (placed["state"], placed["status"], placed["partnerOrderId"]) == ("open", "pending", None)
        again = await here.placed()
        listed = (await here.pos.get(f"{MERCHANT}?state=open")).json()["orders"]
        assert [one["orderId"] for one in listed] == [again["orderId"], placed["orderId"]]
        assert (await here.update(placed, status="confirmed")).status == 200
        assert shop.received.empty()
        assert await submissions(here) == 0
