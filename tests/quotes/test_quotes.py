"""Quotes: kept sealed for fifteen minutes, and placed once, whoever repeats the request and when."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec import UNSET
from sqlalchemy import select
from structlog.testing import capture_logs
from tests.api.agent_keys import assistant
from tests.api.trade import ADDRESS, CUSTOMER, Time, trade
from tests.catalog.documents import TEA, cafe
from tests.databases import mostly_sqlite, on_both
from tests.quotes.quoting import Quoting, origin
from tests.service import Client, MerchantServer, service
from tests.sharing import own, shared
from tests.stored import text_of
from tests.waiting import PATIENCE

from mercato.features import offboarding
from mercato.features.orders.errors import (
    ItemPriceChanged,
    OrderBelowMinimum,
    OrderTotalDifferent,
    StoreClosed,
    StoreUnreachable,
)
from mercato.features.orders.idempotency import PlacedOrder, RefusedOrder, UnansweredOrder
from mercato.features.orders.privacy import erase_all
from mercato.features.orders.tables import idempotency_keys
from mercato.features.partners import accounts, credentials
from mercato.features.partners.model import PartnerKind, Surface
from mercato.features.quotes.model import KEPT, LIFETIME, QuoteExpired, QuoteNotFound, QuoteState
from mercato.features.quotes.privacy import erase_quotes
from mercato.features.quotes.tables import quotes
from mercato.features.upkeep import Upkeep
from mercato.platform.errors import IdempotencyKeyReused, RequestInProgress, Unauthenticated
from mercato.platform.telemetry.tracing import new_trace
from mercato_contract.refusals import InvalidRequest, ValidationFailed
from mercato_contract.wire import rfc3339

pytestmark = [shared, mostly_sqlite]

MANY = 20

DELIVERY = {
    "mode": "DELIVERY_BY_MERCHANT",
    "scheduleType": "ASAP",
    "deliveryType": "DOOR_TO_DOOR",
    "address": ADDRESS,
    "instructions": "Ring twice at Lovelace's",
}
CARD = {"type": "cardOnFile", "cardToken": "tok_secret", "processorType": "test"}


async def stored(here: Quoting) -> Any:
    """Return the only quote's row."""
    async with here.trade.mercato.app.db.read() as tx:
        (row,) = await tx.all(select(quotes))
    return row


async def keep_up(here: Quoting) -> None:
    app = here.trade.mercato.app
    await Upkeep(app.db, app.clock, catalog_days=30, delivery_days=30, rest=0).once()


# --- quoting ----------------------------------------------------------------------------------------


async def test_a_quote_has_all_amounts_of_the_store_and_when_it_is_ready(here: Quoting):
    fees = {
        "fees": "1.50",
        "feesDescription": [{"amount": "1.50", "description": "Service"}],
        "taxes": "0.41",
    }
    here.trade.shop.answers["validate"] = {
        "isValid": True,
        "amounts": fees,
        "estimatedReadyAt": "2030-01-01T12:00:00Z",
    }
    quote = await here.quote(here.trade.order(amounts={"tip": "1.00"}))
    amounts = msgspec.json.decode(msgspec.json.encode(quote.order.amounts))
    assert {name: amounts[name] for name in ("subTotal", "fees", "taxes", "tip", "total", "currency")} == {
        "subTotal": "5.80",
        "fees": "1.50",
        "taxes": "0.41",
        "tip": "1.00",
        "total": "8.71",
        "currency": "USD",
    }
    assert amounts["feesDescription"] == [{"amount": "1.50", "description": "Service"}]
    assert quote.order.estimated_ready_at == "2030-01-01T12:00:00.000Z"
    assert timedelta(0) < quote.expires_at - here.trade.mercato.app.clock() <= LIFETIME
    placed = await here.placed(quote, total="8.71")
    assert msgspec.json.decode(placed.document)["amounts"] == amounts


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            {"isValid": False, "errors": [{"code": "ITEM_PRICE_CHANGED", "message": "Dearer"}]},
            ItemPriceChanged,
        ),
        ({"no": "answer", "amounts": {"total": "no"}}, StoreUnreachable),
    ],
)
@own()
async def test_what_the_store_refuses_gets_no_quote(here: Quoting, answer: Any, problem: type[Exception]):
    here.trade.shop.answers["validate"] = answer
    with pytest.raises(problem):
        await here.quote()
    async with here.trade.mercato.app.db.read() as tx:
        assert await tx.all(select(quotes)) == []


