"""Approvals: a person sees what an agent wants to order, and places or declines it, once."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace
from structlog.testing import capture_logs
from tests.api.agent_keys import assistant
from tests.api.trade import ADDRESS, CUSTOMER, MERCHANT, Time, line, tea, trade
from tests.catalog.documents import TEA, cafe
from tests.console.browser import Browser, Page
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.quotes.quoting import Quoting, origin
from tests.service import MerchantServer
from tests.sharing import own, shared
from tests.stored import text_of

from mercato.features.orders.errors import SpendLimitExceeded
from mercato.features.orders.idempotency import PlacedOrder
from mercato.features.orders.privacy import erase_all
from mercato.features.partners import credentials
from mercato.features.partners.vault import KEY_BYTES, Vault
from mercato.features.quotes.approvals import PageRequest
from mercato.features.quotes.model import (
    LIFETIME,
    ApprovalRequest,
    NewQuote,
    QuoteDeclined,
    QuoteExpired,
    QuotePlacement,
    QuoteState,
)
from mercato.features.quotes.privacy import erase_quotes
from mercato.features.quotes.queries import find_quote, list_asked, replace_content
from mercato.features.quotes.tables import quotes
from mercato.features.requests.tables import refused_requests
from mercato.platform.db.audit import list_entries
from mercato.platform.errors import IdempotencyKeyReused
from mercato.platform.telemetry.tracing import new_trace
from mercato_contract.texts import without_secrets
from mercato_contract.wire import rfc3339

pytestmark = [shared, mostly_sqlite]

CARD = {"type": "cardOnFile", "cardToken": "tok_secret", "processorType": "test"}


@pytest.fixture
async def here(here: Quoting) -> Quoting:
    """The storefront's client is its agent, each of whose orders needs approval."""
    lunch = await assistant(here.trade, {"name": "Lunch", "approval": "always"})
    here.trade.front = lunch.client
    return here


async def asked(here: Quoting, quote: NewQuote, **options: Any) -> ApprovalRequest:
    outcome = await here.place(quote, **options)
    assert isinstance(outcome, ApprovalRequest), outcome
    return outcome


async def opened(here: Quoting, order: Any = None, **options: Any) -> tuple[NewQuote, Browser, Page]:
    """Quote an order, let an agent ask to place it, and open the page."""
    quote = await here.quote(order)
    total = msgspec.to_builtins(quote.order.amounts)["total"]
    approval = await asked(here, quote, total=total, **options)
    browser = Browser(here.trade.mercato.base, here.trade.mercato.session)
    return quote, browser, await browser.open(f"/approve/{approval.secret}")


async def reprice(here: Quoting, price: str) -> None:
    """Change the price of tea, which is 2.50 in what was quoted."""
    dearer = cafe()
    dearer["items"][TEA]["basePrice"] = price
    sells = here.trade
    run = await sells.mercato.run(sells.pos, sells.store["storeId"], sells.shop.host(dearer))
    assert run["status"] == "succeeded"


async def placed(here: Quoting, quote: NewQuote) -> PlacedOrder:
    outcome = await here.place(quote)
    assert isinstance(outcome, PlacedOrder), outcome
    return outcome


# --- the agent's side -------------------------------------------------------------------------------


async def test_nothing_is_placed_before_a_person_approves_and_a_repeat_gets_the_same_address(here: Quoting):
    quote = await here.quote()
    assert [warning.code for warning in quote.warnings] == ["APPROVAL_REQUIRED"]
    first = await asked(here, quote, payment=CARD)
    again = await asked(here, quote, payment=CARD)
    assert again == first
    with pytest.raises(IdempotencyKeyReused):
        await here.place(quote, payment=CARD | {"cardToken": "tok_other"})
    found = await here.find(quote)
    assert found.approval == first
    assert (await here.orders(), here.calls()) == ([], {})


async def test_the_approved_order_is_the_agents_with_the_agents_payment(here: Quoting):
    quote, browser, page = await opened(here, payment=CARD)
    done = await browser.press(page, "Place order")
    assert (done.status, done.heading) == (200, "The order is placed")
    (order_id,) = await here.orders()
    sent = [body for path, _, body in received(here) if path.endswith("/place")]
    assert [msgspec.json.decode(body)["data"]["payment"] for body in sent] == [CARD]
    assert str((await here.placed(quote, payment=CARD)).order_id) == order_id
    found = await here.find(quote)
    assert found.order is not None
    assert str(found.order.id) == order_id


