"""What people call an order in a list: who ordered, how many items, and for when."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import select

from mercato.features.compression import decompress
from mercato.features.orders.queries import decode_document
from mercato.features.orders.tables import orders
from mercato.platform.db.engine import Read
from mercato_contract.placements import Customer
from mercato_contract.wire import Wire


class OrderHeadline(Struct, frozen=True):
    """`customer` is a first name and an initial, as "Grace H."; `scheduled_time` is None for as soon as possible."""

    customer: str | None
    items: int
    scheduled_time: str | None


class _Line(Wire):
    quantity: int


class _Cart(Wire):
    line_items: tuple[_Line, ...]


class _Content(Wire):
    """The part of an order's content that counts its items."""

    cart: _Cart


_content = msgspec.json.Decoder(_Content)


async def list_headlines(tx: Read, ids: Sequence[UUID], *, with_customers: bool) -> dict[UUID, OrderHeadline]:
    """Return the headlines of orders that their reader may see, by their ids; `with_customers` if customers, too."""
    if not ids:
        return {}
    columns = (orders.c.id, orders.c.content, orders.c.customer, orders.c.fulfillment)
    rows = await tx.all(select(*columns).where(orders.c.id.in_(ids)))
    return {
        row.id: OrderHeadline(
            customer=short_name(decode_document("customer", row.customer)) if with_customers else None,
            items=sum(line.quantity for line in _content.decode(decompress(row.content)).cart.line_items),
            scheduled_time=decode_document("fulfillment", row.fulfillment).scheduled_time,
        )
        for row in rows
    }


def short_name(customer: Customer | None) -> str | None:
    """Return the first name, and the first letter of the last; None of a customer who was erased."""
    if customer is None:
        return None
    first, last = customer.first_name.strip(), customer.last_name.strip()
    return f"{first} {last[:1]}.".strip() if last else first or None
