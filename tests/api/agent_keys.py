"""Agents of a storefront, made as the storefront does."""

from dataclasses import dataclass
from typing import Any

from tests.api.trade import Trade
from tests.service import Client

AGENTS = "/v1/marketfront/agents"
DAY = {"name": "Lunch", "currency": "USD", "maximumDay": "20.00"}


@dataclass
class Assistant:
    """An agent as it was created, and a client with its key."""

    created: dict[str, Any]
    client: Client

    @property
    def path(self) -> str:
        return f"{AGENTS}/{self.created['agentId']}"


async def assistant(here: Trade, request: Any = None, **members: Any) -> Assistant:
    """Create an agent of the storefront that may spend 20.00 a day, or with these members."""
    reply = await here.front.post(AGENTS, (DAY if request is None else request) | members)
    assert reply.status == 201, reply.body
    created = reply.json()
    return Assistant(created, Client(here.front.base, created["key"], here.front.session))


async def spent_today(here: Trade, agent: Assistant) -> dict[str, str]:
    """Return what the agent spent today, by currency."""
    listed = (await here.front.get(agent.path)).json()
    return {spending["currency"]: spending["amount"] for spending in listed["spentToday"]}