def received(here: Quoting) -> list[Any]:
    queue = here.trade.shop.received
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def test_after_decline_the_agent_is_told_and_nothing_is_placed(here: Quoting):
    quote, browser, page = await opened(here)
    done = await browser.press(page, "Decline")
    assert (done.status, done.heading) == (410, "The order was declined")
    with pytest.raises(QuoteDeclined):
        await here.place(quote)
    found = await here.find(quote)
    assert found.quote is not None
    assert (found.quote.state, found.approval) == (QuoteState.DECLINED, None)
    # The page that was open before can't place it any more.
    late = await browser.press(page, "Place order")
    assert late.heading == "The order was declined"
    assert await here.orders() == []


async def test_only_orders_above_the_rules_amount_need_approval(here: Quoting, shop: MerchantServer):
    rule = {"name": "Above", "currency": "USD", "approval": "above:5.80"}
    other = Quoting(await trade(here.trade.mercato, shop))
    other.trade.front = (await assistant(other.trade, rule)).client
    await placed(other, await other.quote())
    dearer = await other.quote(other.trade.order(tea(3)))
    assert isinstance(await other.place(dearer, total="8.70"), ApprovalRequest)
    assert len(await other.orders()) == 1


async def test_an_approval_raises_no_limit(here: Quoting, shop: MerchantServer):
    rule = {"name": "Poor", "currency": "USD", "maximumDay": "11.00", "approval": "always"}
    other = Quoting(await trade(here.trade.mercato, shop))
    other.trade.front = (await assistant(other.trade, rule)).client
    (_, browser, first), (_, _, second) = [await opened(other) for _ in range(2)]
    assert (await browser.press(first, "Place order")).heading == "The order is placed"
    shown = await browser.press(second, "Place order")
    assert "may spend at most 11.00 USD a day" in shown.root.text
    assert len(await other.orders()) == 1
    # Nobody is asked about what would be refused.
    with pytest.raises(SpendLimitExceeded):
        await other.place(await other.quote())


# --- the page ---------------------------------------------------------------------------------------


async def test_the_page_shows_all_that_is_ordered_and_for_whom(here: Quoting):
    delivery = {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "deliveryType": "DOOR_TO_DOOR",
        "address": ADDRESS,
        "instructions": "Ring twice",
    }
    here.trade.shop.answers["validate"] = {
        "isValid": True,
        "amounts": {"fees": "1.50", "feesDescription": [{"amount": "1.50", "description": "Delivery fee"}]},
    }
    order = here.trade.order(fulfillment=delivery, note="For Ada's birthday", amounts={"tip": "1.00"})
    order["cart"]["lineItems"][0]["note"] = "No sugar"
    _, _, page = await opened(here, order)
    assert (page.status, page.heading) == (200, "Approve this order?")
    text = page.root.text
    told = [
        "Lunch of Test",
        "Test Store",
        "2 \N{MULTIPLICATION SIGN} Tea",
        "Milk",
        "Lemon",
        "No sugar",
        "Delivery by the store",
        "1 Main St",
    ]
    told += ["Springfield", "Ring twice", "For Ada's birthday", "Delivery fee", "Ada Lovelace", "8.30 USD"]
    for said in told:
        assert said in text, said
    assert page.region("Amounts") == "Amounts Items 5.80 Fees 1.50 Delivery fee 1.50 Tip 1.00 Total 8.30 USD"


async def test_the_page_keeps_its_address_to_itself(here: Quoting):
    _, _, page = await opened(here)
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.scripts == []


async def test_looking_uses_nothing_up_and_pressing_twice_is_one_order(here: Quoting):
    quote, browser, page = await opened(here)
    for _ in range(3):
        assert (await browser.open(page.url)).heading == "Approve this order?"
    await browser.press(page, "Place order")
    again = await browser.press(page, "Place order")
    assert again.heading == "The order is placed"
    assert len(await here.orders()) == 1
    # Who presses Decline afterwards sees that it was placed.
    assert (await browser.press(page, "Decline")).heading == "The order is placed"
    found = await here.find(quote)
    assert found.quote is not None
    assert found.quote.state is QuoteState.PLACED
    assert list(here.calls().values()) == [1]
    await placed(here, quote)


