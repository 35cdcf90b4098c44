"""What an agent may spend: limits hold in the transaction that stores the order, on every route."""

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from tests.api.agent_keys import AGENTS, assistant, spent_today
from tests.api.examples import in_turn
from tests.api.test_order_races import until_settled
from tests.api.test_order_waiting import is_silent
from tests.api.trade import MERCHANT, ORDERS, Time, Trade, tea, trade
from tests.databases import mostly_sqlite, on_both
from tests.service import Client, MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.orders import resubmission
from mercato.features.partners.credentials import get_key, roll_key

pytestmark = [shared, mostly_sqlite]

MANY = 50
SIX = "5.80"  # what `Trade.order` costs


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def problem(reply: Any) -> dict[str, Any]:
    assert reply.status == 403, reply.body
    body: dict[str, Any] = reply.json()
    return {name: body.get(name) for name in ("errorCode", "limit", "interval", "spent", "currency")}


@pytest.mark.parametrize("with_token", [True, False], ids=["token", "no token"])
async def test_an_order_above_the_limit_of_an_order_is_refused_with_limit_and_spending(
    here: Trade, with_token: bool
):
    agent = await assistant(here, maximumOrder="6.00")
    dear = here.order(tea(3))
    if with_token:
        dear["validatedOrderToken"] = (await agent.client.post(f"{ORDERS}/validate", dear)).json()[
            "validatedOrderToken"
        ]
    assert (await here.place(here.order(), front=agent.client)).status == 201
    reply = await here.place(dear, front=agent.client)
    assert problem(reply) == {
        "errorCode": "SPEND_LIMIT_EXCEEDED",
        "limit": "6.00",
        "interval": "order",
        "spent": SIX,
        "currency": "USD",
    }
    assert "Nothing was placed" in reply.json()["detail"]
    assert len((await here.pos.get(MERCHANT)).json()["orders"]) == 1
    assert await spent_today(here, agent) == {"USD": SIX}


async def test_orders_of_a_day_add_up_to_the_limit_of_a_day(here: Trade):
    agent = await assistant(here, maximumDay="11.60")
    for _ in range(2):
        assert (await here.place(here.order(), front=agent.client)).status == 201
    refused = await here.place(here.order(), front=agent.client)
    assert problem(refused) == {
        "errorCode": "SPEND_LIMIT_EXCEEDED",
        "limit": "11.60",
        "interval": "day",
        "spent": "11.60",
        "currency": "USD",
    }
    # The storefront's own orders aren't the agent's.
    assert (await here.place(here.order())).status == 201
    assert await spent_today(here, agent) == {"USD": "11.60"}


@pytest.mark.parametrize("webhook", [True, False], ids=["webhook", "no webhook"])
@on_both
async def test_of_fifty_orders_at_once_exactly_those_are_placed_that_fit(
    database_url: str, tmp_path: Path, shop: MerchantServer, webhook: bool
):
    async with service(database_url, tmp_path / "data", place_seconds=PATIENCE) as mercato:
        here = await trade(mercato, shop, webhook=webhook)
        agent = await assistant(here, maximumDay="50.00")
        order = here.order()

        async def place() -> Any:
            key = str(uuid4())
            return await until_settled(
                here.place(order, key=key, front=agent.client),
                lambda: here.place(order, key=key, front=agent.client),
            )

        replies = await asyncio.gather(*(place() for _ in range(MANY)))
        fit = 8  # 46.40
        assert Counter(reply.status for reply in replies) == {201: fit, 403: MANY - fit}
        assert len((await here.pos.get(f"{MERCHANT}?limit=100")).json()["orders"]) == fit
        assert await spent_today(here, agent) == {"USD": "46.40"}


async def test_a_repeat_with_the_same_key_counts_once(here: Trade):
    agent = await assistant(here)
    first, *repeats = [await here.place(here.order(), key="k", front=agent.client) for _ in range(3)]
    assert first.status == 201
    assert {reply.body for reply in repeats} == {first.body}
    assert await spent_today(here, agent) == {"USD": SIX}


async def test_a_refused_key_is_free_for_an_order_that_fits(here: Trade):
    agent = await assistant(here, maximumOrder="6.00")
    assert (await here.place(here.order(tea(3)), key="k", front=agent.client)).status == 403
    assert (await here.place(here.order(), key="k", front=agent.client)).status == 201


