"""Operators see no customer: not on a page, and not in a command, wherever an order's data is stored."""

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import select
from tests.api.agent_keys import assistant
from tests.api.trade import MERCHANT, PLACE, Trade, tea, trade
from tests.console.browser import Browser
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, on_both
from tests.partners.test_commands import Shell, shell
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.console.screen import OPERATORS, PARTNERS, Audience
from mercato.console.site import SCREENS
from mercato.features.catalogs.tables import catalog_runs
from mercato.features.orders.privacy import mask_phone, mask_reason, mask_text, private_texts
from mercato.features.orders.record import Notes, StoreAnswer
from mercato.features.orders.tables import orders
from mercato.features.partners.tables import agents, api_keys, partners
from mercato.features.requests.tables import refused_requests
from mercato.features.sign_in.roles import Role
from mercato.features.stores.tables import stores
from mercato.features.webhooks.operators import mask_body, mask_reply
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.audit import list_entries
from mercato_contract.clock import new_id
from mercato_contract.events import EventType
from mercato_contract.placements import ClientContext, Customer, PickupFulfillment, ScheduleType

pytestmark = [shared, mostly_sqlite]

__all__ = ["shell"]

CUSTOMER = {
    "email": "zqmail@example.com",
    "firstName": "Zqfirst",
    "lastName": "Zqlast",
    "phone": "+1 555 777 8899",
    "partnerUserId": "zquser",
}
CLIENT = {"ip": "198.51.100.77", "userAgent": "zqagent/1.0"}
FULFILLMENT = {
    "mode": "DELIVERY_BY_MERCHANT",
    "scheduleType": "ASAP",
    "deliveryType": "LEAVE_AT_DOOR",
    "instructions": "Zqinstructions at the gate",
    "address": {
        "address1": "12 Zqstreet",
        "address2": "Zqfloor",
        "city": "Zqcity",
        "postalCode": "ZQ9999",
        "state": "Zqstate",
        "coordinates": {"lat": 40.123456, "lng": -73.654321},
    },
}
MARKS = (
    "zqmail", "zqfirst", "zqlast", "zquser", "zqagent", "zqinstructions", "zqstreet", "zqfloor", "zqcity", "zq9999",
    "zqstate", "zqcode", "zqnote", "zqlinenote", "7778899", "777 8899", "198.51.100.77", "40.123456", "73.654321",
)  # fmt: skip
"""What the private members have, and what answers repeat of them."""


def marked(deal: Trade, **members: Any) -> dict[str, Any]:
    order = deal.order(tea() | {"note": "Zqlinenote"}, note="Zqnote at the counter", **members)
    return order | {"customer": CUSTOMER, "clientContext": CLIENT, "fulfillment": FULFILLMENT} | members


async def echo(_request: web.Request, body: bytes) -> web.Response:
    """Accept an order, and repeat who ordered it."""
    order = json.loads(body)["data"]["order"]
    told = {name: order.get(name) for name in ("customer", "clientContext", "fulfillment", "note")}
    return web.json_response({"accepted": True, "partnerOrderId": "A-1 Zqlast", **told})


async def echo_and_refuse(_request: web.Request, body: bytes) -> web.Response:
    """Refuse an order with codes, places and words that repeat who ordered it."""
    told = json.dumps(json.loads(body)["data"]["order"]["customer"])
    reason = {"code": "ZQCODE", "message": f"Not for {told}", "pointer": "/Zqlast"}
    return web.json_response({"errors": [reason, reason | {"code": "STORE_CLOSED"}]}, status=422)


async def echo_and_fail(_request: web.Request, body: bytes) -> web.Response:
    return web.Response(status=410, text="No such hook for: " + body.decode())


async def echo_as_amount(_request: web.Request, _body: bytes) -> web.Response:
    return web.json_response({"isValid": True, "amounts": {"fees": "Zqlast", "currency": "ZQ"}})