@on_both
async def test_twenty_people_who_press_at_once_place_one_order(here: Quoting):
    _, browser, page = await opened(here)
    pages = await asyncio.gather(*(browser.press(page, "Place order") for _ in range(20)))
    assert {one.heading for one in pages} == {"The order is placed"}
    assert len(await here.orders()) == 1
    assert list(here.calls().values()) == [1]


@on_both
async def test_of_place_and_decline_at_once_one_happens(here: Quoting):
    for _ in range(5):
        quote, browser, page = await opened(here)
        before = len(await here.orders())
        pages = await asyncio.gather(
            *(browser.press(page, button) for button in ("Place order", "Decline") * 3)
        )
        (heading,) = {(await browser.open(one.url)).heading for one in pages}
        made = len(await here.orders()) - before
        assert (heading, made) in {("The order is placed", 1), ("The order was declined", 0)}
        found = await here.find(quote)
        assert (found.order is not None) == bool(made)


@on_both
async def test_the_agents_repeat_while_a_person_presses_gets_the_order(here: Quoting):
    quote, browser, page = await opened(here)
    pressed, outcome = await asyncio.gather(browser.press(page, "Place order"), here.place(quote))
    assert pressed.heading == "The order is placed"
    assert isinstance(outcome, ApprovalRequest | PlacedOrder)
    await placed(here, quote)
    assert len(await here.orders()) == 1


async def test_a_changed_price_is_shown_and_asked_again(here: Quoting):
    quote, browser, page = await opened(here)
    await reprice(here, "3.00")
    shown = await browser.press(page, "Place order")
    assert shown.heading == "Approve this order?"
    assert await here.orders() == []
    assert "Total : 5.80 USD → 6.80 USD" in shown.region("Changed")
    assert "Tea : 5.80 → 6.80" in shown.region("Changed")
    # The page that shows the old price can't place the order at the new one.
    assert (await browser.press(page, "Place order")).heading == "Approve this order?"
    done = await browser.press(shown, "Place order")
    assert done.heading == "The order is placed"
    # The agent repeats what it knows.
    order = msgspec.json.decode((await placed(here, quote)).document)
    assert order["amounts"]["total"] == "6.80"


@on_both
@own()
async def test_a_person_reads_what_the_approved_order_costs_and_not_what_it_was_quoted_at(here: Quoting):
    _, browser, page = await opened(here)
    await reprice(here, "3.00")
    shown = await browser.press(page, "Place order")
    done = await browser.press(shown, "Place order")
    assert "6.80 USD" in done.region("Amounts")
    assert "5.80" not in done.region("Amounts")
    async with here.trade.mercato.app.db.read() as tx:
        [listed] = await list_asked(tx, (await here.caller()).partner_id, limit=5)
    assert listed.total_text == "6.80 USD"


async def test_an_order_that_was_priced_again_can_be_approved_until_its_quote_expires(
    here: Quoting, time: Time
):
    quote, browser, page = await opened(here)
    time.ahead = LIFETIME - timedelta(minutes=1)
    await reprice(here, "3.00")
    shown = await browser.press(page, "Place order")
    assert shown.heading == "Approve this order?"
    time.ahead = LIFETIME
    late = await browser.press(shown, "Place order")
    assert (late.status, late.heading) == (410, "This can't be approved any more")
    with pytest.raises(QuoteExpired):
        await here.place(quote)
    assert await here.orders() == []


@on_both
async def test_a_price_that_changed_before_the_page_is_opened_is_shown_at_once(here: Quoting):
    quote = await here.quote()
    approval = await asked(here, quote)
    await reprice(here, "3.00")
    browser = Browser(here.trade.mercato.base, here.trade.mercato.session)
    for _ in range(2):
        page = await browser.open(f"/approve/{approval.secret}")
        assert "5.80 USD → 6.80 USD" in page.region("Changed")
    assert (await browser.press(page, "Place order")).heading == "The order is placed"


