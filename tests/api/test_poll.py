"""`mercato listen --poll`: events are read with a key, verified, printed and forwarded, and none is missed."""

import asyncio
import json
import os
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.api.test_order_handling import asked, handled
from tests.api.trade import Trade, trade
from tests.databases import mostly_sqlite, on_both
from tests.forks import start
from tests.service import MerchantServer, Service
from tests.sharing import shared
from tests.waiting import PATIENCE

from mercato.features.partners.model import Surface
from mercato_client import AsyncClient, verify_webhook
from mercato_client.core import NEVER
from mercato_client.testing.server import app_of, listening
from mercato_contract.clock import new_id
from mercato_contract.signing import new_secret
from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import Options
from mercato_tools.cli import UnusableError
from mercato_tools.cli import main as cli
from mercato_tools.cli.order_lines import sentences_of
from mercato_tools.cli.poll import Poller, body_of, read_cursor, surface_of
from mercato_tools.cli.received import ReceivedWebhook, lines_of

pytestmark = [shared, mostly_sqlite]

SECRET = new_secret(b"\xfb".__mul__)


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


async def poll(here: Trade, *, key: str | None = None, oldest: bool = False, **options: Any) -> list[Any]:
    """Poll until `count` events were handled; return what was reported."""
    found: list[ReceivedWebhook] = []
    async with (
        asyncio.timeout(PATIENCE),
        AsyncClient(here.mercato.base, key or here.front.key) as client,
        Outbound(Options(policy=AddressPolicy(allow_private=True))) as outbound,
    ):
        surface = surface_of(key or here.front.key or "")
        options = {"pauses": (0.0, 0.0)} | options
        poller = Poller(client, surface, SECRET, found.append, outbound=outbound, **options)
        await poller.run(from_oldest=oldest)
    return found


async def test_it_reports_what_a_webhook_is_byte_for_byte_and_verified(here: Trade):
    await here.placed()
    [one] = await poll(here, count=1, oldest=True)
    while True:
        path, headers, body = await here.shop.webhook()
        if path == "/events":
            break
    assert (one.type, one.webhook_id, one.body) == ("order.created", headers["webhook-id"], body)
    assert one.is_valid
    verify_webhook(one.headers, one.body, [SECRET])


async def test_it_goes_on_where_it_was_after_a_restart(here: Trade, tmp_path: Path):
    file = tmp_path / "cursor.txt"
    order = await here.placed()
    for status in ("confirmed", "preparing", "ready"):
        await here.update(order, status=status)
    found = [
        one.webhook_id
        for count in (1, 2, 1)
        for one in await poll(here, count=count, cursor=file, oldest=True)
    ]
    events = (await here.front.get("/v1/marketfront/events")).json()["events"]
    assert found == [event["eventId"] for event in events]
    assert read_cursor(file) is not None


async def test_without_a_cursor_it_begins_with_the_next_event(here: Trade, tmp_path: Path):
    file = tmp_path / "cursor.txt"
    order = await here.placed()
    await here.mercato.until(here.front, "/v1/marketfront/events", lambda page: len(page["events"]) == 1)
    reading = asyncio.create_task(poll(here, count=1, cursor=file))
    async with asyncio.timeout(PATIENCE):
        while not file.exists():
            await asyncio.sleep(0.01)
    await here.update(order, status="confirmed")
    [one] = await reading
    assert one.type == "order.updated"


async def test_what_is_forwarded_is_signed_and_tried_again_until_it_is_accepted(here: Trade):
    answers = [503, 200]
    received: list[tuple[dict[str, str], bytes]] = []

    async def program(request: web.Request, body: bytes) -> web.Response:
        received.append((dict(request.headers), body))
        return web.Response(status=answers.pop(0))

    here.shop.answers["program"] = program
    await here.placed()
    found = await poll(here, count=1, oldest=True, forward=here.shop.base + "/program")
    assert [(one.status, one.times) for one in found] == [(503, 1), (200, 2)]
    assert len({headers["webhook-id"] for headers, _ in received}) == 1
    for headers, body in received:
        assert verify_webhook(headers, body, [SECRET]).type == "order.created"


@on_both
async def test_an_event_that_is_never_accepted_ends_it_before_that_event(here: Trade, tmp_path: Path):
    file = tmp_path / "cursor.txt"
    await here.placed()
    with pytest.raises(UnusableError, match=r"did not accept order\.created"):
        await poll(here, count=1, oldest=True, cursor=file, forward="http://127.0.0.1:1/nobody")
    assert not file.exists()
    [one] = await poll(here, count=1, oldest=True, cursor=file)
    assert one.type == "order.created"


async def test_a_refused_key_ends_it_with_the_reason(here: Trade):
    with pytest.raises(UnusableError, match="UNAUTHENTICATED"):
        await poll(here, key="mk_marketfront_nonsense")
    for key in ("nonsense", "mt_token"):
        with pytest.raises(UnusableError, match="--key"):
            surface_of(key)
    assert surface_of(here.pos.key or "") == Surface.COMMERCE


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_what_a_proxy_answers_while_the_service_restarts_does_not_end_it(status: int):
    """Its pages are no problems: they don't say whether a repeat may succeed."""
    answers = iter((status, status, 200, status, 200))

    async def answer(request: web.Request) -> web.Response:
        if (code := next(answers)) != HTTPStatus.OK:
            return web.Response(status=code, text="<html>Bad Gateway</html>")
        event: dict[str, Any] = {"eventId": str(new_id()), "type": "ping"}
        event |= {"timestamp": "2026-01-01T00:00:00.000Z", "storeId": None, "storeSequence": None, "data": {}}
        events = [event] if "after" in request.query else []
        return web.json_response({"events": events, "nextCursor": "c", "hasMore": False})

    found: list[ReceivedWebhook] = []
    async with (
        asyncio.timeout(PATIENCE),
        listening(app_of(answer)) as base,
        AsyncClient(base, "mk_marketfront_a", retries=NEVER) as client,
    ):
        await Poller(client, "marketfront", SECRET, found.append, count=1, pauses=(0.0, 0.0)).run(
            from_oldest=False
        )
    assert [one.type for one in found] == ["ping"]


