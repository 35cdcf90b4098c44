"""The agent's double at a real service: it orders by the tools, and each misbehaviour has the end it should."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from tests.api.agent_keys import AGENTS
from tests.databases import only_sqlite
from tests.service import service
from tests.testing.test_trade import SHOP, Act, Market

from mercato.features.partners.model import PartnerKind
from mercato_client.testing import AgentDouble, MerchantDouble, Outcome
from mercato_client.testing.caller import Caller
from mercato_client.testing.opening import Opening

pytestmark = only_sqlite


@pytest.fixture
async def market(database_url: str, tmp_path: Path) -> AsyncIterator[Market]:
    async with (
        service(database_url, tmp_path / "data", place_seconds=2.0) as running,
        MerchantDouble(catalog=SHOP.document) as merchant,
        AgentDouble(pace=0.05) as agent,
        aiohttp.ClientSession() as session,
    ):
        pos, partner = await running.partner()
        shop, buyer = await running.partner(PartnerKind.MARKETFRONT, event_url=agent.event_url)
        merchant.trust(pos.signing_secret)
        agent.trust(shop.signing_secret)
        caller = Caller(running.base, str(partner.key), session)
        here = Market(running, merchant, caller, agent, str(buyer.key))
        here.connect(agent)
        await Opening(merchant, caller, str).open(SHOP)
        yield here


async def limited(market: Market, **limits: Any) -> AgentDouble:
    """Connect the double with the key of an agent of these limits."""
    assert isinstance(market.front, AgentDouble)
    front = Caller(market.service.base, market.key, market.caller.session)
    made = await front.post(AGENTS, {"name": "Lunch", "currency": "USD"} | limits)
    market.front.connect(market.service.base, made.json()["key"])
    return market.front


async def test_an_agent_buys_by_tools_alone_and_follows_the_order_to_its_end(market: Market) -> None:
    working = asyncio.create_task(market.simulator.run(workers=2))
    bought = [await market.front.buy(number, follow=30) for number in (1, 2)]
    working.cancel()
    assert [purchase.outcome for purchase in bought] == [Outcome.COMPLETED] * 2
    assert market.merchant.taken == [purchase.order_id for purchase in bought]
    called = {seen.path for seen in market.front.journal.of() if seen.ours}
    assert called == {"/mcp"}
    placed = [seen.json() for seen in market.merchant.journal.of("place")]
    notes = [{line["note"] for line in one["data"]["order"]["cart"]["lineItems"]} for one in placed]
    assert notes == [{None}, {"no onions"}]


ACTS: Final[tuple[Act, ...]] = (
    ("repeat", Outcome.PLACED, ()),
    ("drop", Outcome.PLACED, ()),
    ("unvalidated", Outcome.PLACED, ()),
    ("wrong", Outcome.REFUSED, ("ORDER_TOTAL_DIFFERENT",)),
    ("declined", Outcome.REFUSED, ("PAYMENT_DECLINED",)),
    ("cancel:CHANGED_MIND", Outcome.CANCELLED, ()),
)


async def test_each_act_of_an_order_has_the_end_it_should(market: Market) -> None:
    await market.try_acts(ACTS)


@pytest.mark.parametrize("act", ["late:2", "500 x2", "drop", "bad-json"])
async def test_the_order_is_accepted_once_whatever_fails_at_the_merchant(market: Market, act: str) -> None:
    market.merchant.behaviour.on("place", act)
    bought = await market.front.buy()
    assert bought.outcome == Outcome.PLACED
    assert market.merchant.taken == [bought.order_id]


async def test_beyond_its_limit_it_is_refused_with_the_services_own_code(market: Market) -> None:
    agent = await limited(market, maximumOrder="0.01")
    bought = await agent.buy()
    assert (bought.outcome, bought.codes) == (Outcome.REFUSED, ("SPEND_LIMIT_EXCEEDED",))
    assert market.merchant.taken == []


@pytest.mark.parametrize(("decision", "outcome"), [("place", Outcome.PLACED), ("decline", Outcome.REFUSED)])
async def test_it_shows_a_person_the_page_and_waits_for_the_decision(
    market: Market, decision: str, outcome: Outcome
) -> None:
    agent = await limited(market, approval="always")
    shown: asyncio.Queue[str] = asyncio.Queue()
    agent.shows = shown.put_nowait
    buying = asyncio.create_task(agent.buy(follow=30))
    page = await shown.get()
    quote = agent.journal.of("quote_order")[0].answer["result"]["structuredContent"]
    form = {"decision": decision, "total": f"{quote['total']} {quote['currency']}"}
    async with market.caller.session.post(page, data=form, allow_redirects=False) as pressed:
        assert pressed.status == 303
    if outcome == Outcome.PLACED:
        await market.simulator.complete(market.merchant.taken[0])
        outcome = Outcome.COMPLETED
    assert (await buying).outcome == outcome
    unseen = await agent.buy()
    assert unseen.outcome == Outcome.UNDECIDED
    assert unseen.outcome.is_answer