async def test_an_order_below_the_minimum_gets_no_quote(here: Quoting):
    path = f"/v1/commerce/stores/{here.trade.store['storeId']}"
    assert (await here.trade.pos.call("PUT", path, {"minimumOrderAmount": "6.00"})).status == 200
    with pytest.raises(OrderBelowMinimum) as refused:
        await here.quote()
    assert "6.00" in refused.value.detail


async def test_a_quote_warns_of_a_store_that_nobody_asks(here: Quoting):
    quote = await here.quote()
    assert quote.warnings == ()
    path = f"/v1/commerce/stores/{here.trade.store['storeId']}"
    assert (await here.trade.pos.call("PUT", path, {"webhookUrl": None})).status == 200
    assert [warning.code for warning in (await here.quote()).warnings] == ["ORDERS_UNSEEN"]


# --- placing ----------------------------------------------------------------------------------------


@on_both
async def test_twenty_requests_at_once_place_one_order_and_get_the_same_answer(here: Quoting):
    quote = await here.quote()
    caller = await here.caller()
    outcomes = await asyncio.gather(*(here.placed(quote, caller=caller) for _ in range(MANY)))
    assert len({outcome.document for outcome in outcomes}) == 1
    assert await here.orders() == [str(outcomes[0].order_id)]
    assert here.calls() == {str(outcomes[0].order_id): 1}


@on_both
async def test_two_servers_on_one_database_place_a_quote_once(
    here: Quoting,
    database_url: str,
    tmp_path: Path,
    time: Time,
):
    async with service(database_url, tmp_path / "data", now=time, place_seconds=PATIENCE) as second:
        there = Quoting(trade=here.trade)
        there.trade = type(here.trade)(
            second, here.trade.shop, here.trade.pos, here.trade.front, here.trade.store
        )
        quote = await here.quote()
        outcomes = await asyncio.gather(*(side.placed(quote) for side in (here, there) * 5))
    assert len({outcome.document for outcome in outcomes}) == 1
    assert here.calls() == {str(outcomes[0].order_id): 1}


@pytest.mark.parametrize("later", [timedelta(0), LIFETIME, timedelta(hours=23)], ids=str)
async def test_a_repeat_gets_the_first_answer_for_a_day(here: Quoting, later: timedelta, time: Time):
    quote = await here.quote()
    first = await here.placed(quote, payment=CARD)
    order = msgspec.json.decode(first.document)
    assert (await here.trade.update(order, status="preparing")).status == 200
    time.ahead = later
    await keep_up(here)
    again = await here.placed(quote, payment=CARD)
    assert (again.document, again.replayed) == (first.document, True)
    assert len(await here.orders()) == 1


async def test_after_a_day_a_repeat_gets_the_order_as_it_is(here: Quoting, time: Time):
    quote = await here.quote()
    first = await here.placed(quote)
    assert (await here.trade.update(msgspec.json.decode(first.document), status="preparing")).status == 200
    time.ahead = timedelta(hours=25)
    await keep_up(here)
    again = await here.placed(quote)
    assert again.order_id == first.order_id
    assert msgspec.json.decode(again.document)["status"] == "preparing"
    assert len(await here.orders()) == 1


@pytest.mark.parametrize("later", [timedelta(hours=1), timedelta(hours=25)], ids=str)
async def test_a_repeat_gets_an_order_that_a_person_has_refused_since(
    here: Quoting, later: timedelta, time: Time
):
    store = f"/v1/commerce/stores/{here.trade.store['storeId']}"
    assert (await here.trade.pos.call("PUT", store, {"orderHandling": "manual"})).status == 200
    quote = await here.quote()
    first = await here.placed(quote)
    order = msgspec.json.decode(first.document)
    assert (await here.trade.update(order, state="cancelled", cancelReason="Out of dough")).status == 200
    # Without the answer that was pinned, which names the customer.
    await erase_all(here.trade.mercato.app.db, CUSTOMER["email"])
    time.ahead = later
    await keep_up(here)
    again = await here.placed(quote)
    assert again.order_id == first.order_id
    now = msgspec.json.decode(again.document)
    assert (now["state"], now["cancelReason"]) == ("cancelled", "Out of dough")


async def test_another_total_is_refused_with_the_right_one_and_places_nothing(here: Quoting):
    quote = await here.quote()
    with pytest.raises(OrderTotalDifferent, match=r"5\.80 USD"):
        await here.place(quote, total="5.79")
    with pytest.raises(ValidationFailed):
        await here.place(quote, total="five")
    assert await here.orders() == []
    await here.placed(quote, total="5.8")