async def happen(deal: Trade) -> None:
    """Place orders that are accepted, refused, cancelled and invalid, with answers that repeat the customer."""
    answers = deal.shop.answers
    answers |= {
        "validate": {"isValid": True},
        "place": echo,
        "events": echo_and_fail,
        "order-cancelled": echo_and_fail,
    }
    endpoint = {"url": f"{deal.shop.base}/endpoint", "types": ["order.adjusted"]}
    assert (await deal.front.post("/v1/marketfront/webhook-endpoints", endpoint)).status == 201
    cancelled = await deal.placed(marked(deal))
    assert (await deal.update(cancelled, status="confirmed")).status == 200
    reason = "Mr Zqlast (+15557778899, Zqnote at the counter) doesn't answer"
    adjustment = {"type": "refund", "amount": "0.10", "reason": reason}
    headers = {"Idempotency-Key": str(uuid4())}
    path = f"{MERCHANT}/{cancelled['orderId']}/adjustments"
    assert (await deal.pos.post(path, adjustment, headers=headers)).status == 201
    assert (await deal.pos.post(path, adjustment | {"amount": reason}, headers=headers)).status == 422
    assert (await deal.update(cancelled, state="cancelled", cancelReason=reason)).status == 200
    answers["cancel"] = {"accepted": False, "reason": reason}
    kept = await deal.placed(marked(deal))
    headers = {"Idempotency-Key": str(uuid4())}
    path = f"/v1/marketfront/orders/{kept['orderId']}/cancel"
    assert (await deal.front.post(path, {"reason": "CHANGED_MIND"}, headers=headers)).status == 409
    given_up = await deal.placed(marked(deal))
    await deal.mercato.app.orders.cancel(UUID(given_up["orderId"]), reason="Fraud")
    answers["place"] = echo_and_refuse
    assert (await deal.place(marked(deal))).status >= 400
    answers["validate"] = echo_as_amount
    assert (await deal.place(marked(deal))).status == 503
    agent = await assistant(deal)
    answers["validate"] = echo_and_refuse
    for client in (deal.front, agent.client):
        assert (await deal.place(marked(deal), front=client)).status >= 400
    assert not (await deal.validate(marked(deal)))["isValid"]
    malformed = marked(deal, customer=CUSTOMER | {"phone": 7})
    headers = {"Idempotency-Key": str(uuid4())}
    assert (await deal.front.post(PLACE, malformed, headers=headers)).status == 400
    for client, surface in ((deal.pos, "commerce"), (deal.front, "marketfront")):
        path = f"/v1/{surface}/webhook-deliveries?status=pending"
        await deal.mercato.until(client, path, lambda page: not page["deliveries"])
    await deal.mercato.app.request_log.flush()


async def paths_of(mercato: Service, audiences: frozenset[Audience]) -> list[str]:
    """Return the address of every page that there is for these, with every id that there is."""
    ids: dict[str, list[Any]] = {}
    async with mercato.app.db.read() as tx:
        for name, column in (
            ("order", orders.c.id), ("store", stores.c.id), ("partner", partners.c.id), ("key", api_keys.c.id),
            ("agent", agents.c.id),
            ("delivery", deliveries.c.id), ("request", refused_requests.c.id), ("run", catalog_runs.c.id),
        ):  # fmt: skip
            ids[name] = [row[0] for row in await tx.all(select(column))]
    assert all(ids.values()), "there is one of each"
    ids["passkey"] = ids["person"] = ids["session"] = [new_id()]
    ids["report"] = ids["endpoint"] = ids["registration"] = ids["upload"] = [new_id()]
    opened = [one for one in SCREENS if one.audiences & audiences and (one.show or one.ask)]
    return [path for screen in opened for path in _with_ids(screen.path, ids)]


_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _with_ids(path: str, ids: dict[str, list[Any]]) -> Iterator[str]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    for chosen in product(*(ids[name] for name in names)):
        found = path
        for name, one in zip(names, chosen, strict=True):
            found = found.replace("{" + name + "}", str(one))
        yield f"/console/{found}"


def assert_unmarked(text: str, where: str, *, codes: bool = False) -> None:
    """Check that nothing of the customer is shown. `codes`: a store's own codes are."""
    found = [mark for mark in MARKS if mark in text.lower() and not (codes and mark == "zqcode")]
    assert not found, f"{where} shows {found}: {text}"


