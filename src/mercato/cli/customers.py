"""`mercato customer`: what people may ask a network to do with what it knows of them."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final
from uuid import UUID

from cyclopts import App, Parameter

from mercato.cli import FAILED
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

LOG_SECONDS: Final = 10.0
"""How long readers of the database are waited for: a server's take milliseconds."""


@customer.command
async def erase(
    name: Annotated[
        str, Parameter(help="The customer's e-mail address, phone number, or partnerUserId, as it was sent.")
    ],
    /,
    *,
    data_dir: DataDir = None,
) -> int:
    """Take a customer out of every order at once: name, addresses and all that was sent about them.

    The orders stay, with what was ordered and paid. Of an embedded database its free space and log are overwritten,
    too: neither its files nor a backup made afterwards holds the customer.
    """
    if not name.strip():
        raise UnusableError("Say whom: an e-mail address, a phone number or a partnerUserId, as it was sent.")
    async with opened(data_dir) as session:
        await _everywhere(session.db, forget_validations, name)
        found = await _everywhere(session.db, forget_customer, name)
        emptied = await session.db.empty_log(seconds=LOG_SECONDS)
    note(f"Taken out of {count_of(found, 'order')}." if found else "No order is this customer's.")
    if not emptied:
        note(
            "The database's log (mercato.db-wal) may still hold what was erased: a process that reads for long, "
            f"a backup perhaps, kept it in use for {LOG_SECONDS:g} s. Run the command again when that has ended."
        )
        return FAILED
    return 0


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