async def test_an_expired_quote_says_quote_again_and_places_nothing(here: Quoting, time: Time):
    quote = await here.quote()
    time.ahead = LIFETIME
    with pytest.raises(QuoteExpired, match="Quote the order again"):
        await here.place(quote)
    await keep_up(here)
    with pytest.raises(QuoteExpired):
        await here.place(quote)
    assert await here.orders() == []
    found = await here.find(quote)
    assert found.order is None
    assert found.quote is not None
    assert found.quote.state is QuoteState.QUOTED


async def test_another_partners_quote_is_unknown(here: Quoting):
    other = (await here.trade.mercato.partner(PartnerKind.MARKETFRONT))[1]
    quote = await here.quote()
    for _ in range(2):
        with pytest.raises(QuoteNotFound):
            await here.place(quote, client=other)
        with pytest.raises(QuoteNotFound):
            await here.find(quote, client=other)
        # The same once an order was placed.
        await here.placed(quote)


async def test_another_key_of_the_partner_places_no_quote_but_gets_the_answer_to_what_was_placed(
    here: Quoting,
):
    other = await another_key(here)
    quote = await here.quote()
    with pytest.raises(QuoteNotFound):
        await here.place(quote, client=other)
    first = await here.placed(quote)
    assert (await here.placed(quote, client=other)).document == first.document
    found = await here.find(quote, client=other)
    assert found.order is not None
    assert found.order.id == first.order_id


async def test_an_agent_neither_reads_nor_places_the_quotes_and_orders_of_another(here: Quoting):
    first, second = [(await assistant(here.trade, name=name)).client for name in ("One", "Two")]
    quote = await here.quote(client=first)
    with pytest.raises(QuoteNotFound):
        await here.find(quote, client=second)
    await here.placed(quote, client=first)
    with pytest.raises(QuoteNotFound):
        await here.find(quote, client=second)
    with pytest.raises(QuoteNotFound):
        await here.place(quote, client=second)
    # The storefront's own key sees the orders of its agents.
    assert (await here.find(quote)).order is not None


async def another_key(here: Quoting) -> Client:
    """Return a client with another key of the same storefront."""
    app, front = here.trade.mercato.app, here.trade.front
    caller = await here.caller()
    async with app.db.write() as tx:
        partner = await accounts.get_partner(tx, caller.partner_id)
        made = await credentials.create_key(tx, partner, surface=Surface.MARKETFRONT)
    return Client(front.base, made.text, front.session)


async def test_a_revoked_key_places_nothing(here: Quoting):
    quote = await here.quote()
    app, caller = here.trade.mercato.app, await here.caller()
    async with app.db.write() as tx:
        await credentials.revoke_key(tx, await credentials.get_key(tx, str(caller.key_id)))
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await here.caller()
            except Unauthenticated:
                break
            await asyncio.sleep(0.02)
    with pytest.raises(Unauthenticated):
        await here.place(quote)
    assert await here.orders() == []


async def test_the_same_quote_with_another_payment_is_refused_with_the_order(here: Quoting):
    quote = await here.quote()
    first = await here.placed(quote, payment=CARD)
    with pytest.raises(IdempotencyKeyReused) as refused:
        await here.place(quote, payment=CARD | {"cardToken": "tok_other"})
    assert refused.value.extensions == {"orderId": str(first.order_id)}
    assert "tok_" not in refused.value.detail
    with pytest.raises(InvalidRequest):
        await here.place(quote, payment=[])


async def test_the_stores_no_is_the_answer_to_every_repeat(here: Quoting):
    here.trade.shop.answers["place"] = web_answer(
        402, {"errors": [{"code": "PAYMENT_DECLINED", "message": "No"}]}
    )
    quote = await here.quote()
    for _ in range(3):
        refused = await here.place(quote, payment=CARD)
        assert isinstance(refused, RefusedOrder)
        assert refused.problem.error_code == "PAYMENT_DECLINED"
    assert sum(here.calls().values()) == 1


async def test_a_payment_that_failed_leaves_no_second_order_of_the_quote(here: Quoting):
    here.trade.shop.answers["place"] = web_answer(
        402, {"errors": [{"code": "PAYMENT_FAILED", "message": "No"}]}
    )
    quote = await here.quote()
    problems = []
    for _ in range(2):
        refused = await here.place(quote, payment=CARD)
        assert isinstance(refused, RefusedOrder)
        assert not refused.problem.retryable
        assert "quote the order again" in (refused.problem.detail or "")
        problems.append((refused.problem.error_code, refused.problem.timestamp))
    assert len(set(problems)) == 1
    assert problems[0][0] == "PAYMENT_FAILED"
    found = await here.find(quote)
    assert found.order is not None
    assert found.order.state == "cancelled"
    assert len(await here.orders()) == 1


