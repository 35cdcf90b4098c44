"""What agents spend: taken with an order, in the transaction that stores it, and given back when it is cancelled.

Counted for each agent, day and currency. Only orders of agents cost a statement.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Insert, bindparam, select, update

from mercato.features.orders.errors import ApprovalRequired, SpendLimitExceeded
from mercato.features.orders.record import OrderRow
from mercato.features.partners.agents import day_of
from mercato.features.partners.model import Agent, needs_approval
from mercato.features.partners.tables import agent_spending
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import conflicting_insert, prepared
from mercato.platform.db.types import Dialect
from mercato_contract.money import MAX_MINOR, to_text
from mercato_contract.orders import OrderState

_COLUMNS: Final = tuple(agent_spending.c.keys())
_KEY: Final = [agent_spending.c.agent_id, agent_spending.c.day, agent_spending.c.currency]


def _take(dialect: Dialect) -> Insert:
    new = conflicting_insert(agent_spending, dialect).values({name: bindparam(name) for name in _COLUMNS})
    taken: Insert = new.on_conflict_do_update(
        index_elements=_KEY,
        set_={"spent": agent_spending.c.spent + new.excluded.spent},
        where=agent_spending.c.spent <= bindparam("most_before"),
    )
    return prepared(taken)


_TAKE: Final[dict[Dialect, Insert]] = {dialect: _take(dialect) for dialect in ("sqlite", "postgresql")}
_OF_DAY: Final = (
    agent_spending.c.agent_id == bindparam("where_agent"),
    agent_spending.c.day == bindparam("where_day"),
    agent_spending.c.currency == bindparam("where_currency"),
)
_FIND: Final = prepared(select(agent_spending.c.spent).where(*_OF_DAY))
_LOCK: Final = prepared(select(agent_spending.c.spent).where(*_OF_DAY).with_for_update())
_GIVE_BACK: Final = prepared(
    update(agent_spending).where(*_OF_DAY).values(spent=agent_spending.c.spent - bindparam("amount"))
)


class _Cost(Struct, frozen=True, kw_only=True):
    """What an order takes, in minor units, and from which day."""

    day: int
    total: int
    currency: str


class Interval(StrEnum):
    """What a limit is of."""

    ORDER = "order"
    DAY = "day"


async def take(tx: Write, agent: Agent, order: OrderRow, *, approved: bool, now: datetime) -> OrderRow:
    """Count a new order for its agent, and return it with agent and day.

    `approved` says that a person has approved it. Raises SpendLimitExceeded, ApprovalRequired.
    """
    cost = _Cost(day=day_of(agent, now), total=order.total, currency=order.currency)
    await _check_order(tx, agent, cost)
    most = MAX_MINOR if agent.maximum_day is None else agent.maximum_day
    row = {
        "agent_id": agent.id,
        "day": cost.day,
        "currency": cost.currency,
        "spent": cost.total,
        "most_before": most - cost.total,
    }
    if cost.total > most or (await tx.execute(_TAKE[tx.dialect], row)).rowcount != 1:
        raise await _exceeded(tx, agent, cost, Interval.DAY, most)
    # After the limits: no approval raises them.
    if not approved and needs_approval(agent, cost.total):
        raise _needs_approval(agent, order)
    return replace(order, agent_id=agent.id, agent_day=cost.day)


async def check(tx: Read, agent: Agent, *, total: int, currency: str, now: datetime) -> None:
    """Raise SpendLimitExceeded if an order at this total wouldn't fit at present: nobody need be asked about it."""
    cost = _Cost(day=day_of(agent, now), total=total, currency=currency)
    await _check_order(tx, agent, cost)
    most = agent.maximum_day
    if most is not None and await _find_spent(tx, agent, cost.day, currency) + total > most:
        raise await _exceeded(tx, agent, cost, Interval.DAY, most)