@on_both
@own()
async def test_no_page_of_operators_and_no_command_shows_the_customer_of_an_order(
    mercato: Service, shop: MerchantServer, shell: Shell, database_kind: str
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await happen(deal)
    operator = await enter_as_operator(mercato)
    paths = await paths_of(mercato, OPERATORS)
    assert len(paths) > 40
    if database_kind == "postgresql":
        # What is read is masked after SQL: one page of each kind, and those of each order and delivery.
        paths = list({_UUID.sub("", path): path for path in paths}.values()) + [
            path for path in paths if re.fullmatch(r"/console/(orders|webhooks)/[0-9a-f-]{36}", path)
        ]
    pages = {}
    for path in paths:
        page = await operator.open(path)
        assert page.status in {200, 404, 422}, path
        assert_unmarked(page.body.decode(), path)
        pages[path] = page.text
    shown = "\n".join(text for path, text in pages.items() if "/webhooks/" in path)
    for kept in (
        '"type": "order.place"',
        '"type": "order.cancelled"',
        '"name": "Tea"',
        '"total": "5.80"',
        '"mode": "DELI',
    ):
        assert kept in shown, "what says nothing of the customer"
    assert "STORE_CLOSED" in "\n".join(text for path, text in pages.items() if "/orders/" in path)
    await _assert_commands_show_nothing(mercato, shell)


async def _assert_commands_show_nothing(mercato: Service, shell: Shell) -> None:
    async with mercato.app.db.read() as tx:
        order_ids = [row.id for row in await tx.all(select(orders.c.id))]
        sent = await tx.all(select(deliveries.c.id, deliveries.c.type, deliveries.c.status))
    # One of each kind: the pages show all of them.
    kinds = {(one.type, one.status): one for one in sent}.values()
    commands = [["order", "list"], ["webhooks", "list"], ["request", "list"], ["audit"], ["job", "list"]]
    commands += [["order", "show", str(one)] for one in order_ids]
    commands += [["webhooks", "show", str(one.id)] for one in kinds]
    for command, form in product(commands, ([], ["--json"])):
        output = await asyncio.to_thread(shell, *command, *form)
        assert_unmarked(output, " ".join(command))
    place = next(str(one.id) for one in sent if one.type == EventType.ORDER_PLACE)
    assert await asyncio.to_thread(shell, "webhooks", "show", place, "--body", code=2) == ""
    assert "names the customer" in shell.err


@own()
async def test_support_of_the_operator_sees_names_and_the_rest_once_the_audit_trail_has_recorded_it(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await happen(deal)
    support, _ = await enter_as_person(mercato, Role.SUPPORT, name="Sue Support")
    for path in await paths_of(mercato, OPERATORS):
        page = await support.open(path)
        assert page.status in {200, 403, 404}, path
        names = {"zqfirst", "zqlast"} if path.startswith("/console/orders/") else set[str]()
        found = {mark for mark in MARKS if mark in page.body.decode().lower()}
        assert found <= names, path
    async with mercato.app.db.read() as tx:
        order_id = (await tx.all(select(orders.c.id).order_by(orders.c.id)))[0].id
    path = f"/console/orders/{order_id}"
    page = await support.open(path)
    assert "+1 \N{BULLET}\N{BULLET} \N{BULLET}\N{BULLET}\N{BULLET} 99" in page.region("Customer")
    shown = await support.press(page, "Show")
    for text in ("Zqfirst Zqlast", "+1 555 777 8899", "zqmail@example.com"):
        assert text in shown.region("Customer")
    assert "12 Zqstreet" in shown.region("Fulfilment")
    assert "Zqnote at the counter" in shown.region("Fulfilment")
    assert "Zqlinenote" in shown.rows("Items")[0][0]
    assert "555 777" not in (await support.open(path)).text, "each time anew"
    async with mercato.app.db.read() as tx:
        entry = (await list_entries(tx, action="console.showCustomer", limit=2))[0]
    assert (entry.actor, entry.subject_id, entry.detail) == (
        "console:person:Sue Support",
        str(order_id),
        {"customerShown": True},
    )
    admin = await enter_as_operator(mercato)
    assert (await admin.post(f"{path}/customer")).status == 403
    assert (await support.post(f"/console/orders/{new_id()}/customer")).status == 404


@on_both
async def test_support_of_the_operator_sees_the_courier_once_it_asked_to(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    courier = {"name": "Zqcourier", "phone": "+15550123", "trackingUrl": "https://example.com/zqtrack"}
    assert (await deal.update(order, status="inTransit", courier=courier)).status == 200
    support, _ = await enter_as_person(mercato, Role.SUPPORT, name="Sue Support")
    page = await support.open(f"/console/orders/{order['orderId']}")
    shown = await support.press(page, "Show")
    for text in courier.values():
        assert text not in page.text
        assert text in shown.region("Fulfilment")
    admin = await enter_as_operator(mercato)
    assert "Zqcourier" not in (await admin.open(f"/console/orders/{order['orderId']}")).text


@pytest.mark.parametrize(
    ("phone", "shown"),
    [
        ("+31 6 1234 5612", "+31 •• ••• 12"),
        ("06 12345612", "•• ••• 12"),
        ("1234", "•• •••"),
        ("", "•• •••"),
        ("call me", "•• •••"),
        ("٠٦١٢٣٤٥٦١٢", "•• •••"),
    ],
)
def test_a_masked_phone_number_has_its_country_and_its_last_two_digits(phone: str, shown: str):
    assert mask_phone(phone) == shown


@own()
async def test_no_page_of_a_read_only_session_shows_the_customer_of_an_order(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await happen(deal)
    paths = await paths_of(mercato, PARTNERS)
    for client in (deal.pos, deal.front):
        browser = await enter_as_partner(mercato, client, read_only=True)
        for path in paths:
            page = await browser.open(path)
            assert page.status in {200, 403, 404}, path
            assert_unmarked(page.body.decode(), path, codes=True)


async def test_both_sides_of_an_order_see_its_customer_and_what_the_other_side_wrote(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await happen(deal)
    for client in (deal.pos, deal.front):
        browser = await enter_as_partner(mercato, client)
        shown = await _texts(browser, "orders", "Orders")
        for words in ("Zqfirst Zqlast", "Zqnote at the counter", "Zqlinenote"):
            assert words in shown
        assert "doesn't answer" in await _texts(browser, "orders", "Orders")
        sent = await _texts(browser, "webhooks", "Deliveries")
        assert "12 Zqstreet" in sent, "the body"
        assert "No such hook for" in sent, "the answer"


async def _texts(browser: Browser, screen: str, caption: str) -> str:
    listed = await browser.open(f"/console/{screen}")
    texts = []
    for whole in listed.ids(caption):
        page = await browser.open(f"/console/{screen}/{whole}")
        assert page.status == 200
        texts.append(page.text)
    return "\n".join(texts)


def test_a_member_that_is_not_known_is_masked_in_a_webhook_about_an_order():
    body = json.dumps(
        {"type": "order.place", "data": {"order": {"note": "for Zoe", "courier": {"name": "Max"}}}}
    )
    assert json.loads(mask_body("order.place", body.encode()))["data"]["order"] == {
        "note": "***",
        "courier": "***",
    }
    assert mask_body("catalog.sync.failed", body.encode()) == body.encode()
    assert (mask_reply("order.place", "for Zoe"), mask_reply("order.place", ""), mask_reply("order.place", None)) == (
        "***", "", None,
    )  # fmt: skip
    assert mask_reply("catalog.sync.failed", "<h1>down</h1>") == "<h1>down</h1>"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Ms. LI-WEI is not there", False),
        ("Ms. Ada isn't there", True),
        ("ask\nada!", True),
        ("Canada is closed", False),
        ("王 is not there", True),
        ("给王伟先生", True),
        ("call 15550100", True),
        ("call (555) 0100", False),
        ("Out of dough", False),
        ("mary-ann moved", True),
        ("it was not TOO hot", True),
    ],
)
def test_words_of_partners_are_hidden_that_repeat_a_private_text(text: str, hidden: bool):
    customer = Customer(email="a@b.example", first_name="Ada Mary-Ann", last_name="王", phone="+1 555-0100")
    client = ClientContext(ip="203.0.113.7", user_agent="")
    private = private_texts(
        customer,
        client,
        PickupFulfillment(schedule_type=ScheduleType.ASAP),
        Notes(order="Not too hot", lines={}),
    )
    assert mask_text(text, private) == ("***" if hidden else text)


def test_once_the_customer_is_erased_only_codes_are_left_of_the_reasons():
    for text, answer, shown in (
        ("Ada asked us to", StoreAnswer.ACCEPTED, "***"),
        ("STORE_UNREACHABLE", StoreAnswer.GIVEN_UP, "STORE_UNREACHABLE"),
        ("MADE_UP", StoreAnswer.REFUSED, "OTHER"),
        ("STORE_CLOSED", StoreAnswer.REFUSED, "STORE_CLOSED"),
        (None, StoreAnswer.ACCEPTED, None),
    ):
        assert mask_reason(text, answer, ()) == shown