def web_answer(status: int, body: Any) -> Any:
    async def answer(_request: web.Request, _body: bytes) -> web.Response:
        return web.json_response(body, status=status)

    return answer


async def test_after_a_lost_answer_of_the_store_the_repeat_continues_with_the_same_order(
    database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
):
    async with service(database_url, tmp_path / "data", now=time, place_seconds=1.0) as mercato:
        here = Quoting(await trade(mercato, shop))
        answered = shop.answers["place"]
        shop.answers["place"] = web_answer(500, {})
        quote = await here.quote()
        outcome = await here.place(quote)
        assert isinstance(outcome, UnansweredOrder)
        shop.answers["place"] = answered
        async with asyncio.timeout(PATIENCE):
            while not isinstance(outcome, PlacedOrder):
                outcome = await here.place(quote)
        assert await here.orders() == [str(outcome.order_id)]
        assert list(here.calls()) == [str(outcome.order_id)]


async def test_a_price_that_changed_is_refused_and_nothing_is_placed(here: Quoting):
    quote = await here.quote()
    dearer = cafe()
    dearer["items"][TEA]["basePrice"] = "3.00"
    trade_ = here.trade
    run = await trade_.mercato.run(trade_.pos, trade_.store["storeId"], trade_.shop.host(dearer))
    assert run["status"] == "succeeded"
    with pytest.raises(OrderTotalDifferent):
        await here.place(quote)
    assert await here.orders() == []


async def sell_in(here: Quoting, currency: str) -> None:
    menu = cafe() | {"currency": currency}
    if currency == "JPY":
        for one in (*menu["items"].values(), *menu["modifierGroups"].values()):
            one.pop("priceOverrides", None)
            if "basePrice" in one:
                one["basePrice"] = "300"
    trade_ = here.trade
    run = await trade_.mercato.run(trade_.pos, trade_.store["storeId"], trade_.shop.host(menu))
    assert run["status"] == "succeeded", run


@pytest.mark.parametrize("currency", ["EUR", "JPY"])
@pytest.mark.parametrize("tip", [None, "0.25"])
async def test_a_quote_in_a_currency_that_its_store_has_left_says_quote_again_and_not_what_to_send(
    here: Quoting, currency: str, tip: str | None
):
    """What places the order is the service's own: the agent has sent neither currency nor total of it."""
    quote = await here.quote(here.trade.order(amounts={"tip": tip}))
    await sell_in(here, currency)
    with pytest.raises(OrderTotalDifferent, match="Quote it again") as caught:
        await here.place(quote, total="5.80" if tip is None else "6.05")
    assert list(caught.value.errors) == []
    assert await here.orders() == []


async def test_a_quote_for_a_time_that_has_passed_says_quote_it_for_a_later_time(here: Quoting, time: Time):
    soon = rfc3339(here.trade.mercato.app.clock() + timedelta(minutes=5))
    later = {"mode": "PICKUP", "scheduleType": "SCHEDULED", "scheduledTime": soon}
    quote = await here.quote(here.trade.order(fulfillment=later))
    time.ahead = timedelta(minutes=6)
    with pytest.raises(ValidationFailed, match=f"quoted for {soon}, which has passed") as caught:
        await here.place(quote)
    assert list(caught.value.errors) == []
    assert await here.orders() == []


@on_both
async def test_a_store_that_paused_meanwhile_gets_no_order(here: Quoting):
    quote = await here.quote()
    path = f"/v1/commerce/stores/{here.trade.store['storeId']}/status"
    assert (await here.trade.pos.post(path, {"status": "paused"})).status == 200
    with pytest.raises(StoreClosed):
        await here.place(quote)
    assert (await here.trade.pos.post(path, {"status": "online"})).status == 200
    await here.placed(quote)


# --- at rest ----------------------------------------------------------------------------------------


@own()
async def test_nothing_of_the_customer_is_readable_at_rest_or_in_the_log(here: Quoting):
    order = here.trade.order(fulfillment=DELIVERY, note="For Ada's birthday")
    private = [
        *CUSTOMER.values(),
        "Main St",
        "Springfield",
        "Ring twice",
        "birthday",
        "203.0.113.7",
        "tok_secret",
    ]
    with capture_logs() as logs:
        quote = await here.quote(order)
        async with here.trade.mercato.app.db.read() as tx:
            kept = await text_of(tx, quotes)
        await here.placed(quote, payment=CARD)
    assert str(quote.id) in kept
    for text in private:
        assert text not in kept
        assert text not in repr(logs)


