"""The database's content as searchable text, with bodies decompressed."""

from typing import Any

from sqlalchemy import Table, select

from mercato.features.compression import decompress
from mercato.features.events.tables import events
from mercato.features.orders.tables import idempotency_keys, orders
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Read


async def text_of(tx: Read, *tables: Table) -> str:
    """Return every row of the tables, with decompressed bodies."""
    bases = {row.id: row.content for row in await tx.all(select(orders.c.id, orders.c.content))}
    parts: list[str] = []
    for table in tables:
        for row in await tx.all(select(table)):
            parts += [repr(tuple(row)), repr(_readable(table, row, bases))]
    return "\n".join(parts)


def _readable(table: Table, row: Any, bases: dict[Any, bytes]) -> bytes | None:
    if table is orders:
        return decompress(row.content)
    # A delivery of an event has no body: the event's is sent.
    if table in {deliveries, events, idempotency_keys} and row.body:
        return decompress(row.body, base=bases.get(row.order_id))
    return None
