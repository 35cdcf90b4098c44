"""The SQL of quotes."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec.structs import asdict
from sqlalchemy import Row, bindparam, delete, func, select, update

from mercato.features.orders.tables import orders
from mercato.features.partners.tables import agents, api_keys
from mercato.features.quotes.model import OPEN, AskedApproval, QuoteRow, QuoteState
from mercato.features.quotes.tables import quotes
from mercato.features.stores.tables import stores
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared, prepared_insert

_INSERT: Final = prepared_insert(quotes)
_FIND: Final = prepared(select(quotes).where(quotes.c.id == bindparam("where_id")))
_FIND_BY_APPROVAL: Final = prepared(select(quotes).where(quotes.c.approval == bindparam("where_approval")))


async def insert_quote(tx: Write, quote: QuoteRow) -> None:
    await tx.execute(_INSERT, asdict(quote))


async def find_quote(tx: Read, quote_id: UUID) -> QuoteRow | None:
    """Return the quote of whichever key: its caller is compared by the service."""
    row = await tx.first(_FIND, {"where_id": quote_id})
    return None if row is None else _quote(row)


async def find_by_approval(tx: Read, approval: bytes) -> QuoteRow | None:
    """Return the quote whose approval page has the secret with this hash."""
    row = await tx.first(_FIND_BY_APPROVAL, {"where_approval": approval})
    return None if row is None else _quote(row)


async def list_asked(tx: Read, partner_id: UUID, *, limit: int) -> list[AskedApproval]:
    """Return the partner's newest quotes about which a person was asked."""
    c = quotes.c
    found = (
        select(c.id, c.currency, c.state, c.created_at, c.expires_at, c.order_id)
        .add_columns(
            agents.c.id.label("agent_id"),
            agents.c.name.label("agent"),
            stores.c.name.label("store"),
            # Approved at another price than it was quoted at, perhaps.
            func.coalesce(orders.c.total, c.total).label("total"),
        )
        .join(api_keys, api_keys.c.id == c.key_id)
        .join(agents, agents.c.id == api_keys.c.agent_id)
        .join(stores, stores.c.id == c.store_id, isouter=True)
        .join(orders, orders.c.id == c.order_id, isouter=True)
        .where(c.partner_id == partner_id, c.approval.is_not(None))
    )
    return [
        AskedApproval(
            quote_id=row.id,
            agent_id=row.agent_id,
            agent=row.agent,
            store=row.store,
            currency=row.currency,
            total=row.total,
            state=QuoteState(row.state),
            asked_at=row.created_at,
            expires_at=row.expires_at,
            order_id=row.order_id,
        )
        for row in await tx.all(found.order_by(c.id.desc()).limit(limit))
    ]


async def set_pending(tx: Write, quote_id: UUID, *, approval: bytes, payment: bytes | None) -> bool:
    """Ask a person about a quote; return whether nobody was asked before, and it isn't placed."""
    result = await tx.execute(
        update(quotes)
        .where(quotes.c.id == quote_id, quotes.c.state == QuoteState.QUOTED)
        .values(state=QuoteState.PENDING, approval=approval, payment=payment)
    )
    return result.rowcount == 1


async def set_declined(tx: Write, quote_id: UUID, *, now: datetime) -> bool:
    """Decline a quote about which a person is asked; return whether it was neither declined nor placed before."""
    result = await tx.execute(
        update(quotes)
        .where(quotes.c.id == quote_id, quotes.c.state == QuoteState.PENDING)
        .values(state=QuoteState.DECLINED, decided_at=now, content=None, payment=None)
    )
    return result.rowcount == 1


async def set_placed(
    tx: Write, quote_id: UUID, *, order_id: UUID, leaves: Collection[QuoteState], now: datetime
) -> bool:
    """Place a quote in one of these states; return whether it was in one, and had its order still."""
    result = await tx.execute(
        update(quotes)
        .where(quotes.c.id == quote_id, quotes.c.state.in_(leaves), quotes.c.content.is_not(None))
        .values(state=QuoteState.PLACED, order_id=order_id, decided_at=now, content=None, payment=None)
    )
    return result.rowcount == 1


async def replace_content(tx: Write, quote: QuoteRow, content: bytes) -> bool:
    """Replace what the quote was read with; return whether it was still the same."""
    result = await tx.execute(
        update(quotes)
        .where(quotes.c.id == quote.id, quotes.c.content == quote.content, quotes.c.state.in_(OPEN))
        .values(content=content)
    )
    return result.rowcount == 1


# --- erasing --------------------------------------------------------------------------------------


async def list_with_content(tx: Read, *, after: UUID | None, limit: int) -> list[QuoteRow]:
    """Return quotes that still have their order, in the order of their ids."""
    statement = select(quotes).where(quotes.c.content.is_not(None))
    if after is not None:
        statement = statement.where(quotes.c.id > after)
    return [_quote(row) for row in await tx.all(statement.order_by(quotes.c.id).limit(limit))]


async def erase_content(tx: Write, ids: Sequence[UUID]) -> None:
    """Erase the orders of quotes: they can't be placed any more."""
    await tx.execute(update(quotes).where(quotes.c.id.in_(ids)).values(content=None, payment=None))


async def erase_expired(tx: Write, *, now: datetime, limit: int) -> int:
    """Erase the orders of quotes that have expired; return how many."""
    found = await tx.all(
        select(quotes.c.id)
        .where(quotes.c.content.is_not(None), quotes.c.expires_at <= now)
        .order_by(quotes.c.expires_at, quotes.c.id)
        .limit(limit)
    )
    if found:
        await erase_content(tx, [row.id for row in found])
    return len(found)


async def prune(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete quotes from before an instant; return how many. Their orders stay, and are found by their ids."""
    return await _delete(tx, quotes.c.created_at < before, limit)


async def delete_of_partner(tx: Write, partner_id: UUID, *, limit: int) -> int:
    """Delete quotes of the partner; return how many."""
    return await _delete(tx, quotes.c.partner_id == partner_id, limit)


async def _delete(tx: Write, condition: Any, limit: int) -> int:
    found = await tx.all(select(quotes.c.id).where(condition).limit(limit))
    if found:
        await tx.execute(delete(quotes).where(quotes.c.id.in_([row.id for row in found])))
    return len(found)


def _quote(row: Row[Any]) -> QuoteRow:
    members = {name: getattr(row, name) for name in QuoteRow.__struct_fields__}
    return QuoteRow(**members | {"state": QuoteState(row.state)})