async def test_an_order_that_its_storefront_cancels_gives_back_what_it_took_once(here: Trade):
    agent = await assistant(here, maximumDay=SIX)
    placed = (await here.place(here.order(), front=agent.client)).json()
    here.shop.answers["cancel"] = {"accepted": True}
    path = f"{ORDERS}/{placed['orderId']}/cancel"
    for client in (agent.client, here.front):
        await client.post(path, {"reason": "CHANGED_MIND"}, headers={"Idempotency-Key": str(uuid4())})
    assert (await here.front.get(f"{ORDERS}/{placed['orderId']}")).json()["state"] == "cancelled"
    assert await spent_today(here, agent) == {"USD": "0.00"}
    assert (await here.place(here.order(), front=agent.client)).status == 201


async def test_an_order_that_its_merchant_cancels_gives_back_what_it_took_once(here: Trade):
    agent = await assistant(here)
    placed = (await here.place(here.order(), front=agent.client)).json()
    other = (await here.place(here.order(), front=agent.client)).json()
    for _ in range(2):
        await here.update(placed, state="cancelled", cancelReason="CLOSED")
    await here.update(other, state="completed")
    assert await spent_today(here, agent) == {"USD": SIX}


@on_both
async def test_an_order_that_its_store_refuses_gives_back_what_it_took(here: Trade):
    agent = await assistant(here)
    here.shop.answers["place"] = {
        "accepted": False,
        "errors": [{"code": "STORE_CLOSED", "message": "Closed."}],
    }
    assert (await here.place(here.order(), front=agent.client)).status == 400
    assert await spent_today(here, agent) == {"USD": "0.00"}


async def test_an_order_that_background_work_gives_up_gives_back_what_it_took(
    database_url: str, tmp_path: Path, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resubmission, "POLL_SECONDS", 0.1)
    waits: dict[str, Any] = {"place_seconds": 1.4, "place_resend_seconds": 0.5}
    async with service(database_url, tmp_path / "data", **waits) as mercato:
        here = await trade(mercato, shop)
        agent = await assistant(here)
        is_silent(shop)
        reply = await here.place(here.order(), front=agent.client)
        assert reply.status == 503, reply.body
        assert await spent_today(here, agent) == {"USD": SIX}
        path = f"{ORDERS}/{reply.json()['orderId']}"
        await mercato.until(here.front, path, lambda order: order["state"] == "cancelled")
        assert await spent_today(here, agent) == {"USD": "0.00"}


async def test_adjustments_change_nothing_of_what_an_agent_spent(here: Trade):
    agent = await assistant(here)
    placed = (await here.place(here.order(), front=agent.client)).json()
    for change in ({"type": "refund", "amount": "1.00"}, {"type": "fee", "amount": "3.00"}):
        reply = await here.pos.post(
            f"{MERCHANT}/{placed['orderId']}/adjustments",
            change | {"reason": "Bags"},
            headers={"Idempotency-Key": str(uuid4())},
        )
        assert reply.status == 201, reply.body
    assert await spent_today(here, agent) == {"USD": SIX}
    await here.update(placed, state="cancelled", cancelReason="CLOSED")
    assert await spent_today(here, agent) == {"USD": "0.00"}