async def _check_order(tx: Read, agent: Agent, cost: "_Cost") -> None:
    """Raise SpendLimitExceeded if one order alone doesn't fit, whatever the day has left."""
    if agent.currency not in {None, cost.currency}:
        raise await _other_currency(tx, agent, cost)
    if agent.maximum_order is not None and cost.total > agent.maximum_order:
        raise await _exceeded(tx, agent, cost, Interval.ORDER, agent.maximum_order)


async def give_back(tx: Write, changes: Iterable[tuple[OrderRow, OrderRow]]) -> None:
    """Take off what orders cost that are cancelled now: each is given as it was and as it is."""
    ended = [
        after
        for before, after in changes
        if after.agent_id is not None
        and after.state is OrderState.CANCELLED
        and before.state is not OrderState.CANCELLED
    ]
    # In one order, so that two transactions don't deadlock.
    for order in sorted(ended, key=_place):
        await tx.execute(_GIVE_BACK, _row_of(order) | {"amount": order.total})


async def lock(tx: Write, orders: Iterable[OrderRow]) -> None:
    """Lock what agents spent on these orders, in the order of `give_back`, for a transaction that calls it repeatedly.

    Else it could take a row that stands before one it has, and deadlock.
    """
    of_agents = {_place(order): order for order in orders if order.agent_id is not None}
    for _, order in sorted(of_agents.items()):
        await tx.scalar(_LOCK, _row_of(order))


def _place(order: OrderRow) -> tuple[str, int, str]:
    return str(order.agent_id), order.agent_day or 0, order.currency


def _row_of(order: OrderRow) -> dict[str, object]:
    return {
        "where_agent": order.agent_id,
        "where_day": order.agent_day,
        "where_currency": order.currency,
    }


async def _find_spent(tx: Read, agent: Agent, day: int, currency: str) -> int:
    values = {"where_agent": agent.id, "where_day": day, "where_currency": currency}
    spent: int | None = await tx.scalar(_FIND, values)
    return spent or 0


# --- refusals -------------------------------------------------------------------------------------


async def _exceeded(
    tx: Read, agent: Agent, cost: _Cost, interval: Interval, limit: int
) -> SpendLimitExceeded:
    currency = cost.currency
    most, total = to_text(limit, currency), to_text(cost.total, currency)
    spent = to_text(await _find_spent(tx, agent, cost.day, currency), currency)
    match interval:
        case Interval.ORDER:
            why = f"An order of the agent {agent.name} may cost at most {most} {currency}, and this one costs {total}."
        case Interval.DAY:
            why = (
                f"The agent {agent.name} may spend at most {most} {currency} a day, counted in {agent.timezone}. It "
                f"has spent {spent}, and this order costs {total}."
            )
    members = {"limit": most, "interval": interval.value, "spent": spent, "currency": currency}
    return SpendLimitExceeded(
        f"{why} Nothing was placed. Order less, or ask the storefront for an agent with other limits.",
        extensions=members,
    )


async def _other_currency(tx: Read, agent: Agent, cost: _Cost) -> SpendLimitExceeded:
    assert agent.currency is not None, "an agent without a currency orders in every one"
    limit = agent.maximum_day if agent.maximum_order is None else agent.maximum_order
    return SpendLimitExceeded(
        f"The agent {agent.name} orders in {agent.currency} alone, and this order is in {cost.currency}. Nothing was "
        "placed. Choose another store, or use another key.",
        extensions={
            "limit": None if limit is None else to_text(limit, agent.currency),
            "spent": to_text(await _find_spent(tx, agent, cost.day, agent.currency), agent.currency),
            "currency": agent.currency,
        },
    )


def _needs_approval(agent: Agent, order: OrderRow) -> ApprovalRequired:
    total = f"{to_text(order.total, order.currency)} {order.currency}"
    return ApprovalRequired(
        f"A person must approve this order of the agent {agent.name}, which costs {total}. Nothing was placed. This "
        "operation can't ask anybody: order with the tools quote_order and place_order at /mcp, which give the address "
        "of the page where a person approves."
    )