async def test_a_cursor_that_is_none_ends_it_with_the_reason(here: Trade, tmp_path: Path):
    file = tmp_path / "cursor.txt"
    file.write_text("nonsense\n")
    with pytest.raises(UnusableError, match="INVALID_CURSOR"):
        await poll(here, cursor=file)


async def test_after_an_expired_cursor_it_says_how_to_read_what_is_kept_and_what_is_not(tmp_path: Path):
    async def answer(_: web.Request) -> web.Response:
        problem = {"errorCode": "CURSOR_EXPIRED", "status": 410, "detail": "Gone.", "title": "Gone"}
        return web.json_response(problem, status=410, content_type="application/problem+json")

    file = tmp_path / "cursor.txt"
    file.write_text("old\n")
    async with (
        listening(app_of(answer)) as base,
        AsyncClient(base, "mk_marketfront_a", retries=NEVER) as client,
    ):
        poller = Poller(client, "marketfront", SECRET, lambda _: None, cursor=file)
        with pytest.raises(UnusableError) as ended:
            await poller.run(from_oldest=False)
    words = str(ended.value)
    assert f"Delete {file} and start with --oldest" in words
    assert "GET /v1/marketfront/orders?since=" in words


async def test_the_command_prints_a_line_for_each_event(here: Trade, tmp_path: Path):
    order = await here.placed()
    await here.update(order, status="confirmed")
    command = [
        *("listen", "--poll", "--api", here.mercato.base),
        *("--key", here.front.key or "", "--oldest", "--count", "2", "--json"),
        *("--cursor", str(tmp_path / "cursor.txt")),
    ]
    process = await start(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"COLUMNS": "80"},
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["type"], line["valid"]) for line in lines] == [
        ("order.created", True),
        ("order.updated", True),
    ]
    # Nothing is forwarded, so nobody verifies with a secret of this run.
    assert b"whsec_" not in err
    assert (here.front.key or "").encode() not in out + err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--poll"],
        ["--poll", "--api", "http://127.0.0.1:1"],
        ["--poll", "--api", "http://127.0.0.1:1", "--key", "nonsense"],
        ["--poll", "--api", "nowhere", "--key", "mk_commerce_x"],
        ["--poll", "--api", "http://127.0.0.1:1", "--key", "mk_commerce_x", "--answer", "200"],
        ["--oldest"],
        ["--cursor", "x"],
    ],
)
def test_wrong_arguments_exit_with_2(wrong: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.run(["listen", *wrong]) == 2
    assert capsys.readouterr().err


async def test_the_body_is_the_one_that_deliveries_sign(here: Trade):
    made = await here.front.post("/v1/marketfront/webhook-endpoints", {"url": here.shop.base + "/mine"})
    assert made.status == 201
    await here.placed()
    path, _, body = await here.shop.webhook()
    while path != "/mine":
        path, _, body = await here.shop.webhook()
    async with AsyncClient(here.mercato.base, here.front.key) as client:
        page = await client.list_marketfront_events()
    assert {body_of(event) for event in page.events} == {body}


@on_both
async def test_a_merchant_reads_each_order_and_what_to_do_next(mercato: Service, shop: MerchantServer):
    manual = await trade(mercato, shop, webhook=False)
    await handled(manual, orderHandling="manual")
    order = await asked(manual)
    await manual.update(order, cancellation={"accepted": False})
    await manual.update(order, status="ready", partnerOrderId="T-65")
    await manual.update(order, state="cancelled", cancelReason="Out of dough")
    path = f"POST /v1/commerce/orders/{order['orderId']}/status"
    number = order["orderId"][-5:].upper()
    found = [
        one for one in await poll(manual, key=manual.pos.key, oldest=True, count=6) if "order" in one.type
    ]
    read = [" ".join(" ".join(lines_of(one)[1:]).split()) for one in found]
    what = "2 items, 5.80 USD"
    expected = [
        f'Order {number}: {what}, pending. Accept it: {path} {{"status": "confirmed"}}; or refuse it',
        f"Order {number}: {what}, confirmed.",
        f"Order {number}: {what}, confirmed. The storefront asks to cancel it (CHANGED_MIND). Decide: {path}",
        f"Order {number}: {what}, confirmed.",
        f'Order T-65: {what}, ready. Once it is handed over: {path} {{"state": "completed"}}.',
        f"Order T-65: {what}, cancelled. Don't make it: Out of dough.",
    ]
    assert len(read) == len(expected)
    for line, begins in zip(read, expected, strict=True):
        assert line.startswith(begins), line


async def test_a_storefront_reads_its_order_without_a_merchants_next_step(here: Trade):
    await here.placed()
    [one] = await poll(here, count=1, oldest=True)
    assert list(sentences_of(one.type, one.body)) == ["Order A-1: 2 items, 5.80 USD, pending."]


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"[]", b"{}", b'{"data": {"order": {"orderId": 1}}}', b"[" * 9_999]
)
def test_an_event_of_another_shape_has_no_order_to_read(body: bytes):
    assert list(sentences_of("order.created", body)) == []
