"""A card's token is stored only sealed, while its order waits; customers appear in no log."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import select
from tests.api.trade import MERCHANT, ORDERS, PLACE, VALIDATE, Trade, trade
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.logs import log_plainly
from tests.service import MerchantServer, Service, service
from tests.stored import text_of
from tests.waiting import PATIENCE

from mercato.features.orders import queries
from mercato.features.orders.record import OrderRow
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Write
from mercato.platform.db.tables import metadata
from mercato.platform.telemetry import configure_logs

pytestmark = mostly_sqlite

TOKEN = "tok_visa_4242/secret+1"
CARD = {
    "type": "cardOnFile", "cardToken": TOKEN, "processorType": "stripe",
    "billing": {"holder": "Augusta King", "lines": ["St James's Square 12"]},
}  # fmt: skip
# No bare digits: an id may hold any four of them.
OF_THE_CARD = (TOKEN, "tok_visa", "_4242", "4242/secret", "Augusta King", "James's Square")
CUSTOMER = {
    "email": "ada@lovelace.example", "firstName": "Adalind", "lastName": "Byronova", "phone": "+441784430000",
    "partnerUserId": "user-99812",
}  # fmt: skip
ADDRESS = {"address1": "7 Ockham Lane", "city": "Surreyton", "postalCode": "KT11-1BQ"}
CLIENT = {"ip": "203.0.113.199", "userAgent": "shop-app/7.7.1"}
TEXTS = (*CUSTOMER.values(), *ADDRESS.values(), *CLIENT.values(), "ring twice please")

ECHO = {"errors": [{"code": "PAYMENT_DECLINED", "message": f"Card {TOKEN} of Augusta King was declined"}]}


@pytest.fixture(params=["json", "console"])
def _everything_is_logged(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    # Libraries log through the standard module, whose level the service leaves as it is.
    caplog.set_level(logging.WARNING)
    configure_logs(level="debug", form=request.param)
    yield
    log_plainly()


SHORT = {"place_seconds": 1.4, "validate_seconds": 1.4}
PATIENT = {"place_seconds": PATIENCE, "validate_seconds": PATIENCE}


@pytest.fixture
def timeouts() -> dict[str, float]:
    return PATIENT


@asynccontextmanager
async def trading(
    database_url: str, tmp_path: Path, shop: MerchantServer, **options: Any
) -> AsyncIterator[Trade]:
    async with service(database_url, tmp_path / "data", **options) as mercato:
        yield await trade(mercato, shop, event_url=shop.base + "/events")


@pytest.fixture
async def here(
    database_url: str, tmp_path: Path, shop: MerchantServer, timeouts: dict[str, float]
) -> AsyncIterator[Trade]:
    async with trading(database_url, tmp_path, shop, **timeouts) as made:
        yield made


def order(here: Trade, **more: Any) -> Any:
    return here.order(
        payment=CARD,
        customer=CUSTOMER,
        clientContext=CLIENT,
        amounts={"tip": "1.23"},
        fulfillment={
            "mode": "DELIVERY_BY_MERCHANT", "scheduleType": "ASAP", "deliveryType": "LEAVE_AT_DOOR",
            "address": ADDRESS, "instructions": "ring twice please",
        },
    ) | more  # fmt: skip


async def everything(mercato: Service) -> str:
    """Return every row of every table as text."""
    async with mercato.app.db.read() as tx:
        return await text_of(tx, *metadata.sorted_tables)


def silent(text: str, *secrets: str) -> None:
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")):
            at = text.find(form)
            assert at < 0, f"{form} is in …{text[max(at - 300, 0) : at + 100]}…"


def scripted(*answers: Any) -> Any:
    """Return a handler that gives the answers in turn, then repeats the last one."""
    waiting = list(answers)

    async def answer(_request: web.Request, _body: bytes) -> web.StreamResponse:
        said = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if said == "late":
            await asyncio.sleep(2)
        if isinstance(said, tuple):
            return web.json_response(said[1], status=said[0])
        return web.json_response(said)

    return answer


async def test_the_store_gets_the_payment_as_it_was_sent_byte_for_byte(here: Trade):
    payment = (
        b'{ "cardToken":"tok_\\u00e9\\/x",  "type": "cardOnFile","amount":1.10, "n": 98765432109876543210 }'
    )
    raw = json.dumps(here.order()).encode()[:-1] + b', "payment": ' + payment + b"}"
    reply = await here.front.post(PLACE, raw, headers={"Idempotency-Key": "k"})
    assert reply.status == 201, reply.body
    bodies = [here.shop.received.get_nowait() for _ in range(here.shop.received.qsize())]
    (placed,) = [body for path, _, body in bodies if path.endswith("/place")]
    assert payment in placed
    (validated,) = [body for path, _, body in bodies if path.endswith("/validate")]
    assert b"payment" not in validated


@pytest.mark.parametrize("kind", ["external", "payAtStore", "somethingNew"])
async def test_payments_of_any_kind_go_to_the_store_and_none_is_fine_too(here: Trade, kind: str):
    for payment in ({"type": kind, "reference": "r"}, None):
        assert (await here.place(here.order(payment=payment))).status == 201
    sent = [here.shop.received.get_nowait() for _ in range(here.shop.received.qsize())]
    places = [json.loads(body)["data"] for path, _, body in sent if path.endswith("/place")]
    assert places[0]["payment"] == {"type": kind, "reference": "r"}
    assert "payment" not in places[1]


@pytest.mark.parametrize("number", ["4111111111111111", "98765432109876543210", "41111111.50", "-41111111"])
async def test_a_card_that_is_sent_as_a_number_is_not_stored_either(here: Trade, number: str):
    async def echoes(_request: web.Request, body: bytes) -> web.Response:
        return web.Response(body=b'{"accepted": true, "echo": ' + body[body.index(b'"payment"') + 10 : -1])

    here.shop.answers["place"] = echoes
    raw = json.dumps(here.order()).encode()[:-1] + b', "payment": {"n": [%s, true]}}' % number.encode()
    reply = await here.front.post(PLACE, raw, headers={"Idempotency-Key": "k"})
    assert reply.status == 201, reply.body
    assert number.encode() in here.shop.received.get_nowait()[2] + here.shop.received.get_nowait()[2]
    silent(await everything(here.mercato), number)


@pytest.mark.parametrize("timeouts", [SHORT], ids=["short"])
@on_both
async def test_a_card_is_stored_sealed_while_its_order_waits_and_then_deleted(
    here: Trade, timeouts: dict[str, float]
):
    here.shop.answers["place"] = scripted((500, {"echo": TOKEN, "who": "Augusta King"}))
    waiting = await here.place(order(here), key="k")
    assert waiting.status == 503
    silent(await everything(here.mercato), *OF_THE_CARD)
    async with here.mercato.app.db.read() as tx:
        assert len(await tx.all(select(deliveries).where(deliveries.c.payment.is_not(None)))) == 1
    here.shop.answers["place"] = scripted(ECHO)
    refused = await here.place_until_answered(order(here), key="k")
    assert (refused.status, refused.json()["errorCode"]) == (400, "PAYMENT_DECLINED")
    assert "was declined" in refused.json()["detail"]
    here.shop.answers["place"] = scripted({"accepted": True, "partnerOrderId": "A", "echo": CARD})
    placed = await here.place_until_answered(order(here), key="k2")
    assert placed.status == 201
    listed = (await here.pos.get("/v1/commerce/webhook-deliveries?limit=100")).json()["deliveries"]
    ids = [reply.json()["orderId"] for reply in (waiting, placed)]
    replies = [
        refused,
        placed,
        *[await here.pos.get(f"{MERCHANT}/{one}{end}") for one in ids for end in ("", "/timeline")],
        *[await here.front.get(f"{ORDERS}/{one}{end}") for one in ids for end in ("", "/timeline")],
        *[await here.pos.get(f"/v1/commerce/webhook-deliveries/{one['id']}") for one in listed],
    ]
    texts = [reply.body.decode() for reply in replies]
    assert "***" in "".join(texts)
    silent("\n".join(texts), *OF_THE_CARD)
    silent(await everything(here.mercato), *OF_THE_CARD)
    async with here.mercato.app.db.read() as tx:
        assert await tx.all(select(deliveries).where(deliveries.c.payment.is_not(None))) == []


@pytest.mark.parametrize(
    ("status", "timeouts"), [(200, PATIENT), (402, PATIENT), (500, SHORT)], ids=["200", "402", "500"]
)
async def test_no_reply_to_a_call_with_a_payment_is_stored_in_any_form(
    here: Trade, status: int, timeouts: dict[str, float]
):
    card = {"type": "card", "cvv": "739", "number": 4000056655665556}
    told = "cvv 7-3-9 of 4000 0566 5566 5556 is wrong"
    reason = {"code": "CVV_7_3_9", "message": told, "pointer": "/payment/739"}
    echo = {"accepted": status == 200, "note": told, "cvv": 739, "reversed": "937", "errors": [reason]}
    here.shop.answers["place"] = scripted((status, echo))
    reply = await here.place(here.order(payment=card))
    listed = (await here.pos.get("/v1/commerce/webhook-deliveries?limit=100")).json()["deliveries"]
    (place,) = [one["id"] for one in listed if one["type"] == "order.place"]
    log = (await here.pos.get(f"/v1/commerce/webhook-deliveries/{place}")).json()["attemptLog"]
    assert [(one["status"], one["reply"]) for one in log] == [(status, None)] * len(log)
    assert log
    for part in ("7-3-9", "7_3_9", "/739", "5566 5556"):
        silent(reply.body.decode(), part)
        silent(await everything(here.mercato), part)


async def test_the_reply_to_a_call_without_a_payment_is_stored(here: Trade):
    here.shop.answers["place"] = scripted((402, {"detail": "Come later"}))
    await here.place(here.order())
    listed = (await here.pos.get("/v1/commerce/webhook-deliveries?limit=100")).json()["deliveries"]
    (place,) = [one["id"] for one in listed if one["type"] == "order.place"]
    shown = (await here.pos.get(f"/v1/commerce/webhook-deliveries/{place}")).json()
    assert shown["attemptLog"][0]["reply"] == '{"detail": "Come later"}'


@only_sqlite
@pytest.mark.usefixtures("_everything_is_logged")
async def test_no_log_contains_a_card_or_a_customer_after_any_fault(
    database_url: str, database_kind: str, tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
):  # fmt: skip
    async with trading(database_url, tmp_path, shop, **SHORT) as here:
        echo = {"echo": [order(here)]}
        answers = [
            {"accepted": True, "partnerOrderId": "A", "amounts": {"total": "1.00", "currency": TOKEN}},
            (402, ECHO | echo), (409, echo), (500, echo), (302, echo), (429, echo), (200, [TOKEN]), "late",
        ]  # fmt: skip
        for answer in answers:
            shop.answers["place"] = scripted(answer)
            while (checked := await here.front.post(VALIDATE, order(here))).status == 503:
                pass  # the machine was too busy for a store's answer in time
            token = checked.json()["validatedOrderToken"]
            placed = await here.place(order(here, validatedOrderToken=token))
            if placed.status == 201:
                await here.update(placed.json(), status="ready", state="cancelled", cancelReason="Adalind")
        for answer in ((200, {"amounts": {"fees": TOKEN}, **echo}), (500, echo), "late", (422, ECHO)):
            shop.answers["validate"] = scripted(answer)
            await here.front.post(VALIDATE, order(here))
            await here.place(order(here))
        for spoilt in (order(here, customer={"email": "ada@lovelace.example"}), order(here, payment=TOKEN)):
            assert (await here.place(spoilt)).status == 400
        await bugs(here, monkeypatch)
    output = capsys.readouterr()
    sys.stderr.write(output.err)
    text = output.out + output.err + caplog.text
    assert "bug" in text
    assert "amounts of a place reply" in text
    silent(text, *OF_THE_CARD, *TEXTS, "Adalind")


async def bugs(here: Trade, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cause bugs where orders are written: one that the database detects, one before it."""
    insert = queries.insert_order
    here.shop.answers["validate"] = {}

    def twice(tx: Write, row: OrderRow, *, store_version: int) -> None:
        insert(tx, row, store_version=store_version)
        insert(tx, row, store_version=store_version)

    def broken(_tx: Write, row: OrderRow, *, store_version: int) -> None:
        raise ValueError(type(row))

    for fault in (twice, broken):
        monkeypatch.setattr(queries, "insert_order", fault)
        reply = await here.place(order(here))
        assert (reply.status, reply.json()["errorCode"]) == (500, "INTERNAL_ERROR")
        silent(reply.body.decode(), *OF_THE_CARD, *TEXTS)
    monkeypatch.setattr(queries, "insert_order", insert)
