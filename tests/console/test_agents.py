"""The page Agents of a storefront: agents made, shown once, listed with what they spent, and revoked."""

from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.api.agent_keys import AGENTS, assistant
from tests.api.trade import ORDERS, Trade, trade
from tests.console.test_keys import shown
from tests.console.test_screens import check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_as_person
from tests.databases import mostly_sqlite, on_both
from tests.quotes.quoting import Quoting
from tests.service import MerchantServer, Service
from tests.sharing import shared

from mercato.features.partners.model import PartnerKind
from mercato.features.quotes.model import ApprovalRequest
from mercato.features.sign_in.roles import Role

pytestmark = [shared, mostly_sqlite]

PAGE = "/console/agents"


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def test_an_agent_is_made_shown_once_and_orders_within_its_limits(here: Trade):
    browser = await enter_as_partner(here.mercato, here.front)
    page = await browser.open(PAGE)
    check_frame(page)
    fields = {
        "name": "Lunch <b>",
        "currency": "usd",
        "maximumOrder": "6.00",
        "maximumDay": "20",
        "approval": "above",
        "above": "5.80",
    }
    with capture_logs() as logs:
        made = await browser.press(page, "Create agent", **fields)
    key = shown(made)
    assert key.startswith("mk_marketfront_")
    assert key not in str(browser.cookies) + made.url + str(made.headers) + str(logs)
    agent = here.front.with_key(key)
    for _ in range(2):
        assert (await here.place(here.order(), front=agent)).status == 201
    page = await browser.open(PAGE)
    assert key not in page.body.decode()
    [row] = page.rows("Agents")
    assert row[:6] == [
        f"Lunch <b> {key[:21]}…", "active", "6.00 USD", "20.00 USD", "11.60 USD", "above 5.80 USD",
    ]  # fmt: skip


@on_both
async def test_the_page_of_an_agent_has_its_last_orders_and_refused_calls(here: Trade):
    agent = await assistant(here, maximumOrder="6.00")
    placed = (await here.place(here.order(), front=agent.client)).json()
    assert (
        await here.place(here.order(*[here.order()["cart"]["lineItems"][0]] * 2), front=agent.client)
    ).status == 403
    await here.placed()
    await here.front.get("/v1/marketfront/stores/x")
    await here.mercato.app.request_log.flush()
    browser = await enter_as_partner(here.mercato, here.front)
    page = await browser.open(f"{PAGE}/{agent.created['agentId']}")
    check_frame(page)
    assert page.heading == "Lunch"
    assert page.ids("Last orders") == [placed["orderId"]]
    assert [row[0] for row in page.rows("Refused calls")] == ["403 SPEND_LIMIT_EXCEEDED"]
    order = await browser.open(f"/console/orders/{placed['orderId']}")
    assert "Placed by agent Lunch" in order.text
    reader = await enter_as_partner(here.mercato, here.front, read_only=True)
    assert "Placed by agent Lunch" in (await reader.open(f"/console/orders/{placed['orderId']}")).text
    operator = await enter_as_operator(here.mercato)
    assert "Placed by agent Lunch" in (await operator.open(f"/console/orders/{placed['orderId']}")).text
    merchant = await enter_as_partner(here.mercato, here.pos)
    assert "Lunch" not in (await merchant.open(f"/console/orders/{placed['orderId']}")).text


async def test_what_a_person_was_asked_about_is_listed_with_what_became_of_it(here: Trade):
    agent = await assistant(here, approval="always")
    quoting = Quoting(here)
    browser = await enter_as_partner(here.mercato, here.front)
    assert "Approvals" not in (await browser.open(PAGE)).text
    asked = []
    for _ in range(3):
        quote = await quoting.quote(client=agent.client)
        asked.append(await quoting.place(quote, client=agent.client))
    for button, approval in zip(("Place order", "Decline"), asked, strict=False):
        assert isinstance(approval, ApprovalRequest)
        await browser.press(await browser.open(f"/approve/{approval.secret}"), button)
    page = await browser.open(PAGE)
    check_frame(page)
    rows = [(row[1:4], row[4].split()[0]) for row in page.rows("Approvals")]
    told = ["Lunch", "Test Store", "5.80 USD"]
    assert rows == [(told, "waits"), (told, "declined"), (told, "placed")]


@on_both
async def test_an_agent_is_revoked_after_a_question(here: Trade):
    agent = await assistant(here)
    browser = await enter_as_partner(here.mercato, here.front)
    page = await browser.open(PAGE)
    question = await browser.press(page, "Revoke agent")
    assert question.heading == "Revoke the agent Lunch?"
    assert (await agent.client.get(ORDERS)).status == 200
    done = await browser.press(question, "Confirm")
    assert done.status_region == "The agent Lunch is revoked."
    assert done.rows("Agents")[0][1] == "revoked"
    assert "Revoke agent" not in done.buttons
    assert (await agent.client.get(ORDERS)).status == 401


async def test_revoking_a_key_says_how_many_agents_are_revoked_with_it(here: Trade):
    agent = await assistant(here)
    browser = await enter_as_partner(here.mercato, here.front)
    question = await browser.open(f"/console/keys/{agent.created['parentKeyId']}/revoke")
    assert "The agents that it has made are revoked with it: 1." in question.text
    assert "descend" not in question.text


async def test_an_agent_made_in_a_session_is_revoked_with_the_sessions_key(here: Trade):
    browser = await enter_as_partner(here.mercato, here.front)
    made = await browser.press(await browser.open(PAGE), "Create agent", name="Lunch")
    agent = here.front.with_key(shown(made))
    assert (await agent.get(ORDERS)).status == 200
    listed = (await here.front.get(AGENTS)).json()["agents"]
    question = await browser.open(f"/console/keys/{listed[0]['parentKeyId']}/revoke")
    await browser.press(question, "Confirm")
    assert (await agent.get(ORDERS)).status == 401


async def test_a_fault_of_a_new_agent_is_shown_and_nothing_is_made(here: Trade):
    browser = await enter_as_partner(here.mercato, here.front)
    refused = await browser.press(await browser.open(PAGE), "Create agent", name="Lunch", maximumDay="20")
    assert refused.status == 422
    assert "currency is needed" in refused.text
    assert (await here.front.get(AGENTS)).json()["agents"] == []


async def test_another_accounts_agent_is_not_found(here: Trade):
    agent = await assistant(here)
    stranger = (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]
    browser = await enter_as_partner(here.mercato, stranger)
    for path in ("", "/revoke"):
        assert (await browser.open(f"{PAGE}/{agent.created['agentId']}{path}")).status == 404
    merchant = await enter_as_partner(here.mercato, here.pos)
    assert (await merchant.open(PAGE)).status == 404


async def test_who_only_reads_sees_agents_and_makes_none(here: Trade):
    await assistant(here)
    partner: Any = await here.mercato.partner(PartnerKind.MARKETFRONT)
    await partner[1].post(AGENTS, {"name": "Lunch"})
    browser, _ = await enter_as_person(here.mercato, Role.READ_ONLY, partner[0].id)
    page = await browser.open(PAGE)
    assert [row[0].partition(" mk_")[0] for row in page.rows("Agents")] == ["Lunch"]
    assert not {"Create agent", "Revoke agent"} & set(page.buttons)
