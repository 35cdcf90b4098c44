"""Agents of storefronts: create them with a key, list them with what they spent, and revoke them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct
from sqlalchemy import select

from mercato.features.partners import queries
from mercato.features.partners.credentials import (
    MAX_ACTIVE_KEYS,
    NewKey,
    create_key,
    lock_parent,
    revoke_key,
)
from mercato.features.partners.model import Agent, ApiKey, ApprovalRule, Caller, Partner, Surface
from mercato.features.partners.queries import agent_of, key_of
from mercato.features.partners.tables import agent_spending, agents, api_keys
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Read, Write
from mercato.platform.errors import Conflict, Forbidden, NotFound
from mercato_contract import agents as wire
from mercato_contract import clock
from mercato_contract.agents import (
    ABOVE,
    MAX_AGENT_NAME,
    NewAgentRequest,
    agent_name_fault,
    approval_fault,
    currency_fault,
)
from mercato_contract.clock import Clock, MakeId
from mercato_contract.decoding.checks import refuse
from mercato_contract.money import MoneyError, to_minor, to_text
from mercato_contract.stores import timezone_fault
from mercato_contract.texts import shown
from mercato_contract.wire import instant, redacted, rfc3339

UTC: Final = "UTC"


@redacted("key")
class NewAgent(Struct, frozen=True):
    """A new agent and its key, whose text is never shown again."""

    agent: Agent
    key: NewKey


class AgentNotFound(NotFound):
    def __init__(self, agent_id: object) -> None:
        super().__init__(f"This account has no agent {shown(agent_id)}. List Agents has their ids.")


class ListedAgent(Struct, frozen=True):
    """An agent with its newest key, and what it spent today: minor units by currency."""

    agent: Agent
    key: ApiKey
    spent: dict[str, int]


async def create_agent(
    tx: Write,
    partner: Partner,
    request: NewAgentRequest,
    *,
    description: str | None = None,
    expires_at: datetime | None = None,
    parent: ApiKey | None = None,
    now: Clock = clock.now,
    new_id: MakeId = clock.new_id,
) -> NewAgent:
    """Create an agent and its key, which is revoked with its parent.

    Raises ValidationFailed for every fault of the request, and AccountError if the partner isn't a storefront.
    """
    name = request.name.strip()
    currency = request.currency
    checked = [
        ("/name", _name_fault(name)),
        ("/currency", None if currency is None else currency_fault(currency)),
        ("/approval", approval_fault(request.approval)),
        ("/timezone", None if request.timezone is None else timezone_fault(request.timezone)),
    ]
    rule, _, above = request.approval.partition(":")
    amounts = {
        "maximumOrder": request.maximum_order,
        "maximumDay": request.maximum_day,
        "approval": above or None,
    }
    faulty = {pointer for pointer, fault in checked if fault is not None}
    minor: dict[str, int | None] = dict.fromkeys(amounts)
    if not faulty & {"/currency", "/approval"}:
        for member, text in amounts.items():
            minor[member], fault = _amount(member, text, currency)
            checked.append((f"/{member}", fault))
    refuse(checked)
    agent_id = new_id()
    key = await create_key(
        tx,
        partner,
        surface=Surface.MARKETFRONT,
        description=f"Agent {name}" if description is None else description,
        expires_at=expires_at,
        parent=parent,
        agent_id=agent_id,
        now=now,
        new_id=new_id,
    )
    agent = Agent(
        id=agent_id,
        partner_id=partner.id,
        name=name,
        key_id=key.id,
        currency=currency,
        maximum_order=minor["maximumOrder"],
        maximum_day=minor["maximumDay"],
        approval=ApprovalRule(rule),
        approval_above=minor["approval"],
        timezone=request.timezone or UTC,
        created_at=now(),
    )
    await queries.insert_agent(tx, agent)
    await audit(tx, "agent", agent.id, partner_id=partner.id, detail={"name": name, "key": key.id})
    return NewAgent(agent, key)


async def create_own_agent(
    tx: Write, caller: Caller, request: NewAgentRequest, *, now: Clock, new_id: MakeId
) -> NewAgent:
    """Create an agent of the caller, whose key is its parent. Raises ValidationFailed, Conflict, Forbidden."""
    partner = await queries.find_partner(tx, caller.partner_id)
    parent = await lock_parent(tx, caller.key_id, now=now())
    if partner is None or parent is None:
        raise Forbidden("The key has ended since the request began. Use the storefront's current key.")
    if await queries.count_active_keys(tx, partner.id, now=now()) >= MAX_ACTIVE_KEYS:
        raise Conflict(
            f"This account has {MAX_ACTIVE_KEYS} active keys, the most that it makes itself. Revoke agents or keys "
            "that it doesn't use."
        )
    return await create_agent(tx, partner, request, parent=parent, now=now, new_id=new_id)


def _name_fault(name: str) -> str | None:
    if len(name) > MAX_AGENT_NAME:
        return f"name may have at most {MAX_AGENT_NAME} characters."
    return agent_name_fault(name)


def _amount(member: str, text: str | None, currency: str | None) -> tuple[int | None, str | None]:
    """Return an amount in minor units, and what is wrong with it. Only approval may begin at zero."""
    if text is None:
        return None, None
    if currency is None:
        return None, f"{member} has an amount, so currency is needed. Send the currency, like EUR."
    try:
        amount = to_minor(text, currency)
    except MoneyError as fault:
        return None, f"{member}: {fault}"
    if amount <= 0 and member != "approval":
        return None, f"{member} must be above zero. Leave it out to allow any amount."
    return amount, None


# --- read -----------------------------------------------------------------------------------------


async def get_agent(tx: Read, partner_id: UUID, agent_id: UUID) -> Agent:
    """Return the partner's agent. Raises AgentNotFound."""
    row = await tx.first(select(agents).where(agents.c.id == agent_id, agents.c.partner_id == partner_id))
    if row is None:
        raise AgentNotFound(agent_id)
    return agent_of(row)