async def test_a_store_that_paused_is_shown_and_the_order_waits(here: Quoting):
    _, browser, page = await opened(here)
    path = f"/v1/commerce/stores/{here.trade.store['storeId']}/status"
    assert (await here.trade.pos.post(path, {"status": "paused"})).status == 200
    shown = await browser.press(page, "Place order")
    assert (shown.status, shown.heading) == (200, "Approve this order?")
    assert "paused" in shown.root.text
    assert await here.orders() == []
    assert (await here.trade.pos.post(path, {"status": "online"})).status == 200
    assert (await browser.press(shown, "Place order")).heading == "The order is placed"


async def test_an_order_whose_time_has_passed_is_shown_as_such_and_not_placed(here: Quoting, time: Time):
    soon = rfc3339(here.trade.mercato.app.clock() + timedelta(minutes=5))
    later = {"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": soon}
    _, browser, page = await opened(here, here.trade.order(fulfillment=later))
    time.ahead = timedelta(minutes=6)
    shown = await browser.press(page, "Place order")
    assert f"quoted for {soon}, which has passed" in shown.root.text
    assert await here.orders() == []


@on_both
async def test_a_store_that_refuses_the_approved_order_is_told_on_the_page(here: Quoting):
    _, browser, page = await opened(here)
    here.trade.shop.answers["place"] = refusing
    done = await browser.press(page, "Place order")
    assert done.heading == "The order was not placed"
    assert "No tea" in done.root.text


async def test_an_order_that_a_person_refuses_after_it_was_approved_was_placed(here: Quoting):
    store = f"/v1/commerce/stores/{here.trade.store['storeId']}"
    assert (await here.trade.pos.call("PUT", store, {"orderHandling": "manual"})).status == 200
    _, browser, page = await opened(here)
    await browser.press(page, "Place order")
    (order_id,) = await here.orders()
    refusal = {"state": "cancelled", "cancelReason": "TOO_BUSY"}
    assert (await here.trade.pos.post(f"{MERCHANT}/{order_id}/status", refusal)).status == 200
    assert (await browser.open(page.url)).heading == "The order is cancelled"


async def refusing(_request: web.Request, _body: bytes) -> web.Response:
    return web.json_response({"errors": [{"code": "ITEM_UNAVAILABLE", "message": "No tea"}]}, status=409)


async def test_an_expired_approval_places_nothing(here: Quoting, time: Time):
    quote, browser, page = await opened(here)
    time.ahead = LIFETIME
    for late in (await browser.press(page, "Place order"), await browser.open(page.url)):
        assert (late.status, late.heading) == (410, "This can't be approved any more")
    with pytest.raises(QuoteExpired):
        await here.place(quote)
    assert await here.orders() == []


async def test_a_revoked_keys_order_cannot_be_approved(here: Quoting):
    _, browser, page = await opened(here)
    app, caller = here.trade.mercato.app, await here.caller()
    async with app.db.write() as tx:
        await credentials.revoke_key(tx, await credentials.get_key(tx, str(caller.key_id)))
    late = await browser.press(page, "Place order")
    assert late.heading == "This can't be approved any more"
    assert "revoked" in late.root.text
    assert await here.orders() == []


async def test_a_payment_that_no_key_opens_any_more_is_not_left_out(here: Quoting):
    quote, _, page = await opened(here, payment=CARD)
    app, caller = here.trade.mercato.app, await here.caller()
    rotated = replace(app.quotes, vault=Vault([bytes(KEY_BYTES)]))
    with pytest.raises(QuoteExpired):
        await rotated.place(
            caller,
            quote.id,
            QuotePlacement("5.80", msgspec.Raw(msgspec.json.encode(CARD))),
            trace=new_trace(),
            make_origin=origin,
        )
    async with app.db.write() as tx:
        stored = await find_quote(tx, quote.id)
        assert stored is not None
        content = app.quotes.open(stored)
        assert content is not None
        # As if it had been priced again since.
        assert await replace_content(tx, stored, rotated.seal(quote.id, content))
    asked_at = PageRequest(request_id="r", trace_id="0" * 32, trace=new_trace(), make_origin=origin)
    secret = page.url.rpartition("/")[2]
    shown = await replace(app.approvals, quotes=rotated).place(secret, asked_at, total="5.80 USD")
    assert isinstance(shown.problem, QuoteExpired)
    assert await here.orders() == []


