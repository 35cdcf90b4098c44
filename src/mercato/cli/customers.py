"""`mercato customer`: what people may ask a network to do with what it knows of them."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final
from uuid import UUID

from cyclopts import App, Parameter

from mercato.cli.console import note
from mercato.cli.failures import UnusableError
from mercato.cli.options import DataDir
from mercato.cli.session import opened
from mercato.db.engine import Database
from mercato.orders.forgetting import forget_customer, forget_validations
from mercato.plurals import count_of

customer = App(name="customer", help="Customers: erase.")

BATCH: Final = 100
"""Orders that one transaction changes: servers go on writing in between."""


@customer.command
async def erase(
    name: Annotated[
        str, Parameter(help="The customer's e-mail address, phone number, or partnerUserId, as it was sent.")
    ],
    /,
    *,
    data_dir: DataDir = None,
) -> None:
    """Take a customer out of every order at once: name, addresses and all that was sent about them.

    The orders stay, with what was ordered and paid.
    """
    if not name.strip():
        raise UnusableError("Say whom: an e-mail address, a phone number or a partnerUserId, as it was sent.")
    async with opened(data_dir) as session:
        await _everywhere(session.db, forget_validations, name)
        found = await _everywhere(session.db, forget_customer, name)
    note(f"Taken out of {count_of(found, 'order')}." if found else "No order is this customer's.")


async def _everywhere(
    db: Database, forget: Callable[..., Awaitable[tuple[int, UUID | None]]], name: str
) -> int:
    """Forget the customer part by part; return how many were theirs."""
    found, after, more = 0, None, True
    while more:
        async with db.write() as tx:
            count, after = await forget(tx, name, after=after, limit=BATCH)
        found, more = found + count, after is not None
    return found