async def list_agents(
    tx: Read, partner_id: UUID, *, before: UUID | None = None, limit: int, now: datetime
) -> list[ListedAgent]:
    """Return a page of the partner's agents, newest first; revoked ones are among them."""
    wanted = select(agents).where(agents.c.partner_id == partner_id).order_by(agents.c.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(agents.c.id < before)
    return await with_keys(tx, [agent_of(row) for row in await tx.all(wanted)], now=now)


async def with_keys(tx: Read, found: Sequence[Agent], *, now: datetime) -> list[ListedAgent]:
    """Return the agents with their keys and what they spent today."""
    key_ids = [agent.key_id for agent in found]
    rows = await tx.all(select(api_keys).where(api_keys.c.id.in_(key_ids)))
    keys = {row.id: key_of(row) for row in rows}
    spent = await _find_spent(tx, found, now=now)
    return [ListedAgent(agent, keys[agent.key_id], spent[agent.id]) for agent in found]


async def _find_spent(tx: Read, found: Collection[Agent], *, now: datetime) -> dict[UUID, dict[str, int]]:
    today = {agent.id: day_of(agent, now) for agent in found}
    spent: dict[UUID, dict[str, int]] = {agent_id: {} for agent_id in today}
    c = agent_spending.c
    rows = await tx.all(
        select(agent_spending)
        .where(c.agent_id.in_(today), c.day.in_(set(today.values())))
        .order_by(c.agent_id, c.currency)
    )
    for row in rows:
        if row.day == today[row.agent_id]:
            spent[row.agent_id][row.currency] = row.spent
    return spent


async def list_key_ids(tx: Read, agent: Agent) -> list[UUID]:
    """Return the ids of the agent's keys, of replaced ones too, the newest first."""
    mine = select(api_keys.c.id).where(
        api_keys.c.partner_id == agent.partner_id, api_keys.c.agent_id == agent.id
    )
    return [row.id for row in await tx.all(mine.order_by(api_keys.c.id.desc()).limit(MAX_ACTIVE_KEYS))]


async def find_agent_names(tx: Read, agent_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the names of the agents that exist."""
    rows = await tx.all(select(agents.c.id, agents.c.name).where(agents.c.id.in_(agent_ids)))
    return {row.id: row.name for row in rows}


def approval_text(agent: Agent) -> str:
    """Return the agent's rule as requests have it: `never`, `always` or `above:20.00`."""
    if agent.approval is not ApprovalRule.ABOVE:
        return agent.approval.value
    assert agent.currency is not None, "an amount has a currency"
    assert agent.approval_above is not None, "the rule has an amount"
    return ABOVE + to_text(agent.approval_above, agent.currency)


def represent(listed: ListedAgent, *, now: datetime) -> wire.Agent:
    """Return an agent as it is sent."""
    return wire.Agent(**_members(listed, now))


def represent_new(listed: ListedAgent, key: NewKey, *, now: datetime) -> wire.AgentWithKey:
    """Return a new agent as it is sent, with its key's text."""
    return wire.AgentWithKey(**_members(listed, now), key=key.text)


def _members(listed: ListedAgent, now: datetime) -> dict[str, Any]:
    agent, key = listed.agent, listed.key
    return {
        "agent_id": agent.id,
        "name": agent.name,
        "state": wire.AgentState(key.state(now)),
        "key_id": key.id,
        "key_prefix": key.prefix,
        "parent_key_id": key.parent_key_id,
        "currency": agent.currency,
        "maximum_order": _text(agent.maximum_order, agent.currency),
        "maximum_day": _text(agent.maximum_day, agent.currency),
        "approval": approval_text(agent),
        "timezone": agent.timezone,
        "spent_today": [
            wire.AgentSpending(currency=currency, amount=to_text(spent, currency))
            for currency, spent in listed.spent.items()
        ],
        "created_at": rfc3339(agent.created_at),
        "expires_at": instant(key.expires_at),
        "last_used_at": instant(key.last_used_at),
    }


def _text(minor: int | None, currency: str | None) -> str | None:
    return None if minor is None or currency is None else to_text(minor, currency)


def day_of(agent: Agent, now: datetime) -> int:
    """Return the ordinal number of the day that it is for the agent."""
    return now.astimezone(ZoneInfo(agent.timezone)).toordinal()


# --- revoke ---------------------------------------------------------------------------------------


async def revoke_agent(tx: Write, agent: Agent, *, now: Clock = clock.now) -> bool:
    """Revoke all keys of the agent; return whether one wasn't revoked before."""
    mine = select(api_keys).where(
        api_keys.c.partner_id == agent.partner_id,
        api_keys.c.agent_id == agent.id,
        api_keys.c.revoked_at.is_(None),
    )
    revoked = False
    # One that is being revoked may have been rolled in the meantime.
    while rows := await tx.all(mine.order_by(api_keys.c.id)):
        for row in rows:
            revoked |= await revoke_key(tx, key_of(row), agent_id=agent.id, now=now)
    return revoked