@own()
async def test_an_erased_customers_order_cannot_be_approved(here: Quoting):
    app = here.trade.mercato.app
    _, browser, page = await opened(here)
    assert await erase_quotes(app.db, app.vault, CUSTOMER["email"]) == 1
    assert (await browser.press(page, "Place order")).heading == "This can't be approved any more"
    assert await here.orders() == []


async def test_after_the_quote_has_expired_the_page_of_an_order_has_no_customer(here: Quoting, time: Time):
    _, browser, page = await opened(here)
    done = await browser.press(page, "Place order")
    assert "Lovelace" in done.root.text
    time.ahead = LIFETIME
    later = await browser.open(page.url)
    assert later.heading == "The order is placed"
    assert "Lovelace" not in later.root.text
    await erase_all(here.trade.mercato.app.db, CUSTOMER["email"])
    assert (await browser.open(page.url)).heading == "The order is placed"


# --- the address ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}], ids=str
)
async def test_another_sites_form_decides_nothing(here: Quoting, headers: dict[str, str]):
    quote, browser, page = await opened(here)
    for decision in ("place", "decline"):
        answer = await browser.post(page.url, {"decision": decision, "total": "5.80 USD"}, **headers)
        assert answer.status == 403
    assert (await here.find(quote)).approval is not None
    assert await here.orders() == []


async def test_an_address_that_was_guessed_or_cut_shows_nothing(here: Quoting):
    _, browser, page = await opened(here)
    for address in (
        page.url[:-1],
        page.url + "x",
        page.url[:-1] + "x",
        page.url.rsplit("/", 1)[0] + "/" + "x" * 300,
    ):
        assert (await browser.open(address)).status == 404
        assert (await browser.post(address, {"decision": "place", "total": "5.80 USD"})).status == 404
    assert (await browser.post(page.url, {"decision": "eat"})).status in {400, 422}
    assert await here.orders() == []


@own()
async def test_the_secret_is_neither_stored_nor_logged(here: Quoting):
    with capture_logs() as logs:
        _, browser, page = await opened(here)
        secret = page.url.rsplit("/", 1)[1]
        await browser.open(page.url + "x")
        await browser.post(page.url, {"decision": "eat"})
        await browser.press(page, "Place order")
        app = here.trade.mercato.app
        await app.request_log.flush()
        app.event_log.flush()
    async with app.db.read() as tx:
        kept = await text_of(tx, quotes, refused_requests)
    assert secret not in kept
    assert secret not in repr(logs)
    assert secret not in without_secrets(f"GET /approve/{secret} HTTP/1.1")


@on_both
@own()
async def test_the_audit_trail_says_that_the_link_decided(here: Quoting):
    _, browser, page = await opened(here)
    await browser.press(page, "Place order")
    caller = await here.caller()
    async with here.trade.mercato.app.db.read() as tx:
        entries = await list_entries(tx, partner_id=caller.partner_id, limit=50)
    decided = [entry for entry in entries if entry.action == "approveQuote"]
    assert {entry.actor for entry in decided} == {f"console:key:{caller.key_id}"}
    assert {entry.subject_type for entry in decided} == {"order"}


@only_sqlite
@pytest.mark.parametrize("count", [1, 30])
async def test_names_of_a_menu_are_shown_as_text(here: Quoting, count: int):
    hostile = cafe()
    hostile["items"][TEA]["name"] = '<b onclick="x">Tea</b>\u202e' + "x" * 80
    sells = here.trade
    await sells.mercato.run(sells.pos, sells.store["storeId"], sells.shop.host(hostile))
    order = sells.order(
        *(line(TEA, note=f"{n} " + "n" * 490) for n in range(count)), note="<script>" + "y" * 480
    )
    _, _, page = await opened(here, order)
    assert page.status == 200
    assert page.root.all("b") == []
    assert page.scripts == []
    assert "[U+202E]" in page.root.text
    assert len([one for one in page.root.all("div") if one.attributes.get("class") == "line"]) == count
