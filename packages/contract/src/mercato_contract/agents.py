"""Agents: programs that order for a storefront with keys of their own, within limits."""

from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato_contract.carts import Amount
from mercato_contract.money import decimal_fault, find_scale, is_negative
from mercato_contract.pages import Page
from mercato_contract.placements import Decimal
from mercato_contract.stores import TimeZone
from mercato_contract.texts import name_fault, unseen_fault
from mercato_contract.wire import Instant, Wire, redacted, validator

MAX_AGENT_NAME: Final = 100

NEVER: Final = "never"
ALWAYS: Final = "always"
ABOVE: Final = "above:"
"""What an approval rule begins with that has an amount: `above:20.00`."""


def agent_name_fault(name: str) -> str | None:
    """Return what is wrong with an agent's name, which is stored without white space around it, or None."""
    return name_fault(name) or unseen_fault("name", name.strip())


def currency_fault(code: str) -> str | None:
    """Return what is wrong with a currency's code, or None."""
    if find_scale(code) is not None:
        return None
    return f"currency must be an ISO 4217 code, like EUR; {code[:8]!r} isn't one."


def approval_fault(rule: str) -> str | None:
    """Return what is wrong with the form of an approval rule, or None."""
    if rule in {NEVER, ALWAYS}:
        return None
    amount = rule.removeprefix(ABOVE)
    if amount == rule or decimal_fault(amount) is not None or is_negative(amount):
        return "approval must be never, always, or above: and an amount, like above:20.00."
    return None


Approval = Annotated[
    str,
    Meta(
        max_length=80,
        pattern=r"^(never|always|above:[0-9]+(\.[0-9]+)?)$",
        description="Which orders wait until a person has approved them: `never`, `always`, or `above:` and an amount "
        "that the order's total exceeds.",
        examples=["above:20.00"],
        extra=validator(approval_fault),
    ),
]


class NewAgentRequest(Wire):
    """A new agent. Its limits never change: revoke it and create another to change them."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_AGENT_NAME,
            description="How lists, the timelines of orders and the audit trail name it.",
            examples=["Lunch assistant"],
            extra=validator(agent_name_fault),
        ),
    ]
    currency: (
        Annotated[
            str,
            Meta(
                description="ISO 4217. The agent orders in this currency alone. Needed if there is an amount.",
                extra=validator(currency_fault),
            ),
        ]
        | None
    ) = None
    maximum_order: (
        Annotated[Decimal, Meta(description="The most that one order may cost. Without it, any amount.")]
        | None
    ) = None
    maximum_day: (
        Annotated[
            Decimal, Meta(description="The most that the orders of a day may cost. Without it, any amount.")
        ]
        | None
    ) = None
    approval: Approval = NEVER
    timezone: (
        Annotated[TimeZone, Meta(description="IANA name of the zone in which days begin; else UTC.")] | None
    ) = None


class AgentState(StrEnum):
    """Whether the agent's newest key is accepted."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class AgentSpending(Wire):
    """What an agent's orders cost in a currency."""

    currency: str
    amount: Amount


class Agent(Wire):
    """A program that orders with a key of its own.

    What it spent today is the total of the orders that it placed since midnight of its `timezone`, without those that
    were cancelled or refused. Adjustments of orders don't change it.
    """

    agent_id: UUID
    name: str
    state: AgentState
    key_id: Annotated[UUID, Meta(description="Its newest key.")]
    key_prefix: str
    parent_key_id: Annotated[
        UUID | None, Meta(description="The key that made it, and that revokes it when it is revoked.")
    ]
    currency: str | None
    maximum_order: Amount | None
    maximum_day: Amount | None
    approval: Approval
    timezone: str
    spent_today: list[AgentSpending]
    created_at: Instant
    expires_at: Annotated[Instant | None, Meta(description="When its key expires; null if it doesn't.")]
    last_used_at: Annotated[Instant | None, Meta(description="The key's last use, to a minute.")]


@redacted("key")
class AgentWithKey(Agent):
    """A new agent with its key, which is never shown again."""

    key: str


class AgentPage(Wire):
    """A page of agents."""

    agents: list[Agent]
    next_cursor: str | None


class AgentsQuery(Page):
    """A page of agents, newest first."""
