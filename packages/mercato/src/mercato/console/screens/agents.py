"""Agents: programs that order with keys of their own. Their limits, what they spent today, and their last calls."""

from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta
from msgspec.structs import replace

from mercato.console.filters import PageOf
from mercato.console.new_keys import check_room, expiry_note, get_parent
from mercato.console.screen import STOREFRONTS, Done, Page, Question, Screens, Secret, Visit, show_once
from mercato.features.orders.service import list_marketfront_orders
from mercato.features.partners import agents
from mercato.features.partners.agents import ListedAgent
from mercato.features.partners.model import Agent, KeyState, Surface
from mercato.features.quotes.queries import list_asked
from mercato.features.requests.queries import Filter, list_refused_of_keys
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.engine import Read
from mercato_contract.agents import ABOVE, ALWAYS, MAX_AGENT_NAME, NEVER, NewAgentRequest
from mercato_contract.decoding.decode import page_of, read_cursor
from mercato_contract.money import to_text
from mercato_contract.orders import MarketfrontOrdersQuery
from mercato_contract.pages import PAGE
from mercato_contract.wire import Wire

screens: Final = Screens(STOREFRONTS, whole_account=True)

AGENTS: Final = "/console/agents"

LAST: Final = 20
"""Orders of an agent that its page shows, refused calls, and approvals of all agents."""

RULES: Final = {NEVER: "no order", "above": "orders that cost more than", ALWAYS: "every order"}
"""Which orders a person approves, in words."""


class NewAgentForm(Wire):
    """A new agent. `above` is the amount of its approval rule."""

    name: Annotated[str, Meta(max_length=MAX_AGENT_NAME)]
    currency: Annotated[str, Meta(max_length=8)] | None = None
    maximum_order: Annotated[str, Meta(max_length=64)] | None = None
    maximum_day: Annotated[str, Meta(max_length=64)] | None = None
    approval: Annotated[str, Meta(max_length=8)] = NEVER
    above: Annotated[str, Meta(max_length=64)] | None = None


@screens.get("agents", needs=Permission.SEE_KEYS)
async def show_agents(visit: Visit) -> Page:
    query, now = visit.filters(PageOf), visit.app.clock()
    async with visit.app.db.read() as tx:
        rows = await agents.list_agents(
            tx, visit.partner.id, before=read_cursor(query.cursor), limit=PAGE + 1, now=now
        )
        asked = await list_asked(tx, visit.partner.id, limit=LAST)
    page, cursor = page_of(rows, PAGE, lambda row: row.agent.id)
    values = {
        "agents": [_view(visit, row) for row in page],
        "next_cursor": cursor,
        "rules": RULES,
        "asked": [(row, row.stage(now)) for row in asked],
    }
    return Page("agents.html", "Agents", values)


@screens.get("agents/{agent}", needs=Permission.SEE_KEYS)
async def show_agent(visit: Visit) -> Page:
    now, app = visit.app.clock(), visit.app
    caller = visit.caller(Surface.MARKETFRONT)
    async with app.db.read() as tx:
        agent = await _agent(tx, visit)
        [listed] = await agents.with_keys(tx, [agent], now=now)
        keys = await agents.list_key_ids(tx, agent)
        wanted = Filter(caller=caller, masked=not visit.may(Permission.SEE_CUSTOMERS))
        refused = await list_refused_of_keys(tx, wanted, keys, limit=LAST)
    orders = await list_marketfront_orders(
        app.db, replace(caller, agent=agent), MarketfrontOrdersQuery(limit=LAST)
    )
    values = _view(visit, listed) | {"orders": orders.orders, "refused": refused}
    return Page("agent.html", agent.name, values)


@screens.post("agents", needs=Permission.MAKE_KEYS)
async def create_agent(visit: Visit) -> Page:
    form, now = visit.fields(NewAgentForm), visit.app.clock
    request = NewAgentRequest(
        name=form.name,
        currency=None if form.currency is None else form.currency.strip().upper(),
        maximum_order=form.maximum_order,
        maximum_day=form.maximum_day,
        approval=f"{ABOVE}{form.above or ''}" if form.approval == "above" else form.approval,
        timezone=visit.timezone,
    )
    async with visit.app.db.write() as tx:
        parent = await get_parent(tx, visit)
        await check_room(tx, visit)
        made = await agents.create_agent(tx, visit.partner, request, parent=parent, now=now)
    notes = (
        f"It is the key of the agent {made.agent.name}, and opens only what the agent may do.",
        f"Its id is {made.key.id}.",
        *expiry_note(visit, made.key, parent),
    )
    return show_once("Agent created", Secret("API key (agent)", made.key.text, notes, ("Agents", AGENTS)))


async def _ask_to_revoke(visit: Visit) -> Question:
    async with visit.app.db.read() as tx:
        agent = await _agent(tx, visit)
    return Question(
        f"Revoke the agent {agent.name}?",
        "Requests with its key are permanently refused within 2 seconds. Its orders go on.",
        back=f"{AGENTS}/{agent.id}",
    )


@screens.post("agents/{agent}/revoke", needs=Permission.CHANGE_KEYS, ask=_ask_to_revoke)
async def revoke_agent(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        agent = await _agent(tx, visit)
        revoked = await agents.revoke_agent(tx, agent, now=visit.app.clock)
    return Done(f"The agent {agent.name} {'is revoked' if revoked else 'was revoked already'}.", to=AGENTS)


async def _agent(tx: Read, visit: Visit) -> Agent:
    """Return the partner's agent of the path. Raises AgentNotFound."""
    agent_id: UUID = visit.ids["agent"]
    return await agents.get_agent(tx, visit.partner.id, agent_id)


def _view(visit: Visit, listed: ListedAgent) -> dict[str, Any]:
    agent = listed.agent
    state = listed.key.state(visit.app.clock())
    spent = [f"{to_text(minor, currency)} {currency}" for currency, minor in listed.spent.items()]
    return {
        "agent": agent,
        "key": listed.key,
        "state": state.value,
        "is_active": state is KeyState.ACTIVE,
        "order_limit": _amount(agent.maximum_order, agent.currency),
        "day_limit": _amount(agent.maximum_day, agent.currency),
        "approval": _approval(agent),
        "spent": ", ".join(spent) or "nothing",
    }


def _amount(minor: int | None, currency: str | None) -> str:
    if minor is not None and currency is not None:
        return f"{to_text(minor, currency)} {currency}"
    return "any amount" if currency is None else f"any amount in {currency}"


def _approval(agent: Agent) -> str:
    """Return the rule in a word, or with its amount."""
    if agent.approval_above is None:
        return agent.approval.value
    return f"{agent.approval.value} {_amount(agent.approval_above, agent.currency)}"