async def test_agents_of_one_storefront_share_its_idempotency_keys(here: Trade):
    first, second = await assistant(here), await assistant(here)
    placed = await here.place(here.order(), key="lunch", front=first.client)
    repeated = await here.place(here.order(), key="lunch", front=second.client)
    assert (placed.status, repeated.status, repeated.body) == (201, 201, placed.body)
    assert repeated.headers["Idempotent-Replayed"] == "true"
    other = await here.place(here.order(tea(1)), key="lunch", front=second.client)
    assert (other.status, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert await spent_today(here, first) == {"USD": SIX}
    assert await spent_today(here, second) == {}


async def test_an_order_in_another_currency_than_the_agents_is_refused(here: Trade):
    agent = await assistant(here, currency="EUR", maximumOrder="100", maximumDay=None)
    reply = await here.place(here.order(), front=agent.client)
    assert problem(reply) == {
        "errorCode": "SPEND_LIMIT_EXCEEDED",
        "limit": "100.00",
        "interval": None,
        "spent": "0.00",
        "currency": "EUR",
    }
    assert "interval" not in reply.json()


async def test_an_agent_without_limits_orders_and_is_counted_by_currency(here: Trade):
    agent = await assistant(here, {"name": "Free"})
    assert (await here.place(here.order(), front=agent.client)).status == 201
    assert await spent_today(here, agent) == {"USD": SIX}


@in_turn(
    ("rule", "status"),
    [("never", 201), ("above:5.80", 201), ("above:5.79", 403), ("above:0", 403), ("always", 403)],
)
async def test_an_order_that_a_person_must_approve_is_refused_on_this_route(
    here: Trade, rule: str, status: int
):
    agent = await assistant(here, approval=rule)
    reply = await here.place(here.order(), front=agent.client)
    assert reply.status == status, reply.body
    assert await spent_today(here, agent) == ({"USD": SIX} if status == 201 else {})
    if status == 403:
        assert reply.json()["errorCode"] == "APPROVAL_REQUIRED"
        assert "place_order" in reply.json()["detail"]


async def test_no_approval_raises_a_limit(here: Trade):
    agent = await assistant(here, maximumOrder="1.00", approval="always")
    reply = await here.place(here.order(), front=agent.client)
    assert reply.json()["errorCode"] == "SPEND_LIMIT_EXCEEDED"


async def test_limits_hold_for_the_access_tokens_of_an_agents_key(here: Trade):
    agent = await assistant(here, maximumOrder="1.00")
    form = {
        "grant_type": "client_credentials",
        "client_id": agent.created["keyId"],
        "client_secret": agent.created["key"],
    }
    async with here.front.session.post(f"{here.front.base}/v1/oauth/token", data=form) as reply:
        token = (await reply.json())["access_token"]
    client = Client(here.front.base, token, here.front.session)
    assert problem(await here.place(here.order(), front=client))["errorCode"] == "SPEND_LIMIT_EXCEEDED"


async def test_a_rolled_key_has_the_spending_and_the_limits_of_its_agent(here: Trade):
    agent = await assistant(here, maximumDay="6.00")
    assert (await here.place(here.order(), front=agent.client)).status == 201
    async with here.mercato.app.db.write() as tx:
        made = await roll_key(tx, await get_key(tx, agent.created["keyId"]))
    client = Client(here.front.base, made.text, here.front.session)
    assert problem(await here.place(here.order(), front=client))["spent"] == SIX
    assert (await here.front.get(agent.path)).json()["keyId"] != agent.created["keyId"]


async def test_a_day_begins_at_midnight_of_the_agents_time_zone(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    time = Time()
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        here = await trade(mercato, shop)
        east = await assistant(here, maximumDay=SIX, timezone="Pacific/Kiritimati")  # UTC+14
        west = await assistant(here, maximumDay=SIX, timezone="Pacific/Pago_Pago")  # UTC-11
        # The east's day ends at 10:00 UTC, the west's at 11:00.
        now = time()
        noon = now.replace(hour=9, minute=50, second=0, microsecond=0) + timedelta(days=1)
        time.ahead = noon - now
        for agent in (east, west):
            assert (await here.place(here.order(), front=agent.client)).status == 201
        time.ahead += timedelta(minutes=20)
        assert (await here.place(here.order(), front=east.client)).status == 201
        assert (await here.place(here.order(), front=west.client)).status == 403
        time.ahead += timedelta(hours=1)
        assert (await here.place(here.order(), front=east.client)).status == 403
        assert (await here.place(here.order(), front=west.client)).status == 201


@on_both
async def test_an_order_cancelled_on_another_day_gives_back_to_the_day_that_it_took_from(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    time = Time()
    async with service(database_url, tmp_path / "data", now=time) as mercato:
        here = await trade(mercato, shop)
        agent = await assistant(here)
        placed = (await here.place(here.order(), front=agent.client)).json()
        time.ahead = timedelta(days=1)
        assert (await here.place(here.order(), front=agent.client)).status == 201
        await here.update(placed, state="cancelled", cancelReason="CLOSED")
        assert await spent_today(here, agent) == {"USD": SIX}
        time.ahead = timedelta()
        assert await spent_today(here, agent) == {"USD": "0.00"}


@own()
@on_both
async def test_an_order_of_the_storefronts_own_key_costs_no_statement_about_agents(here: Trade):
    """Neither to place nor to cancel nor to refuse it: the table needn't even be there."""
    async with here.mercato.app.db.write() as tx:
        await tx.execute(text("DROP TABLE agent_spending"))
    placed = await here.placed()
    assert (await here.update(placed, state="cancelled", cancelReason="CLOSED")).status == 200
    here.shop.answers["place"] = {"accepted": False, "errors": [{"code": "OTHER", "message": "No."}]}
    assert (await here.place(here.order())).status == 400


async def test_lists_name_what_each_agent_spent(here: Trade):
    first, second = await assistant(here), await assistant(here, name="Dinner")
    assert (await here.place(here.order(), front=second.client)).status == 201
    listed = (await here.front.get(AGENTS)).json()["agents"]
    assert [(entry["name"], entry["spentToday"]) for entry in listed] == [
        ("Dinner", [{"currency": "USD", "amount": SIX}]),
        ("Lunch", []),
    ]
    assert first.created["spentToday"] == []