@own()
async def test_a_placed_quote_has_nothing_of_its_customer_any_more(here: Quoting):
    await here.placed(await here.quote(), payment=CARD)
    row = await stored(here)
    assert (row.state, row.content, row.payment) == ("placed", None, None)


async def test_the_order_is_erased_from_the_quote_when_it_expires(here: Quoting, time: Time):
    await here.quote()
    time.ahead = LIFETIME - timedelta(minutes=1)
    await keep_up(here)
    assert (await stored(here)).content is not None
    time.ahead = LIFETIME
    await keep_up(here)
    assert (await stored(here)).content is None


@on_both
async def test_old_quotes_are_deleted_and_their_orders_are_found_by_them_for_ever(here: Quoting, time: Time):
    quote = await here.quote()
    placed = await here.placed(quote)
    unplaced = await here.quote()
    time.ahead = KEPT + timedelta(seconds=5)
    await keep_up(here)
    async with here.trade.mercato.app.db.read() as tx:
        assert await tx.all(select(quotes)) == []
    found = await here.find(quote)
    assert found.order is not None
    assert found.order.id == placed.order_id
    with pytest.raises(QuoteNotFound):
        await here.find(unplaced)


@own()
async def test_an_erased_customers_quote_cannot_be_placed_however_it_spells_the_number(here: Quoting):
    app, store = here.trade.mercato.app, f"/v1/commerce/stores/{here.trade.store['storeId']}"
    assert (await here.trade.pos.call("PUT", store, {"address": {"country": "US"}})).status == 200
    quote = await here.quote(here.trade.order(customer=CUSTOMER | {"phone": "(202) 555-0143"}))
    assert await erase_quotes(app.db, app.vault, "202 555 0143 9") == 0
    assert await erase_quotes(app.db, app.vault, "+1 202-555-0143") == 1
    with pytest.raises(QuoteExpired):
        await here.place(quote)


@pytest.mark.parametrize("name", [CUSTOMER["email"].upper(), "+1 555 0100"])
@own()
async def test_an_erased_customers_quote_cannot_be_placed(here: Quoting, name: str):
    app = here.trade.mercato.app
    quote = await here.quote()
    kept = await here.quote(
        here.trade.order(customer=CUSTOMER | {"email": "bob@example.com", "phone": "+15550199"})
    )
    assert await erase_quotes(app.db, app.vault, name) == 1
    with pytest.raises(QuoteExpired):
        await here.place(quote)
    await here.placed(kept)


@on_both
@own()
async def test_a_customer_who_is_erased_while_the_quote_is_being_placed_stays_erased(here: Quoting):
    app, caller = here.trade.mercato.app, await here.caller()
    quote = await here.quote()
    read = (await here.find(quote)).quote
    assert read is not None
    await erase_quotes(app.db, app.vault, CUSTOMER["email"])
    with pytest.raises(RequestInProgress):
        await app.quotes.place_quote(
            caller, read, UNSET, leaves={QuoteState.QUOTED}, trace=new_trace(), make_origin=origin
        )
    assert await here.orders() == []


@on_both
@own()
async def test_a_repeat_gets_an_erased_customers_order_without_the_customer(here: Quoting):
    app = here.trade.mercato.app
    quote = await here.quote()
    first = await here.placed(quote)
    await erase_quotes(app.db, app.vault, CUSTOMER["email"])
    await erase_all(app.db, CUSTOMER["email"])
    again = await here.placed(quote)
    assert again.order_id == first.order_id
    assert CUSTOMER["email"].encode() not in again.document


@on_both
async def test_a_deleted_partner_has_no_quotes(here: Quoting, time: Time):
    await here.quote()
    caller = await here.caller()
    await offboarding.delete(here.trade.mercato.app.db, caller.partner_id, now=time)
    async with here.trade.mercato.app.db.read() as tx:
        assert await tx.all(select(quotes)) == []


@on_both
@own()
async def test_a_client_cannot_send_a_quotes_idempotency_key(here: Quoting):
    quote = await here.quote()
    await here.placed(quote)
    async with here.trade.mercato.app.db.read() as tx:
        (key,) = [row.key for row in await tx.all(select(idempotency_keys.c.key))]
    placed = await here.trade.place(here.trade.order(), key=key)
    assert placed.status == 201
    assert "Idempotent-Replayed" not in placed.headers
    assert len(await here.orders()) == 2
